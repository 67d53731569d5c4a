"""RsNt: image classification, a ResNet of bottlenecks with batch norm; validation after each epoch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bench.workloads.models import resnet

EPOCHS = 5
IMAGES, CLASSES = 320, 100


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(IMAGES, 3, 32, 32), torch.randint(CLASSES, (IMAGES,)))
    held_out = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(CLASSES, (64,)))
    loader, held = DataLoader(data, batch_size=32, shuffle=True), DataLoader(held_out, batch_size=64)
    net = resnet(CLASSES, middle=20)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    right = 0
    with rv.checkpointing():
        for _epoch in rv.loop("epoch", range(epochs)):
            net.train()
            for images, labels in rv.loop("step", loader):
                opt.zero_grad()
                loss = F.cross_entropy(net(images), labels)
                loss.backward()
                opt.step()
                rv.log("loss", loss.item())
            net.eval()
            with torch.no_grad():
                right = sum(int((net(images).argmax(1) == labels).sum()) for images, labels in held)
            rv.log("acc", right / len(held_out))
    return float(right)
