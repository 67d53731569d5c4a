"""A GAN with two optimizers, all at module level: nested loops, `enumerate` around the loop, a label tensor filled in place, noise that is
drawn once and used at each epoch's end."""

import random

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rearview as rv

torch.set_num_threads(1)
seed = random.Random(1).randint(1, 10000)
random.seed(seed)
np.random.seed(seed)
torch.manual_seed(seed)

data = torch.randn(80, 6).cumsum(1)
loader = DataLoader(TensorDataset(data), batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(17))
netG = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 6))
netD = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.2), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
fixed_noise = torch.randn(10, 4)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
label = torch.full((10,), 1.0)
samples = []

with rv.checkpointing(netG=netG, netD=netD, optimizerD=optimizerD, optimizerG=optimizerG):
    for epoch in rv.loop("epoch", range(4)):
        for i, (real,) in enumerate(rv.loop("batch", loader), 0):
            netD.zero_grad()
            label.fill_(1.0)
            errD_real = criterion(netD(real).view(-1), label)
            errD_real.backward()
            fake = netG(torch.randn(len(real), 4))
            label.fill_(0.0)
            errD_fake = criterion(netD(fake.detach()).view(-1), label)
            errD_fake.backward()
            errD = errD_real + errD_fake
            if i % 3 != 2:
                optimizerD.step()
            netG.zero_grad()
            label.fill_(1.0)
            errG = criterion(netD(fake).view(-1), label)
            errG.backward()
            optimizerG.step()
            rv.log("errD", errD)
            rv.log("errG", errG)
            print(f"[{epoch}][{i}/{len(loader)}] {errD.item().hex()} {errG.item().hex()}", flush=True)
        with torch.no_grad():
            samples.append(netG(fixed_noise))

last = {"errD": errD.item(), "errG": errG.item(), "fake": fake, "i": i, "epoch": epoch}
fingerprint.show(netG.state_dict(), netD.state_dict(), optimizerG.state_dict()["state"], samples, label, last)
