"""The catalog: every question about the runs of a store is asked here.

A question lists the store anew (runs may be going on), answers from segments, and comes back as values that outlive the
catalog. If another reader merged a segment away in between, the question is asked again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from rearview.catalog import alive
from rearview.catalog.asking.engine import FilesVanished, connect, deadline, in_our_words
from rearview.catalog.runs import RunInfo, describe, parse_tstamp, resolve
from rearview.catalog.sealing.sources import Reader, Sources
from rearview.catalog.tables.places import Names, Places, Shape
from rearview.catalog.tables.table import Table
from rearview.catalog.tables.types import NONE, TYPE_NAMES
from rearview.errors import StoreError
from rearview.model import RunId
from rearview.store import replays
from rearview.store.layout import Store
from rearview.store.replays import Replay

if TYPE_CHECKING:
    import duckdb

    from rearview.catalog.asking.choose import Asking
    from rearview.catalog.checkpoints import CheckpointInfo
    from rearview.catalog.detail import RunDetail
    from rearview.catalog.overlap import Overlap
    from rearview.catalog.retention import Retention, Rules

_RETRIES = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NameInfo:
    """A name that was logged, or an argument, at one shape."""

    name: str
    shape: Shape
    """The loops around it, outermost first."""
    count: int
    types: tuple[str, ...]
    is_arg: bool = False


class Catalog:
    """Questions about the runs of one store. A context manager."""

    def __init__(self, store: Store, *, timeout_s: float = 30.0) -> None:
        self.store = store
        self.timeout_s = timeout_s
        self._reader = Reader(store, alive.looker)
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._places: Places | None = None
        self._listed: object = None
        self._noticed: set[str] = set()
        self._numbers = itertools.count()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and memory. Tables that were given out stay valid."""
        self._connection = self._places = None  # not closed: that would close the tables that were given out
        self._reader.close()

    # Runs

    def runs(self, where: str | None = None, limit: int | None = None, newest_first: bool = True, seal: bool = True) -> list[RunInfo]:
        """The runs, or those of which some row satisfies `where`. Without `seal` nothing is written: for a disk that is full."""
        if where is None:
            sources, chosen = self._summaries(seal=seal), None
        else:
            sources, chosen = self._again(lambda places: (places.sources, self._runs_where(places, where)))
        runs = [run for run in sources.runs if chosen is None or run in chosen]
        runs.sort(key=lambda run: (parse_tstamp(sources.runs[run].get("tstamp")), run), reverse=newest_first)
        return self._describe(sources, runs[:limit] if limit is not None else runs)

    def run(self, ref: str) -> RunInfo:
        """One run by id, id prefix, name, `last` or `last~2`."""
        sources = self._summaries()
        return self._describe(sources, [self._resolve(sources, ref)])[0]

    def run_detail(self, ref: str) -> RunDetail:
        """Everything about one run."""
        from rearview.catalog.detail import detail

        def look(places: Places) -> RunDetail:
            run = self._resolve(places.sources, ref)
            return detail(self.store, places, self._describe(places.sources, [run])[0])

        return self._again(look)

    def overlap(self, ref: str) -> Overlap | None:
        """What the attempts of a run logged in common, compared; None for a run with one attempt."""
        from rearview.catalog.detail import facts_of
        from rearview.catalog.overlap import compare

        def look(places: Places) -> Overlap | None:
            run = self._resolve(places.sources, ref)
            if len({name.attempt for name, _ in places.sources.of_run(run)}) < 2:
                return None
            return compare(places, run, facts_of(places, run))

        return self._again(look)

    def damage(self) -> list[str]:
        """What readers found damaged in journals, `run.json`, and manifests as far as they were asked for; a sentence each."""
        return self._summaries().damage + sorted(self._noticed)

    def _summaries(self, *, seal: bool = True) -> Sources:
        """What lists need; looked up again if a run was removed in between."""
        look = self._reader.summaries if seal else partial(self._reader.summaries, seal=False)
        with in_our_words(f"the store at {self.store.root}"):
            for _ in range(_RETRIES):
                try:
                    return look()
                except FileNotFoundError:
                    continue
            return look()

    def _describe(self, sources: Sources, runs: Sequence[RunId]) -> list[RunInfo]:
        looker, now = alive.looker(), time.time()
        return [describe(self.store, run, sources.runs[run], sources.of_run(run), looker, now) for run in runs]

    def _resolve(self, sources: Sources, ref: str) -> RunId:
        return resolve(ref, [(run, facts.get("name"), parse_tstamp(facts.get("tstamp"))) for run, facts in sources.runs.items()])

    # Checkpoints

    def checkpoints(self, run: RunId, damage: list[str] | None = None) -> list[CheckpointInfo]:
        """The checkpoints of a run, oldest first; sentences about damaged ones go into `damage`."""
        from rearview.catalog import checkpoints

        return checkpoints.of_run(self.store, run, damage)

    def retention(self, rules: Rules, runs: Sequence[RunInfo]) -> Retention:
        """What the policies say about the checkpoints of some runs."""
        from rearview.catalog import retention

        def values(run: RunId, metric: str) -> retention.Values:
            return self._again(lambda places: retention.values_of(places, run, metric))

        return retention.judge(self.store, runs, rules, values)

    # Replays

    def replays(self, run: str | None = None) -> list[Replay]:
        """What was replayed, oldest first: of one run, or of all."""
        chosen = [self.run(run).run] if run is not None else list(self._summaries().runs)
        damage: list[str] = []
        found = [one for each in chosen for one in replays.list_of(self.store, each, damage)]
        self._noticed.update(damage)
        return sorted(found, key=replays.order)

    # Names

    def names(self) -> list[NameInfo]:
        """What was logged, at which loops, how often, of which types; arguments too."""
        return self._again(lambda places: _name_infos(places.names()))

    # Tables

    def table(
        self, names: Sequence[str], where: str | None = None, run: str | None = None, *, provenance: bool = False, divergent: bool = False
    ) -> Table:
        """One column per name plus the dimensions; `where` filters rows, `run` takes one run only.

        `provenance` adds to each name where its values came from, and their verdict. Values of replays that came out otherwise than
        the record are left out, unless `divergent`.
        """
        from rearview.catalog.asking.ask import ask_table

        asked = list(dict.fromkeys(names))
        return self._again(lambda places: ask_table(self._asking(places), asked, where, run, provenance=provenance), divergent=divergent)

    def _asking(self, places: Places) -> Asking:
        from rearview.catalog.asking.choose import Asking

        return Asking(
            self.store, places, self._resolve, self.timeout_s, f"answer_{next(self._numbers)}",
            lambda: self._describe(places.sources, places.runs), self._noticed,
        )  # fmt: skip

    def _runs_where(self, places: Places, where: str) -> set[RunId]:
        from rearview.catalog.asking.ask import ask_runs

        return ask_runs(self._asking(places), where)

    def sql(self, query: str) -> Table:
        """Any SELECT over the views runs, logs, loops, args, checkpoints, replayed and wide."""
        from rearview.catalog.asking.replayed import make_replayed, mentions
        from rearview.catalog.asking.views import ask_sql

        def ask(places: Places) -> Table:
            return ask_sql(self._asking(places), query)

        if mentions(query):  # also what diverged is in that view, and in no other
            self._again(lambda places: make_replayed(self._asking(places), query), divergent=True)
        return self._again(ask)

    # The connection

    def _again(self, question: Callable[[Places], T], *, divergent: bool = False) -> T:
        """Ask over a fresh listing; ask again if files went away in between."""
        problem = ""
        for _ in range(_RETRIES):
            try:
                with in_our_words(f"the store at {self.store.root}"):
                    return question(self._loaded(divergent))
            except (FilesVanished, FileNotFoundError) as vanished:
                problem = str(vanished)
                self._places = None
        raise StoreError(f"the segments of {self.store.root} cannot be read: {problem}; `rearview check --repair` makes them anew")

    def _loaded(self, divergent: bool) -> Places:
        sources = self._reader.refresh()
        divergent = divergent and any(one.verdict == "divergent" for one in sources.replays)
        listed = tuple((segment.ident, tuple(mine)) for segment, mine in sources.taken), frozenset(sources.runs), divergent
        if self._places is None or self._listed != listed or self._connection is None:
            if self._connection is None:
                self._connection = connect([self.store.segments, self._reader.private], self._reader.private)
            with deadline(self._connection, max(self.timeout_s, 60.0)):
                self._places = Places(self._connection, sources, divergent=divergent)
            self._listed = listed
        self._places.sources = sources
        return self._places


def _name_infos(known: Names) -> list[NameInfo]:
    found = []
    for name, at in known.logged.items():
        for shape, occurrence in at.items():
            types = tuple(TYPE_NAMES[code] for code in sorted(occurrence.counts) if code != NONE)
            found.append(NameInfo(name, shape, sum(occurrence.counts.values()), types))
    for name, arg in known.args.items():
        types = tuple(sorted({TYPE_NAMES[code] for code in arg.types()} - {"none"}))
        found.append(NameInfo(name, (), len(arg.values), types, is_arg=True))
    return sorted(found, key=lambda info: (not info.is_arg, info.shape, info.name))
