"""Classes that torch makes for modules with parametrized tensors come back, whether the code before the loop makes them or the loop."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state import parametrized
from rearview.state.capture import capture
from rearview.state.put.hooks import put_back
from rearview.state.restore import plan
from rearview.state.take.hooks import KEY, Hooks
from rearview.testing.states import Kept, digests, roots

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Doubled(torch.nn.Module):
    def forward(self, weight: Any) -> Any:
        return weight * 2


class Linear(torch.nn.Linear):
    """Torch calls the class that it makes of it as it calls that of torch's own."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) + 1


def _net() -> Any:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    net[0].register_forward_hook(lambda _module, _inputs, out: out * 2)
    return net


def _parametrize(net: Any, *names: str) -> None:
    for name in names:
        torch.nn.utils.parametrize.register_parametrization(net[0], name, Doubled())


def _out(net: Any) -> float:
    return float(net(torch.ones(1, 2)).detach())


def _state(net: Any, change: Any) -> Kept:
    """A state after a loop changed something."""
    hooks = Hooks()
    hooks.loop_begins()
    capture(roots(net=net), hooks=hooks)
    change()
    captured = capture(roots(net=net), hooks=hooks)
    assert captured.missing == []
    return Kept(captured)


def _put(kept: Kept, net: Any) -> Any:
    values = plan(kept.tree, roots(net=net), kept).apply()
    if KEY in values:
        put_back(values.pop(KEY))
    assert digests(capture(values)) == {key: kept.digests[key] for key in values}
    return values["given", "net"]


def test_begun_in_the_loop() -> None:
    net, other = _net(), _net()
    kept = _state(net, lambda: _parametrize(net, "weight"))
    first = other[0]
    back = _put(kept, other)
    assert back[0] is first and torch.nn.utils.parametrize.is_parametrized(first, "weight")
    assert _out(back) == _out(net) != _out(_net()), "the hook is there as well"
    assert not hasattr(torch.nn.Linear, "weight"), "the class itself is left alone"
    torch.nn.utils.parametrize.remove_parametrizations(first, "weight")
    assert type(first) is torch.nn.Linear


def test_ended_in_the_loop() -> None:
    net, other = _net(), _net()
    _parametrize(net, "weight")
    _parametrize(other, "weight")
    kept = _state(net, lambda: torch.nn.utils.parametrize.remove_parametrizations(net[0], "weight"))
    first = other[0]
    back = _put(kept, other)
    assert back[0] is first and type(first) is torch.nn.Linear
    assert _out(back) == _out(net)


OTHERS = [(("weight",), ("weight", "bias")), (("weight", "bias"), ("weight",)), (("weight",), ("bias",))]


@pytest.mark.parametrize(("before", "then"), OTHERS)
def test_other_tensors_of_a_class_that_was_there(before: tuple[str, ...], then: tuple[str, ...]) -> None:
    net, other = _net(), _net()
    _parametrize(net, *before)
    _parametrize(other, *before)

    def change() -> None:
        for name in set(before) - set(then):
            torch.nn.utils.parametrize.remove_parametrizations(net[0], name)
        _parametrize(net, *(name for name in then if name not in before))

    back = _put(_state(net, change), other)
    assert parametrized.tensors(type(back[0])) == tuple(sorted(then))
    assert _out(back) == _out(net)


def test_of_a_module_that_the_loop_made() -> None:
    net, other = _net(), _net()

    def change() -> None:
        net[1] = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1))

    back = _put(_state(net, change), other)
    assert _out(back) == _out(net)


def test_of_another_base() -> None:
    def made() -> Any:
        net = _net()
        net[1] = Linear(2, 1)
        torch.nn.utils.parametrize.register_parametrization(net[1], "weight", Doubled())
        _parametrize(net, "weight")
        net[0], net[1] = net[1], net[0]
        return net

    other = made()
    net = made()
    kinds = [type(one).__mro__[1] for one in net]
    kept = _state(net, lambda: None)
    other[0], other[1] = other[1], other[0]
    back = _put(kept, other)
    assert [type(one).__mro__[1] for one in back] == kinds == [Linear, torch.nn.Linear]


def test_where_torch_makes_none_so(monkeypatch: pytest.MonkeyPatch) -> None:
    net = _net()
    kept = _state(net, lambda: _parametrize(net, "weight"))
    monkeypatch.delattr(torch.nn.utils.parametrize, "_inject_new_class")
    with pytest.raises(RestoreRefused, match="ParametrizedLinear is not there"):
        plan(kept.tree, roots(net=_net()), kept)
