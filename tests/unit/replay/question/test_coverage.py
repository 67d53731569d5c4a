"""What somebody restricts a question to: the iterations of main loops, by name, number, range, and which of several loops of one name."""

from __future__ import annotations

import pytest

from rearview.errors import NotFound, UsageError
from rearview.plan.timeline import History, MainBlock
from rearview.replay.question import coverage


def _loop(occurrence: int = 0, name: str = "epoch", **facts: object) -> MainBlock:
    return MainBlock(name, (1.0,) * 6, (0.5,) * 6, values=tuple(range(1, 7)), occurrence=occurrence, **facts)  # type: ignore[arg-type]


_TWO = History(blocks=(_loop(), _loop(1)))
_FOLDS = History(blocks=tuple(_loop(path=(("fold", 0, number, called),)) for number, called in enumerate(["a", "b"])))
_FROM_ONE = History(blocks=tuple(_loop(path=(("fold", 0, number, number + 1),)) for number in range(3)))


@pytest.mark.parametrize(
    ("text", "history", "places"),
    [
        ("epoch=2..3", _TWO, ((0, 1, 2), (1, 1, 2))),
        ("epoch[2]=3..5", _TWO, ((1, 2, 4),)),
        ("epoch[1]#0", _TWO, ((0, 0, 0),)),
        ("epoch=5..", _TWO, ((0, 4, 5), (1, 4, 5))),
        ("epoch[2]=..2", _TWO, ((1, 0, 1),)),
        ("epoch[2]#4..", _TWO, ((1, 4, 5),)),
        ("fold#1/epoch=2", _FOLDS, ((1, 1, 1),)),
        ("fold#1, epoch=2..", _FOLDS, ((1, 1, 5),)),
        ("fold=b/epoch=2", _FOLDS, ((1, 1, 1),)),
        ("fold=a", _FOLDS, ((0, 0, 5),)),
        ("fold=1/epoch=2", _FROM_ONE, ((0, 1, 1),)),
        ("fold=2../epoch=2", _FROM_ONE, ((1, 1, 1), (2, 1, 1))),
    ],
)
def test_places(text: str, history: History, places: tuple[tuple[int, int, int], ...]) -> None:
    assert coverage.only(text, history) == places


def test_what_there_is_none_of_is_said() -> None:
    with pytest.raises(NotFound, match=r"no iteration of the run is epoch=9"):
        coverage.only("epoch=9", _TWO)
    with pytest.raises(UsageError, match=r"epoch\[3\] is none \(this run has: epoch\[1\], epoch\[2\]\)"):
        coverage.only("epoch[3]=1", _TWO)
    for text in ("epoch=3/step=10..20", "epoch=3,step=10..20", "step=1"):
        with pytest.raises(UsageError, match=r"step is none \(this run has: fold, epoch\): .* `rearview df NAME --where"):
            coverage.only(text, _FOLDS)
    with pytest.raises(UsageError, match="known to have none: it kept no checkpoint"):
        coverage.only("epoch=3", History())
    with pytest.raises(UsageError, match="is no place in a run"):
        coverage.only("epoch=..", _TWO)
