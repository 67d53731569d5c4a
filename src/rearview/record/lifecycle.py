"""How runs begin and end in this process: implicitly with the first call, explicitly with `rv.run`, by fork, at exit.

Holds the open runs of the process and nothing else. Whatever fails here degrades recording with one sentence.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from rearview import config, session
from rearview.errors import CheckpointError, ConfigError, NewerFormat, RearviewError, UsageError
from rearview.model import MAIN_PROCESS, ProcessNumber, RunId, VersionId
from rearview.record import arguments, beginning, endings, environment, firsts, notes, process, source
from rearview.record.keeper import Keeper, tick
from rearview.record.off import Off
from rearview.record.open_runs import OpenRun, OpenRuns
from rearview.record.recorder import Recorder
from rearview.record.reserve import LAST_WORDS_BYTES, Reserve
from rearview.record.resume import handshake
from rearview.record.say import say
from rearview.record.trouble import is_ours
from rearview.store import processes, runs
from rearview.store.layout import Store, derived_run_id


class Stage(Protocol):
    """A replay: which run of this process it is of, and who records that, where."""

    store: Store
    run: RunId
    place: int
    explicit: Sequence[bool]
    """Of each run of the recorded process up to this one: whether it began with `rv.run`."""
    recorder: type[Recorder]

    def begun(self, recorder: Recorder) -> None:
        """The run has begun."""


opened = OpenRuns()
_place = 0
"""Runs begun before the next one, in this process and in those it was forked from."""
_place_at_fork = 0
_explicit: list[bool] = []
"""Of each of these, whether it began with `rv.run`."""
_mark_before: str | None = None
"""`REARVIEW_RUN` as this process found it."""
_outcome: tuple[BaseException | None, int | None] | None = None
"""How the script ended, where the launcher saw it."""
_prepared: beginning.Ground | None = None
_launched: process.Moment | None = None
"""When the launcher began: the first run begins there too."""
_to_resume: handshake.Handshake | None = None
"""What `rv.resume` found, for the first run."""
stage: Stage | None = None
"""Set in a worker of a replay."""
_wishes: dict[str, object] = {}
"""Name and tags given to `rearview run`, for the first run."""


def _recorders() -> list[Recorder]:
    return [run.recorder for run in opened.runs]


def _errands(recorder: Recorder) -> None:
    for run in list(opened.runs):
        if run.recorder is recorder:
            notes.keep_up_quietly(run)


_keeper = Keeper(_recorders, _errands)


def rest() -> None:
    """Bring our threads to rest, as before a fork; what is asked of them next starts them again. Not with the session's lock held."""
    if (background := sys.modules.get("rearview.record.background.wrapping")) is not None:  # only if the program uses it
        background.rest_all()
    for run in opened.runs:
        if run.recorder.keeping is not None:
            run.recorder.keeping.materializer.rest()
    _keeper.rest()


def current() -> OpenRun | None:
    """The open run that this thread or task is in."""
    return opened.here()


def prepare(wishes: dict[str, object]) -> Path | None:
    """Find the store and take the source now, before the script runs: what the launcher does. Gives the store's folder."""
    global _prepared, _wishes, _launched  # noqa: PLW0603
    _wishes = wishes
    _launched = time.time(), time.monotonic_ns()
    if config.recording_is_off(os.environ):
        return None
    at, version = wishes.pop("store", None), wishes.pop("version", None)  # of a run that is resumed
    try:
        _prepared = beginning.ground(
            source.program(), take=process.spawned_number(MAIN_PROCESS) is None,
            store_root=Path(str(at)) if at else None, version=VersionId(str(version)) if version else None,
        )  # fmt: skip
    except (OSError, RearviewError) as problem:
        if isinstance(problem, (ConfigError, NewerFormat)):
            raise
        say(f"the source could not be taken before the start: {problem}")
    return _prepared.store.root if _prepared else None


def begin_implicitly() -> session.Session:
    """The run that begins with the first call."""
    with session.lock:
        if session.active is None:
            begin(explicit=False)
        assert session.active is not None
        return session.active


