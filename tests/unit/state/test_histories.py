"""A tensor with a history comes back as one that says the same of itself; what would go through that history raises."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.put import unkept
from rearview.state.restore import plan
from rearview.state.take.again import Again
from rearview.state.take.histories import is_pending


class _Memory:
    def __init__(self, taken: Any) -> None:
        self._data = [bytes(buffer.memory()) for buffer in taken.buffers]

    def into(self, index: int, dest: memoryview) -> None:
        dest[:] = self._data[index]

    def size(self, index: int) -> int:
        return len(self._data[index])


def _back(**values: Any) -> dict[str, Any]:
    taken = capture({("given", name): value for name, value in values.items()})
    made = plan(taken.tree, {}, _Memory(taken)).apply()
    return {name: made["given", name] for name in values}


def test_it_requires_grad_and_is_no_leaf() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.arange(100.0, requires_grad=True)
    hidden = weight * 2
    hidden.retain_grad()
    loss = hidden.sum()
    loss.backward()
    back = _back(weight=weight, hidden=hidden, loss=loss, plain=torch.ones(3))
    assert [back[name].requires_grad for name in back] == [True, True, True, False]
    assert [back[name].is_leaf for name in back] == [True, False, False, True]
    assert back["loss"].item() == loss.item() and torch.equal(back["hidden"].grad, hidden.grad)
    with pytest.raises(RuntimeError, match="HistoryNotKept"):
        back["loss"].backward()
    with pytest.raises(RuntimeError, match="HistoryNotKept"):
        torch.autograd.grad(back["hidden"].sum(), back["hidden"].grad_fn.next_functions[0][0].variable)
    assert not is_pending(back["loss"])
    total = back["loss"]
    total += 1.0  # the program goes on with it as before
    assert total.item() == loss.item() + 1 and total.requires_grad
    again = _back(total=total)["total"]
    assert again.requires_grad and again.item() == total.item()


def test_a_pass_for_some_inputs_does_not_go_around_it() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.arange(4.0, requires_grad=True)
    other = torch.ones(4, requires_grad=True)
    back = _back(weight=weight, other=other, hidden=weight * 2)
    weight, other, hidden = back["weight"], back["other"], back["hidden"]
    for inputs in ([weight], [weight, hidden]):
        with pytest.raises(RuntimeError, match="HistoryNotKept"):
            torch.autograd.grad((hidden * other).sum(), inputs, allow_unused=True)
        with pytest.raises(RuntimeError, match="HistoryNotKept"):
            (hidden * other).sum().backward(inputs=inputs)
    assert weight.grad is None
    [found] = torch.autograd.grad((hidden * other).sum(), [hidden])  # to the tensor itself the way is known
    assert torch.equal(found, other)
    fresh = torch.ones(4, requires_grad=True)  # nothing that was put back can have been made of it
    assert torch.equal(torch.autograd.grad((hidden * fresh).sum(), fresh)[0], hidden)
    assert torch.equal(torch.autograd.grad((weight * 3).sum(), weight)[0], torch.full((4,), 3.0))
    (weight * 3).sum().backward()
    assert torch.equal(weight.grad, torch.full((4,), 3.0))


def test_a_statement_added_in_hindsight_is_refused_more(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    back = _back(hidden=torch.arange(4.0, requires_grad=True) * 2)["hidden"]
    fresh = torch.ones(4, requires_grad=True)
    assert "HistoryNotKept" in str(back) and unkept.refused is None
    monkeypatch.setattr(unkept, "strict", 1)
    monkeypatch.setattr(unkept, "refused", None)
    for refused in (lambda: torch.autograd.grad((back * fresh).sum(), fresh), lambda: f"{back}", lambda: repr({"h": back})):
        unkept.refused = None
        with pytest.raises(RuntimeError, match="HistoryNotKept"):
            refused()
        assert unkept.refused is not None
    unkept.refused = None
    assert "MulBackward" in str(back * 2) and "grad_fn" not in str(back.detach())
    assert torch.equal(torch.autograd.grad((fresh * 2).sum(), fresh)[0], torch.full((4,), 2.0))
    assert unkept.refused is None


def test_a_sparse_tensor_loses_its_history_and_that_is_said() -> None:
    torch = pytest.importorskip("torch")
    dense = torch.eye(3, requires_grad=True)
    assert [row.why for row in capture({("given", "s"): dense.to_sparse()}).unlike] == ["how it was computed"]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("how", ["pruned", "weight_norm", "spectral_norm"])
def test_what_torch_computes_before_each_call_is_not_gone_through_again(how: str) -> None:
    torch = pytest.importorskip("torch")
    prune = pytest.importorskip("torch.nn.utils.prune")
    net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(60)))
    layer = net[1]
    made: dict[str, Any] = {
        "pruned": lambda: prune.random_unstructured(prune.l1_unstructured(layer, "weight", 0.3), "weight", 0.3),
        "weight_norm": lambda: torch.nn.utils.weight_norm(layer),
        "spectral_norm": lambda: torch.nn.utils.spectral_norm(layer),
    }
    made[how]()
    again = Again()
    for _ in range(4):
        net(torch.ones(1, 4))
        assert is_pending(layer.weight)
        assert capture({("given", "net"): net}, again=again).missing == []
    assert again.taken_over, "also where the module is not walked"
    held = layer.weight
    found = capture({("given", "held"): held, ("given", "net"): net}).missing
    assert [one.where for one in found] == ["held"], "somebody else may go through it"
    layer._forward_pre_hooks.clear()
    assert [one.where for one in capture({("given", "net"): net}).missing] == ["net.1.weight"]
