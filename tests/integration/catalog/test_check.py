"""Is the store whole, what is wrong with it, and what a repair does and does not do."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zlib
from pathlib import Path

import pytest

from rearview.catalog import Catalog
from rearview.errors import Damaged, NoSuchRun, StoreError
from rearview.model import RunId
from rearview.store import objects
from rearview.store.check import check, remove_run, repair
from rearview.store.layout import open_store
from rearview.store.runs import read_run
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    made = StoreBuilder(tmp_path)
    for _ in range(2):
        process = made.run().process()
        for _ in process.loop("step", range(20)):
            process.log("loss", 0.5)
        process.end()
    with Catalog(made.store) as catalog:
        assert len(catalog.table(["loss"])) == 40
    return made


def journal(builder: StoreBuilder) -> Path:
    return next(builder.store.run(builder.runs[0].run).glob("*.journal"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_whole_store_has_nothing_to_say(builder: StoreBuilder) -> None:
    assert check(builder.store) == [] and repair(builder.store) == []


def test_a_torn_tail_is_a_note(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.log("x", 1)
    process.stop()
    path = next(builder.store.run(builder.runs[2].run).glob("*.journal"))
    path.write_bytes(path.read_bytes()[:-3])
    (finding,) = check(builder.store)
    assert finding.severity == "note" and finding.path == path and "unfinished write" in finding.problem
    assert repair(builder.store) == []


def test_a_damaged_journal_is_set_aside_and_its_good_frames_kept(builder: StoreBuilder) -> None:
    path = journal(builder)
    flip(path, path.stat().st_size // 2)
    hurt = path.read_bytes()
    assert [finding.severity for finding in check(builder.store)] == ["damage"]
    (said,) = repair(builder.store)
    assert "set aside" in said and path.with_name(path.name + ".damaged").read_bytes() == hurt
    for _ in range(2):
        (left,) = check(builder.store)
        assert (left.severity, left.path) == ("note", path.with_name(path.name + ".damaged")), "it is said as long as it is there"
        assert f"records may be missing from {path.parent.name} (" in left.problem and "at offset" in left.problem
        assert repair(builder.store) == []
    with Catalog(builder.store) as catalog:
        assert catalog.damage() == [] and len(catalog.table(["loss"])) == 39
    left.path.unlink()
    assert check(builder.store) == []


def test_objects_and_source_are_verified(builder: StoreBuilder) -> None:
    key = objects.put(builder.store, b"some bytes")
    flip(objects.path_of(builder.store, key), 3)
    loose = builder.store.code / "objects" / "ab" / ("c" * 38)
    loose.parent.mkdir(parents=True)
    loose.write_bytes(b"not zlib")
    found = {finding.path: finding for finding in check(builder.store)}
    assert found[objects.path_of(builder.store, key)].severity == "damage" and found[loose].severity == "damage"
    repair(builder.store)
    assert loose.exists(), "truth is never deleted"


def test_a_damaged_segment_is_a_note_and_goes(builder: StoreBuilder) -> None:
    flip(next(builder.store.segments.glob("records-*.parquet")), 20)
    assert {finding.severity for finding in check(builder.store)} == {"note"}
    assert repair(builder.store) and check(builder.store) == []


def test_store_json_is_written_anew(builder: StoreBuilder) -> None:
    builder.store.store_json.write_text("{")
    with pytest.raises(Damaged):
        open_store(builder.store.root)
    assert [finding.severity for finding in check(builder.store)] == ["damage"]
    repair(builder.store)
    assert open_store(builder.store.root) and json.loads(builder.store.store_json.read_text())["format"] == 1
    assert (builder.store.root / "store.json.damaged").read_text() == "{"
    assert [(finding.severity, finding.path.name) for finding in check(builder.store)] == [("note", "store.json.damaged")]


def test_flipped_bytes_of_run_json_are_found(builder: StoreBuilder) -> None:
    path = builder.store.run(builder.runs[0].run) / "run.json"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        flip(path, at)
        if json.loads(whole) == _json(path):
            continue  # white space
        (finding,) = check(builder.store)
        assert finding.path == path and finding.severity == "damage", path.read_bytes()
        with pytest.raises(Damaged, match="run.json"):
            read_run(builder.store, builder.runs[0].run)
        path.write_bytes(whole)
    assert check(builder.store) == [] and list(json.loads(whole))[-1] == "checksum"


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def test_a_run_json_without_a_checksum_is_read(builder: StoreBuilder) -> None:
    path = builder.store.run(builder.runs[0].run) / "run.json"
    facts = json.loads(path.read_bytes())
    del facts["checksum"]
    path.write_text(json.dumps(facts))
    assert read_run(builder.store, builder.runs[0].run)["filename"] == "train.py" and check(builder.store) == []


@pytest.mark.parametrize("name", ["caf\u00e9", "\ud800", "nan", "a\u2028b"], ids=["accent", "surrogate", "nan", "separator"])
def test_any_text_has_a_checksum_that_holds(builder: StoreBuilder, name: str) -> None:
    run = builder.run(name=name, environment={"x": math.nan, "y": -0.0, "z": 1e300, "k": {"b": 1, "a": [None, True]}}).run
    assert read_run(builder.store, run)["name"] == name
    assert not [finding for finding in check(builder.store) if finding.severity == "damage"]


def test_a_store_that_does_not_ignore_itself(builder: StoreBuilder) -> None:
    path = builder.store.root / ".gitignore"
    for hurt in (path.unlink, lambda: path.write_text("*.tmp\n")):
        hurt()
        assert [(finding.path, finding.severity) for finding in check(builder.store)] == [(path, "note")]
        assert len(repair(builder.store)) == 1 and path.read_bytes() == b"*\n" and check(builder.store) == []


def test_a_malformed_store_id_is_found(builder: StoreBuilder) -> None:
    for ident in (5, "", "../x", "G" * 32):
        builder.store.store_json.write_text(json.dumps({"format": 1, "id": ident}))
        assert [(finding.path, finding.severity) for finding in check(builder.store)] == [(builder.store.store_json, "damage")]


def test_a_store_json_that_cannot_be_opened_is_found(builder: StoreBuilder) -> None:
    builder.store.store_json.unlink()
    builder.store.store_json.mkdir()
    (finding,) = check(builder.store)
    assert finding.path == builder.store.store_json and "cannot be read" in finding.problem


def test_refs_of_versions_are_verified_and_written_anew(builder: StoreBuilder) -> None:
    good, bad = builder.store.code / "refs" / "versions" / ("a" * 40), builder.store.code / "refs" / "versions" / ("b" * 40)
    good.parent.mkdir(parents=True)
    good.write_text("a" * 40 + "\n")
    bad.write_text("a" * 40 + "\n")
    assert [(finding.path, finding.severity) for finding in check(builder.store)] == [(bad, "damage")]
    assert len(repair(builder.store)) == 1
    assert bad.read_text() == "b" * 40 + "\n" and check(builder.store) == []


def test_a_repository_without_its_head_is_found(builder: StoreBuilder) -> None:
    data = b"blob 1\0x"
    name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    path = builder.store.code / "objects" / name[:2] / name[2:]
    path.parent.mkdir(parents=True)
    path.write_bytes(zlib.compress(data))
    assert {finding.path.name for finding in check(builder.store)} == {"HEAD", "config"}
    (builder.store.code / "HEAD").write_text("ref: refs/heads/main\n")
    (builder.store.code / "config").write_text("[core]\n")
    assert check(builder.store) == []


def test_records_that_could_not_be_written_are_said(builder: StoreBuilder) -> None:
    process = builder.run().process()
    process.log("x", 1)
    process.end(lost=7)
    (finding,) = check(builder.store)
    assert finding.severity == "note" and "7 records" in finding.problem
    with Catalog(builder.store) as catalog:
        assert [info.lost for info in catalog.runs()] == [7, 0, 0] and catalog.run_detail("last").lost == 7


def test_leftovers_go_when_they_are_old(builder: StoreBuilder) -> None:
    old, young = builder.store.tmp / "1-old", builder.store.tmp / "1-young"
    builder.store.tmp.mkdir(exist_ok=True)
    old.write_text("x")
    young.write_text("x")
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    assert [finding.path for finding in check(builder.store)] == [old]
    repair(builder.store)
    assert not old.exists() and young.exists()


def test_a_run_is_removed_whole(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    with pytest.raises(StoreError, match="still running"):
        remove_run(builder.store, run, running=True)
    remove_run(builder.store, run, running=True, force=True)
    assert not builder.store.run(run).exists() and not any(builder.store.tmp.iterdir())
    with pytest.raises(NoSuchRun):
        remove_run(builder.store, run)
    with pytest.raises(NoSuchRun):
        remove_run(builder.store, RunId("../runs"))
    assert check(builder.store) == []
