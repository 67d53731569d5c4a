"""How a `for` statement got its iterator and let go of it: behind a break the program goes on, a return goes through what is around it."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Iterator

import pytest

from rearview.record.dropped import BREAK, LEFT, RETURN, how_dropped, is_begun_by_for


class Items:
    """An iterator that notes how it was let go of."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return 1

    def __del__(self) -> None:
        frame = sys._getframe(1)
        self._seen.append(how_dropped(frame))


def _ways(body: str) -> list[int]:
    seen: list[int] = []
    text = "def f(items, c, n=0):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    names: dict[str, object] = {}
    exec(compile(text, "dropped", "exec"), names)
    function = names["f"]
    assert callable(function)
    with contextlib.suppress(KeyError):
        function(lambda: Items(seen), contextlib.nullcontext)
    return seen


BREAKS = {
    "plain": "for a in items():\n    if a: break\nelse:\n    n = 1\nn += 1\nprint(end='')\nreturn n",
    "last": "for a in items():\n    n += a\n    if n < 3:\n        continue\n    break\nprint(end='')\nn += 1\nreturn n",
    "in a with": "for a in items():\n    with c():\n        if a: break\nprint(end='')\nn += 1\nreturn n",
    "a with around": "with c():\n    for a in items():\n        if a: break\nreturn n",
    "in a finally": "for a in items():\n    try:\n        if a: break\n    finally:\n        n += 1\nprint(end='')\nn += 1\nreturn n",
    "a try around": "try:\n    for a in items():\n        if a: break\nfinally:\n    n += 1\nreturn n",
    "a loop around": "for k in range(2):\n    for a in items():\n        if a: break\n    n += k\nprint(end='')\nreturn n",
    "in an except": "for a in items():\n    try:\n        {}[a]\n    except KeyError:\n        break\nprint(end='')\nn += 1\nreturn n",
}

RETURNS = {
    "a value": "for a in items():\n    if a: return a + n\nn += 1\nreturn n",
    "nothing": "for a in items():\n    if a: return\nn += 1\nreturn n",
    "a with around": "with c():\n    for a in items():\n        if a: return a + n\nn += 1\nreturn n",
    "a with around, nothing": "with c():\n    for a in items():\n        if a: return\nn += 1\nreturn n",
    "a try around": "try:\n    for a in items():\n        if a: return a + n\nfinally:\n    n += 1\nreturn n",
    "a call in finally": "with c():\n    for a in items():\n        try:\n            if a: return a\n        finally:\n            str()",
    "loops around": "for k in c, c:\n    for m in c, c:\n        for a in items():\n            if a: return a + n\n        n += 1",
    "loops around, nothing": "for k in c, c:\n    for m in c, c:\n        for a in items():\n            if a: return\n        n += 1",
    "from a match": "with c():\n    for a in items():\n        match a:\n            case 1:\n                return 5\nn += 1\nreturn n",
}  # fmt: skip


@pytest.mark.parametrize("body", BREAKS.values(), ids=BREAKS.keys())
def test_a_break(body: str) -> None:
    assert set(_ways(body)) == {BREAK}


@pytest.mark.parametrize("body", RETURNS.values(), ids=RETURNS.keys())
def test_a_return_is_none_whatever_is_around_the_loop(body: str) -> None:
    assert _ways(body) == [RETURN]


def test_an_exception_is_neither() -> None:
    assert _ways("with c():\n    for a in items():\n        {}[a]\nreturn n") == [LEFT]


class Asked:
    def __init__(self) -> None:
        self.by_for: list[bool] = []

    def __iter__(self) -> Iterator[int]:
        self.by_for.append(is_begun_by_for(sys._getframe(1)))
        return iter((1,))


def test_a_for_and_a_comprehension_ask_themselves() -> None:
    asked = Asked()
    for _ in asked:
        pass
    assert [one for one in asked] == [1]  # noqa: C416 (it is what asks)
    assert asked.by_for == [True, True]


def test_what_stands_between_is_seen() -> None:
    asked = Asked()
    for _ in zip(asked, asked, strict=True):
        pass
    for _ in enumerate(asked):
        pass
    assert (next(iter(asked)), list(asked), [*asked]) == (1, [1], [1])
    assert asked.by_for == [False] * 6
