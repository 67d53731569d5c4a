"""Chunks that were found damaged: nothing new relies on them, and what is written anew makes the older checkpoints whole again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.errors import Damaged
from rearview.model import RunId
from rearview.store import check, gc, manifests, objects, packs
from rearview.store.layout import Store
from rearview.store.packs import Known, Packer, damaged, index
from rearview.store.packs.lacking import lacking
from tests.unit.store.checkpoints import RUN, load, new_store, save, staged
from tests.unit.store.test_packs import MIB, added, files, names, noise, put

pytestmark = pytest.mark.damages_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def damage(store: Store, name: bytes, pack: Path | None = None) -> None:
    """Flip a bit in the middle of a chunk, in one pack or in all of them."""
    for path in [pack] if pack is not None else files(store, index.PACK):
        for other, offset, size in index.read(path.with_suffix(index.INDEX)):
            if other == name:
                data = bytearray(path.read_bytes())
                data[offset + size // 2] ^= 4
                path.write_bytes(data)


def cut_off(store: Store, name: bytes) -> None:
    for path in files(store, index.PACK):
        for other, offset, size in index.read(path.with_suffix(index.INDEX)):
            if other == name:
                path.write_bytes(path.read_bytes()[: offset + size - 1])


@pytest.mark.parametrize("harm", [damage, cut_off])
def test_a_chunk_that_was_found_damaged_is_written_anew_and_older_states_are_whole_again(
    harm: Callable[[Store, bytes], None], store: Store
) -> None:
    first = save(store, 1, {"w": noise(3 * MIB)})
    refs = manifests.read(store, first).buffers[0].refs()
    harm(store, refs[2].digest)
    with pytest.raises(Damaged, match=refs[2].digest.hex()):
        load(store, first)
    second = save(store, 2, {"w": noise(3 * MIB)})
    assert load(store, second) == load(store, first) == {"w": noise(3 * MIB)}
    assert sum(len(index.read(path)) for path in files(store, index.INDEX)) == 3 + 1, "only what was damaged is there twice"


def test_all_that_is_damaged_in_a_pack_is_found_at_once(store: Store) -> None:
    first = save(store, 1, {"w": noise(4 * MIB)}, pack_bytes=1 << 26)
    refs = manifests.read(store, first).buffers[0].refs()
    for ref in (refs[1], refs[3]):
        damage(store, ref.digest)
    with pytest.raises(Damaged):
        load(store, first)
    (path,) = files(store, index.PACK)
    assert damaged.noted(store, path.stem) == {refs[1].digest, refs[3].digest} == set(lacking(store, names(refs)))
    save(store, 2, {"w": noise(4 * MIB)})
    assert load(store, first) == {"w": noise(4 * MIB)}
    assert not lacking(store, names(refs))


def test_a_writer_at_work_learns_what_another_process_found(store: Store) -> None:
    known = Known(store)
    (refs,) = put(store, noise(2 * MIB), known=known)
    with Packer(store, known) as packer:
        packer.add(staged(noise(2 * MIB))[0])
        relied_on = packer.finish().packs
    damage(store, refs[0].digest)
    with pytest.raises(Damaged):
        packs.read_buffer(store, Known(store), refs)
    with Packer(store, known) as packer:
        assert not packer.relies_on(relied_on)
        assert packer.missing(names(refs)) == [refs[0].digest]
        assert added(packer, staged(noise(2 * MIB))[0]) == refs
        assert packer.finish().new_bytes == MIB
        assert packer.missing(names(refs)) == []
    assert packs.read_buffer(store, Known(store), refs) == noise(2 * MIB)


@pytest.mark.parametrize("which", [0, 1])
def test_of_two_copies_the_whole_one_is_read(which: int, store: Store) -> None:
    first, second = Packer(store, Known(store)), Packer(store, Known(store))
    for packer in (first, second):
        refs = added(packer, staged(noise(MIB))[0])
    for packer in (first, second):
        packer.finish()
        packer.close()
    known = Known(store)
    assert packs.read_buffer(store, known, refs) == noise(MIB)
    damage(store, refs[0].digest, files(store, index.PACK)[which])
    assert packs.read_buffer(store, known, refs) == packs.read_buffer(store, Known(store), refs) == noise(MIB)


def test_a_pack_that_was_restored_from_a_copy_is_read_and_after_a_check_relied_on(store: Store) -> None:
    name = save(store, 1, {"w": noise(2 * MIB)})
    (path,) = files(store, index.PACK)
    whole = path.read_bytes()
    damage(store, manifests.read(store, name).buffers[0].refs()[0].digest)
    with pytest.raises(Damaged):
        load(store, name)
    path.write_bytes(whole)
    assert load(store, name) == {"w": noise(2 * MIB)}
    assert not [one for one in check.check(store, deep=True) if one.severity == "damage"]
    assert not files(store, index.DAMAGED)
    with Packer(store, Known(store)) as packer:
        packer.add(staged(noise(2 * MIB))[0])
        assert packer.finish().new_bytes == 0


def test_a_check_notes_what_it_finds(store: Store) -> None:
    name = save(store, 1, {"w": noise(2 * MIB)})
    damage(store, manifests.read(store, name).buffers[0].refs()[1].digest)
    assert [one for one in check.check(store, deep=True) if one.severity == "damage"]
    save(store, 2, {"w": noise(2 * MIB)})
    assert load(store, name) == {"w": noise(2 * MIB)}
    assert {one.path.suffix for one in check.check(store, deep=True) if one.severity == "damage"} == {index.PACK}, "no checkpoint lacks it"


@pytest.mark.parametrize("garbage", [b"", b"x", b"\0" * 16, b"\xff" * 40])
def test_a_note_that_is_damaged_itself_harms_nobody(garbage: bytes, store: Store) -> None:
    name = save(store, 1, {"w": noise(2 * MIB)})
    (path,) = files(store, index.PACK)
    path.with_suffix(index.DAMAGED).write_bytes(garbage)
    assert load(store, name) == {"w": noise(2 * MIB)}
    with Packer(store, Known(store)) as packer:
        packer.add(staged(noise(2 * MIB))[0])
        assert packer.finish().new_bytes == 0


def test_a_store_that_cannot_be_written_to_is_read_from_the_whole_copy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    known = Known(store)
    (refs,) = put(store, noise(MIB), known=known)
    damage(store, refs[0].digest)
    monkeypatch.setattr("rearview.store.packs.damaged.atomic.publish", refused)
    with pytest.raises(Damaged):
        packs.read_buffer(store, known, refs)
    monkeypatch.undo()
    assert not files(store, index.DAMAGED)
    with Packer(store, known) as packer:
        packer.add(staged(noise(MIB))[0])
        assert packer.finish().new_bytes == MIB
    assert packs.read_buffer(store, known, refs) == noise(MIB)


def test_gc_keeps_the_whole_copy_and_takes_the_note_with_its_pack(store: Store) -> None:
    first = save(store, 1, {"w": noise(2 * MIB), "other": noise(2 * MIB, 7)})
    (damaged_pack,) = files(store, index.PACK)
    damage(store, manifests.read(store, first).buffers[0].refs()[0].digest)
    with pytest.raises(Damaged):
        load(store, first)
    second = save(store, 2, {"w": noise(2 * MIB)})
    gc.execute(store, gc.plan(store, grace_s=0))
    assert load(store, first) == {"w": noise(2 * MIB), "other": noise(2 * MIB, 7)}
    assert damaged_pack.exists()
    manifests.path_of(store, first).unlink()
    manifests.path_of(store, second).unlink()
    gc.execute(store, gc.plan(store, grace_s=0))
    assert not damaged_pack.exists()
    assert not files(store, "")


@pytest.mark.parametrize("size", [MIB, 900])
def test_gc_removes_a_damaged_copy_where_another_pack_has_a_whole_one(size: int, store: Store) -> None:
    """However few bytes that frees: until then each check ends with a failure."""
    name = save(store, 1, {"w": noise(size), "other": noise(size, 7)})
    gc.execute(store, gc.plan(store, grace_s=0))
    damage(store, manifests.read(store, name).buffers[0].refs()[0].digest)
    assert [one for one in check.check(store, deep=True) if one.severity == "damage"]
    gc.execute(store, gc.plan(store, grace_s=0))
    told = [one.problem for one in check.check(store, deep=True) if one.severity == "damage"]
    assert told, "no other copy: it stays, and is spoken of"
    assert "gc" not in " ".join(told)
    save(store, 2, {"w": noise(size)})
    (again,) = [one for one in check.check(store, deep=True) if one.severity == "damage"]
    assert "another pack has it whole, and `rearview gc` removes this copy" in again.problem
    gc.execute(store, gc.plan(store))  # nothing in the making relies on it, however young it is
    assert not [one for one in check.check(store, deep=True) if one.severity == "damage"]
    assert load(store, name) == {"w": noise(size), "other": noise(size, 7)}
    assert not files(store, index.DAMAGED)


def test_gc_removes_no_damaged_copy_where_the_other_is_damaged_as_well(store: Store) -> None:
    name = save(store, 1, {"w": noise(MIB), "other": noise(MIB, 7)})
    digest = manifests.read(store, name).buffers[0].refs()[0].digest
    damage(store, digest)
    assert [one for one in check.check(store, deep=True) if one.severity == "damage"]
    (first,) = files(store, index.PACK)
    save(store, 2, {"w": noise(MIB)})
    (second,) = set(files(store, index.PACK)) - {first}
    second.write_bytes(bytes(second.stat().st_size))
    gc.execute(store, gc.plan(store, grace_s=0))
    assert digest in {entry[0] for entry in index.read(first.with_suffix(index.INDEX))}


def test_a_note_without_its_pack_is_spoken_of_and_removed(store: Store) -> None:
    save(store, 1, {"w": noise(MIB)})
    stray = index.damaged_path(store, "0" * 32)
    stray.write_bytes(b"\0" * 16)
    assert stray in [one.path for one in check.check(store, deep=True)]
    gc.execute(store, gc.plan(store, grace_s=0))
    assert not stray.exists()


def test_an_object_of_a_checkpoint_that_is_damaged_is_written_anew(store: Store) -> None:
    key = objects.put(store, b"a tree", durable=True)
    objects.path_of(store, key).write_bytes(b"a tre\0")
    with pytest.raises(Damaged):
        objects.get(store, key)
    assert objects.put(store, b"a tree", durable=True) == key
    assert objects.get(store, key) == b"a tree"


def test_damage_that_somebody_found_is_told_with_the_checkpoints(store: Store) -> None:
    from rearview.catalog import checkpoints

    name = save(store, 1, {"w": noise(MIB)})
    told: list[str] = []
    assert len(checkpoints.of_run(store, RUN, told)) == 1
    assert not told
    damage(store, manifests.read(store, name).buffers[0].refs()[0].digest)
    with pytest.raises(Damaged):
        load(store, name)
    checkpoints.of_run(store, RunId(RUN), told)
    assert len(told) == 1
    assert str(name) in told[0]
    assert files(store, index.PACK)[0].name in told[0]
