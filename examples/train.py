"""A script that trains a small classifier, and the four lines that record it: arg, checkpointing, loop, log."""

import torch
from torch import nn

import rearview as rv

torch.manual_seed(rv.arg("seed", 0))
torch.set_num_threads(1)
x = torch.randn(8192, 64)
y = (x[:, :3].prod(1) > 0).long()
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
opt = torch.optim.Adam(net.parameters(), lr=rv.arg("lr", 1e-2))

with rv.checkpointing(net=net, opt=opt):
    for epoch in rv.loop("epoch", range(12)):
        for batch in rv.loop("step", torch.randperm(8192).split(64)):
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            opt.zero_grad()
            loss.backward()
            opt.step()
        rv.log("loss", loss)
print(f"weights {sum(p.double().sum() for p in net.parameters()):.12f}")
