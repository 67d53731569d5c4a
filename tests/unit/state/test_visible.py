"""Which part of an allocation counts: what tensors show of it."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state import visible
from rearview.state.capture import capture
from rearview.testing.states import digests, roots

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


def with_garbage(value: float, garbage: float, size: int, first: int = 0) -> Any:
    """A number in the middle of memory that something else was in before."""
    memory = torch.full((size,), garbage)
    memory[first] = value
    return memory[first]


@pytest.mark.parametrize("size", [4, 10_000])
@pytest.mark.parametrize("first", [0, 3])
def test_what_no_tensor_shows_does_not_count(size: int, first: int) -> None:
    one, other = (digests(capture(roots(loss=with_garbage(0.5, garbage, size, first)))) for garbage in (1.0, 2.0))
    assert one == other
    assert digests(capture(roots(loss=with_garbage(0.25, 1.0, size, first)))) != one


@pytest.mark.parametrize("size", [4, 10_000])
def test_what_another_tensor_shows_counts(size: int) -> None:
    def both(garbage: float) -> dict[Any, str]:
        loss = with_garbage(0.5, garbage, size)
        return digests(capture(roots(loss=loss, all=loss._base)))

    assert both(1.0) != both(2.0)


@pytest.mark.parametrize("size", [4, 10_000])
def test_memory_that_numpy_has_too_counts_as_a_whole(size: int) -> None:
    def shared(garbage: float) -> dict[Any, str]:
        array = np.full(size, garbage)
        array[0] = 0.5
        return digests(capture(roots(loss=torch.from_numpy(array)[0], array=array)))

    assert shared(1.0) != shared(2.0)


def test_ranges() -> None:
    memory = torch.zeros(1000)
    tree = capture(roots(x=memory[10:20], y=memory[500:900].view(20, 20)[:, 3], z=memory[999:999])).tree
    assert list(visible.of_buffers(tree).values()) == [(40, (500 + 19 * 20 + 3 + 1) * 4)]
    assert not visible.ranges(capture(roots(x=memory, y=memory[5:], z=torch.zeros(3, 4).t())).tree)


def test_the_mean_of_squares() -> None:
    """torch leaves in its memory what was there when it was handed out."""
    values = [torch.nn.functional.mse_loss(torch.arange(64.0), torch.ones(64) * k) for k in (1.0, 1.0)]
    assert len({digests(capture(roots(loss=value)))["given", "loss"] for value in values}) == 1
