"""LBFGS by step in double precision: a closure that is defined anew in each step and logs a varying number of times; the model is
evaluated after each step."""

import random

import fingerprint
import numpy as np
import torch
from torch import nn

import rearview as rv

torch.set_num_threads(1)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.linear = nn.LSTMCell(1, 8), nn.Linear(8, 1)

    def forward(self, given, future=0):
        outputs = []
        h_t = c_t = torch.zeros(given.size(0), 8, dtype=torch.double)
        for piece in given.split(1, dim=1):
            h_t, c_t = self.lstm1(piece, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    np.random.seed(0)
    random.seed(0)
    torch.manual_seed(0)
    start = np.random.randint(-10, 10, 6).reshape(6, 1)
    data = torch.from_numpy(np.sin((np.arange(25) + start) / 5.0).astype("float64"))
    given, target = data[2:, :-1], data[2:, 1:]
    seq = Sequence()
    seq.double()
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5, history_size=6)
    calls = 0
    with rv.checkpointing(seq=seq, optimizer=optimizer):
        for i in rv.loop("step", range(12)):

            def closure():
                global calls
                calls += 1
                optimizer.zero_grad()
                loss = criterion(seq(given), target)
                rv.log("loss", loss)
                loss.backward()
                return loss

            loss = optimizer.step(closure)
            with torch.no_grad():
                pred = seq(data[:2, :-1], future=10)
                test_loss = criterion(pred[:, :-10], data[:2, 1:])
            rv.log("test_loss", test_loss)
            print(f"step {i} calls {calls} loss {loss.item().hex()} test {test_loss.item().hex()}", flush=True)
    fingerprint.show(seq.state_dict(), optimizer.state_dict()["state"], calls, pred, loss)
