"""Which checkpoints are kept, and why: checkpoints and policies in, verdicts out. No files, no clock.

A *decision* is one moment at which a run chose to take a checkpoint; its parts (the end of the nested block, the end of the
outer iteration) are kept or dropped together, over all ranks. Whatever a policy says, these stay: what is pinned, and the
last whole checkpoint of every run (of an unfinished one it is what a resume starts from).

A budget thins what the policies keep, in the order of `thinning`: old runs grow sparse evenly, and none is cut off.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rearview.model import RunId
from rearview.plan import thinning
from rearview.plan.policies import Peak, Policy

UNFINISHED_FOR_S = 24 * 3600.0
"""A checkpoint that lacks a rank's part for longer than this will never be whole."""

_EVERYTHING = "everything is kept"

Decision = tuple[str, str, int, int]
"""Run, process, attempt, number."""


@dataclass(frozen=True, slots=True)
class Item:
    """One part of a checkpoint, over all ranks."""

    run: RunId
    attempt: int
    number: int
    boundary: str
    """`inside`, `block` or `iteration`."""
    path: str
    at: float
    """Seconds since the epoch."""
    size_bytes: int
    pieces: Mapping[str, int] = field(default_factory=dict)
    """Content address to bytes of everything that only checkpoints refer to: what comes free is what nobody else has."""
    whole: bool = True
    """Every rank's part is there."""
    pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last value of each metric up to this moment in this iteration; only those that policies ask for are needed."""
    process: str = ""
    """The process below a rank that took it by itself; empty for the ranks, who decide together."""

    @property
    def decision(self) -> Decision:
        return self.run, self.process, self.attempt, self.number


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the policies ask of a run."""

    began: float = 0.0
    """Seconds since the epoch."""
    running: bool = False
    finished: bool = True
    """It ended by itself: nobody will want to resume it."""
    policy: Policy | None = None
    """Its own, where it has one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one part of a checkpoint."""

    item: Item
    keep: bool
    why: str
    frees_bytes: int = 0
    """Bytes that come free with this one, given those dropped before it; 0 where it is kept."""


@dataclass(slots=True)
class _Group:
    """A decision on its way to a verdict."""

    key: Decision
    items: list[Item]
    why: list[str] = field(default_factory=list)
    """Non-empty: kept."""
    protected: bool = False
    """No budget takes it."""
    dropped: str = ""

    @property
    def at(self) -> float:
        return max(item.at for item in self.items)

    def keep(self, why: str, *, protect: bool = False) -> None:
        if why not in self.why:
            self.why.append(why)
        self.protected |= protect


def choose(
    items: Sequence[Item], policy: Policy, now: float, runs: Mapping[str, RunFacts] | None = None, other_bytes: int = 0
) -> list[Verdict]:
    """A verdict for each item, in their order. `other_bytes` are bytes of the store that no retention can free."""
    facts = runs or {}
    groups: dict[Decision, _Group] = {}
    lone: dict[int, tuple[bool, str]] = {}
    for ix, item in enumerate(items):
        if item.whole or item.pinned:
            groups.setdefault(item.decision, _Group(item.decision, [])).items.append(item)
        else:
            lone[ix] = _unfinished(item, facts.get(item.run, RunFacts()), now)
    for theirs in _lines(groups.values()):
        about = facts.get(theirs[0].key[0], RunFacts())
        _apply(theirs, about.policy or policy, about)
    if policy.budget_bytes:
        _thin([group for group in groups.values() if group.why], policy.budget_bytes, facts, other_bytes, _kept_alone(items, lone))
    return _verdicts(items, groups, lone)


def _unfinished(item: Item, run: RunFacts, now: float) -> tuple[bool, str]:
    """A checkpoint that lacks a part: it may be on its way, or its run died before it was whole."""
    if run.running:
        return True, "it is being written"
    if now - item.at < UNFINISHED_FOR_S:
        return True, "not whole yet: a part of it may still come"
    return False, "it never became whole: a part of it is missing"


def _lines(groups: Iterable[_Group]) -> list[list[_Group]]:
    """The decisions of each run, oldest first: attempts and numbers order them, clocks do not. A process below a rank counts for itself."""
    found: dict[tuple[str, str], list[_Group]] = {}
    for group in sorted(groups, key=lambda group: group.key):
        found.setdefault(group.key[:2], []).append(group)
    return list(found.values())


# What the terms of a policy keep


