"""Cifr: image classification, SqueezeNet on small images, with augmentation and a loader in the training process."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from bench.workloads.models import squeezenet

EPOCHS = 6
IMAGES, CLASSES = 2048, 100


class Flipped(Dataset[tuple[Tensor, Tensor]]):
    """Images, half of them mirrored."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (IMAGES, 3, 32, 32), dtype=torch.uint8)
        self.labels = torch.randint(CLASSES, (IMAGES,))

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
        image = self.images[k].float() / 255
        return (image.flip(-1) if random.random() < 0.5 else image), self.labels[k]


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    random.seed(1)
    torch.manual_seed(1)
    loader = DataLoader(Flipped(), batch_size=64, shuffle=True)
    net = squeezenet(CLASSES)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss = torch.zeros(())
    with rv.checkpointing(net=net, opt=opt, sched=sched):
        for _epoch in rv.loop("epoch", range(epochs)):
            for images, labels in rv.loop("step", loader):
                opt.zero_grad()
                loss = F.cross_entropy(net(images), labels)
                loss.backward()
                opt.step()
                rv.log("loss", loss.item())
            sched.step()
            rv.log("lr", sched.get_last_lr()[0])
    return loss.item()
