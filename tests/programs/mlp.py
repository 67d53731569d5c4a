"""An MLP as in many examples: `main` calls `train`, which holds the inner loop; SGD by hand on `p.data`, a global learning rate that is
cut when validation does not improve, Ctrl-C to stop early."""

import math
import random

import fingerprint
import numpy as np
import torch
from torch import nn

import rearview as rv

torch.set_num_threads(1)
lr = 0.5
best_val = None
seen = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.body(x) * (1 + 1e-3 * math.sin(self.calls))


def batches(x, y, size):
    order = list(range(len(x)))
    random.shuffle(order)
    return [(x[order[k : k + size]], y[order[k : k + size]]) for k in range(0, len(x), size)]


def train(net, x, y, epoch):
    global seen
    net.train()
    total = 0.0
    for xb, yb in rv.loop("step", batches(x, y, 16)):
        net.zero_grad()
        loss = ((net(xb) - yb) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        for p in net.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
        seen += len(xb)
        rv.log("loss", loss)
        print(f"epoch {epoch} seen {seen} loss {loss.item().hex()}", flush=True)
    return total


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        return ((net(x) - y) ** 2).mean().item()


def main():
    global lr, best_val
    torch.manual_seed(3)
    np.random.seed(4)
    random.seed(5)
    net = Net()
    x = torch.randn(192, 10)
    y = x[:, :3].sum(1, keepdim=True).sin()
    try:
        with rv.checkpointing(net=net):
            for epoch in rv.loop("epoch", range(1, 6)):
                total = train(net, x[:128], y[:128], epoch)
                val = evaluate(net, x[128:], y[128:])
                rv.log("total", total)
                rv.log("val", val)
                print(f"end of epoch {epoch} lr {lr} val {val.hex()}", flush=True)
                if best_val is None or val < best_val:
                    best_val = val
                else:
                    lr /= 4.0
    except KeyboardInterrupt:
        print("exiting early")
    fingerprint.show(net.state_dict(), net.calls, lr, best_val, seen, [p.grad for p in net.parameters()])


if __name__ == "__main__":
    main()
