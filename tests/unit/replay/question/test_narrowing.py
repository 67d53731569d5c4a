"""Statements that nobody asked for do not run, and nothing else moves."""

from __future__ import annotations

from rearview.instrument.added import Added, added
from rearview.replay.question.narrowing import narrowed

RECORDED = "import rearview as rv\nfor e in rv.loop('e', range(3)):\n    x = e\n"


def _narrowed(current: str, *names: str) -> tuple[Added, str]:
    found = added(RECORDED, current, file="t.py")
    assert isinstance(found, Added)
    less, files = narrowed(found, {"t.py": current}, [log for log in found.logs if log.name in names])
    return less, files["t.py"]


def test_a_statement_beside_goes_and_lines_stay() -> None:
    less, text = _narrowed(RECORDED + "    rv.log('a', x)\n    rv.log('b',\n           x)\n", "a")
    assert text == RECORDED + "    rv.log('a', x)\n    pass\n\n"
    assert [log.name for log in less.logs] == ["a", "b"] and len(less.groups) == 1  # they are one group, which stays


def test_a_group_of_which_nothing_is_left_goes() -> None:
    before = RECORDED.replace("    x = e\n", "    rv.log('b', e)\n    x = e\n")
    less, text = _narrowed(before + "    rv.log('a', x)\n", "a")
    assert [log.name for log in less.logs] == ["a"] and len(less.groups) == 1
    assert "pass\n    x = e" in text and less.logs[0].group == 0


def test_what_others_may_need_stays() -> None:
    current = RECORDED + "    y = x + 1\n    rv.log('b', y)\n    rv.log('a', y); rv.log('c', y)\n"
    _, text = _narrowed(current, "a")
    assert "y = x + 1\n    pass\n" in text and "rv.log('a', y); " in text


def test_a_call_that_shares_a_line_with_one_that_goes_stays() -> None:
    current = RECORDED + "    y = []\n    y.append(x); rv.log('b', y)\n    rv.log('a', y)\n"
    assert "    y.append(x); pass\n    rv.log('a', y)" in _narrowed(current, "a")[1]


def test_all_asked_for_is_all_the_text() -> None:
    current = RECORDED + "    rv.log('a', 'é')\n"
    assert _narrowed(current, "a")[1] == current


def test_a_condition_around_nothing_else_goes_too() -> None:
    block = "    if e % 2:\n        rv.log('b', x)\n    elif len([x]) > 1:\n        with torch.no_grad():\n            rv.log('b', 1)\n"
    less, text = _narrowed(RECORDED.replace("    x = e\n", block.replace("x", "e") + "    x = e\n") + "    rv.log('a', x)\n", "a")
    assert [log.name for log in less.logs] == ["a"] and len(less.groups) == 1
    assert "    pass\n\n\n\n\n    x = e\n    rv.log('a', x)\n" in text


def test_a_condition_that_others_may_need_stays() -> None:
    for block in (
        "    if e % 2:\n        rv.log('b', x)\n        rv.log('a', x)\n",
        "    if check(x):\n        rv.log('b', x)\n    rv.log('a', x)\n",
        "    with timer() as t:\n        rv.log('b', x)\n    rv.log('a', x)\n",
    ):
        text = _narrowed(RECORDED + block, "a")[1]
        assert block.partition("\n")[0] in text and "rv.log('a', x)" in text
