"""What a new checkpoint may rely on: packs that are still what they were, whoever thinned, condemned or removed them meanwhile."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from rearview.errors import Damaged
from rearview.store import leases, packs
from rearview.store.layout import Store
from rearview.store.packs import Known, Packer, index
from tests.unit.store.checkpoints import new_store, staged
from tests.unit.store.test_packs import MIB, added, files, names, noise, put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def test_a_lease_is_held_until_the_manifest_is_there(store: Store) -> None:
    packer = Packer(store, Known(store))
    assert not leases.live(store)
    packer.add(staged(b"x")[0])
    packer.finish()
    assert len(leases.live(store)) == 1
    packer.close()
    assert not leases.live(store)


def test_what_went_is_written_again(store: Store) -> None:
    known = Known(store)
    (refs,) = put(store, noise(2 * MIB), known=known)
    for path in files(store, ""):
        path.unlink()
    with Packer(store, known) as packer:
        assert packer.missing(names(refs)) == list(names(refs))
        assert added(packer, staged(noise(2 * MIB))[0]) == refs
        assert packer.missing(names(refs)) == []
        assert packer.finish().new_bytes == 2 * MIB
    assert packs.read_buffer(store, Known(store), refs) == noise(2 * MIB)


@pytest.mark.parametrize("happens", ["gone", "thinned", "thinned and looked at", "unknown"])
def test_packs_that_are_not_what_they_were_are_not_relied_on(happens: str, store: Store) -> None:
    known = Known(store)
    with Packer(store, known) as packer:
        (name, _) = packer.add(staged(noise(2 * MIB))[0])
        relied_on = packer.finish().packs
    (path,) = files(store, ".index")
    whole = index.read(path)
    path.unlink()
    if happens.startswith("thinned"):
        path.write_bytes(index.make(whole.pack, whole.size_bytes, [one for one in whole if one[0] == name], constant=False).encode())
    if happens.endswith("looked at"):
        known.refresh()
    if happens == "unknown":
        path.write_bytes(whole.encode())
        known = Known(store)
    with Packer(store, known) as packer:
        assert not packer.relies_on(relied_on)


def test_a_condemned_pack_is_read_and_not_relied_on(store: Store) -> None:
    known = Known(store)
    (refs,) = put(store, noise(MIB), known=known)
    (path,) = files(store, ".index")
    path.rename(path.with_suffix(index.CONDEMNED))
    assert packs.read_buffer(store, known, refs) == noise(MIB)
    assert packs.read_buffer(store, Known(store), refs) == noise(MIB)
    with Packer(store, known) as packer:
        packer.add(staged(noise(MIB))[0])
        assert packer.finish().new_bytes == MIB


def test_a_thinned_pack_is_relied_on_for_what_it_still_lists(store: Store) -> None:
    known = Known(store)
    (refs,) = put(store, noise(2 * MIB), known=known)
    (path,) = files(store, ".index")
    whole = index.read(path)
    smaller = index.make(whole.pack, whole.size_bytes, [entry for entry in whole if entry[0] == refs[0].digest], constant=False)
    path.unlink()
    path.write_bytes(smaller.encode())
    with Packer(store, known) as packer:
        assert packer.missing(names(refs)) == [refs[1].digest]


def test_a_chunk_in_two_packs_is_found_when_one_went(store: Store) -> None:
    """Two writers that did not see each other."""
    first, second = Packer(store, Known(store)), Packer(store, Known(store))
    for packer in (first, second):
        refs = added(packer, staged(noise(MIB))[0])
    for packer in (first, second):
        packer.finish()
        packer.close()
    known = Known(store)
    assert packs.read_buffer(store, known, refs) == noise(MIB)
    place = known.place(refs[0].digest)
    assert place is not None
    index.index_path(store, place.pack).unlink()
    index.pack_path(store, place.pack).unlink()
    with Packer(store, known) as packer:
        assert packer.missing(names(refs)) == []
    assert packs.read_buffer(store, known, refs) == noise(MIB)


def test_what_is_known_is_bounded_and_constant_chunks_stay(store: Store) -> None:
    known = Known(store, limit=8)
    frozen = put(store, noise(3 * MIB, 99), known=known, constant=True)[0]
    later = [put(store, noise(2 * MIB, k), known=known)[0] for k in range(6)]
    fresh = Known(store, limit=8)
    assert all(one.place(ref.digest) for one in (known, fresh) for ref in (*frozen, *later[-1]))
    for one in (known, fresh):
        one.refresh()
        assert sum(one.place(ref.digest) is not None for refs in later for ref in refs) <= 8
        assert [packs.read_buffer(store, one, refs) for refs in later] == [noise(2 * MIB, k) for k in range(6)]
        with Packer(store, one) as packer:
            assert packer.missing(names([*later[0], *later[3]])) == []


def test_what_is_remembered_of_chunks_is_nothing_to_the_garbage_collector(store: Store) -> None:
    """A training has thousands of them, for as long as it lasts."""
    known = Known(store)
    with Packer(store, known) as packer:
        kept = packer.add(staged(noise(2 * MIB))[0])
        packer.finish()
    gc.collect()
    assert not gc.is_tracked(kept)
    assert len(known._where) == 2
    assert not any(gc.is_tracked(place) for place in known._where.values())


def test_a_damaged_index_is_not_relied_on_and_named(store: Store) -> None:
    (refs,) = put(store, noise(MIB))
    (path,) = files(store, ".index")
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    known = Known(store)
    with pytest.raises(Damaged, match=path.stem):
        packs.read_buffer(store, known, refs)
    with Packer(store, known) as packer:
        packer.add(staged(noise(MIB))[0])
        assert packer.finish().new_bytes == MIB
    assert packs.read_buffer(store, known, refs) == noise(MIB)
