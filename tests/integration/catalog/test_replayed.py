"""Replayed values in the rows of their runs: tables, clauses, SQL, provenance; what diverged stays out; forgetting takes all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog import Catalog
from rearview.catalog.sealing import seal, segments
from rearview.model import RunId, VersionId
from rearview.replay import publish
from rearview.replay.journals.logged import recorded
from rearview.replay.running.units import Unit
from rearview.store import check, replays
from rearview.store.layout import Store
from rearview.store.replays import Replay
from rearview.testing.stores import ProcessBuilder, StoreBuilder


class Project:
    """Runs of three epochs with two steps each, and replays of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builder = StoreBuilder(folder / "project")
        self.store = self.builder.store
        self.made = 0

    def run(self, **facts: Any) -> RunId:
        run = self.builder.run(**facts)
        process = run.process()
        process.arg("lr", 0.1)
        self.train(process)
        process.end()
        return run.run

    def train(self, process: ProcessBuilder, **virtual: Any) -> None:
        """`step` and `epoch` are logged under those names beside what is always logged."""
        for epoch in process.loop("epoch", range(3)):
            for step in process.loop("step", range(2)):
                process.log("loss", 1.0 / (1 + 2 * epoch + step))
                if "at_step" in virtual:
                    process.log("at_step", virtual["at_step"] + 2 * epoch + step)
            if epoch % 2 == 0:
                process.log("acc", epoch / 10)
            if "at_epoch" in virtual:
                process.log("at_epoch", virtual["at_epoch"] + epoch)

    def replay(self, run: RunId, *, verdict: str = "identical", created: str = "", verdicts: Any = None, **virtual: Any) -> Replay:
        self.made += 1
        scratch = self.folder / f"unit{self.made}"
        built = StoreBuilder(scratch).run(run)
        built.store.root.rename(scratch / "store")
        built.store = Store(scratch / "store")
        process = built.process()
        self.train(process, **virtual)
        process.fact("unit_done", why="end")
        process.end()
        where: dict[str, Any] = {"store": str(self.store.root), "project": "", "scratch": str(scratch), "run": run, "replay": "pone1"}
        unit = Unit(number=0, version=VersionId("v1"), recorded_version=VersionId("v0"), prefix=True, to_end=True, **where)
        made = Replay(
            id=replays.new_id(), run=run, created=created or f"2026-07-01T10:{self.made:02d}:00.000000+00:00", names=tuple(virtual),
            verdict=verdict, covers=[["iterations", 0, 0, 2]], verdicts=verdicts or {},
        )  # fmt: skip
        publish.publish(self.store, made, [unit], recorded(self.store.run(run)))
        return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def catalog(project: Project) -> Iterator[Catalog]:
    with Catalog(project.store) as opened:
        yield opened


def column(catalog: Catalog, *names: str, **more: Any) -> list[Any]:
    return [row[names[-1]] for row in catalog.table(names, **more).dicts()]


def test_in_the_same_rows(project: Project, catalog: Catalog) -> None:
    run, other = project.run(), project.run()
    assert column(catalog, "loss", "at_epoch") == [None] * 12
    project.replay(run, at_epoch=10)
    rows = catalog.table(["loss", "at_epoch"]).dicts()
    assert [(row["run"], row["epoch"], row["step"], row["at_epoch"]) for row in rows[:6]] == [
        (run, epoch, step, 10 + epoch) for epoch in range(3) for step in range(2)
    ]
    assert [row["at_epoch"] for row in rows[6:]] == [None] * 6 and rows[6]["run"] == other


def test_rows_that_nothing_recorded_are_where_they_would_have_been(project: Project, catalog: Catalog) -> None:
    run = project.run()
    project.replay(run, at_epoch=0)
    rows = catalog.table(["acc", "at_epoch"]).dicts()
    assert [(row["epoch"], row["acc"], row["at_epoch"]) for row in rows] == [(0, 0.0, 0), (1, None, 1), (2, 0.2, 2)]


def test_a_newer_replay_stands(project: Project, catalog: Catalog) -> None:
    run = project.run()
    project.replay(run, at_epoch=10, created="2026-07-02T00:00:00+00:00")
    project.replay(run, at_epoch=20, created="2026-07-01T00:00:00+00:00")
    assert column(catalog, "at_epoch") == [10, 11, 12]
    project.replay(run, at_epoch=30, created="2026-07-03T00:00:00+00:00")
    assert column(catalog, "at_epoch") == [30, 31, 32]


def test_clauses_see_them(project: Project, catalog: Catalog) -> None:
    run, other = project.run(), project.run()
    project.replay(run, at_epoch=10)
    project.replay(other, at_epoch=20)
    assert [info.run for info in catalog.runs(where="max(at_epoch) > 20")] == [other]
    assert column(catalog, "loss", where="at_epoch = 12") == [1 / 5, 1 / 6]
    assert column(catalog, "at_epoch", where="loss < 0.2 AND run = '" + run + "'") == [12]
    assert catalog.sql("SELECT count(*) FROM wide WHERE at_epoch >= 21").rows() == [(4,)]