def begin(
    *, explicit: bool, name: str | None = None, tags: Sequence[str] = (), notes_text: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> OpenRun | None:  # fmt: skip
    """Begin a run. None if recording is off or cannot begin."""
    with session.lock:
        if config.recording_is_off(os.environ):
            session.active = Off()
            return None
        try:
            run = _begin(explicit, name, tags, notes_text, settings or {})
        except (ConfigError, CheckpointError):  # what was to be resumed is not begun anew unasked
            raise
        except (OSError, RearviewError) as problem:
            say(f"nothing is recorded: {problem}; the program goes on")
            run = None
        except Exception as problem:
            if not is_ours(problem):
                raise
            say(f"nothing is recorded, a fault in rearview, please report it: {type(problem).__name__}: {problem}; the program goes on")
            run = None
        if run is None and session.active is None:
            session.active = Off()
        return run


def _begin(  # noqa: PLR0912, PLR0915
    explicit: bool, name: str | None, tags: Sequence[str], notes_text: str | None, settings: Mapping[str, object]
) -> OpenRun | None:
    global _place, _prepared, _mark_before  # noqa: PLW0603
    if stage is not None and not explicit and _place < len(stage.explicit) and stage.explicit[_place]:
        return None  # a statement added outside of any run: what it logs belongs to none that was recorded
    around = opened.here()
    from_parent = process.inherited(os.environ)
    spawned = process.spawned_number(from_parent.process) if from_parent else None
    by_itself, shake = _to_resume, _handshake()
    joined = from_parent is not None and spawned is not None and not explicit and (from_parent.store / "runs" / from_parent.run).is_dir()
    ground, _prepared = _prepared, None
    began = _launched if ground is not None and not explicit else None
    if ground is None:
        at = from_parent.store if joined and from_parent else shake.store if shake else stage.store.root if stage else None
        ground = beginning.ground(source.program(), take=not joined and stage is None, store_root=at)
    if ground is None:
        return None
    staged = stage if stage is not None and _place == stage.place and not joined else None
    if stage is not None and not joined:
        # Runs of the process before the one that is replayed are run, and nothing of theirs is kept.
        wanted = {"checkpoints": staged is not None, "quiet": True}
        ground = replace(ground, store=stage.store, snapshot=None, settings=config.overlaid(ground.settings, wanted, "replay"))
    launch = process.launch_of(os.environ, firsts.launcher or os.getppid())
    if launch is not None and from_parent is not None and from_parent.launch == launch.key and around is None:
        launch = None  # a program started by a rank is no rank
    if joined and from_parent and spawned:
        run_id, number = from_parent.run, spawned
        arguments.join(runs.read_run(ground.store, run_id).get("given"))
    elif staged is not None:
        run_id, number = staged.run, ProcessNumber(MAIN_PROCESS)
    elif shake is not None and not shake.is_new_run:
        run_id, number = shake.run, ProcessNumber(str(launch.rank) if launch else MAIN_PROCESS)
    else:
        run_id, number = _identify(ground.store, launch, explicit)
    recorder = (staged.recorder if staged else Recorder)(
        ground.store, run_id, number, processes.identity(), arguments.given(),
        rank=launch.rank if launch else None, world=launch.world if launch else None, sync_always=ground.settings["sync"] == "always",
        began=began, attempt=shake.attempt or 1 if shake else 1,
    )  # fmt: skip
    ground = replace(ground, settings=config.overlaid(ground.settings, settings, "rv.run"))
    recorder.project, recorder.settings = ground.project, ground.settings
    if not joined and staged is None and (shake is None or shake.is_new_run):
        wished = _wished(name, tags, notes_text) | _own_policy(ground.settings)
        known = around.recorder if around else from_parent
        parent = (known.run, known.process) if known else None
        if shake is not None:
            parent = (shake.run, number)
        place = _place - _place_at_fork
        wall = began[0] if began else time.time()
        begun = [*_explicit, explicit]
        beginning.write(ground, run_id, recorder.identity, wished, parent=parent, place=place, launch=launch, wall=wall, explicit=begun)
    _place += 1
    _explicit.append(explicit)
    recorder.wake = _keeper.ensure
    recorder.begin()
    recorder.process = ProcessNumber(recorder.journal.writer)
    mark = process.mark(run_id, recorder.process, launch.key if launch else "", ground.store.root)
    run = OpenRun(recorder, ground.project, ground.settings, None if joined else ground.snapshot, joined, explicit, mark)
    if not opened.runs:
        _mark_before = os.environ.get(process.VARIABLE)
    opened.add(run)
    os.environ[process.VARIABLE] = mark
    if ground.snapshot is not None:
        _keeper.to_sync += [*ground.snapshot.written, *{path.parent for path in ground.snapshot.written}]
    if not joined:
        if ground.snapshot is not None and ground.snapshot.notes:
            recorder.fact("left_out", notes=list(ground.snapshot.notes))
        notes.at_start(run)
        beginning.greet(ground, run.settings["quiet"])
    recorder.trouble.last_words = Reserve(recorder.store, LAST_WORDS_BYTES)
    recorder.fact("streams", **environment.streams(firsts.python_random))
    if staged is not None:
        staged.begun(recorder)
    if shake is not None:
        from rearview.record.resume import reaching

        reaching.begin(recorder, shake)
        run.resumed = shake.origin if shake is by_itself and not shake.is_new_run else None
    recorder.flush()
    session.active = opened.session()
    return run


def _handshake() -> handshake.Handshake | None:
    """What is to be resumed: what `rearview resume` says, else what `rv.resume` found. Once."""
    global _to_resume
    found, _to_resume = handshake.take(os.environ) or _to_resume, None
    return found


def _wished(name: str | None, tags: Sequence[str], notes_text: str | None) -> dict[str, object]:
    """Name, tags and notes: what the script says, and for the first run what `rearview run` was told."""
    told = dict(_wishes)
    _wishes.clear()
    more = told.get("tags")
    every = [*tags, *(more if isinstance(more, list) else ())]
    return {"name": name or told.get("name"), "tags": every, "notes": notes_text or told.get("notes"), "key": told.get("key")}


def _own_policy(settings: config.Settings) -> dict[str, object]:
    """Which checkpoints to keep, where that was said for this run and not for the project."""
    return {name: settings[name] for name in ("keep", "peak") if settings.origin(name) not in ("default", "pyproject.toml")}


def resume(key: str | None) -> bool:
    """Go on with the newest unfinished run of this program, if there is one; begin anew if not. True if it goes on."""
    global _to_resume, _prepared  # noqa: PLW0603
    with session.lock:
        if session.active is not None:
            if _place:
                raise UsageError("rv.resume() comes first: before any other call that records")
            return False
        if stage is None and handshake.VARIABLE not in os.environ and not config.recording_is_off(os.environ):
            from rearview.record.resume import resuming

            _prepared = _prepared or beginning.ground(source.program(), take=True)
            if _prepared is not None:
                _to_resume = resuming.pick_up(_prepared.store, _prepared.project, key)
        if key is not None:
            _wishes["key"] = key
        goes_on = _to_resume is not None or handshake.VARIABLE in os.environ
        begin(explicit=False)
        return goes_on


def _identify(store: Store, launch: process.Launch | None, explicit: bool) -> tuple[RunId, ProcessNumber]:
    """The id that children forked before the run begins find too, unless they begin one of their own."""
    below = "".join(f".{k}" for k in firsts.fork_path)
    kind = f"explicit{below}" if explicit else "implicit"
    if explicit:
        below = ""  # whoever begins a run is its main process
    if launch is None:
        return derived_run_id(f"{firsts.reserved.hex()}/{kind}/{_place}"), ProcessNumber(MAIN_PROCESS + below)
    attempt = 0
    while True:  # every rank takes the first run of this launch that it has no part in: no rank waits for another
        run_id = derived_run_id(f"{launch.key}/{kind}/{_place}/{attempt}")
        number = ProcessNumber(f"{launch.rank}{below}")
        if process.may_join(store, run_id, number, exact=launch.exact):
            return run_id, number
        attempt += 1


def finish(run: OpenRun, how: str, error: BaseException | None = None, exit_code: int | None = None) -> None:
    """End a run and every run begun inside it."""
    with session.lock:
        if not run.is_open:
            return
        for inner in opened.inside(run):
            finish(inner, "finished")
        recorder = run.recorder
        if recorder.keeping is not None:
            recorder.keeping.finish()
        astray = None if recorder.reach is None else recorder.reach.ended()
        if astray is not None and how == "finished":
            how, error = "failed", astray
        worked = _keeper.hold()  # what it is about to note comes before the end
        try:
            notes.at_end(run)
            recorder.end(how, exit_code=exit_code, **endings.of(error))
            opened.remove(run)
        finally:
            _keeper.release()
        _set_mark(opened.runs[-1].mark if opened.runs else _mark_before)
        session.active = opened.session()
        if not opened.runs:
            _keeper.sync_files()
        elif worked:
            _keeper.ensure()
        if run.resumed is not None:
            notes.tell_repeated(run)
        notes.farewell(run, how, error)


def _set_mark(mark: str | None) -> None:
    if mark is None:
        os.environ.pop(process.VARIABLE, None)
    else:
        os.environ[process.VARIABLE] = mark


# -- exit ------------------------------------------------------------------------------------------------------------


def script_is_over() -> bool:
    """Whether the launcher saw the script's end: what happens now is the process's."""
    return _outcome is not None


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
    while opened.runs:
        keeping = opened.runs[-1].recorder.keeping
        code = exit_code if _outcome is not None or keeping is None else keeping.left_with
        finish(opened.runs[-1], "failed" if error is not None or code else "finished", error, code)
    if _place and not firsts.fork_path:
        for sentence in arguments.given().unasked():
            say(sentence)
    session.active = Off()  # nothing begins while the interpreter shuts down


# -- fork ------------------------------------------------------------------------------------------------------------


def _before_fork() -> None:
    _keeper.hold()  # no thread of ours in a forking process
    if opened.runs:
        _keeper.keep()
    for run in opened.runs:
        run.recorder.lock.acquire()


def _after_fork_in_parent() -> None:
    for run in reversed(opened.runs):
        run.recorder.lock.release()
        tick(run.recorder)  # makes the next record start the keeper again
    _keeper.release()


def _after_fork_in_child() -> None:
    global _place_at_fork  # noqa: PLW0603
    _place_at_fork = _place
    _keeper.forget()
    who = processes.identity()
    for run in opened.runs:
        run.joined = True
        run.snapshot = run.resumed = None
        recorder = run.recorder
        recorder.after_fork_in_child(ProcessNumber(f"{recorder.process}.{firsts.fork_path[-1]}"), who)
        before = process.inherited({process.VARIABLE: run.mark})
        run.mark = process.mark(recorder.run, recorder.process, before.launch if before else "", recorder.store.root)
    if opened.runs:
        os.environ[process.VARIABLE] = opened.runs[-1].mark


firsts.on_fork = firsts.OnFork(_before_fork, _after_fork_in_parent, _after_fork_in_child)
