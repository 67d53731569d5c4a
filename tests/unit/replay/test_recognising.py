"""The same question is recognised, and another is not: an answer of the store must be the answer to what is asked now."""

from __future__ import annotations

import pytest

from rearview.instrument.added import Added, added
from rearview.replay.recognising import digest

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
