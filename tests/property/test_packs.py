"""Laws of packs: any buffers, cut and laid out anyhow, come back as they were; no index is read as another."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.errors import Damaged
from rearview.store import direct, packs
from rearview.store.packs import index, layout
from tests.laws import examples
from tests.unit.store.checkpoints import new_store

EXAMPLES = 300 if os.environ.get("REARVIEW_TEST_LONG") else examples(40)
PAGE = direct.PAGE

sizes = st.one_of(
    st.integers(0, 300),
    st.sampled_from([PAGE - 1, PAGE, PAGE + 1, 65535, 65536, 65537, packs.CHUNK_BYTES - 1, packs.CHUNK_BYTES, packs.CHUNK_BYTES + 1]),
    st.integers(0, 3 * packs.CHUNK_BYTES),
)
buffers = st.lists(st.tuples(sizes, st.integers(0, 3), st.booleans(), st.sampled_from([0, 0, 0, 1, 64, 4095])), max_size=8)
"""Size, content (few of them: equal ones are stored once), constant, how far behind a page it begins."""


def contents(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


@settings(max_examples=EXAMPLES)
@given(st.lists(buffers, min_size=1, max_size=3), st.sampled_from([1 << 18, 1 << 21, 1 << 28]))
def test_what_is_put_comes_back(checkpoints: list[list[tuple[int, int, bool, int]]], pack_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder))
        known = packs.Known(store)
        truth, seen = [], set[bytes]()
        for wanted in checkpoints:
            with packs.Packer(store, known, pack_bytes) as packer:
                fresh = set[bytes]()
                for size, seed, constant, shift in wanted:
                    memory = memoryview(direct.aligned_memory(size + shift))[shift : shift + size]
                    memory[:] = contents(size, seed)
                    refs = packs.refs_of(size, packer.add(memory, constant))
                    truth.append((refs, contents(size, seed)))
                    fresh |= {ref.digest for ref in refs}
                written = packer.finish()
            sizes_of = {ref.digest: ref.size for refs, _ in truth for ref in refs}
            assert written.new_bytes == sum(sizes_of[name] for name in fresh - seen)
            seen |= fresh
        for reading in (known, packs.Known(store)):
            assert all(packs.read_buffer(store, reading, refs) == data for refs, data in truth)
        with packs.ChunkReader(store, known) as reader:
            memory = [memoryview(bytearray(len(data))) for _, data in truth]
            reader.many([(refs, view) for (refs, _), view in zip(truth, memory, strict=True)])
        assert [bytes(view) for view in memory] == [data for _, data in truth]


pieces = st.lists(st.tuples(st.integers(1, 200_000), st.sampled_from([0, 0, 0, 1, PAGE, 512])), max_size=40)
"""Size, and the gap in memory before it."""


@given(pieces, st.sampled_from([100_000, 1 << 20]))
def test_a_layout_holds_each_chunk_once_and_none_overlap(given_pieces: list[tuple[int, int]], pack_bytes: int) -> None:
    memory = memoryview(bytes(200_000))
    found, address = [], 16 * PAGE
    for k, (size, gap) in enumerate(given_pieces):
        address += gap
        found.append((k.to_bytes(16, "big"), memory[:size], address))
        address += size
    plans = layout.plan(found, constant=False, pack_bytes=pack_bytes)
    entries = [(number, *entry) for number, plan in enumerate(plans) for entry in plan.entries()]
    assert sorted(name for _, name, _, _ in entries) == [digest for digest, _, _ in found]
    for number, plan in enumerate(plans):
        ranges = sorted((offset, offset + size) for which, _, offset, size in entries if which == number)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
        assert ranges[-1][1] <= plan.size_bytes
        assert plan.size_bytes % PAGE == 0
        assert all(stretch.address % PAGE == 0 for stretch in plan.stretches)


entries = st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 1 << 30), st.integers(0, packs.CHUNK_BYTES)), max_size=20)


@given(entries, st.booleans(), st.data())
def test_an_index_is_read_as_it_was_written_or_not_at_all(listed: list[index.Entry], constant: bool, data: st.DataObject) -> None:
    pack = index.new_id()
    made = index.make(pack, (1 << 30) + packs.CHUNK_BYTES, listed, constant=constant)
    written = made.encode()
    assert index.decode(written, pack) == made
    assert list(made) == listed
    at = data.draw(st.integers(0, len(written) - 1))
    flipped = written[:at] + bytes((written[at] ^ (1 << data.draw(st.integers(0, 7))),)) + written[at + 1 :]
    for wrong, name in ((flipped, pack), (written[:at], pack), (written + b"\0", pack), (written, index.new_id())):
        try:
            index.decode(wrong, name)
        except Damaged:
            continue
        raise AssertionError("read as an index")


@given(st.binary(max_size=300))
def test_anything_else_is_no_index(data: bytes) -> None:
    try:
        index.decode(data, "0" * 32)
    except Damaged:
        return
    raise AssertionError("read as an index")
