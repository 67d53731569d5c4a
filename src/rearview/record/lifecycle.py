"""How runs begin and end in this process: implicitly with the first call, explicitly with `rv.run`, by fork, at exit.

Holds the open runs of the process and nothing else. Whatever fails here degrades recording with one sentence.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rearview import config, session
from rearview.errors import ConfigError, NewerFormat, RearviewError
from rearview.model import MAIN_PROCESS, ProcessNumber, RunId
from rearview.record import arguments, beginning, environment, firsts, loops, notes, process, source
from rearview.record.keeper import Keeper
from rearview.record.off import Off
from rearview.record.recorder import Recorder
from rearview.record.say import say
from rearview.store.layout import Store, derived_run_id
from rearview.versions.snapshot import Snapshot

_TRACEBACK_LINES = 40


@dataclass(slots=True)
class OpenRun:
    """A run that is going on in this process."""

    recorder: Recorder
    project: Path
    settings: config.Settings
    snapshot: Snapshot | None
    """The version as far as this process keeps it up; None in a process that joined."""
    joined: bool
    """This process came to a run that another one began."""
    explicit: bool
    entered: bool = False
    """Inside a `with`."""
    outer_node: loops.Node | None = None
    outer_mark: str | None = None
    kept: notes.Kept = field(default_factory=notes.Kept)


_open: list[OpenRun] = []
_begin_lock = threading.RLock()
_hooks_set = False
_place = 0
_outcome: tuple[BaseException | None, int | None] | None = None
"""How the script ended, where the launcher saw it."""
_prepared: beginning.Ground | None = None
_wishes: dict[str, object] = {}
"""Name and tags given to `rearview run`, for the first run."""


def _recorders() -> list[Recorder]:
    return [run.recorder for run in _open]


def _errands(recorder: Recorder) -> None:
    for run in _open:
        if run.recorder is recorder:
            notes.keep_up(run)


_keeper = Keeper(_recorders, _errands)


def rest() -> None:
    """Bring the recording thread of this process to rest, as before a fork. The next record starts it again."""
    _keeper.rest()


def current() -> OpenRun | None:
    """The innermost open run."""
    return _open[-1] if _open else None


def prepare(wishes: dict[str, object]) -> None:
    """Find the store and take the source now, before the script runs: what the launcher does."""
    global _prepared, _wishes  # noqa: PLW0603
    _wishes = wishes
    try:
        _prepared = beginning.ground(source.program(), take=process.spawned_number(MAIN_PROCESS) is None)
    except (OSError, RearviewError) as problem:
        if isinstance(problem, (ConfigError, NewerFormat)):
            raise
        say(f"the source could not be taken before the start: {problem}")


def begin_implicitly() -> session.Session:
    """The run that begins with the first call."""
    with _begin_lock:
        if session.active is None:
            begin(explicit=False)
        assert session.active is not None
        return session.active


def begin(*, explicit: bool, name: str | None = None, tags: Sequence[str] = (), notes_text: str | None = None) -> OpenRun | None:
    """Begin a run. None if recording is off or cannot begin."""
    with _begin_lock:
        if config.recording_is_off(os.environ):
            session.active = Off()
            return None
        try:
            run = _begin(explicit, name, tags, notes_text)
        except (ConfigError, NewerFormat):
            raise
        except (OSError, RearviewError) as problem:
            say(f"nothing is recorded: {problem}; the program goes on")
            if session.active is None:
                session.active = Off()
            return None
        if run is None:
            session.active = Off()
        return run


def _begin(explicit: bool, name: str | None, tags: Sequence[str], notes_text: str | None) -> OpenRun | None:
    global _place, _prepared  # noqa: PLW0603
    from_parent = process.inherited(os.environ)
    spawned = process.spawned_number(from_parent.process) if from_parent else None
    joined = from_parent is not None and spawned is not None and not explicit and (from_parent.store / "runs" / from_parent.run).is_dir()
    ground, _prepared = _prepared, None
    if ground is None:
        at = from_parent.store if joined and from_parent else None
        ground = beginning.ground(source.program(), take=not joined, store_root=at)
    if not ground.settings["record"]:
        return None
    launch = process.launch_of(os.environ)
    if launch is not None and from_parent is not None and from_parent.launch == launch.key and not _open:
        launch = None  # a program started by a rank is no rank
    if joined and from_parent and spawned:
        run_id, number = from_parent.run, spawned
    else:
        run_id, number = _identify(ground.store, launch)
    recorder = Recorder(
        ground.store, run_id, number, process.identity(), arguments.given(),
        rank=launch.rank if launch else None, world=launch.world if launch else None, sync_always=ground.settings["sync"] == "always",
    )  # fmt: skip
    run = OpenRun(recorder, ground.project, ground.settings, None if joined else ground.snapshot, joined, explicit)
    if not joined:
        wished = _wished(name, tags, notes_text)
        parent = {"run": from_parent.run, "process": from_parent.process} if from_parent else None
        beginning.write(ground, run_id, recorder.identity, wished, parent=parent, place=_place, launch=launch)
    _place += 1
    recorder.wake = _keeper.ensure
    recorder.begin()
    recorder.process = ProcessNumber(recorder.journal.writer)
    run.outer_node = loops.current.get()
    run.outer_mark = os.environ.get(process.VARIABLE)
    loops.current.set(None)
    os.environ[process.VARIABLE] = process.mark(run_id, recorder.process, launch.key if launch else "", ground.store.root)
    if ground.snapshot is not None:
        _keeper.to_sync += [*ground.snapshot.written, *{path.parent for path in ground.snapshot.written}]
    if not joined:
        if ground.snapshot is not None and ground.snapshot.notes:
            recorder.fact("left_out", notes=list(ground.snapshot.notes))
        notes.at_start(run)
        beginning.greet(ground, run.settings["quiet"])
    recorder.fact("streams", **environment.streams(firsts.python_random))
    recorder.flush()
    _open.append(run)
    session.active = recorder
    _set_hooks()
    return run


def _wished(name: str | None, tags: Sequence[str], notes_text: str | None) -> dict[str, object]:
    """Name, tags and notes: what the script says, and for the first run what `rearview run` was told."""
    told = dict(_wishes)
    _wishes.clear()
    more = told.get("tags")
    return {
        "name": name or told.get("name"),
        "tags": [*tags, *(more if isinstance(more, list) else ())],
        "notes": notes_text or told.get("notes"),
    }


def _identify(store: Store, launch: process.Launch | None) -> tuple[RunId, ProcessNumber]:
    below = "".join(f".{k}" for k in firsts.fork_path)
    if launch is None:
        return derived_run_id(f"{firsts.reserved.hex()}/{_place}"), ProcessNumber(MAIN_PROCESS + below)
    attempt = 0
    while True:  # every rank takes the first run of this launch that it has no part in: no rank waits for another
        run_id = derived_run_id(f"{launch.key}/{_place}/{attempt}")
        if not (store.run(run_id) / f"{launch.rank}{below}-a1-0001.journal").exists():
            return run_id, ProcessNumber(f"{launch.rank}{below}")
        attempt += 1


def finish(run: OpenRun, how: str, error: BaseException | None = None, exit_code: int | None = None) -> None:
    """End a run and every run begun inside it."""
    with _begin_lock:
        if run not in _open:
            return
        while _open[-1] is not run:
            finish(_open[-1], "finished")
        _open.remove(run)
        recorder = run.recorder
        notes.at_end(run)
        facts: dict[str, object] = {"exit_code": exit_code, "exception": None, "message": None, "traceback": None}
        if error is not None:
            facts |= {"exception": _type_name(error), "message": str(error)[:10_000], "traceback": _tail(error)}
        recorder.end(how, **facts)
        loops.current.set(run.outer_node)
        if run.outer_mark is None:
            os.environ.pop(process.VARIABLE, None)
        else:
            os.environ[process.VARIABLE] = run.outer_mark
        session.active = _open[-1].recorder if _open else None
        if not _open:
            _keeper.rest()
            _keeper.sync_files()
        notes.farewell(run, how, error)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"


def _tail(error: BaseException) -> str:
    try:
        lines = "".join(traceback.format_exception(error)).splitlines()
    except Exception:  # noqa: BLE001 (the user's exception may not even print)
        return ""
    return "\n".join(lines[-_TRACEBACK_LINES:])


# -- exit ------------------------------------------------------------------------------------------------------------


def script_ended(error: BaseException | None, exit_code: int | None) -> None:
    """What the launcher saw."""
    global _outcome  # noqa: PLW0603
    _outcome = (error, exit_code)


def at_exit() -> None:
    """The process ends: so do its runs. Registered by the import, so it runs after the user's own handlers."""
    error, exit_code = _outcome or (None, None)
    if _outcome is None and source.ipython() is None and not hasattr(sys, "ps1"):
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if _outcome is not None and _place == 0 and not firsts.fork_path:
        begin(explicit=False)  # `rearview run` of a script that never called us is a run too
    while _open:
        finish(_open[-1], "failed" if error is not None or exit_code else "finished", error, exit_code)
    session.active = Off()  # nothing begins while the interpreter shuts down


