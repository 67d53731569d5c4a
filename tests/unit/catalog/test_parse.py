"""Rows of a segment from the bytes of a part: exact, verified, never guessed."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog.sealing.parse import PartParser, PartSummary, Sink
from rearview.catalog.tables.types import gather, spread
from rearview.store.encoding import encode
from rearview.testing.stores import StoreBuilder


def parsed(data: bytes) -> tuple[PartSummary, list[list[str]]]:
    lines: list[str] = []
    drop: list[str] = []

    def numbers(*columns: Any) -> None:
        floats = struct.unpack(f"<{len(columns[0])}d", columns[-1])
        lines.extend(",".join(map(str, row)) + f",3,{value!r},,,\n" for *row, value in zip(*columns[:-1], floats, strict=True))

    sink = Sink(lines.append, drop.append, drop.append, drop.append, numbers)
    summary = PartParser(sink).parse(data)
    names = list(sink.names)
    rows = [line.split(",") for line in "".join(lines).splitlines()]
    return summary, [[*row[:2], names[int(row[2])], *row[3:]] for row in rows]


def part(tmp_path: Path, count: int = 200) -> bytes:
    builder = StoreBuilder(tmp_path)
    process = builder.run().process()
    process.arg("lr", 0.1)
    for step in process.loop("step", range(count)):
        process.log("loss", step / 7)
        if step % 50 == 0:
            process.log("text", f"step {step}")
    process.end()
    return next(builder.store.runs.glob("*/*.journal")).read_bytes()


def test_every_record_is_a_row(tmp_path: Path) -> None:
    summary, rows = parsed(part(tmp_path))
    assert summary.records == len(rows) == 205
    losses = [float(row[8]) for row in rows if row[7] == "3" and row[4] == "0"]
    assert losses == [step / 7 for step in range(200)]
    assert summary.reading.closed and not summary.reading.damage and not summary.lost
    assert summary.last["loss"] == encode(199 / 7) and summary.args["lr"] == (encode(0.1), False)


@pytest.mark.parametrize("cut", [1, 5, 12, 13, 60, 400])
def test_a_torn_tail_is_normal(tmp_path: Path, cut: int) -> None:
    whole, rows = parsed(part(tmp_path))
    summary, fewer = parsed(part(tmp_path / "again")[:-cut])
    assert not summary.reading.damage
    assert fewer == rows[: len(fewer)]
    assert summary.records == len(fewer) <= whole.records


def test_flipped_bits_never_give_a_wrong_row(tmp_path: Path) -> None:
    """Whatever byte is hit, what comes out was put in; a lost definition loses records, counted."""
    data = part(tmp_path)
    _, rows = parsed(data)
    good = {tuple(row[1:6] + row[7:]) for row in rows}
    rng = random.Random(7)
    for _ in range(300):
        hurt = bytearray(data)
        hurt[rng.randrange(len(hurt))] ^= 1 << rng.randrange(8)
        summary, got = parsed(bytes(hurt))
        assert {tuple(row[1:6] + row[7:]) for row in got} <= good
        assert len(got) == len(rows) or summary.reading.damage or summary.reading.torn_bytes or summary.lost


@pytest.mark.parametrize("data", [b"", b"RVJR", b"RVJRNL1\n", b"something else entirely", b"RVJRNL1\n" + b"\0" * 100])
def test_what_is_no_journal_gives_nothing(data: bytes) -> None:
    summary, rows = parsed(data)
    assert rows == [] and summary.records == 0


def test_hostile_bodies_are_reported(tmp_path: Path) -> None:
    """Frames with good checksums and nonsense inside: a wrong length, an unknown tag, a block inside nothing."""
    from rearview.store import frames

    bodies = [b"\x01", b"\x02", b"\x03\0", frames.RECORD_HEAD.pack(1, 0, 1, 0, 0, 0, 0) + b"f", b"\x06zzz", b"\x63unknown"]
    bodies.insert(0, frames.NAME_HEAD.pack(frames.NAME, 1) + b"n")
    data = frames.MAGIC + b"".join(frames.frame(k, body) for k, body in enumerate(bodies))
    summary, rows = parsed(data)
    assert rows == []
    assert len(summary.reading.damage) == 5
    assert summary.lost == 2


VALUES = [None, True, 0, -(2**63), 2**63, -(10**400), 0.1, -0.0, float("inf"), "", "x", "\0", "\ud800", b"", (1,), {"a": 1}]


@pytest.mark.parametrize("value", VALUES)
def test_spread_and_gather_are_inverse(value: object) -> None:
    code, number, whole, text, raw = spread(encode(value))
    back = gather(code, float(number) if number else None, int(whole) if whole else None, text, raw)
    assert type(back) is type(value) and encode(back) == encode(value)
