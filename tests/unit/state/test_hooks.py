"""Hooks: those of the code before the loops are left alone; what a loop gave other hooks has them again, and handles lead to them."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.put.hooks import put_back
from rearview.state.restore import plan
from rearview.state.take.hooks import KEY, Hooks
from rearview.testing.states import Kept, roots

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def _pass(*_: Any) -> None:
    """Does nothing."""


def _twice(_module: Any, _inputs: Any, output: Any) -> Any:
    return output * 2


def _with_words(_module: Any, inputs: Any, words: Any) -> Any:
    return tuple(one + 1 for one in inputs), words


def _half(grad: Any) -> Any:
    return grad / 2


def _began() -> Hooks:
    hooks = Hooks()
    hooks.loop_begins()
    return hooks


def _taken(hooks: Hooks, **held: Any) -> Kept:
    captured = capture(roots(**held), hooks=hooks)
    assert captured.missing == []
    return Kept(captured)


def _put(kept: Kept, **live: Any) -> tuple[dict[str, Any], list[tuple[Any, bool]]]:
    values = plan(kept.tree, roots(**live), kept).apply()
    hooked = put_back(values[KEY]) if KEY in values else []
    return {str(key[-1]): value for key, value in values.items()}, hooked


def _net() -> Any:
    torch.manual_seed(1)
    return torch.nn.Linear(2, 1)


def _out(net: Any) -> tuple[float, float]:
    """What hooks change: a value, and a gradient."""
    net.zero_grad()
    out = net(torch.ones(1, 2)).sum()
    out.backward()
    return float(out.detach()), float(net.weight.grad.sum())


def test_those_of_the_code_before_are_left_alone() -> None:
    net = _net()
    net.register_forward_hook(_pass)
    net.weight.register_hook(_pass)
    hooks = _began()
    assert KEY not in _taken(hooks, net=net).tree.roots
    hooks.loop_ended()
    net.register_forward_hook(_pass)
    hooks.loop_begins()
    assert KEY not in _taken(hooks, net=net).tree.roots, "code between two loops runs again"


def test_added_in_the_loop() -> None:
    net = torch.nn.Sequential(_net())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    steps: list[int] = []
    hooks = _began()
    assert KEY not in _taken(hooks, net=net, opt=opt).tree.roots
    net[0].register_forward_hook(_twice)
    net[0].register_forward_pre_hook(_with_words, with_kwargs=True)
    net[0].weight.register_hook(_half)
    opt.register_step_post_hook(lambda *_: steps.append(1))
    want = _out(net[0])
    kept = _taken(hooks, net=net, opt=opt, steps=steps)
    other, count = torch.nn.Sequential(_net()), list[int]()
    its_opt = torch.optim.SGD(other.parameters(), 0.1)
    plain = _out(other[0])
    back, hooked = _put(kept, net=other, opt=its_opt, steps=count)
    assert back["net"] is other
    assert _out(other[0]) == want != plain
    its_opt.step()
    assert count == [1], "the hook has the live list"
    again = Hooks()
    again.loop_begins(hooked)
    assert KEY in _taken(again, net=other, opt=its_opt, steps=count).tree.roots, "the next state has them too"


def test_removed_in_the_loop() -> None:
    net = _net()
    held, dropped = net.register_forward_hook(_twice), [net.weight.register_hook(_half)]
    hooks = _began()
    assert KEY not in _taken(hooks, net=net, held=held, dropped=dropped).tree.roots
    held.remove()
    dropped.pop().remove()
    want = _out(net)
    kept = _taken(hooks, net=net, held=held)
    other = _net()
    its_held, _ = other.register_forward_hook(_twice), other.weight.register_hook(_half)
    assert _out(other) != want
    _, hooked = _put(kept, net=other, held=its_held)
    assert _out(other) == want
    again = Hooks()
    again.loop_begins(hooked)
    anew = _net()
    anew.register_forward_hook(_twice)
    _put(_taken(again, net=other, held=its_held), net=anew)
    assert _out(anew) == want, "the next state knows that they are gone"


def test_handles_remove_what_they_registered_and_numbers_are_not_used_twice() -> None:
    net = _net()
    before = net.register_forward_hook(_pass)
    hooks = _began()
    _taken(hooks, net=net, before=before)
    handles = [net.register_forward_hook(_twice), net.weight.register_hook(_half)]
    kept = _taken(hooks, net=net, before=before, handles=handles)
    other = _net()
    plain = _out(other)
    its_before = other.register_forward_hook(_pass)
    numbers = torch.utils.hooks.RemovableHandle
    numbers.next_id -= 2  # as in a process that has not come so far
    back, _ = _put(kept, net=other, before=its_before, handles=[])
    assert _out(other) != plain
    late = other.register_forward_hook(_pass)
    assert len(other._forward_hooks) == 3, "none took the place of another"
    for handle in (*back["handles"], back["before"], late):
        handle.remove()
    assert _out(other) == plain
    assert not other._forward_hooks


def test_of_a_tensor_that_is_computed_they_are_no_state() -> None:
    net = _net()
    hooks = _began()
    _taken(hooks, net=net)
    out = net(torch.ones(1, 2))
    out.register_hook(_half)
    assert KEY not in capture(roots(net=net, out=out), hooks=hooks).tree.roots


class Plus(torch.nn.Linear):
    def forward(self, x: Any) -> Any:
        return super().forward(x) + 1


class Times(torch.nn.Linear):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


def _plus(calls: list[str]) -> Any:
    torch.manual_seed(1)
    net = torch.nn.Sequential(Plus(2, 2), torch.nn.Linear(2, 1))
    net[0].register_forward_hook(lambda module, *_: calls.append(type(module).__name__))
    return net


def test_another_class_in_the_loop_is_the_same_module_with_its_hooks() -> None:
    calls: list[str] = []
    net, hooks = _plus(calls), _began()
    _taken(hooks, net=net)
    net[0].__class__ = Times
    want = _out(net[0])
    kept = _taken(hooks, net=net, calls=calls)
    its_calls: list[str] = []
    other = _plus(its_calls)
    first = other[0]
    back, hooked = _put(kept, net=other, calls=its_calls)
    assert back["net"][0] is first and type(first) is Times
    assert _out(first) == want and its_calls == ["Times", "Times"]
    again = Hooks()
    again.loop_begins(hooked)
    anew_calls: list[str] = []
    anew = _plus(anew_calls)
    _put(_taken(again, net=other, calls=its_calls), net=anew, calls=anew_calls)
    assert _out(anew[0]) == want and anew_calls == ["Times"] * 3, "the next state knows it too"


def test_a_class_is_given_only_to_what_had_another_one() -> None:
    """What stands in the place of a module is a new one, without the hooks of that."""
    net, hooks = _plus([]), _began()
    _taken(hooks, net=net)
    net[0] = Times(2, 2)
    net[0].register_forward_hook(_twice)
    want = _out(net[0])
    kept = _taken(hooks, net=net)
    calls: list[str] = []
    other = _plus(calls)
    first = other[0]
    _put(kept, net=other)
    assert other[0] is not first and type(first) is Plus
    assert _out(other[0]) == want and calls == []


class Wrapped(torch.nn.Module):
    """As adapters do it."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base

    def forward(self, data: Any) -> Any:
        return self.base(data) + 1.0


