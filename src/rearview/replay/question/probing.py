"""Questions that stay: remembered when they are asked, asked again of runs that came since, and how far each is answered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rearview.errors import VersionError
from rearview.model import VersionId
from rearview.replay.question import joined, notebooks, placing
from rearview.replay.question.sources import Now
from rearview.store import probes, replays
from rearview.store.layout import Store
from rearview.store.probes import Probe
from rearview.versions import probed, read

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo


def remember(
    now: Now, names: Sequence[str], version: VersionId, cannot: dict[str, str], taken: Iterable[str], cells: Sequence[str] = ()
) -> Probe | None:
    """Keep a question: its statements and the source they stand in. `taken` are the versions that took them, `cells` the notebook's."""
    texts = {**now.texts(), **({joined.PATH: joined.join(dict(enumerate(cells, 1))).text} if cells else {})}
    asked = placing.wanted(texts, names)
    if not asked:
        return None  # cells that were never saved: they are asked where they are
    ident = probes.id_of(names, [one.text for one in asked])
    before = probes.read(now.store, ident)
    try:
        source = probed.derive(now.store, version, {**_changed(now, version), **notebooks.keeping(cells)})
    except VersionError:
        return None  # the disk is full: the values matter more
    probe = Probe(
        id=ident, created=before.created if before is not None else dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        names=tuple(names), statements=tuple(one.text for one in asked), source=source, cannot=_cannot(before, cannot, taken),
        corrected={**(before.corrected if before is not None else {}), **now.corrected},
    )  # fmt: skip
    if probe != before:
        probes.write(now.store, probe)
    return probe


def update(now: Now, probe: Probe, cannot: dict[str, str], taken: Iterable[str]) -> None:
    """Keep what was learned when a question was asked again."""
    known = replace(probe, cannot=_cannot(probe, cannot, taken), corrected={**probe.corrected, **now.corrected})
    if known != probe:
        probes.write(now.store, known)


def _cannot(before: Probe | None, cannot: dict[str, str], taken: Iterable[str]) -> dict[str, str]:
    """Why versions cannot take a question, by now."""
    took = set(taken)
    return {one: why for one, why in (before.cannot if before is not None else {}).items() if one not in took} | cannot


def _changed(now: Now, version: VersionId) -> dict[str, bytes]:
    """The files of today's source that a version has otherwise."""
    there = read.files(now.store, version)
    return {path: data for path, data in now.files().items() if path not in there or read.source(now.store, version, path) != data}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far a question is answered."""

    probe: Probe
    answered: int
    recorded: int
    """Runs that log the names themselves."""
    cannot: int
    left: int
    """Runs that were not asked yet."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Version -> why, of runs that cannot."""
    in_part: dict[str, str] = field(default_factory=dict)
    """Version -> why not all, of runs that have an answer nevertheless: values before a statement raised."""


def coverage(store: Store, probe: Probe, runs: Iterable[RunInfo]) -> Coverage:
    """Of the runs that there are."""
    versions: dict[str, list[str]] = {"answered": [], "recorded": [], "cannot": [], "left": []}
    for run in runs:
        versions[_state(store, probe, run)].append(str(run.version))
    reasons = {version: why for version, why in probe.cannot.items() if version in versions["cannot"]}
    in_part = {version: why for version, why in probe.cannot.items() if version in versions["answered"] and version not in reasons}
    return Coverage(probe, **{state: len(those) for state, those in versions.items()}, reasons=reasons, in_part=in_part)


def _state(store: Store, probe: Probe, run: RunInfo) -> str:
    wanted = [name for name in probe.names if name not in run.last]
    if not wanted:
        return "recorded"
    answers = [one for one in replays.list_of(store, run.run) if one.verdict != "divergent"]
    if all(any(name in one.names for one in answers) for name in wanted):
        return "answered"
    return "cannot" if run.version in probe.cannot else "left"
