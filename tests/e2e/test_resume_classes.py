"""A resume of programs whose modules get another class in the loop: the modules stay what they are, with their hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

pytestmark = pytest.mark.torch

PROGRAM = """
import glob, os, time
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
import rearview as rv

class Plus(nn.Linear):
    def forward(self, x): return super().forward(x) + 1

class Times(nn.Linear):
    def forward(self, x): return super().forward(x) * 2

class Rounded(nn.Module):
    def forward(self, weight): return weight + (torch.round(weight * 8) / 8 - weight).detach()

torch.manual_seed(0)
net = nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)), Plus(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
calls = []
for module in net:
    module.register_forward_hook(lambda module, inputs, out: calls.append(type(module).__name__) or out * 1.5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        loss = net(torch.randn(3, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rv.log("loss", loss)
        if epoch == 1:
            parametrize.remove_parametrizations(net[0], "weight")
            net[1].__class__ = Times
            parametrize.register_parametrization(net[2], "weight", Rounded())
            net[3] = parametrizations.weight_norm(net[3])
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        if str(epoch) == os.environ.get("DIE_AT"):
            patience = time.monotonic() + 20
            while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < epoch and time.monotonic() < patience:
                time.sleep(0.01)
            os._exit(3)
print(calls, [parameter.tolist() for parameter in net.parameters()], loss.item())
"""


def test_modules_that_get_another_class_keep_their_hooks(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    (project / "train.py").write_text(PROGRAM)
    expected = cli("run", "train.py", env={"REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True).stdout
    assert "Times" in expected and "ParametrizedLinear" in expected
    killed = cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE_AT": "3"})
    assert killed.returncode == 3 and "partial" not in killed.stderr
    assert cli("resume", "--yes", env={"DIE_AT": "4"}).returncode == 3
    done = cli("resume", "--yes", check=True)
    assert done.stdout == expected
    assert "please report" not in done.stderr and "may not go on exactly" not in done.stderr