def test_lists_show_what_the_run_itself_did(project: Project, catalog: Catalog) -> None:
    run = project.run()
    before = catalog.run(run)
    project.replay(run, at_epoch=10, at_step=0)
    after = catalog.run(run)
    assert (after.records, after.last, after.status, after.attempts) == (before.records, before.last, before.status, 1)
    detail = catalog.run_detail(run)
    series = {one.name: one.values for one in detail.series}
    assert series["at_epoch"] == [10, 11, 12] and len(detail.processes) == 1 and len(series["at_step"]) == 6
    assert detail.overlap is None and catalog.overlap(run) is None


def test_provenance(project: Project, catalog: Catalog) -> None:
    run = project.run()
    project.run()
    project.replay(run, at_epoch=10, at_step=0, verdicts={"at_step": "volatile"})
    table = catalog.table(["lr", "acc", "at_epoch", "at_step"], provenance=True)
    words = ("", ".origin", ".verdict", ".statement", ".placement")
    assert table.names[6:] == [name + word for name in ("lr", "acc", "at_epoch", "at_step") for word in words]
    first = table.dicts()[0]
    assert (first["lr.origin"], first["lr.verdict"]) == ("recorded", None)
    assert (first["at_epoch.origin"], first["at_epoch.verdict"]) == ("replayed", "identical")
    assert (first["at_step.origin"], first["at_step.verdict"]) == ("replayed", "volatile")
    assert {row["acc.origin"] for row in table.dicts()} == {"recorded", None}
    last = table.dicts()[-1]
    assert (last["at_epoch"], last["at_epoch.origin"], last["at_epoch.verdict"]) == (None, None, None)
    filtered = catalog.table(["at_epoch"], where="at_epoch = 11", provenance=True).dicts()
    assert [(row["at_epoch"], row["at_epoch.origin"]) for row in filtered] == [(11, "replayed")]


def test_provenance_leaves_as_a_frame(project: Project, catalog: Catalog) -> None:
    pandas = pytest.importorskip("pandas")
    run = project.run()
    project.replay(run, at_epoch=10)
    frame = catalog.table(["acc", "at_epoch"], provenance=True).to_pandas()
    assert list(frame["at_epoch.origin"]) == ["replayed"] * 3 and list(frame["at_epoch.verdict"]) == ["identical"] * 3
    origins = frame["acc.origin"]
    assert list(origins[[0, 2]]) == ["recorded"] * 2 and pandas.isna(origins[1])


def test_what_diverged_is_in_no_table_unless_asked_for(project: Project, catalog: Catalog) -> None:
    run = project.run()
    project.replay(run, at_epoch=10, verdict="divergent")
    assert column(catalog, "at_epoch") == [] and catalog.table(["at_epoch"]).notes == ["nothing was logged as 'at_epoch'"]
    assert "at_epoch" not in {info.name for info in catalog.names()}
    assert column(catalog, "at_epoch", divergent=True) == [10, 11, 12]
    assert column(catalog, "loss", "at_epoch") == [None] * 6
    assert catalog.sql("SELECT count(*) FROM logs WHERE value_name = 'at_epoch'").rows() == [(0,)]
    said = catalog.sql("SELECT value, path, verdict, origin FROM replayed WHERE value_name = 'at_epoch'").rows()
    assert said == [(10 + epoch, f"epoch={epoch}", "divergent", "replayed") for epoch in range(3)]
    assert catalog.sql("SELECT count(*) FROM logs l JOIN replayed r ON l.value_name = r.value_name").rows() == [(0,)]
    older = project.replay(run, at_epoch=20, created="2020-01-01T00:00:00+00:00")
    assert column(catalog, "at_epoch") == [20, 21, 22]
    assert {replay for (replay,) in catalog.sql("SELECT DISTINCT replay FROM logs WHERE origin = 'replayed'").rows()} == {older.id}


def test_sql_says_where_each_came_from(project: Project, catalog: Catalog) -> None:
    run = project.run()
    replay = project.replay(run, at_epoch=10, verdict="close")
    rows = catalog.sql("SELECT value_name, origin, replay, verdict, count(*) FROM logs GROUP BY ALL ORDER BY ALL").rows()
    assert rows == [
        ("acc", "recorded", None, None, 2), ("at_epoch", "replayed", replay.id, "close", 3), ("loss", "recorded", None, None, 6),
        ("lr", "recorded", None, None, 1),
    ]  # fmt: skip
    names = [name for (name,) in catalog.sql("SELECT value_name FROM logs").rows()]
    assert names == ["lr", *["loss"] * 2, "acc", "at_epoch", *["loss"] * 2, "at_epoch", *["loss"] * 2, "acc", "at_epoch"]
    project.replay(run, at_epoch=0.5)
    assert catalog.sql("SELECT count(*), count(DISTINCT replay) FROM replayed").rows() == [(6, 2)]
    assert catalog.sql("SELECT sum(value_float) FROM logs WHERE value_name = 'at_epoch'").rows() == [(4.5,)]
    assert catalog.sql("SELECT logged_at < '2026-07-03'::TIMESTAMP FROM replayed LIMIT 1").rows() == [(True,)]


