"""Truncated and flipped journals: a read gives true records only, and what is damaged is named."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.errors import Damaged, NotFound
from rearview.store import frames, layout, objects
from rearview.testing.stores import StoreBuilder
from tests.integration.record.reading import Read, read_part

FLIPS = int(os.environ.get("REARVIEW_TEST_FLIPS", "2000"))


@pytest.fixture
def journal(project: Path) -> bytes:
    builder = StoreBuilder(project)
    process = builder.run(name="whole").process()
    process.arg("lr", 0.1)
    for epoch in process.loop("epoch", range(1, 6)):
        for step in process.loop("step", ["a", "b", "c"]):
            process.log("loss", 1 / (epoch + ord(step)))
            process.log("text", "word" * epoch)
            process.log("big", 10**40 + epoch)
        process.log("acc", [epoch, {"k": None}])
    process.end()
    (path,) = (project / ".rearview/runs").rglob("*.journal")
    return path.read_bytes()


def reading(data: bytes) -> tuple[Read, frames.Reading]:
    into = Read("r", {})
    return into, read_part(data, "0", into)


def test_truncation_at_every_byte(journal: bytes) -> None:
    whole = [(rec.identity, repr(rec.value)) for rec in reading(journal)[0].records]
    for size in range(len(journal)):
        found, part = reading(journal[:size])
        assert [(rec.identity, repr(rec.value)) for rec in found.records] == whole[: len(found.records)]
        assert not found.damage, "a torn tail is normal"
        assert not part.closed
        assert part.good_bytes + part.torn_bytes == size or size < len(frames.MAGIC)
    assert len(whole) == 51


def damaged(journal: bytes, chance: random.Random) -> bytes:
    data = bytearray(journal)
    at = chance.randrange(len(data))
    kind = chance.randrange(6)
    if kind == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:  # a burst
        for k in range(at, min(at + chance.randrange(1, 64), len(data))):
            data[k] ^= chance.randrange(256)
    elif kind == 2:  # bytes lost in the middle
        del data[at : at + chance.randrange(1, 200)]
    elif kind == 3:  # a block of zeros, as a file system leaves it
        size = chance.randrange(1, 600)
        data[at : at + size] = bytes(min(size, len(data) - at))
    elif kind == 4:  # a piece twice
        size = chance.randrange(1, 300)
        data[at:at] = data[at : at + size]
    else:  # two flips and a torn tail
        data[at] ^= 1 << chance.randrange(8)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        del data[chance.randrange(len(data)) :]
    return bytes(data)


def test_flips_never_give_a_wrong_record(journal: bytes, tally: Callable[[str, int], None]) -> None:
    truth, _ = reading(journal)
    known = {rec.identity: rec for rec in truth.records}
    facts = [repr(fact) for _, fact in truth.facts]
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    unnoticed = 0
    for _ in range(FLIPS):
        data = damaged(journal, chance)
        found, part = reading(data)
        for rec in found.records:
            true = known[rec.identity]
            assert (repr(rec.value), rec.flags) == (repr(true.value), true.flags), f"a wrong value (seed {seed})"
            for said, right in zip(rec.called, true.called, strict=True):
                assert said in (right, None), f"a wrong name of an iteration (seed {seed})"
        assert len({rec.identity for rec in found.records}) == len(found.records), f"a record twice (seed {seed})"
        assert all(repr(fact) in facts for _, fact in found.facts)
        missing = len(known) - len(found.records)
        if missing and not found.damage and not part.torn_bytes:
            unnoticed += data[: part.good_bytes] != journal[: part.good_bytes]
    assert unnoticed == 0, "records are gone from the middle and nothing says so"
    tally("journals damaged", FLIPS)


def test_a_single_flip_in_the_middle_is_named_and_costs_one_frame(journal: bytes) -> None:
    whole = len(reading(journal)[0].records)
    data = bytearray(journal)
    data[len(data) // 2] ^= 1
    found, part = reading(bytes(data))
    assert part.closed
    assert any("offset" in sentence for sentence in found.damage)
    assert whole - 20 <= len(found.records) < whole


def test_frames_cut_out_cleanly_are_named_and_cost_only_themselves(journal: bytes) -> None:
    starts, at = [], len(frames.MAGIC)
    while at < len(journal):
        starts.append(at)
        at += frames.HEADER.size + frames.HEADER.unpack_from(journal, at)[1]
    records = [k for k, start in enumerate(starts) if journal[start + frames.HEADER.size] == frames.RECORD]
    cut = records[len(records) // 2]
    found, part = reading(journal[: starts[cut]] + journal[starts[cut + 1] :])
    assert len(found.records) == len(records) - 1
    assert part.closed
    assert found.damage


def test_a_journal_inside_a_value_is_never_mistaken_for_records(project: Path) -> None:
    """Bytes that were logged may themselves look like frames."""
    value = b"i" + (666).to_bytes(8, "little")
    fake = b"".join(frames.frame(k, frames.RECORD_HEAD.pack(frames.RECORD, 0, k % 3, 0, 0, 99, 0) + value) for k in range(20))
    process = StoreBuilder(project).run().process()
    process.log("x", 1)
    process.log("x", fake)
    process.log("x", 2)
    process.end()
    (path,) = (project / ".rearview/runs").rglob("*.journal")
    data = path.read_bytes()
    at = data.index(fake)
    for where in range(at - 50, at):
        found, _ = reading(data[:where] + bytes([data[where] ^ 0xFF]) + data[where + 1 :])
        assert 666 not in [rec.value for rec in found.records]


@pytest.mark.damages_store
def test_objects_are_verified(project: Path) -> None:
    store = layout.create(project / layout.FOLDER)
    data = random.Random(1).randbytes(3000)
    name = objects.put(store, data)
    path = objects.path_of(store, name)
    chance = random.Random(2)
    for _ in range(200):
        wrong = bytearray(data)
        wrong[chance.randrange(len(wrong))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.3:
            del wrong[chance.randrange(len(wrong)) :]
        path.write_bytes(wrong)
        with pytest.raises(Damaged):
            objects.get(store, name)
    path.write_bytes(b"")  # as a power loss can leave it
    assert objects.put(store, data) == name
    assert objects.get(store, name) == data, "putting the bytes again heals the object"
    path.unlink()
    with pytest.raises(NotFound):
        objects.get(store, name)
