"""The table against an obvious reference: nested loops over a list of events, no SQL, no cleverness."""

from __future__ import annotations

import math
import os
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.catalog import Catalog
from rearview.catalog.runs import process_order
from rearview.catalog.tables.shapes import loop_columns
from rearview.store.encoding import encode
from rearview.testing.stores import ProcessBuilder, StoreBuilder
from tests.laws import examples

NAMES = ["a", "b", "c"]
LOOPS = ["x", "y"]
ODD_NAN = struct.unpack("<d", bytes.fromhex("0100000000000cfff8"[2:]))[0]

plain = [0.5, 0.5, 1.5, -0.0, math.nan, ODD_NAN, math.inf, 1, 1, 2**40, 2**70, True, None, "t", "", b"b", [1, "x"], 1 + 2j]
values: st.SearchStrategy[Any] = st.sampled_from([*plain, 'é\n,"', "nul\0", "\ud800"])
numbers = st.sampled_from([0.5, 1.5, 2.5])
logs = st.tuples(st.just("log"), st.sampled_from(NAMES), st.one_of(numbers, numbers, values))
items = st.sampled_from([range(2), range(3, 0, -1), ["u", "v"], [1, "w"], [0.5, -0.0], [object(), object()], [], range(1)])


def bodies(depth: int) -> st.SearchStrategy[list[Any]]:
    arguments = st.tuples(st.just("arg"), st.sampled_from(NAMES), values)
    statement: st.SearchStrategy[Any] = st.one_of(logs, logs, arguments, st.just(("rotate",)))
    if depth:
        inner = bodies(depth - 1)
        loops = st.tuples(st.just("loop"), st.sampled_from(LOOPS), items, inner)
        statement = st.one_of(logs, statement, loops, st.tuples(st.just("if"), st.integers(0, 2), inner))
    return st.lists(statement, max_size=5)


steps = st.sampled_from([range(1), range(2), range(3), ["u", "v"]])
common = st.tuples(st.just("log"), st.sampled_from(NAMES), numbers)


def at_several_shapes(around: list[Any], again: list[Any], over: Any, inside: Any, inner: list[Any], after: list[Any]) -> list[Any]:
    """What training scripts look like: names of the run before and after an epoch loop with a step loop in it."""
    return [*around, ("loop", "x", over, [("loop", "y", inside, inner), *after]), *again]


some = st.lists(common, max_size=2)
training = st.builds(at_several_shapes, some, some, steps, steps, some, some)


def crossed(order: list[str], again: list[Any], over: Any, inside: Any) -> list[Any]:
    """A row of the run of which one value is shown by many rows below and another by none: it is logged nearer there."""
    one, two, three = order
    inner = [("loop", "y", inside, [("log", three, 2.5)]), ("log", two, 1.5)]
    return [("log", one, 0.5), ("log", two, 0.5), ("loop", "x", over, inner), *again]


