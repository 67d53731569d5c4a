"""A state that was taken over is the one that a walk gives, whatever a program did to its model and optimizer in between."""

from __future__ import annotations

import collections
import copy
import hashlib
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from rearview.state import visible
from rearview.state.capture import Captured, capture
from rearview.state.digests import root_digests
from rearview.state.take import again as agains
from rearview.state.take.again import Again

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
pytestmark = pytest.mark.torch

SEEDS = int(os.environ.get("AGAIN_SEEDS", "12"))
ROUNDS = 60


class Leaf(nn.Module):
    """A layer with attributes of many sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mean", torch.zeros(70), persistent=False)
        self.scale, self.count, self.tag, self.flag, self.nothing = 0.5, 3, "a", True, None
        self.items: list[Any] = [1, 2.0, "x"]
        self.table: dict[Any, Any] = {"k": 1, 2: "v", (1, 2): [3]}
        self.seen: set[int] = set()
        self.order = collections.OrderedDict(a=1, b=2)
        self.counts: Any = collections.defaultdict(int)
        self.act = F.relu
        self.long = list(range(100))
        self.hidden = [torch.ones(80), torch.ones(2)]

    def forward(self, x: Any) -> Any:
        """As layers do."""
        return F.relu(self.norm(self.fc(x)))


class Other(Leaf):
    """Another class with the same attributes."""


class World:
    """A program with its model and optimizer, and what happens to them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.net = nn.Sequential(*(Leaf() for _ in range(6)), nn.Linear(4, 1))
        self.net[3].fc.weight = self.net[2].fc.weight
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.more: dict[str, Any] = {}
        self.step()

    def roots(self) -> dict[Any, object]:
        """As a checkpoint has them."""
        variables = {("local", 0, name): value for name, value in self.more.items()}
        return {("given", "net"): self.net, ("given", "opt"): self.opt, **variables}

    def leaf(self) -> Any:
        """Any layer."""
        return self.draw.choice([one for one in self.net if isinstance(one, Leaf)])

    def parameter(self) -> Any:
        """Any parameter."""
        return self.draw.choice(list(self.net.parameters()))

    # What happens

    def step(self) -> None:
        self.net(torch.randn(8, 4)).sum().backward()
        self.opt.step()
        if self.draw.random() < 0.5:
            self.opt.zero_grad()

    def eval(self) -> None:
        self.net.train(not self.net.training)

    def rate(self) -> None:
        self.opt.param_groups[0]["lr"] *= 0.5

    def atom(self) -> None:
        name = self.draw.choice(["scale", "count", "tag", "flag", "nothing"])
        values = [0.0, -0.0, 1, True, 1.0, "a", "A" * 3, None, float("nan"), 10**30, b"x", 2j, "long" * 30_000]
        setattr(self.leaf(), name, self.draw.choice(values))

    def equal(self) -> None:
        leaf = self.leaf()
        leaf.scale = float(str(leaf.scale)) if isinstance(leaf.scale, float) else 0.5

    def item(self) -> None:
        leaf = self.leaf()
        self.draw.choice([
            lambda: leaf.items.append(self.draw.randrange(9)),
            lambda: leaf.items.reverse(),
            lambda: leaf.items.__setitem__(0, torch.ones(3)),
            lambda: leaf.items.__setitem__(0, 5),
            lambda: leaf.items.clear(),
            lambda: leaf.table.__setitem__("k", leaf.table.pop("k", 0)),
            lambda: leaf.table.__setitem__("other", leaf.table.pop("k", 0)),
            lambda: leaf.table.__setitem__(self.draw.choice([True, 1, 1.0]), 0),
            lambda: leaf.table.update(k=[leaf.fc.weight]),
            lambda: leaf.order.move_to_end("a"),
            lambda: leaf.counts.__setitem__(self.draw.randrange(3), 1),
            lambda: setattr(leaf.counts, "default_factory", self.draw.choice([int, list, None, len])),
            lambda: leaf.seen.add(1),
            lambda: leaf.seen.clear(),
            lambda: leaf.seen.discard(1),
            lambda: leaf.long.append(1),
            lambda: leaf.long.__setitem__(0, leaf.fc),
            lambda: leaf.hidden.__setitem__(0, torch.ones(80)),
            lambda: leaf.hidden.reverse(),
        ])()  # fmt: skip

    def attribute(self) -> None:
        leaf = self.leaf()
        if hasattr(leaf, "new"):
            del leaf.new
        else:
            leaf.new = self.draw.choice(
                [1, [], {}, leaf.fc, leaf.fc.weight, self.opt.param_groups, torch.zeros(90), F.gelu, Leaf, object()]
            )

    def reorder(self) -> None:
        leaf = self.leaf()
        leaf.tag, value = 0, leaf.tag
        del leaf.tag
        leaf.tag = value

    def layer(self) -> None:
        leaf = self.leaf()
        self.draw.choice([
            lambda: setattr(leaf, "fc", nn.Linear(4, 4)),
            lambda: setattr(leaf, "fc", copy.deepcopy(leaf.fc)),
            lambda: setattr(leaf, "norm", nn.Identity()),
            lambda: setattr(leaf, "__class__", self.draw.choice([Leaf, Other])),
            lambda: leaf._modules.move_to_end("fc") if hasattr(leaf._modules, "move_to_end") else None,
            lambda: self.net._modules.update({"0": self.net._modules["1"], "1": self.net._modules["0"]}),
        ])()  # fmt: skip

    def memory(self) -> None:
        parameter = self.parameter()
        self.draw.choice([
            lambda: parameter.data.add_(1),
            lambda: setattr(parameter, "data", parameter.data.clone()),
            lambda: setattr(parameter, "data", parameter.data.t().contiguous().t()),
            lambda: parameter.requires_grad_(not parameter.requires_grad),
            lambda: setattr(parameter, "grad", None),
            lambda: setattr(parameter, "grad", torch.ones_like(parameter)),
            lambda: setattr(parameter, "note", 1),
            lambda: parameter.__dict__.clear(),
            lambda: self.leaf().mean.add_(1),
            lambda: self.leaf().hidden[1].resize_(2).add_(1) if torch.is_tensor(self.leaf().hidden[1]) else None,
        ])()  # fmt: skip

    def optimizer(self) -> None:
        self.draw.choice([
            lambda: self.opt.add_param_group({"params": [nn.Parameter(torch.ones(80))]}),
            lambda: self.opt.state.clear(),
            lambda: self.opt.state.pop(self.parameter(), None),
            lambda: setattr(self, "opt", torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.5)),
            lambda: torch.optim.lr_scheduler.StepLR(self.opt, 1),
            lambda: self.opt.param_groups[0].__setitem__("params", list(self.opt.param_groups[0]["params"])),
        ])()  # fmt: skip

    def variable(self) -> None:
        leaf = self.leaf()
        self.more[self.draw.choice("abc")] = self.draw.choice([
            leaf, leaf.fc.weight, leaf.items, leaf.table, leaf._parameters, leaf.fc.bias, leaf.scale, self.opt.state, self.opt.param_groups,
            leaf.fc.weight.detach().numpy(), leaf.fc.weight.grad, leaf.__dict__, Leaf, [self.net, self.opt], self.draw.randrange(99),
        ])  # fmt: skip


