"""What a probe reads."""

from __future__ import annotations

import pytest

from rearview.instrument.reads import Reads, reads

TRAIN = """\
import torch
import rearview as rv
from lib import norm, Net
net = Net()
opt = torch.optim.SGD(net.parameters())
best = 0
def helper(x):
    return x + best
def main(cfg):
    model = net
    for x in rv.loop("x", cfg.items):
        PROBE
"""
LIB = """\
import math
SCALE = 2
cache = {}
class Net:
    pass
def norm(net):
    return math.sqrt(inner(net))
def inner(net):
    return SCALE * len(net)
"""


def of(probe: str) -> Reads:
    lines = probe.split("\n")
    text = TRAIN.replace("PROBE", "\n        ".join(lines))
    return reads({"train.py": text, "lib.py": LIB}, "train.py", (12, 11 + len(lines)))


@pytest.mark.parametrize(
    ("probe", "names", "attributes"),
    [
        ("rv.log('a', x)", {"x"}, set()),
        ("rv.log('a', model.w.grad.norm() + opt.lr)", {"model", "opt"}, {"model.w.grad.norm", "opt.lr"}),
        ("t = x\nrv.log('a', t + cfg.lr)", {"x", "cfg"}, {"cfg.lr"}),
        ("with torch.no_grad():\n    for p in model.parameters():\n        rv.log('a', p)", {"model"}, {"model.parameters"}),
        ("rv.log('a', [y for y in x if y > best])", {"x", "best"}, set()),
        ("rv.log('a', (lambda z: z + best)(x))", {"x", "best"}, set()),
        ("rv.log('a', len(x))", {"x"}, set()),
        ("rv.log('a', isinstance(x, Net))", {"x"}, set()),
        ("total += x\nrv.log('a', total)", {"total", "x"}, set()),
    ],
)
def test_names_and_attributes(probe: str, names: set[str], attributes: set[str]) -> None:
    found = of(probe)
    assert found.names == names
    assert found.attributes == attributes
    assert not found.unknown


def test_what_called_functions_read() -> None:
    assert of("rv.log('a', norm(model))").elsewhere == {("lib.py", "SCALE")}
    assert of("rv.log('a', helper(x))").elsewhere == {("train.py", "best")}


@pytest.mark.parametrize("probe", ["rv.log('a', eval('best'))", "rv.log('a', locals()['x'])"])
def test_what_may_read_anything(probe: str) -> None:
    assert of(probe).unknown
