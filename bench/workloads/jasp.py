"""Jasp: speech recognition, convolutions over time and the CTC loss; few long epochs, utterances drawn by a NumPy generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from bench.workloads.models import jasper

EPOCHS = 4
UTTERANCES, FRAMES, FEATURES, LETTERS = 320, 320, 64, 29


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    draw = np.random.default_rng(1)
    sounds = torch.randn(UTTERANCES, FEATURES, FRAMES)
    words = torch.randint(1, LETTERS, (UTTERANCES, 20))
    net = jasper(FEATURES, 128, 6, LETTERS)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss = torch.zeros(())
    with rv.checkpointing(net=net, opt=opt, draw=draw):
        for _epoch in rv.loop("epoch", range(epochs)):
            order = draw.permutation(UTTERANCES)
            for at in rv.loop("step", range(0, UTTERANCES, 8)):
                chosen = torch.from_numpy(order[at : at + 8])
                scores = net(sounds[chosen]).permute(2, 0, 1).log_softmax(-1)
                lengths = torch.full((len(chosen),), scores.shape[0]), torch.full((len(chosen),), 20)
                loss = F.ctc_loss(scores, words[chosen], *lengths)
                opt.zero_grad()
                loss.backward()
                opt.step()
                rv.log("loss", loss.item())
    return loss.item()
