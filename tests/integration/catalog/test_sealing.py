"""Segments: a cache that may vanish, be damaged, be shared or be refused, and never changes an answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog import Catalog
from rearview.store.check import check, remove_run
from rearview.store.layout import Store
from rearview.testing.stores import ProcessBuilder, StoreBuilder


def train(process: ProcessBuilder, epochs: int = 3, scale: float = 1.0) -> None:
    process.arg("lr", scale)
    for epoch in process.loop("epoch", range(epochs)):
        for step in process.loop("step", ["a", "b"]):
            process.log("loss", scale * epoch + (step == "b") / 10)
        process.log("acc", epoch / 10)


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    made = StoreBuilder(tmp_path)
    for number in range(3):
        process = made.run(name=f"n{number}").process()
        train(process, scale=1.0 + number)
        process.end()
    return made


def rows(store: Store, *names: str) -> list[Any]:
    with Catalog(store) as catalog:
        return catalog.table(names or ("lr", "loss", "acc")).rows()


def indexes(store: Store) -> list[Path]:
    return sorted(store.segments.glob("*.index"))


def test_the_second_answer_comes_from_a_segment(builder: StoreBuilder) -> None:
    first = rows(builder.store)
    assert len(first) == 18 and len(indexes(builder.store)) == 1
    journals = {path: path.stat().st_atime_ns for path in builder.store.runs.glob("*/*.journal")}
    for path in journals:
        path.chmod(0)  # a root user reads it all the same; nobody needs to
    before = indexes(builder.store)[0].stat().st_mtime_ns
    assert rows(builder.store) == first
    assert indexes(builder.store)[0].stat().st_mtime_ns == before
    assert check(builder.store) == []


@pytest.mark.parametrize("hurt", ["truncate", "flip", "remove", "index", "empty"])
def test_a_damaged_segment_is_made_again(builder: StoreBuilder, hurt: str) -> None:
    first = rows(builder.store)
    records = next(builder.store.segments.glob("records-*.parquet"))
    data = records.read_bytes()
    if hurt == "truncate":
        records.write_bytes(data[:-10])
    elif hurt == "flip":
        records.write_bytes(data[:50] + bytes([data[50] ^ 4]) + data[51:])
    elif hurt == "remove":
        records.unlink()
    elif hurt == "index":
        index = indexes(builder.store)[0]
        index.write_bytes(index.read_bytes().replace(b"n1", b"n7"))
    else:
        shutil.rmtree(builder.store.segments)
    assert rows(builder.store) == first
    assert rows(builder.store) == first
    with Catalog(builder.store) as catalog:
        assert [run.name for run in catalog.runs(newest_first=False)] == ["n0", "n1", "n2"]
    assert [finding for finding in check(builder.store) if finding.severity == "damage"] == []


def test_a_removed_run_is_gone_at_once(builder: StoreBuilder) -> None:
    with Catalog(builder.store) as catalog:
        assert len(catalog.table(["loss"])) == 18
        remove_run(builder.store, builder.runs[1].run)
        assert len(catalog.table(["loss"])) == 12
        assert [run.name for run in catalog.runs()] == ["n2", "n0"]
        assert len(catalog.sql("SELECT * FROM logs WHERE value_name = 'loss'")) == 12
    assert {row[1] for row in rows(builder.store)} == {builder.runs[0].run, builder.runs[2].run}


def test_a_live_run_is_followed(builder: StoreBuilder) -> None:
    """Closed parts of a live process are sealed, its open part is read anew each time."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        pytest.skip("needs /proc")
    import platform

    started = int(Path(f"/proc/{os.getpid()}/stat").read_bytes().rpartition(b")")[2].split()[19])
    identity = {"host": platform.node(), "boot_id": boot.read_text().strip(), "pid": os.getpid(), "started": started}
    process = builder.run(name="live").process(process=identity)
    with Catalog(builder.store) as catalog:
        for count in range(1, 6):
            process.log("beat", count)
            assert [row["beat"] for row in catalog.table(["beat"]).dicts()] == list(range(1, count + 1))
            assert catalog.run("live").status == "running" and catalog.run("live").last == {"beat": count}
            if count == 3:
                process.rotate()
        sealed = {entry for path in indexes(builder.store) for entry in (path.read_text().count('"0-a1-0002.journal"'),)}
        assert sealed == {0}, "the open part is nobody's but ours"
    process.stop()


