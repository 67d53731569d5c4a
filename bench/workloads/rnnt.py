"""RnnT: translation, LSTMs with attention; the best model so far is kept aside."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bench.workloads.models import Translator

EPOCHS = 4
SENTENCES, LENGTH, VOCABULARY = 1920, 24, 1200


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randint(VOCABULARY, (SENTENCES, LENGTH)), torch.randint(VOCABULARY, (SENTENCES, LENGTH)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    net = Translator(VOCABULARY, 160)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, best_state = float("inf"), copy.deepcopy(net.state_dict())
    with rv.checkpointing(net=net, opt=opt):
        for _epoch in rv.loop("epoch", range(epochs)):
            total = 0.0
            for source, target in rv.loop("step", loader):
                loss = F.cross_entropy(net(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())
                opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                total += rv.log("loss", loss.item())
            if total < best:
                best, best_state = total, copy.deepcopy(net.state_dict())
            rv.log("total", total)
    return best + 0.0 * len(best_state)
