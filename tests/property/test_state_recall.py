"""A capture that recalls the ones before it says what a capture from nothing says, whatever happened to the objects meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rearview.state import tree as trees
from rearview.state.capture import Captured, Recall, capture
from rearview.state.digests import Outlines, root_digests
from rearview.store.packs.chunks import digest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Modules with everything: buffers, plain attributes, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(3, 3, bias=False) for _ in range(3)])
        self.wide = torch.nn.Parameter(torch.zeros(200))
        self.register_buffer("mask", torch.ones(100), persistent=False)
        self.seen: list[Any] = [1, 2.5, "x", {"deep": (None, [7])}]
        self.rate = 0.5


class World:
    """A training program without a loop."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.net = Net()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 2)
        self.held: list[Any] = []
        self.step = 0

    def roots(self) -> dict[Any, Any]:
        held = {("local", 0, f"held{k}"): value for k, value in enumerate(self.held)}
        roots = {("given", "net"): self.net, ("given", "opt"): self.opt, ("given", "sched"): self.sched, ("local", 0, "step"): self.step}
        return {**roots, **held, ("position", 0): {"at": self.step}}

    # What happens to it

    def train(self) -> None:
        self.opt.zero_grad(set_to_none=self.draw.random() < 0.7)
        self.net.blocks[0](self.net.norm(self.net.first(torch.randn(4, 3)))).square().mean().backward()
        self.opt.step()
        self.step += 1

    def schedule(self) -> None:
        self.sched.step()

    def no_grad(self) -> None:
        self.opt.zero_grad(set_to_none=True)

    def swap_modules(self) -> None:
        blocks = self.net.blocks
        blocks[0], blocks[1] = blocks[1], blocks[0]

    def new_module(self) -> None:
        self.net.blocks[self.draw.randrange(3)] = torch.nn.Linear(3, 3, bias=False)

    def tie(self) -> None:
        self.net.blocks[1].weight = self.net.blocks[2].weight

    def untie(self) -> None:
        self.net.blocks[1].weight = torch.nn.Parameter(self.net.blocks[2].weight.detach().clone())

    def other_memory(self) -> None:
        self.net.first.weight.data = torch.randn(3, 3)

    def transposed(self) -> None:
        self.net.first.weight.data = self.net.first.weight.data.t()

    def frozen(self) -> None:
        self.net.first.weight.requires_grad_(not self.net.first.weight.requires_grad)

    def through_data(self) -> None:
        self.net.wide.data[7] += 1

    def resized(self) -> None:
        self.net.wide = torch.nn.Parameter(torch.ones(self.draw.choice([40, 200, 300])))

    def attribute(self) -> None:
        self.net.rate = self.draw.choice([0.5, -0.0, 0.0, float("nan"), 1, True, "slow", None])

    def new_attribute(self) -> None:
        name = self.draw.choice("ab")
        if hasattr(self.net.first, name):
            delattr(self.net.first, name)
        setattr(self.net.first, name, self.draw.choice([1, 1.0, self.net.wide, [], {}, self.net.seen]))

    def without_attribute(self) -> None:
        self.net.first.__dict__.pop(self.draw.choice("ab"), None)

    def renamed_hook(self) -> None:
        hooks = self.net.norm.__dict__.pop("_forward_hooks", None)
        if hooks is not None:
            self.net.norm.other_hooks = 1
            self.net.norm._forward_hooks = hooks

    def in_a_list(self) -> None:
        self.net.seen[self.draw.randrange(3)] = self.draw.choice([1, 2.5, "x", 300, 3.25, (), b"y", True])

    def deeper(self) -> None:
        self.net.seen[3] = {"deep": self.draw.choice([(None, [7]), (None, [8]), (None, self.net.seen)])}

    def mode(self) -> None:
        self.net.train(not self.net.training)

    def hold(self) -> None:
        choices = [self.net.wide, self.net.seen, self.net.wide.data[3:], self.net.wide.detach().numpy(), torch.ones(90), 3, [0.5], self.opt]
        self.held.append(self.draw.choice(choices))

    def drop(self) -> None:
        if self.held:
            self.held.pop(self.draw.randrange(len(self.held)))

    def subclass(self) -> None:
        class Other(torch.nn.Linear):  # type: ignore[misc,name-defined]
            pass

        self.net.first.__class__ = self.draw.choice([Other, torch.nn.Linear])

    def group(self) -> None:
        self.opt.param_groups[0]["lr"] = self.draw.choice([0.1, 0.25, self.opt.param_groups[0]["eps"]])


