"""What was replayed fills the table as if it had been logged from the start; what was recorded is never replaced."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.catalog import Catalog
from rearview.model import RunId, VersionId
from rearview.replay import publish
from rearview.replay.journals.logged import recorded
from rearview.replay.proof.compare import compare
from rearview.replay.running.units import Unit
from rearview.store import check, replays
from rearview.store.layout import Store
from rearview.store.replays import Replay
from rearview.testing.stores import StoreBuilder
from tests.laws import examples
from tests.property.test_table import LONG, NAMES, Runner, program, same

RUN = RunId("r000000000000")


def a_unit(scratch: Path, store: Store, number: int = 0) -> Unit:
    versions: dict[str, Any] = {"version": VersionId("v1"), "recorded_version": VersionId("v0")}
    return Unit(
        replay="p0", number=number, run=RUN, store=str(store.root), project=str(store.project), scratch=str(scratch), to_end=True,
        prefix=True, **versions,
    )  # fmt: skip


def a_replay(names: tuple[str, ...], created: int = 0, verdict: str = "identical") -> Replay:
    when = f"2026-07-01T00:00:{created:02d}.000000+00:00"
    return Replay(id=replays.new_id(), run=RUN, created=when, names=names, verdict=verdict, covers=[["prefix"], ["end"]])


def without(statements: list[Any], names: set[str]) -> list[Any]:
    """The program before the statements that log some names were added."""
    made = []
    for statement in statements:
        if statement[0] == "loop":
            made.append((*statement[:3], without(statement[3], names)))
        elif statement[0] == "if":
            made.append((*statement[:2], without(statement[2], names)))
        elif statement[0] != "log" or statement[1] not in names:
            made.append(statement)
    return made


def run_it(project: Path, programs: dict[str, list[Any]]) -> Store:
    builder = StoreBuilder(project)
    run = builder.run(RUN)
    for number, statements in programs.items():
        process = run.process(number)
        Runner(process, 0, []).body(statements, (), (), {}, {})
        process.fact("unit_done", why="end")
        process.end()
    return builder.store


def worker(folder: Path, programs: dict[str, list[Any]]) -> None:
    """What a worker leaves: its scratch store is at `<scratch>/store`."""
    run_it(folder, programs).root.rename(folder / "store")


def rows_of(store: Store, asked: list[str]) -> list[dict[str, Any]]:
    with Catalog(store) as catalog:
        return catalog.table(asked).dicts()


def alike(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    return len(left) == len(right) and all(
        one.keys() == other.keys() and all(same(one[key], other[key]) for key in one) for one, other in zip(left, right, strict=True)
    )


programs = st.dictionaries(st.sampled_from(["0", "0.1"]), program, min_size=1, max_size=2)
virtual = st.sets(st.sampled_from(NAMES), min_size=1, max_size=3)


@settings(max_examples=400 if LONG else examples(12), deadline=None, derandomize=not LONG)
@given(programs, virtual, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
def test_as_if_it_had_been_logged_from_the_start(programs: dict[str, list[Any]], virtual: set[str], asked: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        full = run_it(Path(folder) / "full", programs)
        before = run_it(Path(folder) / "before", {number: without(body, virtual) for number, body in programs.items()})
        worker(Path(folder) / "unit", programs)
        unit = a_unit(Path(folder) / "unit", before)
        truth = recorded(before.run(RUN))
        found = compare(truth, publish.stretches([unit], publish.manifest_reader(before, RUN)), virtual)
        assert found.identical
        publish.publish(before, a_replay(tuple(sorted(virtual))), [unit], truth)
        assert alike(rows_of(before, asked), rows_of(full, asked))
        assert check.check(before) == []


@settings(max_examples=200 if LONG else examples(10), deadline=None, derandomize=not LONG)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["recorded", "identical", "close", "divergent"])), max_size=12), st.booleans())
def test_recorded_stands_then_the_newest_that_can_be_trusted(said: list[tuple[int, str]], apart: bool) -> None:
    """Each source has a value for some epochs: what the frame shows of an epoch, and where it says it came from."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as scratch:
        builder = StoreBuilder(Path(folder))
        run = builder.run(RUN)
        process = run.process()
        for epoch in process.loop("epoch", range(6)):
            process.log("i", epoch)
            if (epoch, "recorded") in said:
                process.log("g", -1.0)
        process.end()
        wanted: dict[int, tuple[float, str, str | None]] = {epoch: (-1.0, "recorded", None) for epoch, who in said if who == "recorded"}
        with Catalog(builder.store) as catalog:
            for number, (epoch, verdict) in enumerate(said):
                if verdict == "recorded":
                    continue
                replay = a_replay(("g",), number, verdict)
                unit = a_unit(Path(scratch) / str(number), builder.store)
                worker(Path(scratch) / str(number), {"0": [("loop", "epoch", range(6), [("if", epoch, [("log", "g", float(number))])])]})
                publish.publish(builder.store, replay, [unit], recorded(builder.store.run(RUN)))
                if verdict != "divergent" and wanted.get(epoch, (0.0, "", None))[1] != "recorded":
                    wanted[epoch] = (float(number), "replayed", verdict)
                if apart:
                    catalog.table(["g"])
            rows = catalog.table(["i", "g"], provenance=True).dicts()
        assert [row["epoch"] for row in rows] == list(range(6))
        shown = {row["epoch"]: (row["g"], row["g.origin"], row["g.verdict"]) for row in rows if row["g"] is not None}
        assert shown == wanted
