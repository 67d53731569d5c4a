"""A language model by hand: hidden state carried from batch to batch, a live generator of batches that outlasts epochs and is asked with
`next`, a NumPy generator of its own, everything at module level."""

import random

import fingerprint
import numpy as np
import torch
from torch import nn

import rearview as rv

torch.set_num_threads(1)
torch.manual_seed(rv.arg("seed", 4))
np.random.seed(5)
random.seed(6)
rng = np.random.default_rng(8)
text = rng.integers(0, 12, 600)


def windows(text, length, batch):
    """Endless: each pass begins at another offset."""
    passes = 0
    while True:
        first = int(rng.integers(0, length))
        rows = text[first : first + (len(text) - length - 1) // batch * batch].reshape(batch, -1)
        for k in range(0, rows.shape[1] - length - 1, length):
            piece = torch.from_numpy(rows[:, k : k + length + 1])
            yield piece[:, :-1], piece[:, 1:], passes
        passes += 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.rnn = nn.LSTM(16, 24, num_layers=2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(24, 12)

    def forward(self, x, hidden):
        y, hidden = self.rnn(self.embed(x), hidden)
        return self.out(y), hidden


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
stream = windows(text, 12, 4)
hidden = None
losses = []

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        model.train()
        epoch_loss = 0.0
        for step in rv.loop("step", range(7)):
            x, y, passes = next(stream)
            if hidden is not None:
                hidden = tuple(h.detach() for h in hidden)
            output, hidden = model(x, hidden)
            loss = nn.functional.cross_entropy(output.reshape(-1, 12), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
            losses.append(loss.item())
            rv.log("loss", loss)
            print(f"epoch {epoch} step {step} pass {passes} loss {loss.item().hex()}", flush=True)
        scheduler.step(epoch_loss)
        rv.log("epoch_loss", epoch_loss)

fingerprint.show(model.state_dict(), [h.detach() for h in hidden], losses, scheduler.state_dict(), rng.random())
