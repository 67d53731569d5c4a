"""A VAE at module level with `train(epoch)` and `test(epoch)` over globals: draws in the model and between the inner loops, losses in a
list that is an attribute of the model, a picture file and a line of a log file for each epoch."""
# ruff: noqa: SIM115

import os
import random

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rearview as rv

torch.set_num_threads(1)
torch.manual_seed(1)
np.random.seed(1)
random.seed(1)
data = (torch.rand(96, 20) > 0.5).float()
train_loader = DataLoader(TensorDataset(data[:64]), batch_size=8, shuffle=True)
test_loader = DataLoader(TensorDataset(data[64:]), batch_size=8, shuffle=True)
os.makedirs("results", exist_ok=True)
log = open("results/log.txt", "w", buffering=1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.mu, self.logvar = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.leave = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 20))
        self.losses = []

    def forward(self, x):
        h = torch.relu(self.enter(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.leave(z), mu, logvar


model = VAE()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)


def loss_function(logits, x, mu, logvar):
    bce = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def train(epoch):
    model.train()
    train_loss = 0
    for batch_idx, (x,) in rv.loop("batch", enumerate(train_loader)):
        optimizer.zero_grad()
        loss = loss_function(*[(out := model(x))[0], x, out[1], out[2]])
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        model.losses.append(loss.item())
        rv.log("loss", loss)
        print(f"epoch {epoch} [{batch_idx * len(x)}/{len(train_loader.dataset)}] {loss.item().hex()}", flush=True)
    return train_loss / len(train_loader.dataset)


def test(epoch):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for i, (x,) in rv.loop("test", enumerate(test_loader)):
            logits, mu, logvar = model(x)
            test_loss += loss_function(logits, x, mu, logvar).item()
            if i == 0:
                torch.save(torch.cat([x[:4], logits[:4]]), f"results/reconstruction_{epoch}.pt")
    return test_loss / len(test_loader.dataset)


with rv.checkpointing():
    for epoch in rv.loop("epoch", range(1, 6)):
        train_loss = train(epoch)
        sample = torch.randn(8, 4)
        test_loss = test(epoch)
        rv.log("test_loss", test_loss)
        log.write(f"{epoch} {train_loss.hex()} {test_loss.hex()}\n")
        with torch.no_grad():
            torch.save(model.leave(sample), f"results/sample_{epoch}.pt")

log.close()
written = {name: torch.load(f"results/{name}") for name in sorted(os.listdir("results")) if name.endswith(".pt")}
written["log"] = open("results/log.txt").read()
fingerprint.show(model.state_dict(), model.losses, optimizer.state_dict()["state"], written)