MOVES = sorted(name for name in vars(World) if name != "roots" and not name.startswith("_"))


def said(found: Captured) -> Any:
    """Everything that a capture says, whatever the numbers of its nodes."""
    digests = [digest(buffer.memory()) for buffer in found.buffers]
    digested = root_digests(found.tree, digests)
    reread = trees.decode(trees.encode(found.tree))
    assert root_digests(reread, digests) == digested
    hints = sorted((buffer.nbytes, str(buffer.version), buffer.constant_hint, buffer.uncounted, buffer.address) for buffer in found.buffers)
    lacks = sorted((lack.type_name, lack.why) for lack in found.missing)
    return list(found.tree.roots), digested, hints, lacks, len(found.pickled), sum(found.sizes().values())


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@example(0, ["tie", "attribute", "attribute"])
@given(st.integers(0, 1000), st.lists(st.sampled_from(MOVES), min_size=3, max_size=24))
def test_recalling_changes_nothing(seed: int, moves: list[str]) -> None:
    world, recall = World(seed), Recall()
    for move in ["train", "", "", *moves, "", ""]:
        if move:
            getattr(world, move)()
        assert said(capture(world.roots(), recall=recall)) == said(capture(world.roots())), move


def test_what_stays_is_recalled() -> None:
    world, recall = World(1), Recall()
    world.roots = lambda: {("given", "net"): world.net, ("given", "opt"): world.opt, ("local", 0, "step"): world.step}  # type: ignore[method-assign]
    world.opt = torch.optim.Adam(world.net.parameters(), lr=0.1)
    tokens = []
    for _ in range(6):
        world.opt.zero_grad()
        world.train()
        world.opt.param_groups[0]["lr"] *= 0.9
        world.opt.zero_grad()
        shape = capture(world.roots(), recall=recall).shape
        tokens.append(shape and (shape.token, sorted(shape.roots)))
    assert tokens[-1] is not None
    assert tokens[-1] == tokens[-2] == tokens[-3]
    assert tokens[-1][1] == [("given", "net"), ("given", "opt")]


def test_nothing_of_the_program_is_held() -> None:
    import gc
    import weakref

    recall = Recall()
    net = torch.nn.Sequential(torch.nn.Linear(40, 40))
    for _ in range(4):
        capture({("given", "net"): net}, recall=recall)
    watched = [weakref.ref(net), weakref.ref(net[0]), weakref.ref(net[0].weight), weakref.ref(net[0].weight.untyped_storage())]
    del net
    gc.collect()
    assert [one() for one in watched] == [None] * 4


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1000), st.lists(st.sampled_from(MOVES), min_size=3, max_size=24))
def test_digests_from_outlines_are_the_same(seed: int, moves: list[str]) -> None:
    world, recall = World(seed), Recall()
    outlines, token = None, None
    for move in ["train", "", "", *moves, "group", "", "train", ""]:
        if move:
            getattr(world, move)()
        found = capture(world.roots(), recall=recall)
        if found.shape is None:
            outlines = None
        elif found.shape.token is not token:
            outlines, token = Outlines(found.shape.nodes, found.shape.roots), found.shape.token
        digests = [digest(buffer.memory()) for buffer in found.buffers]
        assert root_digests(found.tree, digests, outlines=outlines) == root_digests(found.tree, digests), move
