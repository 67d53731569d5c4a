"""A run of a GPU on a machine without one. There is none here: the record is made to say that there was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.forked import Nursery
from tests.integration.replay.hindsight import Story

pytestmark = pytest.mark.torch

PROGRAM = """
import os
import torch
import rearview as rv
import rearview.state.take.tensors as taking

there = "REARVIEW_REPLAY" not in os.environ and "PLAIN" not in os.environ
if there:  # as far as the record knows
    torch.cuda.is_initialized = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.get_device_name = lambda k=0: "a GPU"
    torch.cuda.get_rng_state_all = lambda: [torch.zeros(16, dtype=torch.uint8)]
    taking.str = lambda value: "cuda:0" if isinstance(value, torch.device) else str(value)
device = "cpu" if there or "PLAIN" in os.environ else "cuda"
torch.manual_seed(3)
net = torch.nn.Linear(4, 4, device=device)
data = torch.randn(8, 4).to(device)
scale = torch.ones(4, device=torch.device(device)) if there else torch.ones(4).cuda() if device == "cuda" else torch.ones(4)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
with rv.checkpointing(net=net, opt=opt):
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(3)):
            loss = (net(data) * scale).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        rv.log("loss", loss.item())
        rv.log("norm", float(net.weight.norm()))  #?
"""


def test_without_the_device_it_is_refused_and_with_cpu_it_is_close(tmp_path: Path, nursery: Nursery) -> None:
    story = Story(tmp_path, {"train.py": PROGRAM}, env={"REARVIEW_EVERY": "1"}, nursery=nursery)
    story.record()
    story.write(story.project, probed=True)
    refused = story.cli("replay", "norm", "--yes", check=False)
    assert refused.returncode == 2 and "a GPU" in refused.stderr and "--device cpu" in refused.stderr
    done = story.ask("norm", "--device", "cpu", "--json", "--only", "epoch=2..3")
    facts = json.loads(done.stdout)
    (answer,) = facts["answers"]
    assert facts["plans"][0]["stretches"][0]["start"] is not None
    assert answer["verdict"] == "close" and answer["rung"] == "resume" and answer["compared"]["records"] >= 1, answer
    assert "replayed on the processor" in str(facts["plans"][0]["inexact"])
    story.env = {"REARVIEW_EVERY": "1", "PLAIN": "1"}
    truth = story.truth("norm")  # here the device was the processor all along
    rows = story.rows(story.project, "norm")
    assert {key: truth[key] for key in rows} == rows and len(rows) >= 2
