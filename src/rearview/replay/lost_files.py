"""Which stored states a replay must not begin with, or put back, because of the run's own files: one that the program reads again had a
content there that nobody kept. Then what writes the file is run. Looks only; how files are brought back is for `sandbox/files`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rearview.model import MAIN_PROCESS
from rearview.plan.timeline import BLOCK, INSIDE, ITERATION
from rearview.record.resume.past import Past
from rearview.replay.sandbox import files as sandbox_files
from rearview.store import manifests
from rearview.store.layout import Store
from rearview.store.manifests import Manifest

Times = tuple[float, float]
"""When a file was read first and last."""
_ALWAYS: Times = (-math.inf, math.inf)
_READS = re.compile(r"\b(open|load\w*|read\w*|from_file|fromfile|loadtxt|memmap)\s*\(")
_SLACK_S = 0.05
"""The time that a manifest says may be so much later than the moment of its checkpoint."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Unusable:
    """Stored states that lack a file, and a sentence about it."""

    names: frozenset[str] = frozenset()
    sentence: str = ""


def unusable(store: Store, project: Path, past: Past, statements: Iterable[str] = (), last: str | None = None) -> Unusable:
    """The states that must not be used; `statements` are the texts of the probes, which may read files too.

    `last` is the state behind which nothing is run: what is read only there does not matter.
    """
    reads = read_again(past, list(statements))
    if not reads:
        return Unusable()
    groups = [group for group in manifests.grouped(store, past.run) if group.part in (INSIDE, BLOCK, ITERATION)]
    rows = [(group, group.members[0]) for group in groups if group.members[0].process == MAIN_PROCESS]
    every = [one for _, one in rows]
    ended = next((one.wall for one in every if str(one.name) == last), math.inf)
    reads = {path: times for path, times in reads.items() if times[0] <= ended}
    narrow = replace(past, opened=[row for row in past.opened if str(row[0]) in reads])
    names: set[str] = set()
    paths: dict[str, None] = {}
    for at, (group, one) in enumerate(rows):
        if group.thinned:
            continue
        mine = [row for row in one.files if str(row[0]) in reads]
        for plan in sandbox_files.lost_files(store, project, narrow, mine):
            if is_needed(plan.path, plan.mode, every[at:], reads[plan.path]):
                names.add(str(one.name))
                paths[plan.path] = None
    return Unusable(frozenset(names), _sentence(list(paths), len(names))) if names else Unusable()


def read_again(past: Past, statements: Sequence[str]) -> dict[str, Times]:
    """The files that the run wrote and that are read, by itself or by a statement, with when."""
    found: dict[str, Times] = dict(past.read_back)
    anything = any(_READS.search(text) for text in statements)
    for row in past.opened:
        path, mode = str(row[0]), str(row[1])
        if mode == "+" or anything or any(os.path.basename(path) in text for text in statements):
            found[path] = _ALWAYS
    return found


def is_needed(path: str, mode: str, since: Sequence[Manifest], read: Times) -> bool:
    """Whether the content that a file had at the first of some boundaries is read after it: not if it is written anew before that."""
    first, last = read
    here = since[0]
    if last <= here.wall - _SLACK_S:
        return False
    now = _row(here, path)
    anew = next((one for one in since[1:] if (row := _row(one, path)) is not None and row != now), None)
    return mode not in ("w", "x") or anew is None or first <= anew.wall


def _row(one: Manifest, path: str) -> Sequence[Any] | None:
    """What identifies a file's content at a boundary."""
    rows: Mapping[str, Sequence[Any]] = {str(row[0]): (row[1], row[4], row[5]) for row in one.files if len(row) > 5}
    return rows.get(path)


def _sentence(paths: Sequence[str], count: int) -> str:
    some = ", ".join(paths[:_NAMED]) + (" and others" if len(paths) > _NAMED else "")
    states = "1 stored state" if count == 1 else f"{count} stored states"
    return f"what {some} held at {states} was not kept, and it is read: they are not used, what writes it is run"
