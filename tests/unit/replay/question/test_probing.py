"""Questions that were asked before: what was said of one holds for the same statements; how far each is answered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rearview import config
from rearview.catalog.runs import RunInfo
from rearview.replay.question import probing
from rearview.replay.question.query import Ask, remembered
from rearview.replay.question.sources import Now
from rearview.store import probes
from rearview.store.layout import Store
from rearview.store.probes import Probe
from rearview.testing.stores import StoreBuilder

SOURCE = "import rearview as rv\nx = 1\nrv.log('gap', x)\nrv.log('pull', x)\n"
GAP, PULL = "rv.log('gap', x)", "rv.log('pull', x)"
SAID = {"v1": ["train.py", 4]}


@pytest.mark.parametrize(
    ("names", "statements", "asked", "holds"),
    [
        (("gap",), (GAP,), ("gap",), True),
        (("gap",), (GAP,), ("gap", "pull"), False),  # nobody said where the other goes
        (("gap", "pull"), (GAP, PULL), ("pull",), True),
        (("gap", "pull"), (GAP, PULL), ("pull", "gap"), True),
        (("gap",), ("rv.log('gap', y)",), ("gap",), False),  # another statement of the name
        (("gap",), (GAP,), (), False),
    ],
)
def test_a_place_that_somebody_said(
    tmp_path: Path, names: tuple[str, ...], statements: tuple[str, ...], asked: tuple[str, ...], holds: bool
) -> None:
    store = StoreBuilder(tmp_path).run().store
    (tmp_path / "train.py").write_text(SOURCE)
    probes.write(store, Probe(id="q1", created="2026-01-01", names=names, statements=statements, source="v0", corrected=SAID))
    assert remembered(Now(store, tmp_path, config.load(tmp_path)), Ask(names=asked)) == (SAID if holds else {})


def test_a_reason_stands_where_its_run_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [SimpleNamespace(run=f"r{k}", version=f"v{k}", last={}) for k in range(3)]
    answers = {"r0": [SimpleNamespace(verdict="identical", names=("gap",))]}  # what came before it raised
    monkeypatch.setattr(probing.replays, "list_of", lambda _, run: answers.get(run, []))
    whys = {"v0": "the statement raised", "v1": "this version has no `x`", "v9": "its runs were removed"}
    probe = Probe(id="q1", created="", names=("gap",), statements=(GAP,), source="v0", cannot=whys)
    found = probing.coverage(cast(Store, None), probe, cast(list[RunInfo], runs))
    assert (found.answered, found.cannot, found.left) == (1, 1, 1)
    assert found.reasons == {"v1": whys["v1"]} and found.in_part == {"v0": whys["v0"]}
