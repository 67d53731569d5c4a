"""A probe is all statements that were added together: what is around them in the program that runs must be around all of them."""

from __future__ import annotations

import ast

from rearview.instrument import rewrite
from rearview.model import RunId, VersionId
from rearview.replay.running.units import Unit
from rearview.replay.worker import becoming as worker

_TEXT = """\
import rearview as rv
for k in rv.loop("k", range(2)):
    x = k
    rv.log("one", x)
    half = x / 2
    rv.log("two", half)
"""


def _unit(*probes: dict[str, object]) -> Unit:
    return Unit(
        replay="p1", number=0, run=RunId("r1"), store="s", project="p", version=VersionId("v1"), recorded_version=VersionId("v0"),
        scratch="c", probes=probes,
    )  # fmt: skip


def test_every_statement_of_a_probe_is_wrapped() -> None:
    probe = {"file": "train.py", "line": 4, "place": [4, 4, 6, 23], "names": ["two"], "text": "rv.log('two', half)"}
    spans = worker.spans(_unit(probe))["train.py"]
    loop = rewrite.rewrite(ast.parse(_TEXT), spans).body[1]
    assert isinstance(loop, ast.For)
    around = loop.body[-1]
    assert isinstance(around, ast.With)
    assert [one.lineno for one in around.body] == [4, 5, 6]


def test_a_probe_without_a_place_is_its_line() -> None:
    assert worker.spans(_unit({"file": "a.py", "line": 4, "names": [None], "text": ""})) == {"a.py": [(4, 0)]}
