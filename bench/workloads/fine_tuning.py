"""Fine-tuning of a large text classifier that is nearly all frozen: RTE and CoLA are this, with other sentences."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from bench.workloads.models import Classifier

VOCABULARY = 8000


def fine_tune(rv: Any, epochs: int, examples: int, length: int, batch: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randint(VOCABULARY, (examples, length)), torch.randint(2, (examples,)))
    loader = DataLoader(data, batch_size=batch, shuffle=True)
    net = Classifier(VOCABULARY, 384, 12, length, 2)
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
