"""What becomes of values that were there before, when an answer is published."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from rearview.replay.answering import _Answering
from rearview.replay.question.query import DIGESTS
from rearview.store import replays
from rearview.store.layout import Store
from rearview.store.replays import Replay
from rearview.testing.stores import StoreBuilder


def _kept(store: Store, ident: str, run: str, digests: dict[str, str], verdict: str = "identical") -> Replay:
    known = {
        "created": f"2026-01-0{ident[-1]}T00:00:00+00:00",
        "covers": [["iterations", 0, 0, 2]],
        "verdict": verdict,
        "more": {DIGESTS: digests},
    }
    replay = Replay(id=ident, run=run, names=tuple(digests), **known)  # type: ignore[arg-type]
    replays.begin(store, replay.run, ident)
    replays.publish(store, replay)
    return replay


@pytest.mark.parametrize(("verdict", "goes"), [("identical", True), ("divergent", False)])
def test_what_another_statement_gave_under_the_name_goes(tmp_path: Path, verdict: str, goes: bool) -> None:
    made = StoreBuilder(tmp_path).run()
    same, other = {"gap": "1"}, {"gap": "0", "pull": "5"}
    _kept(made.store, "pone1", made.run, other)
    _kept(made.store, "ptwo2", made.run, same)
    fresh = _kept(made.store, "pthree3", made.run, same, verdict)
    answering = SimpleNamespace(_prepared=SimpleNamespace(question=SimpleNamespace(digests=same)), _store=made.store)
    _Answering._forget_other_questions(cast(_Answering, answering), fresh)
    left = replays.list_of(made.store, made.run)
    assert ("pone1" in {one.id for one in left}) is not goes
    assert {"ptwo2", "pthree3"} <= {one.id for one in left}, "the same question for other iterations stays"
    assert any("pull" in one.names for one in left), "what else the replay answered stays"