def test_many_small_segments_become_few(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    for number in range(20):
        process = builder.run(name=f"n{number}").process()
        train(process, scale=float(number))
        process.end()
        assert len(rows(builder.store, "loss")) == 6 * (number + 1)
    assert len(indexes(builder.store)) < 8
    expected = rows(builder.store)
    shutil.rmtree(builder.store.segments)
    assert rows(builder.store) == expected
    assert check(builder.store) == []


def test_a_merge_leaves_removed_runs_behind(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    with Catalog(builder.store) as catalog:
        for number in range(5):
            train(process := builder.run().process(), scale=float(number))
            process.end()
            catalog.table(["loss"])
        remove_run(builder.store, builder.runs[2].run)
        for number in range(2):
            train(process := builder.run().process(), scale=float(number))
            process.end()
            catalog.table(["loss"])
        assert len(catalog.table(["loss", "acc", "lr"])) == 36
    assert all(builder.runs[2].run not in path.read_text() for path in indexes(builder.store))


def test_readers_seal_at_once(builder: StoreBuilder) -> None:
    """Eight threads and two processes ask the same at once while segments come and go; every answer is right."""
    expected = [row[1:] for row in rows(builder.store)]
    shutil.rmtree(builder.store.segments)
    wrong: list[Any] = []

    def ask() -> None:
        for _ in range(3):
            try:
                if [row[1:] for row in rows(builder.store)] != expected:
                    wrong.append("another answer")
            except Exception as problem:  # a thread must not lose what went wrong
                wrong.append(problem)

    code = (
        "import sys; from pathlib import Path; from rearview.store.layout import open_store; from rearview.catalog import Catalog\n"
        "for _ in range(3):\n    with Catalog(open_store(Path(sys.argv[1]))) as c: assert len(c.table(['lr', 'loss', 'acc'])) == 18"
    )
    source = str(Path(__file__).resolve().parents[3] / "src")
    others = [
        subprocess.Popen([sys.executable, "-c", code, str(builder.store.root)], env={**os.environ, "PYTHONPATH": source}) for _ in range(2)
    ]
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        shutil.rmtree(builder.store.segments, ignore_errors=True)
    for thread in threads:
        thread.join()
    assert [other.wait() for other in others] == [0, 0]
    assert wrong == []
    assert rows(builder.store)
    assert [finding for finding in check(builder.store) if finding.severity == "damage"] == []


def test_a_store_that_cannot_be_written_is_read(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the refusal is played: no segment appears in the store, the answer is the same."""
    from rearview.catalog.sealing import seal

    monkeypatch.setattr(seal, "writable", lambda folder: False)
    assert len(rows(builder.store)) == 18
    assert not builder.store.segments.exists()


def test_a_full_disk_does_not_stop_an_answer(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    from rearview.catalog.sealing import seal

    real = seal.make

    def full(parts: Any, runs: Any, folder: Path, tmp: Path) -> Any:
        if folder == builder.store.segments:
            raise OSError(28, "No space left on device")
        return real(parts, runs, folder, tmp)

    monkeypatch.setattr(seal, "make", full)
    assert len(rows(builder.store)) == 18


def test_damage_is_named_and_the_rest_answered(builder: StoreBuilder) -> None:
    journal = sorted(builder.store.runs.glob("*/*.journal"))[1]
    whole = journal.read_bytes()
    hurt = bytearray(whole)
    hurt[len(hurt) // 2] ^= 1
    journal.write_bytes(bytes(hurt))
    good = {(row[1], *row[4:]) for row in rows_of_copy(builder, journal, whole)}
    with Catalog(builder.store) as catalog:
        table = catalog.table(["lr", "loss", "acc"])
        assert any("damaged" in note and journal.name in note for note in table.notes)
        assert catalog.damage() and len(table) >= 12
        losses = {(row[1], row[4], row[5], row[7]) for row in table.rows() if row[7] is not None}
        assert losses <= {(run, epoch, step, loss) for run, epoch, step, _, loss, _ in good}
    journal.write_bytes(whole)  # restored from a copy of the same size: believed at once
    with Catalog(builder.store) as catalog:
        assert catalog.damage() == [] and len(catalog.table(["loss"])) == 18


def rows_of_copy(builder: StoreBuilder, journal: Path, whole: bytes) -> list[Any]:
    copy = builder.store.root.parent / "copy"
    shutil.copytree(builder.store.root, copy / ".rearview")
    (copy / ".rearview" / journal.relative_to(builder.store.root)).write_bytes(whole)
    return rows(Store(copy / ".rearview"))


def test_a_damaged_run_json_costs_only_what_it_said(builder: StoreBuilder) -> None:
    path = builder.store.run(builder.runs[1].run) / "run.json"
    path.write_text("{")
    with Catalog(builder.store) as catalog:
        assert len(catalog.table(["loss"])) == 18
        assert any("run.json is damaged" in sentence for sentence in catalog.damage())
        assert len(catalog.runs()) == 3


@pytest.mark.parametrize("runs", [1, 2])
def test_what_a_damaged_run_json_said_is_unknown(tmp_path: Path, runs: int) -> None:
    builder = StoreBuilder(tmp_path / "own")
    for _ in range(runs):
        process = builder.run(name="x").process()
        process.log("a", 1.0)
        process.end()
    path = builder.store.run(builder.runs[0].run) / "run.json"
    path.write_bytes(path.read_bytes().replace(b"train.py", b"brain.py"))
    with Catalog(builder.store) as catalog:
        table = catalog.table(["a"])
        row = table.dicts()[0]
        assert (row["projid"], row["filename"], row["tstamp"], row["a"]) == (None, None, None, 1.0)
        assert any("run.json is damaged" in note and "unknown" in note for note in table.notes)
        frame = table.to_pandas()
        assert frame["tstamp"].isna()[0] and frame["filename"].isna()[0] and str(frame["tstamp"].dtype).startswith("datetime64[us")
        assert table.to_polars()["tstamp"][0] is None and table.to_arrow()["tstamp"][0].as_py() is None
        table.write_parquet(path.parent / "t.parquet")
        assert catalog.sql("SELECT tstamp, filename, projid FROM logs").rows()[0] == (None, None, None)
        assert catalog.sql("SELECT tstamp, filename, projid FROM runs WHERE name IS NULL").rows() == [(None, None, None)]
        assert catalog.table(["a"], where="tstamp < '1980-01-01'").rows() == []
        (info,) = [info for info in catalog.runs() if info.run == builder.runs[0].run]
        assert info.tstamp is None and info.name is None
