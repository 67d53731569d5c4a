"""Each thing that a state holds, left out on purpose: the training that goes on from there is another one, and the digests say so."""

from __future__ import annotations

import collections
import random
import re
from typing import Any

import pytest

from rearview.state import streams
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, digests, roots

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
nn = torch.nn
pytestmark = pytest.mark.torch


class Net(nn.Module):
    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.register_buffer("seen", torch.zeros(()), persistent=False)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.seen += 1
        hidden = self.first(x)
        hidden = self.norm(hidden) if self.calls % 5 else hidden
        return self.last(torch.relu(hidden)) * (1 + 0.01 * self.calls + 0.02 * float(self.seen))


def build() -> dict[str, Any]:
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    count = 0

    def noise() -> float:
        nonlocal count
        count += 1
        return count * 0.01

    return {
        "net": net,
        "opt": opt,
        "sched": torch.optim.lr_scheduler.StepLR(opt, 3, 0.5),
        "scaler": torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3),
        "ema": torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)),
        "swa": torch.optim.swa_utils.AveragedModel(net),
        "draw": torch.Generator().manual_seed(3),
        "numpy": np.random.default_rng(4),
        "old": np.random.RandomState(5),
        "python": random.Random(6),
        "recent": collections.deque([0.0], maxlen=4),
        "best": float("inf"),
        "noise": noise,
        "micro": 0,
        "losses": [],
    }


def step(o: dict[str, Any]) -> None:
    if o["micro"] == 2:
        o["net"].first.bias.requires_grad_(False)
        o["net"].eval()
    shift = float(o["numpy"].normal()) + float(o["old"].normal()) + o["python"].gauss(0, 1) + o["noise"]() + o["recent"][0]
    x = torch.randn(8, 4, generator=o["draw"]) + shift
    loss = o["net"](x).pow(2).mean()
    o["scaler"].scale(loss).backward()
    o["micro"] += 1
    if o["micro"] % 2 == 0:
        o["scaler"].step(o["opt"])
        o["scaler"].update()
        o["opt"].zero_grad()
        o["sched"].step()
        o["ema"].update_parameters(o["net"])
        o["swa"].update_parameters(o["net"])
    o["best"] = min(o["best"], loss.item())
    o["recent"].append(loss.item() * 0.01)
    averages = float(o["ema"].module.last.weight.detach().sum() + o["swa"].module.last.weight.detach().sum())
    o["losses"].append((loss.item(), o["best"], averages, float(o["scaler"].get_scale()), o["opt"].param_groups[0]["lr"]))


ITEMS = {
    "parameters": r"net\.last\.weight",
    "buffers": r"net\.norm\.running_mean",
    "a buffer that is not saved": r"net\.seen",
    "gradients between micro-batches": r"net\.last\.weight\.grad",
    "requires_grad": r"net\.first\.bias\.requires_grad",
    "train or eval": r"net(\.\w+)*\.training",
    "plain attributes of modules": r"net\.calls",
    "the optimizer's moments": r"opt\.state",
    "the learning rate": r"opt\.param_groups\[0\]\['lr'\]",
    "the scheduler": r"sched\.last_epoch",
    "the scale of gradients": r"scaler\._(scale|growth_tracker)",
    "an average of weights": r"ema\.module\.last\.weight",
    "its count": r"swa\.n_averaged",
    "a generator of torch": r"draw",
    "a generator of NumPy": r"numpy",
    "an old generator of NumPy": r"old",
    "a generator of Python": r"python",
    "a deque": r"recent",
    "the best so far": r"best",
    "a counter": r"micro",
    "what a closure holds": r"noise",
}


@pytest.mark.parametrize("item", [None, *ITEMS])
def test_left_out(item: str | None) -> None:
    torch.set_num_threads(1)
    o = build()
    for _ in range(9):
        step(o)
    kept_streams = streams.take()
    whole = digests(capture(roots(**o)))
    pattern = re.compile(ITEMS[item] if item else "$.")
    left: list[str] = []

    def omit(where: str, _value: object) -> bool:
        if pattern.fullmatch(where):
            left.append(where)
        return bool(left) and left[-1] == where

    captured = capture(roots(**o), omit=omit)
    assert bool(left) == (item is not None)
    kept = Kept(captured)
    assert (kept.digests == whole) == (item is None)
    for _ in range(12):
        step(o)
    fresh = build()
    made = plan(kept.tree, roots(**fresh), kept).apply()
    back = {**fresh, **{str(key[1]): value for key, value in made.items()}}
    streams.put_back(kept_streams)
    for _ in range(12):
        step(back)
    assert (back["losses"] == o["losses"]) == (item is None)