program = st.one_of(bodies(3), training, st.builds(crossed, st.permutations(NAMES), some, steps, steps))
asked_names = st.one_of(st.just(NAMES), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
LONG = bool(os.environ.get("REARVIEW_TEST_LONG"))


@dataclass
class Event:
    """One record as the reference sees it."""

    run: int
    process: str
    attempt: int
    path: tuple[tuple[str, int, int], ...]
    called: tuple[Any, ...]
    name: str
    ordinal: int
    value: Any
    order: int
    is_arg: bool

    @property
    def shape(self) -> tuple[str, ...]:
        return tuple(loop for loop, _, _ in self.path)


class Runner:
    """Runs a program against the builder and notes what it does, keeping coordinates by itself."""

    def __init__(self, process: ProcessBuilder, run: int, events: list[Event], skip: int = 0) -> None:
        self.process, self.run, self.events = process, run, events
        self.skip = skip
        """Leave out every so many-th record: a resume need not log all that was logged before."""
        self.calls = 0

    def body(self, statements: Any, path: Any, called: Any, counts: dict[str, int], entered: dict[str, int]) -> None:
        for statement in statements:
            if statement[0] in ("log", "arg"):
                _, name, value = statement
                self.calls += 1
                if self.skip and self.calls % self.skip == 0:
                    continue
                value = "again" if self.skip else value
                is_arg = statement[0] == "arg"
                (self.process.arg if is_arg else self.process.log)(name, value)
                ordinal = counts.get(name, 0)
                counts[name] = ordinal + 1
                self.events.append(
                    Event(self.run, self.process.number, self.process.attempt, path, called, name, ordinal, value, len(self.events), is_arg)
                )
            elif statement[0] == "rotate":
                self.process.rotate()
            elif statement[0] == "if":
                if path and path[-1][2] == statement[1]:
                    self.body(statement[2], path, called, counts, entered)
            else:
                self.loop(statement, path, called, entered)

    def loop(self, statement: Any, path: tuple[Any, ...], called: tuple[Any, ...], entered: dict[str, int]) -> None:
        _, name, over, inner = statement
        occurrence = entered.get(name, 0)
        entered[name] = occurrence + 1
        for iteration, item in enumerate(self.process.loop(name, over)):
            shown = item if isinstance(item, (int, float, str)) else iteration
            self.body(inner, (*path, (name, occurrence, iteration)), (*called, shown), {}, {})


def reference(events: list[Event], asked: list[str], processes_of: list[list[str]]) -> list[dict[str, Any]]:
    """The rows, each as run, process, loop columns and names; by the words of the rules."""
    standing: dict[Any, Event] = {}
    for event in events:  # a later attempt stands
        standing[event.run, event.process, event.path, event.name, event.ordinal, event.is_arg] = event
    events = [event for event in standing.values() if event.name in asked]
    logged = [event for event in events if not event.is_arg]

    def at(name: str, run: int, process: str) -> set[tuple[str, ...]]:
        return {e.shape for e in logged if e.name == name and e.run == run and e.process == process}

    def nearest(name: str, run: int, process: str, shape: tuple[str, ...]) -> tuple[str, ...] | None:
        above = [s for s in at(name, run, process) if shape[: len(s)] == s]
        return max(above, key=len) if above else None

    def those(name: str, run: int, process: str, path: Any) -> list[Event]:
        return [e for e in logged if e.name == name and (e.run, e.process, e.path) == (run, process, path)]

    every: dict[tuple[int, str, str], Event] = {}
    for event in events:
        if event.is_arg:
            best = every.get((event.run, event.process, event.name))
            if best is None or (-event.attempt, event.order) < (-best.attempt, best.order):
                every[event.run, event.process, event.name] = event

    def arg(run: int, process: str, name: str) -> Event | None:
        """By the process, else the nearest above it, else the lowest."""
        fields = process.split(".")
        for k in range(len(fields), 0, -1):
            if (run, ".".join(fields[:k]), name) in every:
                return every[run, ".".join(fields[:k]), name]
        theirs = sorted((process_order(p), p) for r, p, n in every if (r, n) == (run, name))
        return every[run, theirs[0][1], name] if theirs else None

    kept: list[dict[str, Any]] = []
    for shape in sorted({e.shape for e in logged}, key=len, reverse=True):
        here: dict[Any, dict[str, Event]] = {}
        for event in logged:
            if event.shape == shape:
                here.setdefault((event.run, event.process, event.path, event.ordinal), {})[event.name] = event
        fresh = []
        for (run, process, path, _), own in here.items():
            below = [row for row in kept if (row["run"], row["process"]) == (run, process) and row["path"][: len(path)] == path]
            if all(
                len(those(name, run, process, path)) == 1
                and any(nearest(name, run, process, tuple(loop for loop, _, _ in row["path"])) == shape for row in below)
                for name in own
            ):
                continue
            row: dict[str, Any] = {"run": run, "process": process, "path": path, "order": min(e.order for e in own.values())}
            row["loops"] = dict(zip(loop_columns(shape), next(iter(own.values())).called, strict=True))
            row["values"] = {}
            row["args_shown"] = []
            for name in asked:
                near = nearest(name, run, process, shape)
                if near == shape:
                    row["values"][name] = own[name].value if name in own else None
                elif near is not None:
                    found = those(name, run, process, path[: len(near)])
                    row["values"][name] = found[0].value if len(found) == 1 else None
                else:
                    given = arg(run, process, name)
                    if given is not None:
                        row["values"][name] = given.value
                        row["args_shown"].append(given)
            fresh.append(row)
        kept += fresh
    for run in range(len(processes_of)):
        shown = [event for row in kept if row["run"] == run for event in row["args_shown"]]
        alone: set[str] = set()
        agreed = False
        for name in asked:
            theirs = {p: event for (r, p, n), event in every.items() if (r, n) == (run, name)}
            if len({encode(event.value) for event in theirs.values()}) > 1:
                alone |= {p for p, event in theirs.items() if not any(event is other for other in shown)}
            elif theirs:
                agreed = agreed or not any(event is other for other in shown for event in theirs.values())
        if agreed and not alone:
            alone = {min(processes_of[run], key=process_order)}
        for process in alone:
            found = {name: arg(run, process, name) for name in asked}
            shown_here = {name: event.value for name, event in found.items() if event is not None}
            kept.append({"run": run, "process": process, "order": -1, "loops": {}, "values": shown_here, "args_shown": []})
    kept.sort(key=lambda row: (row["run"], process_order(row["process"]), row["order"]))
    return kept


def same(left: Any, right: Any) -> bool:
    """Equal with its type, floats by their bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    return bool(left == right)


def assert_rows(table: Any, expected: list[dict[str, Any]], asked: list[str], builder: StoreBuilder) -> None:
    rows = table.dicts()
    assert len(rows) == len(expected)
    loops = {column for row in expected for column in row["loops"]}
    assert set(table.names) - {"projid", "run", "tstamp", "filename", "process"} == loops | set(asked)
    for row, wanted in zip(rows, expected, strict=True):
        assert row["run"] == builder.runs[wanted["run"]].run
        if "process" in row:
            assert row["process"] == wanted["process"]
        for loop in loops:
            assert same(row[loop], wanted["loops"].get(loop)), (loop, row, wanted)
        for name in asked:
            assert same(row[name], wanted["values"].get(name)), (name, row, wanted)


processes = st.lists(st.tuples(st.sampled_from(["0", "0.1", "1"]), program), min_size=1, max_size=2, unique_by=lambda item: item[0])


@settings(max_examples=400 if LONG else examples(25), deadline=None, derandomize=not LONG)  # the few examples are the same each time
@given(
    st.lists(processes, min_size=1, max_size=3), asked_names, st.booleans(), st.sampled_from([0, 0, 2, 3]),
)  # fmt: skip
def test_table_is_the_reference(runs: Any, asked: list[str], apart: bool, resumed: int) -> None:
    """Several runs, processes, occurrences, ordinals, types; sealed at once or in pieces, with a resumed attempt."""
    with tempfile.TemporaryDirectory() as folder:
        builder = StoreBuilder(Path(folder))
        events: list[Event] = []
        with Catalog(builder.store) as catalog:
            for number, programs in enumerate(runs):
                run = builder.run()
                for process, statements in programs:
                    built = run.process(process)
                    Runner(built, number, events).body(statements, (), (), {}, {})
                    built.end()
                if resumed and number == 0:
                    built = run.process(programs[0][0], attempt=2)
                    Runner(built, number, events, skip=resumed).body(programs[0][1], (), (), {}, {})
                    built.stop()
                if apart:
                    catalog.table(asked)  # seals: the final answer comes from several segments
            expected = reference(events, asked, [[process for process, _ in programs] for programs in runs])
            assert_rows(catalog.table(asked), expected, asked, builder)
        with Catalog(builder.store) as again:
            assert_rows(again.table(asked), expected, asked, builder)
            frame = again.table(asked).to_pandas()
            assert len(frame) == len(expected)