# -- fork ------------------------------------------------------------------------------------------------------------


def _set_hooks() -> None:
    global _hooks_set  # noqa: PLW0603
    if not _hooks_set:
        _hooks_set = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _before_fork() -> None:
    if _open:
        _keeper.rest()  # no thread of ours in a forking process
        _keeper.keep()
    for run in _open:
        run.recorder.before_fork()


def _after_fork_in_parent() -> None:
    for run in reversed(_open):
        run.recorder.after_fork_in_parent()
        run.recorder.tick()  # makes the next record start the keeper again


def _after_fork_in_child() -> None:
    global _begin_lock  # noqa: PLW0603
    _begin_lock = threading.RLock()
    _keeper.forget()
    who = process.identity()
    for run in _open:
        run.joined = True
        run.snapshot = None
        run.recorder.after_fork_in_child(ProcessNumber(f"{run.recorder.process}.{firsts.fork_path[-1]}"), who)
    if _open:
        newest = _open[-1].recorder
        mark = process.inherited(os.environ)
        os.environ[process.VARIABLE] = process.mark(newest.run, newest.process, mark.launch if mark else "", newest.store.root)


# -- rv.run ----------------------------------------------------------------------------------------------------------


class RunContext:
    """What `rv.run(...)` returns: the run has begun; leaving the `with` ends it."""

    def __init__(self, run: OpenRun | None) -> None:
        self._run = run

    @property
    def id(self) -> str | None:
        """The run's id; None when recording is off."""
        return self._run.recorder.run if self._run else None

    def __enter__(self) -> RunContext:
        if self._run is not None:
            self._run.entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """End the run now."""
        if self._run is not None:
            finish(self._run, "finished" if error is None else "failed", error)

    def __repr__(self) -> str:
        return f"<rearview run {self.id or 'off'}>"


def run_explicitly(name: str | None, tags: Sequence[str], notes_text: str | None) -> RunContext:
    """Begin an explicit run; one that is open and not in a `with` ends first."""
    while _open and not _open[-1].entered and (_open[-1].explicit or source.ipython() is not None):
        finish(_open[-1], "finished")
    return RunContext(begin(explicit=True, name=name, tags=tags, notes_text=notes_text))
