"""Hooks are left alone: those that a loop registered or removed are named, since a resumed run has others."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.take.hooks import Hooks
from rearview.testing.states import roots

torch = pytest.importorskip("torch")


def _pass(*_: Any) -> None:
    """Does nothing."""


def _named(hooks: Hooks, **held: Any) -> set[tuple[str, str]]:
    return {(lack.where, lack.why.partition(":")[0]) for lack in capture(roots(**held), hooks=hooks).missing}


def test_those_of_the_code_before_are_not_named() -> None:
    net = torch.nn.Linear(2, 1)
    net.register_forward_hook(_pass)
    net.weight.register_hook(_pass)
    hooks = Hooks()
    hooks.loop_begins()
    assert _named(hooks, net=net) == set()
    hooks.loop_ended()
    net.register_forward_hook(_pass)
    hooks.loop_begins()
    assert _named(hooks, net=net) == set(), "code between two loops runs again"


def test_added_in_the_loop() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    hooks = Hooks()
    hooks.loop_begins()
    assert _named(hooks, net=net, opt=opt) == set()
    net[0].register_forward_pre_hook(_pass)
    net[0].weight.register_hook(_pass)
    opt.register_step_post_hook(_pass)
    where = {"net.0._forward_pre_hooks", "net.0.weight._backward_hooks", "opt._optimizer_step_post_hooks"}
    assert _named(hooks, net=net, opt=opt) == {(one, "a hook that was registered in the loop") for one in where}


def test_removed_in_the_loop() -> None:
    net = torch.nn.Linear(2, 1)
    held, dropped = net.register_forward_hook(_pass), [net.bias.register_hook(_pass)]
    hooks = Hooks()
    hooks.loop_begins()
    assert _named(hooks, net=net, held=held, dropped=dropped) == set()
    held.remove()
    dropped.pop().remove()
    assert _named(hooks, net=net, held=held, dropped=dropped) == {("net.bias._backward_hooks", "a hook was removed in the loop")}