def test_a_module_that_is_put_into_another_in_the_loop_keeps_its_hooks() -> None:
    def program() -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        net[1].register_forward_hook(_twice)
        return net

    def taken(net: Any, wrapped: bool) -> Kept:
        hooks = _began()
        _taken(hooks, net=net)
        if wrapped:
            net[1] = Wrapped(net[1])
        return _taken(hooks, net=net, alias=net[1])

    net, other = program(), program()
    kept = taken(net, wrapped=True)
    want = net(torch.ones(1, 2)).tolist()
    _put(kept, net=other, alias=None)
    assert type(other[1]) is Wrapped
    assert other(torch.ones(1, 2)).tolist() == want
    assert len(other[1].base._forward_hooks) == 1
    plain = taken(program(), wrapped=False)
    assert KEY not in plain.tree.roots, "none of them was moved"


def test_a_class_that_an_object_cannot_get_is_made_anew_with_its_hooks() -> None:
    class Slotted(torch.nn.Linear):
        __slots__ = ("more",)

    calls: list[str] = []
    net, hooks = _plus(calls), _began()
    _taken(hooks, net=net)
    net[0].__class__ = Times
    kept = _taken(hooks, net=net, calls=calls)
    its_calls: list[str] = []
    other = _plus(its_calls)
    other[0] = slotted = Slotted(2, 2)
    _put(kept, net=other, calls=its_calls)
    assert type(other[0]) is Times and type(slotted) is Slotted
    _out(other[0])
    assert its_calls == ["Times"]
