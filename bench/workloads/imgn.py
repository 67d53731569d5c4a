"""ImgN: image classification, SqueezeNet on larger images that two workers crop and mirror, drawing from all three random streams."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from bench.workloads.models import squeezenet

EPOCHS = 4
IMAGES, SIZE, CROP, CLASSES = 160, 144, 128, 1000


class Cropped(Dataset[tuple[Tensor, Tensor]]):
    """Images, cropped and mirrored at random, with noise."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (IMAGES, 3, SIZE, SIZE), dtype=torch.uint8)
        self.labels = torch.randint(CLASSES, (IMAGES,))

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
        top, left = random.randrange(SIZE - CROP), int(np.random.randint(SIZE - CROP))
        image = self.images[k, :, top : top + CROP, left : left + CROP].float() / 255
        image = image + 0.05 * torch.randn(3, 1, 1)
        return (image.flip(-1) if random.random() < 0.5 else image), self.labels[k]


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    loader = DataLoader(Cropped(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    net = squeezenet(CLASSES, width=12)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss = torch.zeros(())
    with rv.checkpointing(net=net, opt=opt):
        for _epoch in rv.loop("epoch", range(epochs)):
            for images, labels in rv.loop("step", loader):
                opt.zero_grad()
                loss = F.cross_entropy(net(images), labels)
                loss.backward()
                opt.step()
                rv.log("loss", loss.item())
    return loss.item()
