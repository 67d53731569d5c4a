"""From which states attempts of a run went on, failed by themselves and kept nothing newer: the next one begins from an older state.

Reads the journals of attempts, and of those only their first and last parts. What ended an attempt from outside (a signal, Ctrl-C, the exit
code of a program that answers a signal) says nothing of the state it began from. Must not know how a checkpoint is read or restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rearview.model import RunId
from rearview.record.resume import past
from rearview.store.journal import parts_of
from rearview.store.layout import Store

if TYPE_CHECKING:
    from pathlib import Path

    from rearview.record.resume.restore_points import RestorePoint

Place = tuple[Any, ...]
"""Where a state was taken: the part, and of each loop around it name, occurrence and iteration. Another attempt comes there again."""
Key = tuple[int, int, str]
"""Attempt, number and part of a checkpoint."""

_OF_SIGNALS = 128
"""Exit codes from here on are how a program says by which signal it was told to end."""
_OWN_SIGNALS = frozenset(("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"))
"""Those that a program brings upon itself."""
_OF_OTHER_RANKS = ("gloo", "nccl", "connection", "torch.distributed")
"""What a rank says, in the type or the message of its exception, when another one is gone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that came to its place, or had none to come to."""

    number: int
    place: Place | None
    """Of the state that it went on from; None: it began at the beginning, or with a state of another run."""
    failure: str
    """What it failed of by itself; nothing if it did not."""


def attempts_of(store: Store, run: RunId) -> list[Attempt]:
    """The attempts of a run that began with something, but the first, in order."""
    parts: dict[int, dict[str, list[Path]]] = {}
    for name, path in parts_of(store.run(run)):
        if name.attempt > 1:
            parts.setdefault(name.attempt, {}).setdefault(name.writer, []).append(path)
    found = []
    for number, writers in sorted(parts.items()):
        mains = [paths for writer, paths in writers.items() if past.is_main(writer)]
        began = [fact for paths in mains for fact in past.facts_in(paths[0], "resumed", "restored")]
        resumed = next((fact for fact in began if fact["fact"] == "resumed"), {})
        if resumed.get("checkpoint") and not any(fact["fact"] == "restored" for fact in began):
            continue  # it did not come there: `missed` says so, if that had to do with the state
        ends = [fact for paths in mains for fact in past.facts_in(paths[-1], "end")]
        exits = [fact for path in writers.get(past.SUPERVISOR, ()) for fact in past.facts_in(path, "exit")]
        found.append(Attempt(number, _place_in(resumed, run), _failure(ends, exits, len(mains))))
    return found


def _place_in(resumed: dict[str, Any], run: RunId) -> Place | None:
    origin = resumed.get("from")
    if resumed.get("run") != run or not isinstance(origin, dict) or not resumed.get("checkpoint"):
        return None
    return _place(str(origin.get("part")), resumed.get("path") or ())


def _place(part: str, path: Sequence[Sequence[Any]]) -> Place:
    return part, *(tuple(level[:3]) for level in path)


def _failure(ends: Sequence[dict[str, Any]], exits: Sequence[dict[str, Any]], ranks: int) -> str:
    """What an attempt failed of by itself, by what its ranks and its supervisor say of its end."""
    failed = [end for end in ends if end.get("how") == "failed"]
    for end in failed:
        name, code = str(end.get("exception") or ""), end.get("exit_code")
        told = f"{name} {end.get('message') or ''}".lower()
        is_outside = name == "KeyboardInterrupt" or (not name and (not code or code >= _OF_SIGNALS))
        if not is_outside and (len(ends) == ranks or not any(word in told for word in _OF_OTHER_RANKS)):
            return name or f"exit {code}"
    for one in () if failed else exits:
        code, signal = one.get("code"), one.get("signal")
        if signal in _OWN_SIGNALS:
            return str(signal)
        if code and code < _OF_SIGNALS:
            return f"exit {code}"
    return ""


def led_nowhere(points: Sequence[RestorePoint], attempts: Sequence[Attempt]) -> dict[Key, Attempt]:
    """Those of some points, newest first, that are not tried again, each with the attempt that failed from there.

    Of an attempt that failed no state counts which it took at a place that others had failed from: else two places would take turns for
    ever. One that was ended from outside may have come there in better health.
    """
    found: dict[Key, Attempt] = {}
    failed: dict[Place, Attempt] = {}
    for attempt in attempts:
        if not attempt.failure:
            continue
        there = [(key_of(point), _place(point.part, point.first.path), point) for point in points if point.attempt <= attempt.number]
        found |= {key: failed[place] for key, place, _ in there if place in failed}
        left = sorted((point for key, _, point in there if key not in found), key=lambda point: point.is_halfway)
        if attempt.place is not None and not (left and left[0].attempt == attempt.number):
            failed[attempt.place] = attempt
            found |= {key: failed[place] for key, place, _ in there if place in failed}
    return found


def key_of(point: RestorePoint) -> Key:
    """What tells a checkpoint from the others of its run."""
    return point.attempt, point.number, point.part