QUIET: tuple[Callable[[World], None], ...] = (World.step, World.step, World.eval, World.rate, World.atom, World.equal)
"""What leaves the structure alone."""
LOUD: tuple[Callable[[World], None], ...] = (
    World.item, World.attribute, World.reorder, World.layer, World.memory, World.optimizer, World.variable,
)  # fmt: skip


def told(captured: Captured) -> dict[str, Any]:
    """All that is to be the same."""
    memory = [hashlib.blake2b(bytes(buffer.memory()), digest_size=16).digest() for buffer in captured.buffers]
    sizes, spans = captured.sizes(), visible.ranges(captured.tree, captured.region)
    return {
        "digests": root_digests(captured.tree, memory),
        "memory": {
            (buffer.key[0] if buffer.private else buffer.key, buffer.nbytes, buffer.version, buffer.constant_hint, buffer.uncounted, digest)
            for buffer, digest in zip(captured.buffers, memory, strict=True)
        },
        "bytes": (sum(sizes.values()), sorted(captured.tree.buffers)),
        "missing": {(one.type_name, one.why) for one in captured.missing},
        "unlike": {(one.type_name, one.why) for one in captured.unlike},
        "roots": set(captured.tree.roots),
        "seen": {captured.buffers[number].key: span for number, span in visible.of_buffers(captured.tree, spans).items()},
        "names": {buffer.where for buffer in captured.buffers if not buffer.private},
    }


@pytest.mark.filterwarnings("ignore:grad and param do not obey")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_taken_over_is_what_a_walk_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agains, "_FAILS", ROUNDS)
    draw = random.Random(seed)
    torch.manual_seed(seed)
    world, again = World(draw), Again()
    for turn in range(ROUNDS):
        done = []
        for _ in range(draw.randrange(3)):
            happens = draw.choice(QUIET if draw.random() < 0.7 else LOUD)
            done.append(happens.__name__)
            try:
                happens(world)
            except (RuntimeError, AttributeError, TypeError, KeyError, ValueError, IndexError):
                done[-1] += " (failed)"
        ours, theirs = told(capture(world.roots(), again=again)), told(capture(world.roots()))
        for name, value in theirs.items():
            assert ours[name] == value, (turn, done, name)
    assert again.taken_over > ROUNDS // 6
