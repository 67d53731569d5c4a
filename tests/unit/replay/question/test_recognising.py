"""The same question is recognised, and another is not: an answer of the store must be the answer to what is asked now."""

from __future__ import annotations

import pytest

from rearview.instrument.added import Added, added
from rearview.replay.question.narrowing import narrowed
from rearview.replay.question.recognising import digest

RECORDED = """
import rearview as rv

a = 1
for k in rv.loop("k", range(3)):
    a = a + k
    a = a * 2
"""
ASKED = """
import rearview as rv

def twice(x):
    return 2 * x

a = 1
for k in rv.loop("k", range(3)):
    a = a + k
    rv.log("b", twice(a))
    a = a * 2
"""


def _digest(current: str) -> str:
    found = added(RECORDED, current, file="train.py")
    assert isinstance(found, Added), found
    return digest(found, {"train.py": current}, "b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    rv.log", "    # why\n\n    rv.log"),
        ("a = 1\n", "a = 1\nrv.log('first', a)\n"),
        ("    a = a + k\n", "    a = a + k\n    rv.log('other', k)\n"),
        ("def twice", "def thrice(x):\n    return 3 * x\n\ndef twice"),
    ],
)
def test_the_same(old: str, new: str) -> None:
    assert _digest(ASKED.replace(old, new)) == _digest(ASKED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    rv.log("b", twice(a))\n    a = a * 2\n', '    a = a * 2\n    rv.log("b", twice(a))\n'),
        ("return 2 * x", "return 2.0 * x"),
        ("twice(a))", "twice(k))"),
        ('    rv.log("b", twice(a))\n', '    if k:\n        rv.log("b", twice(a))\n'),
    ],
)
def test_another(old: str, new: str) -> None:
    assert old in ASKED and _digest(ASKED.replace(old, new)) != _digest(ASKED)


BRANCHES = """
import rearview as rv

for k in rv.loop("k", range(3)):
    a = k
    if k:
        a = 1
    else:
        a = 2
"""
B = 'rv.log("b", a)\n'


def _digest_of(recorded: str, current: str, asked: str = "b") -> str:
    found = added(recorded, current, file="train.py")
    assert isinstance(found, Added), found
    left, files = narrowed(found, {"train.py": current}, [log for log in found.logs if log.name == asked])
    return digest(left, files, asked)


def test_each_place_in_a_block_is_another() -> None:
    places = [
        BRANCHES.replace("        a = 1\n", "        " + B + "        a = 1\n"),
        BRANCHES.replace("        a = 1\n", "        a = 1\n        " + B),
        BRANCHES.replace("        a = 2\n", "        " + B + "        a = 2\n"),
        BRANCHES + "        " + B,
        BRANCHES + "    " + B,
        BRANCHES.replace("    if k", "    " + B + "    if k"),
    ]
    assert len({_digest_of(BRANCHES, one) for one in places}) == len(places)


def test_a_place_is_the_same_whatever_else_was_left_out_before_it() -> None:
    early, late = "    a = a + k\n", "    a = a * 2\n"
    beside = RECORDED.replace(early, "    rv.log('other', k)\n" + early + "    " + B)
    alone = RECORDED.replace(early, early + "    " + B)
    moved = RECORDED.replace(late, late + "    " + B)
    assert _digest_of(RECORDED, beside) == _digest_of(RECORDED, alone) != _digest_of(RECORDED, moved)
    together = RECORDED.replace(early, early + "    rv.log('other', k)\n    " + B)
    assert _digest_of(RECORDED, together) == _digest_of(RECORDED, alone)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("t = a", "", "", "rv.log('b', t)"), ("", "t = a", "", "rv.log('b', t)")),  # the temporary was moved
        (("", "", "t = a", "rv.log('b', t); t = k"), ("", "", "t = a", "t = k; rv.log('b', t)")),
        (("t = []", "", "", "t.append(a); rv.log('b', sum(t))"), ("t = []", "", "", "t.append(k); rv.log('b', sum(t))")),
    ],
)
def test_what_makes_its_value_counts_with_its_place(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    def current(lines: tuple[str, ...]) -> str:
        first, second, third, fourth = (f"    {line}\n" if line else "" for line in lines)
        early = RECORDED.replace("    a = a + k\n", first + "    a = a + k\n" + second)
        return early.replace("    a = a * 2\n", "    a = a * 2\n" + third + fourth)

    assert _digest_of(RECORDED, current(one)) != _digest_of(RECORDED, current(other))
