"""How a run stands: running, finished, failed or killed. A pure decision over what its journals say and who is alive.

Derived every time, never stored: a run that was running when somebody looked is killed a moment later without a word.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.model import ProcessIdentity


@dataclass(frozen=True, slots=True)
class MainProcess:
    """What is known of the main process of one rank, in its last attempt."""

    identity: ProcessIdentity | None
    began_wall: float | None
    end: dict[str, Any] | None
    """The `end` fact."""
    heard_wall: float | None
    """The last wall-clock time at which it certainly lived."""


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome, its detail, and how long the run took."""

    status: str
    detail: str
    duration_s: float | None


Alive = Callable[[ProcessIdentity, float | None], bool]
"""Does this process live, given when it was last heard of?"""


def decide(processes: Sequence[MainProcess], exits: Sequence[dict[str, Any]], alive: Alive, now_wall: float) -> Status:
    """The status of a run from its ranks' main processes and what a supervisor saw."""
    if not processes:
        return Status("killed", _exit_detail(exits), None)
    living = [p for p in processes if p.end is None and p.identity is not None and alive(p.identity, p.heard_wall)]
    began = min((p.began_wall for p in processes if p.began_wall is not None), default=None)
    if living:
        return Status("running", "", _between(began, now_wall))
    failed = [p.end for p in processes if p.end is not None and p.end.get("how") == "failed"]
    ended = _latest(p.end.get("wall") if p.end else p.heard_wall for p in processes)
    if failed:
        return Status("failed", _failure_detail(failed[0], exits), _between(began, ended))
    if any(p.end is None for p in processes):
        return Status("killed", _exit_detail(exits), _between(began, ended))
    return Status("finished", "", _between(began, ended))


def _latest(times: Iterable[object]) -> float | None:
    return max((float(t) for t in times if isinstance(t, (int, float))), default=None)


def _between(began: float | None, ended: float | None) -> float | None:
    return None if began is None or ended is None else max(0.0, ended - began)


def _failure_detail(end: dict[str, Any], exits: Sequence[dict[str, Any]]) -> str:
    if end.get("exception"):
        return str(end["exception"])
    if end.get("exit_code") is not None:
        return f"exit {end['exit_code']}"
    return _exit_detail(exits)


def _exit_detail(exits: Sequence[dict[str, Any]]) -> str:
    for fact in reversed(exits):
        if fact.get("signal"):
            return _signal_name(fact["signal"])
        if fact.get("code") is not None:
            return f"exit {fact['code']}"
    return ""


def _signal_name(number: object) -> str:
    if isinstance(number, str):
        return number
    try:
        return signal.Signals(int(str(number))).name
    except ValueError:
        return f"signal {number}"
