"""What the policies say about the checkpoints of a store: gathers what they ask for, and lets `plan` decide.

Knows where a policy comes from (the run, the settings, the command), how a run stands, and what a metric was when a checkpoint
was taken. Decides nothing itself, and removes nothing.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rearview.catalog import checkpoints
from rearview.catalog.checkpoints import CheckpointInfo
from rearview.catalog.runs import RunInfo
from rearview.catalog.tables.places import Places
from rearview.catalog.tables.types import FLOAT, INT
from rearview.errors import ConfigError, Damaged, StoreError
from rearview.model import MAIN_PROCESS, RunId
from rearview.plan import policies, retention
from rearview.plan.policies import Policy
from rearview.plan.retention import Item, RunFacts, Verdict
from rearview.store.layout import Store
from rearview.store.runs import read_run, size_of

Values = dict[tuple[int, str, int], list[tuple[int, float]]]
"""(attempt, key of a block, its iteration) -> (microseconds since the writer began, value) of what was logged in it, in order."""


@dataclass(slots=True)
class Retention:
    """Every checkpoint of a store and what becomes of it."""

    policy: Policy
    checkpoints: list[CheckpointInfo] = field(default_factory=list)
    """Those whose bytes are there, in the order of `verdicts`."""
    verdicts: list[Verdict] = field(default_factory=list)
    thinned: list[CheckpointInfo] = field(default_factory=list)
    """Those whose bytes were dropped earlier."""
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a person should know before anything is dropped."""
    held_bytes: int = 0
    """Of what all checkpoints refer to, each byte once."""
    other_bytes: int = 0
    """Of everything else in the store."""
    own: dict[str, Policy] = field(default_factory=dict)
    """Runs that have checkpoints and were given a policy for themselves."""

    def policy_of(self, run: str) -> Policy:
        """What a run goes by: a budget is always that of the whole store."""
        return replace(self.own[run], budget_bytes=self.policy.budget_bytes) if run in self.own else self.policy

    @property
    def dropped(self) -> list[tuple[CheckpointInfo, Verdict]]:
        """What goes, and why."""
        pairs = zip(self.checkpoints, self.verdicts, strict=True)
        return [(info, verdict) for info, verdict in pairs if not verdict.keep]

    def whys(self) -> dict[tuple[object, ...], str]:
        """(decision, boundary) to why a checkpoint is kept, or what is to become of it."""
        found: dict[tuple[object, ...], str] = {}
        for info, verdict in zip(self.checkpoints, self.verdicts, strict=True):
            found[info.decision, info.boundary] = verdict.why if verdict.keep else f"`rearview gc` drops it: {verdict.why}"
        return found


@dataclass(frozen=True, slots=True)
class Rules:
    """What is to be kept, as it was written."""

    keep: str
    peak: str = ""
    given: bool = False
    """Asked for just now: it goes before what runs were given for themselves."""

    @property
    def policy(self) -> Policy:
        return policies.parse(self.keep, self.peak)


def policy_of(store: Store, run: RunId, rules: Rules, notes: list[str]) -> Policy | None:
    """The policy that a run was given for itself (`keep`, `peak` or both in its `run.json`); None if it goes by the project's."""
    try:
        facts = {} if rules.given else read_run(store, run)
    except (Damaged, OSError):
        return None
    keep, peak = (text if isinstance(text := facts.get(name), str) and text else None for name in ("keep", "peak"))
    if keep is None and peak is None:
        return None
    try:
        own = policies.parse(rules.keep if keep is None else keep, rules.peak if peak is None else peak)
    except ConfigError as problem:
        notes.append(f"run {run}: {problem}; all its checkpoints are kept")
        return Policy(everything=True)
    if keep is not None and own.budget_bytes not in (0, rules.policy.budget_bytes):
        notes.append(f"run {run} was recorded with keep={keep!r}: a budget is for the whole store, that of the project or of --keep counts")
    return own


