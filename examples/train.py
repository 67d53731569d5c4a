"""Twenty lines that train a small classifier, and the three that record it: arg, loop, log."""

import torch
from torch import nn

import rearview as rv

torch.manual_seed(rv.arg("seed", 0))
hidden = rv.arg("hidden", 32)
x = torch.randn(512, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 2))
opt = torch.optim.Adam(net.parameters(), lr=rv.arg("lr", 1e-2))

for epoch in rv.loop("epoch", range(rv.arg("epochs", 5))):
    for batch in rv.loop("step", torch.randperm(512).split(64)):
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        opt.zero_grad()
        loss.backward()
        opt.step()
        rv.log("loss", loss)
    rv.log("acc", (net(x).argmax(1) == y).float().mean())
