"""gc: what nobody refers to goes, everything else stays, also beside writers, after a kill and on a full disk."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rearview.errors import CheckpointError
from rearview.model import ArraySummary, ProcessNumber, RunId
from rearview.store import atomic, check, direct, frames, gc, journal, leases, manifests, objects, packs, runs, sweeping, thinning
from rearview.store.encoding import encode
from rearview.store.layout import Store
from rearview.store.packs import index
from tests.unit.store.checkpoints import RUN, load, new_store, save, staged

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def noise(size: int, seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(size)


def collect(store: Store, *drop: manifests.ManifestName, **how: Any) -> gc.GcDone:
    return gc.execute(store, gc.plan(store, drop, grace_s=0.0, **how), wait_s=0.5)


def damage(store: Store) -> list[str]:
    return [f"{one.path}: {one.problem}" for one in check.check(store, deep=True) if one.severity == "damage"]


def notes(store: Store) -> list[str]:
    found = [one for one in check.check(store, deep=True) if one.severity == "note" and "journal" not in one.problem]
    return [f"{one.path.name}: {one.problem}" for one in found]


def on_disk(store: Store) -> int:
    folder = index.folder_of(store)
    return sum(path.stat().st_blocks * 512 for path in folder.glob("*.pack"))


def test_what_is_referred_to_stays(store: Store) -> None:
    names = [save(store, k, {"w": noise(2 * MIB, k)}) for k in range(3)]
    done = collect(store)
    assert (done.bytes_freed, done.packs_removed, done.objects_removed, done.kept) == (0, 0, 0, [])
    assert [load(store, name)["w"] for name in names] == [noise(2 * MIB, k) for k in range(3)]


def test_a_dropped_checkpoint_loses_its_bytes_and_keeps_its_digests(store: Store) -> None:
    names = [save(store, k, {"w": noise(2 * MIB, k), "frozen": noise(MIB, 77)}) for k in range(3)]
    plan = gc.plan(store, names[:2], why="keeps the newest", grace_s=0.0)
    assert not manifests.has(store, names[0], manifests.THINNED), "a plan touches nothing"
    assert plan.packs_removed
    assert plan.bytes_free >= 4 * MIB
    assert any("keeps the newest" in line for line in plan.reasons)
    done = gc.execute(store, plan)
    assert done.bytes_freed == plan.bytes_free, "what was announced"
    assert load(store, names[2]) == {"w": noise(2 * MIB, 2), "frozen": noise(MIB, 77)}
    assert manifests.read_mark(store, names[0], manifests.THINNED)["why"] == "keeps the newest"
    assert manifests.read(store, names[0]).buffers[0].digest
    assert on_disk(store) == 3 * MIB
    assert damage(store) == []
    assert collect(store).bytes_freed == 0


def test_a_pack_that_is_needed_in_part_gets_holes(store: Store) -> None:
    known = packs.Known(store)
    first = save(store, 1, {"a": noise(3 * MIB, 1), "small": b"x" * 300, "b": noise(2 * MIB, 2)}, pack_bytes=1 << 28)
    second = save(store, 2, {"b": noise(2 * MIB, 2), "small": b"x" * 300}, known=known)
    assert len(sweeping.packs_with(store, index.PACK)) == 1
    done = collect(store, first, only_packs=True)
    assert (done.packs_removed, done.packs_thinned) == (0, 1)
    assert done.bytes_freed == 3 * MIB
    assert on_disk(store) == 2 * MIB + direct.PAGE
    assert load(store, second) == {"b": noise(2 * MIB, 2), "small": b"x" * 300}
    assert damage(store) == []
    assert notes(store) == []
    again = save(store, 3, {"a": noise(3 * MIB, 1), "b": noise(2 * MIB, 2)}, known=known)
    assert load(store, again)["a"] == noise(3 * MIB, 1), "what was dropped is written anew"
    assert on_disk(store) == 5 * MIB + direct.PAGE


def test_where_holes_cannot_be_punched_a_pack_stays_until_all_of_it_is_unneeded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_fallocate", lambda *_: False)
    first = save(store, 1, {"a": noise(3 * MIB, 1), "b": noise(MIB, 2)}, pack_bytes=1 << 28)
    second = save(store, 2, {"b": noise(MIB, 2)})
    assert collect(store, first, only_packs=True).bytes_freed == 0
    assert load(store, second) == {"b": noise(MIB, 2)}
    assert collect(store, second).packs_removed == 1
    assert on_disk(store) == 0


def test_holes_are_whole_pages_that_no_chunk_touches() -> None:
    page = direct.PAGE
    entries = [(b"", 0, 10), (b"", 3 * page + 1, 5), (b"", 6 * page, 2 * page)]
    assert list(thinning.holes(entries, 10 * page)) == [(page, 2 * page), (4 * page, 2 * page), (8 * page, 2 * page)]
    assert list(thinning.holes([], 2 * page)) == [(0, 2 * page)]
    assert list(thinning.holes([(b"", 0, 2 * page)], 2 * page)) == []


def test_a_pinned_checkpoint_stays(store: Store) -> None:
    name = save(store, 1, {"w": noise(MIB, 1)})
    manifests.put_mark(store, name, manifests.PIN)
    plan = gc.plan(store, [name])
    assert plan.drop == ()
    assert any("pinned" in line for line in plan.kept)
    gc.execute(store, plan)
    assert load(store, name) == {"w": noise(MIB, 1)}


def test_what_no_manifest_named_is_young_for_a_while(store: Store) -> None:
    with packs.Packer(store, packs.Known(store)) as packer:
        packer.add(staged(noise(MIB, 1))[0])
        packer.finish()
    plan = gc.plan(store)
    assert plan.packs_removed == ()
    assert any("in the making" in line for line in plan.kept)
    assert len(gc.plan(store, grace_s=0.0).packs_removed) == 1


def test_what_waits_is_said(store: Store) -> None:
    name = save(store, 1, {"w": noise(100, 1)})
    plan = gc.plan(store, [name])
    assert plan.objects_removed == ()
    assert [line for line in plan.kept if "1 object of no record and no checkpoint" in line and "less than 10 minutes old" in line]
    assert not gc.plan(store).kept, "what is used does not wait"
    assert not gc.plan(store, [name], grace_s=0.0).kept


def test_a_writer_that_began_before_is_waited_for(store: Store) -> None:
    """The bytes of a dropped checkpoint are needed again by one in the making."""
    name = save(store, 1, {"w": noise(MIB, 1)})
    plan = gc.plan(store, [name])
    with packs.Packer(store, packs.Known(store)) as packer:
        refs = packs.refs_of(MIB, packer.add(staged(noise(MIB, 1))[0]))
        assert packer.finish().new_bytes == 0, "it relies on the pack"
        done = gc.execute(store, plan, wait_s=0.2)
        assert done.bytes_freed == 0
        assert any("run gc again" in line for line in done.kept)
        assert packs.read_buffer(store, packs.Known(store), refs) == noise(MIB, 1)
        assert sweeping.packs_with(store, index.INDEX), "and it is as it was"


def test_what_is_needed_again_by_the_end_of_the_wait_stays(store: Store) -> None:
    name = save(store, 1, {"w": noise(MIB, 1)})
    plan = gc.plan(store, [name])
    packer = packs.Packer(store, packs.Known(store))
    packer.add(staged(noise(MIB, 1))[0])
    packer.finish()
    result: list[gc.GcDone] = []
    thread = threading.Thread(target=lambda: result.append(gc.execute(store, plan, wait_s=20)))
    thread.start()
    while not sweeping.packs_with(store, index.CONDEMNED):
        time.sleep(0.01)
    second = save(store, 2, {"w": noise(MIB, 1)})  # one that begins now writes anew
    assert len(sweeping.packs_with(store, index.PACK)) == 2
    tree = objects.put(store, b"tree")
    facts = manifests.read(store, second)
    third = manifests.Manifest(run=RUN, process=ProcessNumber("0"), attempt=1, number=3, part="block", path=[], tree=tree, tree_bytes=4,
                               buffers=facts.buffers)  # fmt: skip
    manifests.write(store, third)
    packer.close()
    thread.join()
    assert result[0].kept == []
    assert load(store, third.name) == load(store, second) == {"w": noise(MIB, 1)}
    assert damage(store) == []


def test_a_pack_whose_index_is_about_to_come_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = atomic.publish

    def gc_before(path: Path, *args: Any, **how: Any) -> bool:
        if path.suffix == index.INDEX and path.parent == index.folder_of(store):
            monkeypatch.undo()
            collect(store)
        return real(path, *args, **how)

    monkeypatch.setattr(atomic, "publish", gc_before)
    assert load(store, save(store, 1, {"w": noise(MIB, 1)})) == {"w": noise(MIB, 1)}


def twins(store: Store, count: int = 2) -> list[manifests.ManifestName]:
    """Checkpoints with the same bytes by writers that did not see each other."""
    strangers = [packs.Known(store) for _ in range(count)]
    for known in strangers:
        known.refresh()
    return [save(store, k, {"same": noise(2 * MIB, 1), "own": noise(MIB, 10 + k)}, known=known) for k, known in enumerate(strangers)]


def test_bytes_that_are_there_twice_are_kept_once(store: Store) -> None:
    names = twins(store, 3)
    assert on_disk(store) == 9 * MIB
    reading = packs.Known(store)
    places = [reading.places(ref.digest for ref in manifests.read(store, name).buffers[0].refs()) for name in names]
    collect(store)
    collect(store)
    assert on_disk(store) == 5 * MIB
    assert damage(store) == []
    for k, name in enumerate(names):
        assert load(store, name) == {"same": noise(2 * MIB, 1), "own": noise(MIB, 10 + k)}
        refs = manifests.read(store, name).buffers[0].refs()
        assert packs.read_buffer(store, reading, refs) == noise(2 * MIB, 1), f"a reader that still looks at {places[k]}"


@pytest.mark.parametrize("which", [0, 1])
def test_the_only_good_copy_stays(store: Store, which: int) -> None:
    names = twins(store)
    (pack, *_) = [sorted(sweeping.packs_with(store, index.INDEX))[which]]
    ref = manifests.read(store, names[0]).buffers[0].refs()[0]
    path = index.pack_path(store, pack)
    at = next(offset for name, offset, _ in index.read(index.index_path(store, pack)) if name == ref.digest)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"?")
    collect(store)
    good = [
        one
        for one in sweeping.packs_with(store, index.INDEX)
        for name, offset, size in index.read(index.index_path(store, one))
        if name == ref.digest and packs.digest(index.pack_path(store, one).read_bytes()[offset : offset + size]) == name
    ]
    assert good, "a copy that is damaged stands for no other"


def test_one_gc_at_a_time(store: Store) -> None:
    with sweeping.alone(store) as got_it:
        assert got_it
        with pytest.raises(CheckpointError, match="another gc"):
            gc.execute(store, gc.GcPlan())


def test_a_damaged_manifest_keeps_the_packs_it_names(store: Store) -> None:
    name = save(store, 1, {"w": noise(2 * MIB, 1)})
    path = manifests.path_of(store, name)
    data = path.read_bytes()
    chunk = manifests.read(store, name).buffers[0].chunks[0].encode()
    path.write_bytes(data.replace(chunk, b"f" * 32))
    assert collect(store).bytes_freed == 0
    path.write_bytes(data)
    assert load(store, name) == {"w": noise(2 * MIB, 1)}


def test_a_damaged_index_is_left_alone(store: Store) -> None:
    save(store, 1, {"w": noise(MIB, 1)})
    (pack,) = sweeping.packs_with(store, index.INDEX)
    path = index.index_path(store, pack)
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    assert collect(store).packs_removed == 0
    assert path.exists() and index.pack_path(store, pack).exists()
    assert any(pack in line for line in damage(store))
    path.write_bytes(good)


def test_removing_a_run_frees_the_packs_that_only_it_used(store: Store) -> None:
    other = RunId("r0123456789ac")
    runs.write_run(store, other, {"argv": []})
    save(store, 1, {"w": noise(2 * MIB, 1), "shared": noise(MIB, 3)})
    kept = save(store, 1, {"shared": noise(MIB, 3)}, run=other)
    assert check.remove_run(store, RUN) == 2 * MIB
    assert load(store, kept) == {"shared": noise(MIB, 3)}
    assert on_disk(store) == MIB
    assert check.remove_run(store, other) > 0
    assert not list(index.folder_of(store).iterdir())


# Leftovers and objects


def test_leftovers_of_the_dead_go(store: Store) -> None:
    store.tmp.mkdir(exist_ok=True)
    dead, alive, claim = store.tmp / f"{2**22 + 1}-{'0' * 12}", store.tmp / f"{os.getpid()}-{'0' * 12}", store.tmp / "r1-0.claim"
    orphan = index.pack_path(store, "0" * 32)
    orphan.parent.mkdir(parents=True)
    for path in (dead, alive, claim, orphan):
        path.write_bytes(b"x" * 5000)
    plan = gc.plan(store)
    assert plan.leftovers == ()
    time.sleep(0.01)
    done = gc.execute(store, gc.plan(store, grace_s=0.0))
    assert done.bytes_freed == 2 * 8192
    assert alive.exists() and claim.exists()
    assert not dead.exists() and not orphan.exists()


def log(store: Store, key: str) -> None:
    summary = ArraySummary("numpy", "<f8", (2,), 0.0, 1.0, 0.5, 0, (1, 1), key, 16)
    writer = journal.JournalWriter(store.run(RUN), "0")
    writer.open_part(frames.fact_body("hello"))
    writer.append([frames.RECORD_HEAD.pack(frames.RECORD, 0, 0, 0, 0, 0, 0) + encode({"deep": [summary]})])
    writer.close()


def test_an_object_that_a_record_refers_to_stays(store: Store) -> None:
    logged, unused = objects.put(store, b"logged"), objects.put(store, b"unused")
    log(store, logged)
    name = save(store, 1, {"w": b"x"})
    time.sleep(0.01)
    assert gc.plan(store).objects_removed == ()
    plan = gc.plan(store, grace_s=0.0)
    assert plan.objects_removed == (unused,)
    assert gc.execute(store, plan).objects_removed == 1
    assert objects.get(store, logged) == b"logged"
    assert objects.get(store, manifests.read(store, name).tree)
    assert not objects.path_of(store, unused).exists()


def test_the_tree_of_a_dropped_checkpoint_goes(store: Store) -> None:
    name = save(store, 1, {"w": noise(MIB, 1)})
    time.sleep(0.01)
    assert collect(store, name).objects_removed == 1
    assert damage(store) == []


def test_an_object_that_is_put_again_at_that_moment_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    key = objects.put(store, b"x")
    real = os.rename

    def put_before(old: Any, new: Any) -> None:
        assert objects.put(store, b"x") == key
        real(old, new)

    time.sleep(0.02)
    seen = sweeping.settled_objects(store, 0.0)
    monkeypatch.setattr(os, "rename", put_before)
    time.sleep(0.02)
    assert sweeping.remove_object(store, key, seen[key].mtime_ns) == 0
    assert objects.get(store, key) == b"x"
    assert not list(store.tmp.iterdir())


def test_an_object_that_a_killed_gc_took_away_comes_back(store: Store) -> None:
    key = objects.put(store, b"x")
    os.rename(objects.path_of(store, key), store.tmp / f"gone-{key}")
    assert sweeping.recover(store) == [f"object {key} was put back: a gc was killed while it looked at it"]
    assert objects.get(store, key) == b"x"
    assert not list(store.tmp.iterdir())


# Kills and full disks


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(1, 14))
def test_a_gc_that_is_stopped_anywhere_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    known = packs.Known(store)
    drop = [
        save(store, 1, {"a": noise(3 * MIB, 1), "b": noise(2 * MIB, 2)}, pack_bytes=1 << 28, known=known),
        save(store, 2, {"c": noise(2 * MIB, 3)}, known=known),
    ]
    keep = save(store, 3, {"b": noise(2 * MIB, 2)}, known=known)
    plan = gc.plan(store, drop, grace_s=0.0)
    steps = 0

    def step(real: Any) -> Any:
        def call(*args: Any, **how: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == at:
                raise Killed
            return real(*args, **how)

        return call

    for module, name in ((os, "rename"), (Path, "unlink"), (atomic, "publish"), (direct, "punch"), (atomic, "sync_folder"), (os, "link")):
        monkeypatch.setattr(module, name, step(getattr(module, name)))
    try:
        gc.execute(store, plan)
        finished = True
    except Killed:
        finished = False
    monkeypatch.undo()
    assert damage(store) == []
    assert load(store, keep) == {"b": noise(2 * MIB, 2)}
    wanted = {"a": noise(3 * MIB, 1), "b": noise(2 * MIB, 2), "c": noise(2 * MIB, 3)}
    later = save(store, 4, wanted, known=known)  # whatever state it is in, what is needed is put there
    assert load(store, later) == wanted
    time.sleep(0.01)
    collect(store)
    assert notes(store) == []
    assert damage(store) == []
    assert load(store, later) == wanted
    assert load(store, keep) == {"b": noise(2 * MIB, 2)}
    assert finished is (steps < at)
    collect(store, *drop, later)
    assert load(store, keep) == {"b": noise(2 * MIB, 2)}
    assert on_disk(store) <= 4 * MIB, "what the new checkpoint found condemned, it wrote once more"


def test_it_works_with_no_byte_free(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bytes can be written until a pack is gone; names can."""
    first = save(store, 1, {"a": noise(3 * MIB, 1), "b": noise(2 * MIB, 2)}, pack_bytes=1 << 28)
    second = save(store, 2, {"b": noise(2 * MIB, 2)})
    before = on_disk(store)
    real = atomic.write_all

    def full(fd: int, data: Any) -> None:
        if on_disk(store) >= before:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd, data)

    monkeypatch.setattr(atomic, "write_all", full)
    done = collect(store, first)
    assert done.bytes_freed >= 3 * MIB
    assert load(store, second) == {"b": noise(2 * MIB, 2)}
    assert manifests.has(store, first, manifests.THINNED)
    assert damage(store) == []
    assert notes(store) == []


def test_leases_of_the_dead_hold_nothing_up(store: Store) -> None:
    name = save(store, 1, {"w": noise(MIB, 1)})
    pid = os.fork()
    if not pid:
        leases.take(store)
        os._exit(0)
    os.waitpid(pid, 0)
    assert list(leases.folder_of(store).iterdir())
    assert collect(store, name).packs_removed == 1
    assert not list(leases.folder_of(store).iterdir())
