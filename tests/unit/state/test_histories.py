"""A tensor with a history comes back as one that says the same of itself; what would go through that history raises."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.restore import plan
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