def test_values_of_any_type_in_the_view(project: Project, catalog: Catalog) -> None:
    run = project.run()
    project.replay(run, at_epoch=10)
    project.replay(run, at_step=0.5)
    assert len(catalog.sql("SELECT value FROM replayed").rows()) == 9
    assert catalog.sql("SELECT * FROM replayed WHERE false").names == catalog.sql("SELECT * FROM logs WHERE false").names


def test_without_replays_the_view_is_empty(project: Project, catalog: Catalog) -> None:
    assert catalog.sql("SELECT * FROM replayed").rows() == []
    project.run()
    assert catalog.sql("SELECT * FROM replayed").rows() == []


def sealed(store: Store) -> list[set[str]]:
    return [{part["file"] for part in segment.parts} for segment in segments.list_segments(store.segments)[0]]


def test_they_are_sealed_apart(project: Project, catalog: Catalog) -> None:
    run = project.run()
    first, second = project.replay(run, at_epoch=10), project.replay(run, at_step=0)
    column(catalog, "at_epoch")
    files = [{f"replays/{one.id}/0-a1-0001.journal" for one in (first, second)}, {"0-a1-0001.journal"}]
    assert sorted(sealed(project.store), key=len) == sorted(files, key=len)


def test_forgetting_takes_them_out_of_tables_and_segments(project: Project, catalog: Catalog) -> None:
    run = project.run()
    first, second = project.replay(run, at_epoch=10), project.replay(run, at_step=0)
    assert column(catalog, "at_epoch") == [10, 11, 12]
    publish.forget(project.store, run, "at_epoch")
    assert column(catalog, "at_epoch") == [] and len(column(catalog, "at_step")) == 6
    held = set().union(*sealed(project.store))
    assert not any(first.id in file for file in held) and any(second.id in file for file in held)
    with Catalog(project.store) as fresh:
        assert column(fresh, "loss", "at_step") == list(range(6))


def test_many_replays_are_merged(project: Project, catalog: Catalog) -> None:
    run = project.run()
    for k in range(seal.MERGE_AT + 1):
        project.replay(run, at_epoch=k)
        assert column(catalog, "at_epoch") == [k, k + 1, k + 2]
    column(catalog, "at_epoch")
    assert len(sealed(project.store)) <= 3
    assert catalog.sql("SELECT count(*) FROM replayed").rows() == [(3 * (seal.MERGE_AT + 1),)]


def test_removing_the_run(project: Project, catalog: Catalog) -> None:
    run, other = project.run(), project.run()
    project.replay(run, at_epoch=10)
    project.replay(other, at_epoch=20)
    column(catalog, "at_epoch")
    check.remove_run(project.store, run)
    assert column(catalog, "at_epoch") == [20, 21, 22]
    column(catalog, "at_epoch")
    assert all(part["run"] == other for segment in segments.list_segments(project.store.segments)[0] for part in segment.parts)


def test_a_resumed_run(project: Project, catalog: Catalog) -> None:
    run = project.run()
    again = project.builder.runs[0].process(attempt=2)
    block = again.enter("epoch", range(3))
    block.iteration = 1
    again.advance(block)
    for step in again.loop("step", range(2)):
        again.log("loss", 100.0 + step)
    again.end()
    project.replay(run, at_epoch=10)
    rows = catalog.table(["loss", "at_epoch"]).dicts()
    assert [row["loss"] for row in rows] == [1.0, 1 / 2, 1 / 3, 1 / 4, 100.0, 101.0]
    assert [row["at_epoch"] for row in rows] == [10, 10, 11, 11, 12, 12]
    overlap = catalog.overlap(run)
    assert overlap is not None and (overlap.again, overlap.differing) == (2, 2)


def test_damage_is_told_and_the_rest_answered(project: Project, catalog: Catalog) -> None:
    run = project.run()
    first, second = project.replay(run, at_epoch=10), project.replay(run, at_step=0)
    path = replays.folder_of(project.store, run, first.id) / replays.FILE
    path.write_text(path.read_text().replace("identical", "divergent"))
    table = catalog.table(["at_epoch", "at_step"])
    assert len(table) == 6 and any(first.id in note for note in table.notes)
    assert [one.id for one in catalog.replays()] == [second.id] and any(first.id in sentence for sentence in catalog.damage())
    replays.forget(project.store, run, first.id)


def test_a_name_that_looks_like_provenance(project: Project, catalog: Catalog) -> None:
    run = project.builder.run()
    process = run.process()
    process.log("a", 1)
    process.log("a.origin", 2)
    process.end()
    table = catalog.table(["a", "a.origin"], provenance=True)
    assert len(set(table.names)) == len(table.names)
    assert table.dicts()[0]["a"] == 1 and 2 in table.rows()[0]
