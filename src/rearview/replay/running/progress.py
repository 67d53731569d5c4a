"""How far workers have come: the facts that they write into their journals, read as they grow. Writes nothing.

Must not know how it is shown.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import MAIN_PROCESS, RunId
from rearview.plan.timeline import Place
from rearview.store import frames
from rearview.store.journal import parts_of
from rearview.store.layout import Store


class Tail:
    """The facts of one worker's journal, each once."""

    def __init__(self, scratch: Path, run: RunId) -> None:
        self._folder = Store(scratch / "store").run(run)
        self._read: dict[Path, int] = {}
        """Part -> offset behind the last frame read."""

    def facts(self) -> Iterator[dict[str, Any]]:
        """Those that are new since the last time."""
        if not self._folder.is_dir():
            return
        for name, path in parts_of(self._folder):
            if name.writer.rstrip("x") != MAIN_PROCESS:
                continue
            at = self._read.get(path, len(frames.MAGIC))
            try:
                with path.open("rb") as file:
                    file.seek(at)
                    data = file.read()
            except OSError:
                continue
            read, found = _facts(data)
            self._read[path] = at + read
            yield from found


def _facts(data: bytes) -> tuple[int, list[dict[str, Any]]]:
    """The facts in whole frames at the beginning of some bytes, and how many bytes those are. Records are stepped over."""
    unpack, head, at, found = frames.HEADER.unpack_from, frames.HEADER.size, 0, []
    while at + head < len(data):
        checksum, length, _ = unpack(data, at)
        end = at + head + length
        if not length or end > len(data):
            break  # the rest is being written
        if data[at + head] == frames.FACT:
            if zlib.crc32(data[at + 4 : end]) != checksum:
                break
            try:
                found.append(frames.read_fact(data[at + head : end]))
            except Damaged:
                pass
        at = end
    return at, found


@dataclass(slots=True)
class Seen:
    """What a worker has said so far."""

    tail: Tail
    iterations: list[Place] = field(default_factory=list)
    seconds: dict[Place, float] = field(default_factory=dict)
    """What each iteration took, without what comparing took."""
    done: str | None = None
    """Why its unit is done."""
    ended: str | None = None
    error: str = ""
    """The exception that ended it, or its exit code."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Probes that raised."""
    measured: list[tuple[str, str, float]] = field(default_factory=list)
    """(`restore`, `put_back` or `digest`; the manifest; seconds)."""
    instead: list[str] = field(default_factory=list)
    """Why a nested block was run whose end state is kept."""
    hello_wall: float | None = None

    def look(self) -> None:
        """Take in what is new."""
        for fact in self.tail.facts():
            self._take(fact)

    def _take(self, fact: dict[str, Any]) -> None:
        kind = fact["fact"]
        if kind == "iteration":
            place = (int(fact["block"]), int(fact["iteration"]))
            self.iterations.append(place)
            self.seconds[place] = float(fact.get("seconds") or 0.0)
        elif kind == "unit_done":
            self.done = str(fact.get("why"))
        elif kind == "end":
            self.ended = str(fact.get("how"))
            code = fact.get("exit_code")
            self.error = str(fact.get("exception") or ("" if code is None else f"exit {code}"))
        elif kind == "probe_failed":
            self.failed.append(fact)
        elif kind == "run_instead":
            self.instead.append(str(fact.get("why")))
        elif kind == "hello" and self.hello_wall is None:
            self.hello_wall = float(fact.get("wall") or 0.0) or None
        elif kind in ("put_back", "restored", "compared") and isinstance(fact.get("seconds"), (int, float)):
            name = {"put_back": "put_back", "restored": "restore", "compared": "digest"}[kind]
            self.measured.append((name, str(fact.get("manifest")), float(fact["seconds"])))


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is to show while workers run."""

    iterations: int
    of: int
    workers: int
    elapsed_s: float
    expected_s: float
    note: str = ""