def judge(
    store: Store, runs: Sequence[RunInfo], rules: Rules, values: Callable[[RunId, str], Values], now: float | None = None
) -> Retention:
    """Verdicts over all runs. `values` looks a metric of a run up."""
    policy = rules.policy
    found = Retention(policy)
    facts: dict[str, RunFacts] = {}
    items: list[Item] = []
    unlogged: dict[str, list[RunId]] = {}
    listed = checkpoints.of_runs(store, [run.run for run in runs], found.damage)
    for run in runs:
        theirs = listed[run.run]
        if not theirs:
            continue
        own = policy_of(store, run.run, rules, found.notes)
        if own is not None:
            found.own[run.run] = own
        began = run.tstamp.timestamp() if run.tstamp else 0.0
        facts[run.run] = RunFacts(began, run.status == "running", run.status == "finished", own)
        peak = (own or policy).peak
        logged = _logged(values, run.run, peak.metric, found.notes) if peak else None
        if peak and logged == {} and run.status != "running":
            unlogged.setdefault(peak.metric, []).append(run.run)
        for info in theirs:
            if info.thinned is not None:
                found.thinned.append(info)
                continue
            # what the main process logged says nothing of another's states
            best = value_at(info, logged) if logged and not info.process else None
            found.checkpoints.append(info)
            items.append(_item(info, {peak.metric: best} if peak and best is not None else {}))
    found.notes += [_nothing_logged(metric, theirs) for metric, theirs in unlogged.items()]
    pieces = {piece: size for item in items for piece, size in item.pieces.items()}
    found.held_bytes = sum(pieces.values())
    found.other_bytes = _other_bytes(store, pieces)
    found.verdicts = retention.choose(items, policy, time.time() if now is None else now, facts, found.other_bytes)
    return found


def _logged(values: Callable[[RunId, str], Values], run: RunId, metric: str, notes: list[str]) -> Values | None:
    """A metric that cannot be looked up is unknown, and nothing is dropped for it: a full disk must not end in that."""
    try:
        return values(run, metric)
    except StoreError as problem:
        notes.append(f"run {run}: {metric} cannot be looked up, so nothing is dropped for the best of it ({problem})")
        return None


def _nothing_logged(metric: str, runs: Sequence[RunId]) -> str:
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f"run {runs[0]}{more} logged no number called {metric!r}, so nothing is dropped for the best of it: was another name meant?"


def _item(info: CheckpointInfo, metrics: Mapping[str, float]) -> Item:
    at = info.taken_at.timestamp() if info.taken_at else 0.0
    whose = (info.run, info.attempt, info.number, info.boundary, info.place)
    return Item(*whose, at, info.size_bytes, checkpoints.pieces_of(info), info.whole, info.pinned, metrics, info.process)


def _other_bytes(store: Store, pieces: Mapping[str, int]) -> int:
    """The bytes of the store that belong to no checkpoint: journals, source, segments, logged arrays."""
    try:
        everything = size_of(store.root)
        packs = size_of(store.objects / "packs") if (store.objects / "packs").is_dir() else 0
    except OSError:
        return 0
    trees = sum(size for piece, size in pieces.items() if piece.startswith("xxh3-"))
    return max(0, everything - packs - trees)


# What a metric was when a checkpoint was taken


def value_at(info: CheckpointInfo, values: Values) -> float | None:
    """The last value logged in the main loop's iteration before a checkpoint was taken; None if there was none."""
    main = next((one for one in info.members if one.process == MAIN_PROCESS), info.members[0])
    around = main.stats.get("inside", 0)  # loops around the one that is checkpointed
    depth = 1 + around if isinstance(around, int) and 0 <= around < len(info.path) else 1
    logged = values.get((info.attempt, *checkpoints.place_key(info.path[:depth])), [])
    at = bisect_right(logged, (main.taken_at, math.inf))
    return logged[at - 1][1] if at else None


def values_of(places: Places, run: RunId, name: str) -> Values:
    """All values of a metric that the main process of a run logged, under each iteration they were logged in."""
    mine = [rp for rp, (run_ix, _) in enumerate(places.processes) if places.runs[run_ix] == run]
    if not mine or name not in places.names({run}).logged:
        return {}
    main = next((rp for rp in mine if places.processes[rp][1] == MAIN_PROCESS), mine[0])
    ask = places.connection.execute
    blocks = ask(f"SELECT place, replace(key::VARCHAR, '-', ''), parent_place, parent_it FROM place WHERE rp = {main}").fetchall()
    above = {place: (key, parent, parent_it) for place, key, parent, parent_it in blocks}
    rows = ask(
        f"SELECT place, it, era, us, CASE type WHEN {FLOAT} THEN f ELSE coalesce(i::DOUBLE, f) END FROM ({places.records([name])}) "
        f"JOIN bp USING (b) WHERE era >= 0 AND rp = {main} AND type IN ({FLOAT}, {INT}) ORDER BY era, seq"
    ).fetchall()
    found: Values = {}
    for place, it, era, us, value in rows:
        at: int | None = place
        while at is not None and value is not None:
            key, parent, parent_it = above[at]
            found.setdefault((era >> 20, key, it), []).append((us, float(value)))
            at, it = parent, parent_it
    return found