def _apply(groups: list[_Group], policy: Policy, run: RunFacts) -> None:
    whole = [group for group in groups if any(item.whole for item in group.items)]
    for k, group in enumerate(reversed(whole)):
        if k < policy.newest:
            group.keep(f"one of the newest {policy.newest}")
        if policy.every and group.key[3] % policy.every == 0:
            group.keep(f"every {policy.every}{_ordinal_end(policy.every)}")
    if policy.peak:
        _keep_peak(whole, policy.peak)
    if whole:
        why = "the last of its run" if run.finished else "a resume starts from it"
        whole[-1].keep(why, protect=True)
    for group in groups:
        if any(item.pinned for item in group.items):
            group.keep("pinned", protect=True)
        if policy.keeps_all and not group.why:
            group.keep(_EVERYTHING)
        if not group.why:
            group.dropped = f"not kept by {', '.join(policy.keepers)}"


def _keep_peak(groups: list[_Group], peak: Peak) -> None:
    """The best by the metric, the earlier of equals. Where nothing says which is best, nothing is dropped for it."""
    known = [(value, group) for group in groups if (value := _metric(group, peak.metric)) is not None]
    if not known:
        for group in groups:
            group.keep(f"{peak.metric} was not logged before it, so the best is unknown")
        return
    wanted = max if peak.best == "max" else min
    best = wanted(value for value, _ in known)
    group = next(group for value, group in known if value == best)
    group.keep(f"the best {peak.metric} ({best:.6g})", protect=True)


def _metric(group: _Group, name: str) -> float | None:
    values = [item.metrics[name] for item in group.items if name in item.metrics and not math.isnan(item.metrics[name])]
    return values[-1] if values else None


def _ordinal_end(number: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")


# The budget


def _kept_alone(items: Sequence[Item], lone: Mapping[int, tuple[bool, str]]) -> list[Item]:
    return [items[ix] for ix, (keep, _) in lone.items() if keep]


def _thin(groups: list[_Group], budget: int, runs: Mapping[str, RunFacts], other_bytes: int, alone: Sequence[Item]) -> None:
    """Drop decisions until the bytes fit or only protected ones are left; the order does not depend on the budget."""
    users: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for holder in [*groups, *(_Group(item.decision, [item]) for item in alone)]:
        pieces = _pieces(holder)
        users.update(pieces.keys())
        sizes.update(pieces)
    total = other_bytes + sum(sizes.values())
    rows = _rows(groups, runs)
    for step in thinning.order([row for _, row in rows]):
        if total <= budget:
            break
        group = rows[step.row][0][step.place]
        for piece, size in _pieces(group).items():
            users[piece] -= 1
            total -= size if not users[piece] else 0
        group.dropped = f"thinned for the budget: leaves {_span(step.gap_s)} without a checkpoint"
    held = {piece for piece, count in users.items() if count}
    for group in groups:
        if group.dropped and _pieces(group).keys() <= held:  # its bytes are all still held by others: dropping it frees nothing
            group.dropped = ""
            group.keep("its bytes are shared with others that are kept")
        elif group.why == [_EVERYTHING]:
            group.why = ["within the budget"]


def _rows(groups: Sequence[_Group], runs: Mapping[str, RunFacts]) -> list[tuple[list[_Group], thinning.Row]]:
    """The decisions of each run, the newest run first."""
    found = []
    for theirs in _lines(groups):
        run, times = theirs[0].key[0], [group.at for group in theirs]
        began = runs[run].began if run in runs else times[0]
        found.append((theirs, thinning.Row(began, times, [group.protected for group in theirs])))
    return sorted(found, key=lambda pair: (pair[1].began, pair[0][0].key[:2]), reverse=True)


def _pieces(group: _Group) -> dict[str, int]:
    merged: dict[str, int] = {}
    for item in group.items:
        merged.update(item.pieces)
    return merged


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


# Verdicts


def _verdicts(items: Sequence[Item], groups: Mapping[Decision, _Group], lone: Mapping[int, tuple[bool, str]]) -> list[Verdict]:
    found: list[tuple[Item, bool, str]] = []
    for ix, item in enumerate(items):
        if ix in lone:
            found.append((item, *lone[ix]))
        else:
            group = groups[item.decision]
            found.append((item, not group.dropped, group.dropped or ", ".join(group.why)))
    users = Counter(piece for item, keep, _ in found for piece in item.pieces)
    verdicts = []
    for item, keep, why in found:
        freed = 0
        for piece, size in item.pieces.items() if not keep else ():
            users[piece] -= 1
            freed += 0 if users[piece] else size
        verdicts.append(Verdict(item, keep, why, freed))
    return verdicts
