"""Small stores written directly through the journal, without a recording process.

For tests and benchmarks of readers: what is in the store is exactly what was put there, frame by frame, also
what a live process would never leave behind (a torn tail, a part that is still open, an attempt cut short).

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     builder = StoreBuilder(Path(folder))
...     process = builder.run(name="first").process()
...     process.arg("lr", 0.1)
...     for _ in process.loop("epoch", range(2)):
...         process.log("loss", 0.5)
...     process.end()
...     [run.name for run in (builder.store.runs).iterdir()] == [builder.runs[0].run]
True
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.model import RunId
from rearview.store import frames, journal, layout, runs
from rearview.store.encoding import encode

_EPOCH = dt.datetime(2026, 6, 23, 10, 0, 0, tzinfo=dt.UTC)


class StoreBuilder:
    """A store under construction."""

    def __init__(self, project: Path) -> None:
        self.store = layout.create(project / layout.FOLDER)
        self.runs: list[RunBuilder] = []

    def run(self, run: str | None = None, *, at_s: float | None = None, **facts: Any) -> RunBuilder:
        """A new run; its start is a minute after the one before unless `at_s` (since 2026-06-23 10:00 UTC) is given."""
        number = len(self.runs)
        begun = _EPOCH + dt.timedelta(seconds=60 * number if at_s is None else at_s)
        built = RunBuilder(self.store, RunId(run or f"r{number:012d}"), begun, facts)
        self.runs.append(built)
        return built


class RunBuilder:
    """A run with its `run.json` written."""

    def __init__(self, store: layout.Store, run: RunId, begun: dt.datetime, facts: dict[str, Any]) -> None:
        self.store = store
        self.run = run
        self.begun = begun
        known: dict[str, Any] = {
            "name": None, "tags": [], "notes": None, "projid": "project", "tstamp": begun.isoformat(timespec="microseconds"),
            "filename": "train.py", "argv": ["train.py"], "orig_argv": ["python", "train.py"], "cwd": ".", "version": "v" + "0" * 40,
            "parent": None, "process": None, "place": 0, "how": "script", "module": None, "environment": {}, "git": None,
            "launch": None, "given": {},
        }  # fmt: skip
        runs.write_run(store, run, {**known, **facts})

    def process(self, number: str = "0", attempt: int = 1, **hello: Any) -> ProcessBuilder:
        """A process of the run with its first part open. Its default identity is a process of a host long gone."""
        return ProcessBuilder(self, number, attempt, hello)


@dataclass(slots=True)
class _Open:
    """A loop that is being run."""

    ident: int
    name: str
    parent: _Open | None
    parent_iteration: int
    occurrence: int
    affine: tuple[int, int] | None
    iteration: int = -1
    ordinals: dict[str, int] = field(default_factory=dict)
    occurrences: dict[str, int] = field(default_factory=dict)
    called: dict[int, object] = field(default_factory=dict)


class ProcessBuilder:
    """Writes what one process recorded; keeps loop coordinates as a recorder does."""

    def __init__(self, run: RunBuilder, number: str, attempt: int, hello: dict[str, Any]) -> None:
        self.run = run
        self.number = number
        self.attempt = attempt
        self.writer = journal.JournalWriter(run.store.run(run.run), number, attempt)
        self.clock_us = 0
        self._hello = {
            "process": {"host": "elsewhere", "boot_id": "gone", "pid": 1, "started": 1.0},
            "rank": 0, "world": 1, "wall": run.begun.timestamp(), **hello,
        }  # fmt: skip
        self._names: dict[str, int] = {}
        self._blocks_known: set[int] = {0}
        self._blocks = 0
        root = _Open(0, "", None, 0, 0, None, iteration=0)
        self.stack = [root]
        self.rotate()

    def rotate(self) -> None:
        """Close the part and begin the next, as a recorder does when it grows large."""
        self._names.clear()
        self._blocks_known = {0}
        hello = frames.fact_body(
            "hello", format=1, run=self.run.run, writer=self.number, attempt=self.attempt, part=self.writer.part + 1, **self._hello
        )
        self.writer.open_part(hello)

    def _name(self, text: str, out: list[bytes]) -> int:
        if text not in self._names:
            self._names[text] = len(self._names) + 1
            out.append(frames.NAME_HEAD.pack(frames.NAME, self._names[text]) + text.encode("utf-8", "surrogatepass"))
        return self._names[text]

    def _define(self, block: _Open, out: list[bytes]) -> None:
        if block.ident in self._blocks_known or block.parent is None:
            return
        self._define(block.parent, out)
        first, step = block.affine or (0, 0)
        name = self._name(block.name, out)
        where = (block.ident, block.parent.ident, block.parent_iteration)
        out.append(frames.BLOCK_HEAD.pack(frames.BLOCK, *where, name, block.occurrence, block.affine is not None, first, step))
        self._blocks_known.add(block.ident)

    def log(self, name: str, value: object, *, flags: int = 0) -> None:
        """One record at the current place."""
        block = self.stack[-1]
        out: list[bytes] = []
        self._define(block, out)
        ident = self._name(name, out)
        ordinal = block.ordinals.get(name, 0)
        block.ordinals[name] = ordinal + 1
        self.clock_us += 100
        head = frames.RECORD_HEAD.pack(frames.RECORD, flags, ident, block.ident, block.iteration, ordinal, self.clock_us)
        out.append(head + encode(value))
        self.writer.append(out)

    def arg(self, name: str, value: object, *, given: bool = False) -> None:
        """An argument the program asked for."""
        self.log(name, value, flags=frames.IS_ARG | (frames.ARG_GIVEN if given else 0))

    def loop(self, name: str, items: Iterable[Any], *, ending: int = 1) -> Iterator[Any]:
        """Run a loop: `for x in process.loop("epoch", range(3))`. A range is affine; other scalars get VALUE frames."""
        block = self.enter(name, items if isinstance(items, range) else None)
        for item in items:
            self.advance(block, item)
            yield item
        self.leave(ending)

    def enter(self, name: str, counted: range | None = None) -> _Open:
        """Begin a loop under the current place."""
        parent = self.stack[-1]
        occurrence = parent.occurrences.get(name, 0)
        parent.occurrences[name] = occurrence + 1
        self._blocks += 1
        affine = (counted.start, counted.step) if counted is not None else None
        block = _Open(self._blocks, name, parent, parent.iteration, occurrence, affine)
        self.stack.append(block)
        return block

    def advance(self, block: _Open, value: object = None) -> None:
        """The next iteration of a loop; everything inside it is left."""
        while self.stack[-1] is not block:
            self.stack.pop()
        block.iteration += 1
        block.ordinals.clear()
        block.occurrences.clear()
        if block.affine is None and isinstance(value, (bool, int, float, str)):
            out: list[bytes] = []
            self._define(block, out)
            out.append(frames.VALUE_HEAD.pack(frames.VALUE, block.ident, block.iteration) + encode(value))
            self.writer.append(out)

    def leave(self, ending: int = 1) -> None:
        """End the innermost loop."""
        block = self.stack.pop()
        if block.ident in self._blocks_known:
            body = frames.LEAVE_HEAD.pack(frames.LEAVE, block.ident, block.iteration + 1, ending, self.clock_us)
            self.writer.append([body])

    def fact(self, kind: str, **facts: object) -> None:
        """Any fact."""
        self.writer.append([frames.fact_body(kind, **facts)])

    def end(self, how: str = "finished", **facts: object) -> None:
        """The run ended in this process; its last part is closed."""
        wall = self.run.begun.timestamp() + 10
        known = {"exception": None, "message": None, "traceback": None, "exit_code": None, "wall": wall, "at": self.clock_us}
        self.fact("end", **{"how": how, **known, **facts})
        self.writer.close()

    def stop(self) -> None:
        """Stop without a word, as a killed process does."""
        self.writer.abandon()
