"""Check and checkpoints: damage is named, what a kill leaves is a note, repair sets aside and puts back."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from rearview.store import check, manifests, objects, packs, sweeping
from rearview.store.layout import Store
from rearview.store.packs import index
from tests.unit.store.checkpoints import RUN, load, new_store, save, staged

W = random.Random(1).randbytes(150_000)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def found(store: Store, severity: str, *, deep: bool = False) -> list[str]:
    all_found = [one for one in check.check(store, deep=deep) if one.severity == severity and "journal" not in one.problem]
    return [f"{one.path.name}: {one.problem}" for one in all_found]


def pack_of(store: Store) -> Path:
    (pack,) = sweeping.packs_with(store, index.PACK)
    return index.pack_path(store, pack)


def test_a_whole_store_has_no_findings(store: Store) -> None:
    name = save(store, 1, {"w": W})
    manifests.put_mark(store, name, manifests.PIN)
    assert found(store, "damage", deep=True) == found(store, "note", deep=True) == []


def test_a_damaged_manifest_is_named_and_set_aside(store: Store) -> None:
    first, second = save(store, 1, {"w": W}), save(store, 2, {"w": W})
    path = manifests.path_of(store, second)
    path.write_bytes(path.read_bytes().replace(b'"wall"', b'"wAll"'))
    (line,) = found(store, "damage")
    assert str(second) in line
    assert any("set aside" in done for done in check.repair(store))
    assert found(store, "damage") == []
    assert manifests.list_of(store, RUN) == [first]
    assert load(store, first) == {"w": W}
    assert path.with_name(path.name + ".damaged").exists()
    (line,) = found(store, "note")
    assert f"run {RUN} does not have it any more" in line


def test_a_chunk_that_is_missing_is_damage_unless_the_checkpoint_was_thinned(store: Store) -> None:
    name = save(store, 1, {"w": W})
    pack_of(store).unlink()
    assert any("in no pack" in line for line in found(store, "damage"))
    manifests.put_mark(store, name, manifests.THINNED)
    assert found(store, "damage") == []
    assert any("index of a pack that is not there" in line for line in found(store, "note"))


def test_a_tree_that_is_missing_is_damage(store: Store) -> None:
    name = save(store, 1, {"w": W})
    objects.path_of(store, manifests.read(store, name).tree).unlink()
    assert any("is missing" in line and str(name) in line for line in found(store, "damage"))


def test_changed_bytes_are_found_by_a_deep_check(store: Store) -> None:
    name = save(store, 1, {"w": W})
    path = pack_of(store)
    with path.open("r+b") as file:
        file.seek(70_000)
        file.write(b"?")
    assert found(store, "damage") == []
    pack, checkpoint = found(store, "damage", deep=True)
    assert path.name in pack and "another hash" in pack
    assert str(name) in checkpoint and "damaged there" in checkpoint


def test_a_pack_that_is_too_short_is_damage(store: Store) -> None:
    save(store, 1, {"w": W})
    os.truncate(pack_of(store), 4096)
    assert any("were written" in line for line in found(store, "damage"))


def test_what_a_killed_writer_or_gc_leaves_is_a_note(store: Store) -> None:
    name = save(store, 1, {"w": W})
    with packs.Packer(store, packs.Known(store)) as packer:
        packer.add(staged(b"unreferenced" * 9000)[0])
        packer.finish()
    stray = index.pack_path(store, "0" * 32)
    stray.write_bytes(b"x")
    (index.folder_of(store) / "notes.txt").write_text("mine")
    listed = index.index_path(store, pack := min(sweeping.packs_with(store, index.INDEX)))
    listed.rename(index.condemned_path(store, pack))
    assert found(store, "damage", deep=True) == []
    notes = found(store, "note")
    assert any("without an index" in line and stray.name in line for line in notes)
    assert any("not named like a pack" in line for line in notes)
    assert any("gc was looking at" in line for line in notes)
    assert load(store, name) == {"w": W}


def test_a_mark_without_its_checkpoint_is_a_note(store: Store) -> None:
    name = save(store, 1, {"w": W})
    manifests.put_mark(store, name, manifests.PIN)
    manifests.path_of(store, name).unlink()
    assert any("marks a checkpoint that is not there" in line for line in found(store, "note"))


def test_repair_puts_back_what_a_killed_gc_had_taken_away(store: Store) -> None:
    name = save(store, 1, {"w": W})
    key = manifests.read(store, name).tree
    os.rename(objects.path_of(store, key), store.tmp / f"gone-{key}")
    assert found(store, "damage")
    assert any("put back" in line for line in check.repair(store))
    assert found(store, "damage") == []
