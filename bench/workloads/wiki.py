"""Wiki: language modelling, a causal transformer trained on a stream of tokens, with warm-up and clipped gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.workloads.models import Encoder

EPOCHS = 5
STEPS, BATCH, LENGTH, VOCABULARY = 40, 12, 64, 1000


def train(rv: Any, epochs: int) -> float:
    """As a person would write it."""
    torch.manual_seed(1)
    text = torch.randint(VOCABULARY, (200_000,))
    net = Encoder(VOCABULARY, 192, 3, LENGTH, causal=True)
    head = nn.Linear(192, VOCABULARY, bias=False)
    head.weight = net.tokens.weight
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, (step + 1) / 20))
    loss = torch.zeros(())
    with rv.checkpointing(net=net, head=head, opt=opt, sched=sched):
        for _epoch in rv.loop("epoch", range(epochs)):
            for _step in rv.loop("step", range(STEPS)):
                begin = torch.randint(len(text) - LENGTH - 1, (BATCH,))
                tokens = torch.stack([text[k : k + LENGTH + 1] for k in begin])
                logits = head(net(tokens[:, :-1]))
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                opt.zero_grad(set_to_none=True)
                loss.backward()
                rv.log("grad_norm", nn.utils.clip_grad_norm_(net.parameters(), 1.0).item())
                opt.step()
                sched.step()
                rv.log("loss", loss.item())
    return loss.item()
