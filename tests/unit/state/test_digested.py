"""Digests with the state before at hand: the same as without, whatever changed in between."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.digested import Before
from rearview.state.digests import _Digests, root_digests
from rearview.store.packs.hashing import digest

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

Roots = dict[tuple[str | int, ...], Any]


def program() -> Roots:
    net = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.Linear(20, 2))
    opt = torch.optim.Adam(net.parameters())
    net(torch.ones(3, 20)).sum().backward()
    opt.step()
    own = {"zero": 0.0, "names": {"a", "b"}, "lists": [[1], [2.5]], "many": [*(k + 0.5 for k in range(599)), 0.0]}
    others: Roots = {("local", 0, "own"): own, ("local", 0, "same"): own["lists"], ("local", 0, "tensors"): {torch.ones(100)}}
    return {("given", "net"): net, ("given", "opt"): opt, ("local", 0, "i"): 5, **others}


def digests(roots: Roots, before: Before | None = None) -> dict[Any, str]:
    taken = capture(roots)
    return root_digests(taken.tree, [digest(buffer.memory()) for buffer in taken.buffers], before=before)


def step(roots: Roots) -> None:
    roots["given", "opt"].step()
    roots["local", 0, "i"] += 1


def add_state(roots: Roots) -> None:
    net, opt = roots["given", "net"], roots["given", "opt"]
    opt.state[net[0].weight]["new"] = 1


def replace_tensor(roots: Roots) -> None:
    roots["given", "net"][0].weight = nn.Parameter(torch.zeros(20, 20))


def own_by_another(roots: Roots) -> None:
    roots["given", "net"].held = roots["local", 0, "own"]["lists"]


CHANGES = {
    "nothing": lambda roots: None,
    "a step": step,
    "memory": lambda roots: roots["given", "net"][0].weight.data.add_(1),
    "small memory": lambda roots: roots["given", "net"][1].num_batches_tracked.add_(1),
    "a new key": add_state,
    "a replaced tensor": replace_tensor,
    "a flag": lambda roots: roots["given", "net"][0].weight.requires_grad_(False),
    "an attribute": lambda roots: setattr(roots["given", "net"][0], "in_features", 21),
    "the sign of zero": lambda roots: roots["local", 0, "own"].update(zero=-0.0),
    "the sign of a zero among many": lambda roots: roots["local", 0, "own"]["many"].__setitem__(599, -0.0),
    "a member of a set": lambda roots: roots["local", 0, "own"]["names"].add("c"),
    "a tensor in a set": lambda roots: next(iter(roots["local", 0, "tensors"])).add_(1),
    "a shared list": lambda roots: roots["local", 0, "same"].append(3),
    "no longer shared": lambda roots: roots.update({("local", 0, "same"): [[1], [2.5]]}),
    "reached by another root first": own_by_another,
    "a root less": lambda roots: roots.pop(("local", 0, "own")),
    "a root more": lambda roots: roots.update({("given", "a"): roots["local", 0, "own"]["lists"]}),
    "another first root": lambda roots: roots.update({("given", "net"): nn.Linear(3, 3)}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_with_the_state_before_digests_are_the_same(change: str) -> None:
    roots = program()
    before = Before()
    assert digests(roots, before) == digests(roots)
    first = digests(roots)
    CHANGES[change](roots)
    assert digests(roots, before) == digests(roots)
    assert digests(roots, before) == digests(roots)
    assert (digests(roots) == first) == (change == "nothing")


def test_what_is_told_as_before_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    roots, before = program(), Before()
    digests(roots, before)
    step(roots)
    walked: list[object] = []
    told = _Digests.told
    monkeypatch.setattr(_Digests, "told", lambda self, root, name: walked.append(name) or told(self, root, name))
    digests(roots, before)
    assert walked == [repr(("local", 0, key)).encode() for key in ("i", "tensors")]  # their order is that of what they hold


def test_a_model_that_changes_between_two_modes_is_told_as_in_the_same_mode_before(monkeypatch: pytest.MonkeyPatch) -> None:
    roots, before = program(), Before()
    net = roots["given", "net"]
    for mode in (True, False):
        net.train(mode)
        digests(roots, before)
    walked: list[object] = []
    told = _Digests.told
    monkeypatch.setattr(_Digests, "told", lambda self, root, name: walked.append(name) or told(self, root, name))
    for mode in (True, False):
        net.train(mode)
        step(roots)
        assert digests(roots, before) == digests(roots)
    assert repr(("given", "net")).encode() not in walked
