"""A training program in many shapes, with questions at every site: the cells of the matrix of replay tests."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

SITES = ("before", "start", "grads", "end", "inner", "both", "after")
"""Before the loop, at the start and at the end of an epoch, behind the nested loop, in it, in a function called from both, afterwards."""
LOADERS = ("0", "2", "2 persistent")
KEPT = ("every", "sparse", "peak and end", "none")
SHAPES = ("module", "function", "class")
LEAVING = ("plain", "break", "early stop", "accumulate")


@dataclass(frozen=True)
class Cell:
    """One shape of the program, one regime of checkpoints."""

    loader: str
    kept: str
    shape: str
    leaving: str
    scheduler_named: bool

    @property
    def env(self) -> dict[str, str]:
        """What decides on checkpoints."""
        regimes = {
            "every": {"REARVIEW_EVERY": "1"},
            "sparse": {"REARVIEW_EVERY": "3"},
            "peak and end": {"REARVIEW_EVERY": "1", "REARVIEW_KEEP": "peak-and-end", "REARVIEW_PEAK": "max:acc"},
            "none": {"REARVIEW_CHECKPOINTS": "off"},
        }
        return regimes[self.kept]

    def text(self) -> str:
        """The program, with the questions marked."""
        body = _train(self)
        if self.shape == "module":
            return _HEAD + _setup(self) + body + _TAIL
        inside = textwrap.indent(_setup(self) + body + _TAIL, "    ")
        if self.shape == "function":
            return _HEAD + "def main():\n" + inside + "\nif __name__ == '__main__':\n    main()\n"
        return _HEAD + "class Trainer:\n    def fit(self):\n" + textwrap.indent(inside, "    ") + "\nTrainer().fit()\n"


def every_cell() -> list[Cell]:
    """The whole matrix."""
    return [Cell(*values) for values in itertools.product(LOADERS, KEPT, SHAPES, LEAVING, (True, False))]


def pairwise(cells: Sequence[Cell]) -> list[Cell]:
    """A few cells in which every pair of choices is met, chosen greedily; always the same ones."""

    def pairs(cell: Cell) -> set[tuple[object, ...]]:
        values = list(enumerate((cell.loader, cell.kept, cell.shape, cell.leaving, cell.scheduler_named)))
        return set(itertools.combinations(values, 2))

    missing = set().union(*map(pairs, cells))
    chosen: list[Cell] = []
    while missing:
        best = max(cells, key=lambda cell: len(pairs(cell) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


_HEAD = """import random
import numpy as np
import torch
from torch import nn
import rearview as rv

torch.set_num_threads(1)
random.seed(1); np.random.seed(2); torch.manual_seed(3)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.randn(4) + random.random() + float(np.random.rand()), i % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop, self.b = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.norm(self.a(x)))))


def weight(net):
    return sum(float(p.detach().double().abs().sum()) for p in net.parameters())


def size(net):
    total = weight(net)
    rv.log("both", total)  #?
    return total


def gradients(net):
    return sum(float((p.grad.double() ** 2).sum()) for p in net.parameters() if p.grad is not None) ** 0.5


def evaluate(net, loader):
    net.eval()
    right = 0
    with torch.no_grad():
        for x, y in rv.loop("val", loader):
            right += int((net(x).argmax(1) == y).sum())
    net.train()
    return right


"""
_TAIL = """rv.log("after", weight(net) + best)  #?
rv.log("final", size(net))
"""


def _setup(cell: Cell) -> str:
    count = cell.loader.partition(" ")[0]
    workers = f"num_workers={count}" + (", persistent_workers=True" if "persistent" in cell.loader else "")
    return f"""net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
crit = nn.CrossEntropyLoss()
loader = torch.utils.data.DataLoader(Data(), 6, shuffle=True, {workers})
val = torch.utils.data.DataLoader(Data(), 12)
best, waited, total = 0, 0, 0.0
rv.log("before", weight(net))  #?
"""


def _train(cell: Cell) -> str:
    named = "net=net, opt=opt, sched=sched" if cell.scheduler_named else "net=net, opt=opt"
    step = {
        "accumulate": "    (loss / 2).backward()\n    if i % 2:\n        opt.step()\n        opt.zero_grad()\n",
    }.get(cell.leaving, "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n")
    inner = (
        "    loss = crit(net(x), y)\n    large = size(net)\n" + step + '    total += loss.item()\n    rv.log("loss", loss)\n'
        '    rv.log("inner", gradients(net) + lr)  #?\n'
    )
    if cell.leaving == "break":
        inner += "    if epoch % 2 and i == 2:\n        break\n"
    outer = (
        'lr = sched.get_last_lr()[0]\nrv.log("start", weight(net) * lr)  #?\ntotal = 0.0\n'
        'for i, (x, y) in enumerate(rv.loop("step", loader)):\n' + inner + 'rv.log("grads", gradients(net) + float(x.sum()))  #?\n'
        'acc = evaluate(net, val)\nrv.log("acc", acc)\nrv.log("total", total)\nsched.step()\nbest = max(best, acc)\n'
        'large = size(net)\nrv.log("end", large + sched.get_last_lr()[0] + loss.item())  #?\n'
    )
    if cell.leaving == "early stop":
        outer += "waited = waited + 1 if acc < best else 0\nif waited >= 2:\n    break\n"
    return f"with rv.checkpointing({named}):\n" + textwrap.indent(
        'for epoch in rv.loop("epoch", range(5)):\n' + textwrap.indent(outer, "    "), "    "
    )
