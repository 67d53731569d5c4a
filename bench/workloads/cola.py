"""CoLA: which sentences are well-formed, fine-tuning. A few times as many sentences an epoch as RTE, and shorter ones."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bench.workloads.models import Classifier

EPOCHS = 4
SENTENCES, LENGTH, VOCABULARY = 480, 24, 8000


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randint(VOCABULARY, (SENTENCES, LENGTH)), torch.randint(2, (SENTENCES,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    net = Classifier(VOCABULARY, 384, 12, LENGTH, 2)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    opt = torch.optim.AdamW(trained, lr=1e-4)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.0, epochs)
    total = 0.0
    with rv.checkpointing(net=net, opt=opt, sched=sched):
        for _epoch in rv.loop("epoch", range(epochs)):
            total = 0.0
            for tokens, label in rv.loop("step", loader):
                opt.zero_grad()
                loss = F.cross_entropy(net(tokens), label)
                loss.backward()
                opt.step()
                total += rv.log("loss", loss.item())
            sched.step()
            rv.log("mean_loss", total / len(loader))
    return total
