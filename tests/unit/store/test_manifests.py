"""Manifests: written once, read verified, listed in order, whole only with every rank's part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rearview.errors import CheckpointError, Damaged, NoCheckpoint
from rearview.model import ProcessNumber, RunId
from rearview.store import manifests
from rearview.store.layout import Store
from rearview.store.manifests import PIN, THINNED, Buffer, Manifest, ManifestName
from tests.unit.store.checkpoints import RUN, new_store, save


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


FULL = Manifest(
    run=RUN,
    process=ProcessNumber("0.s1"),
    attempt=2,
    number=17,
    part="block",
    path=[["epoch", 0, 3, {"nan": True}], ["lone \ud800", 1, 2, None]],
    tree="xxh3-" + "0" * 32,
    tree_bytes=12,
    buffers=(Buffer(5, "1" * 32, True, "net['\u00e9']", ("2" * 32,)), Buffer(0, "3" * 32, False, "", ())),
    ending="break",
    loops=[{"counts": {"x": 1}, "entered": {"step": 2}}],
    taken_at=123456789,
    wall=1.7e9,
    roots={"given/net": ["4" * 32, 5, "module"]},
    missing=[["sock", "socket.socket", "cannot be kept"]],
    pickled=["opt.thing"],
    files=[{"path": "out.csv", "length": 10, "mode": "a", "content": None}],
    stats={"stall_s": 0.1},
    rank=1,
    world=2,
    complete=False,
    more={"of_a_later_rearview": [1, 2]},
)


def test_a_manifest_comes_back_as_it_was(store: Store) -> None:
    path = manifests.write(store, FULL)
    assert path == store.run(RUN) / "checkpoints" / "0.s1-a2-000017-block.json"
    assert manifests.read(store, FULL.name) == FULL
    assert FULL.size_bytes == 17
    assert [ref.size for ref in FULL.buffers[0].refs()] == [5]


def test_rows_are_those_of_the_buffers_that_are_written(store: Store) -> None:
    """Made once for the two parts of a checkpoint, and anew where the buffers are others."""
    rows = manifests.Rows()
    second = replace(FULL, part="iteration")
    other = replace(FULL, number=18, buffers=(Buffer(7, "5" * 32, False, 'a "name"', ("6" * 32, "7" * 32)), *FULL.buffers))
    for manifest in (FULL, second, other):
        manifests.write(store, manifest, rows)
        assert manifests.read(store, manifest.name) == manifest
    plain = [[one.nbytes, one.digest, int(one.constant), one.where, list(one.chunks)] for one in other.buffers]
    assert json.loads(rows.of(other.buffers)) == plain


def test_it_is_written_once(store: Store) -> None:
    manifests.write(store, FULL)
    with pytest.raises(CheckpointError, match="exists already"):
        manifests.write(store, replace(FULL, wall=0.0))
    assert manifests.read(store, FULL.name).wall == FULL.wall


def test_a_number_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(ValueError):
        manifests.write(store, replace(FULL, stats={"stall_s": float("nan")}))
    assert manifests.list_of(store, RUN) == []


def test_names_of_files_are_names_of_manifests_and_nothing_else() -> None:
    name = ManifestName(RUN, ProcessNumber("0"), 1, 2, "inside")
    assert ManifestName.parse(RUN, f"{name}.json") == name
    good = "0-a1-000002-inside.json"
    for other in ("0-a1-2-inside.json", good[:-5], good.replace("in", "out"), "../" + good, good[1:], good + ".thinned"):
        assert ManifestName.parse(RUN, other) is None
    many = ManifestName(RUN, ProcessNumber("0"), 1, 12345678, "inside")
    assert ManifestName.parse(RUN, f"{many}.json") == many


def test_no_path_comes_from_a_name(store: Store) -> None:
    with pytest.raises(CheckpointError):
        manifests.path_of(store, ManifestName(RUN, ProcessNumber("../../etc"), 1, 1, "block"))
    with pytest.raises(CheckpointError):
        manifests.path_of(store, ManifestName(RUN, ProcessNumber("0"), 1, 1, "/etc"))


def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NoCheckpoint, match="0.s1-a2-000017-block"):
        manifests.read(store, FULL.name)
    assert manifests.list_of(store, RunId("rnone")) == []
    assert manifests.grouped(store, RunId("rnone")) == []


def test_every_changed_byte_is_noticed(store: Store) -> None:
    path = manifests.write(store, FULL)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes((good[at] ^ 4,)) + good[at + 1 :])
        with pytest.raises(Damaged, match="0.s1-a2-000017-block"):
            manifests.read(store, FULL.name)
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(Damaged):
            manifests.read(store, FULL.name)


def test_one_that_lies_under_another_name_is_damaged(store: Store) -> None:
    path = manifests.write(store, FULL)
    path.rename(path.with_name("0-a1-000001-block.json"))
    with pytest.raises(Damaged, match="describes"):
        manifests.read(store, ManifestName(RUN, ProcessNumber("0"), 1, 1, "block"))


def test_the_order_is_that_of_their_lives(store: Store) -> None:
    for number, part in ((10, "iteration"), (9, "inside"), (10, "block"), (2, "iteration")):
        save(store, number, {}, part=part)
    assert [(name.number, name.part) for name in manifests.list_of(store, RUN)] == [
        (2, "iteration"), (9, "inside"), (10, "block"), (10, "iteration"),
    ]  # fmt: skip
    assert [one.order for one in manifests.grouped(store, RUN)] == [(1, 2, 2), (1, 9, 0), (1, 10, 1), (1, 10, 2)]


def test_a_checkpoint_exists_when_every_rank_has_its_part(store: Store) -> None:
    for rank in (2, 0, 1):
        save(store, 1, {"w": bytes((rank,))}, process=str(rank), rank=rank, world=3)
    for rank in (0, 2):
        save(store, 2, {"w": bytes((rank,))}, process=str(rank), rank=rank, world=3)
    save(store, 1, {"w": b"child"}, process="0.1", world=1)
    found = manifests.grouped(store, RUN)
    assert [(one.number, one.whole, [member.process for member in one.members]) for one in found] == [
        (1, True, ["0", "1", "2"]), (1, True, ["0.1"]), (2, False, ["0", "2"]),
    ]  # fmt: skip


def test_a_damaged_part_makes_it_no_checkpoint(store: Store) -> None:
    names = [save(store, 1, {"w": b"x"}, process=str(rank), rank=rank, world=2) for rank in range(2)]
    manifests.path_of(store, names[1]).write_bytes(b"{}")
    damaged: list[Damaged] = []
    (one,) = manifests.grouped(store, RUN, damaged)
    assert not one.whole
    assert len(damaged) == 1


def test_marks(store: Store) -> None:
    name = save(store, 1, {"w": b"x"})
    assert not manifests.has(store, name, THINNED)
    manifests.put_mark(store, name, THINNED, when=1.5, why="budget")
    manifests.put_mark(store, name, PIN)
    manifests.put_mark(store, name, PIN, note="a second time changes nothing")
    assert manifests.read_mark(store, name, THINNED) == {"when": 1.5, "why": "budget"}
    assert manifests.read_mark(store, name, PIN) == {}
    assert manifests.marked(store, RUN, PIN) == {str(name)} == manifests.marked(store, RUN, THINNED)
    assert manifests.grouped(store, RUN)[0].thinned
    assert manifests.list_of(store, RUN) == [name]
    assert manifests.remove_pin(store, name)
    assert not manifests.remove_pin(store, name)
    assert not manifests.has(store, name, PIN)
    with pytest.raises(NoCheckpoint):
        manifests.put_mark(store, replace(name, number=2), PIN)
