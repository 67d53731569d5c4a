"""What a run notes besides records, off the training thread: late imports, files opened, notebook cells, what is loaded."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rearview.errors import RearviewError
from rearview.record import environment, firsts, source
from rearview.record.files import inputs, own, written
from rearview.record.say import say
from rearview.store import runs
from rearview.store.journal import parts_of
from rearview.versions import snapshot

if TYPE_CHECKING:
    from rearview.record.open_runs import OpenRun


@dataclass(slots=True)
class Kept:
    """How far the notes of a run have come."""

    modules: int = 0
    """How many modules were loaded when they were last looked through."""
    inputs: inputs.Inputs = field(default_factory=inputs.Inputs)
    cells: dict[int, str] = field(default_factory=dict)
    torch: dict[str, Any] | None = None
    """How torch computes, as it was noted."""
    streams: bool = False
    """NumPy's random stream is noted, or was there when the run began."""
    cell: int | None = None
    """The one that is being executed."""
    hooks: dict[str, Any] = field(default_factory=dict)
    """What IPython calls around cells."""
    failed: bool = False
    """Something could not be noted, and it was said."""


def at_start(run: OpenRun) -> None:
    """What is known at once; a notebook is followed from here on."""
    run.kept.modules = len(sys.modules)
    run.kept.streams = environment.numpy_stream() is not None
    if not run.joined:
        inputs.listen()
    shell = source.ipython()
    if shell is not None:
        run.kept.cells = source.cells(shell)
        run.kept.cell = max(run.kept.cells, default=0)

        def executed(info: Any) -> None:
            text = str(getattr(info, "raw_cell", "") or "")
            note_cell(run, source.coming_cell(shell, text), text)

        def over(result: Any) -> None:
            error = getattr(result, "error_in_exec", None)
            note_cell_over(run, type(error).__name__ if error is not None else None)

        run.kept.hooks = {"pre_run_cell": executed, "post_run_cell": over}
        for event, hook in run.kept.hooks.items():
            shell.events.register(event, hook)


def note_cell(run: OpenRun, number: int, text: str) -> None:
    """A cell is about to be executed in this run."""
    if text and run.kept.cells.get(number) != text:
        run.kept.cells[number] = text
        run.recorder.fact("cell", index=number, source=text, wall=time.time())
    run.kept.cell = number


def note_cell_over(run: OpenRun, error: str | None) -> None:
    """A cell has been executed: until the next one nothing runs."""
    run.recorder.fact("cell_ran", index=run.kept.cell, error=error, wall=time.time())
    run.kept.cell = None


def keep_up(run: OpenRun, *, at_end: bool = False) -> None:
    """Once a second, and at the end."""
    _keep_inputs(run, at_end)
    _keep_environment(run)
    _keep_streams(run)
    _keep_outputs(run)
    if run.snapshot is not None and len(sys.modules) != run.kept.modules:
        run.kept.modules = len(sys.modules)
        _keep_sources(run)


def keep_up_quietly(run: OpenRun) -> None:
    """As `keep_up`, for a thread that has nobody to tell: what fails is said once and tried again at the end."""
    if run.kept.failed:
        return
    try:
        keep_up(run)
    except (OSError, RearviewError) as problem:
        run.kept.failed = True
        run.kept.modules = -1
        say(f"the notes of run {run.recorder.run} could not be kept up: {problem}")


def _keep_sources(run: OpenRun) -> None:
    """Modules imported since: into the version, if it lacks them or has them otherwise."""
    assert run.snapshot is not None
    missing, changed = source.as_imported(run.project, run.snapshot.files, snapshot.blob_id)
    missing = {path: data for path, data in missing.items() if path not in run.snapshot.refused}
    if missing:
        for path in missing:
            why = "changed after the start of the run" if path in changed else "imported late"
            run.recorder.fact("source", path=path, why=why)
            if path in changed:
                say(f"{path} was edited after the run began and imported then: the version keeps what was imported")
        _amend(run, missing, "imported late")


def _amend(run: OpenRun, changed: dict[str, bytes], why: str) -> None:
    assert run.snapshot is not None
    run.snapshot = snapshot.amend(run.recorder.store, run.snapshot, changed, why)
    run.recorder.fact("version", version=run.snapshot.version, why=why)


def _keep_inputs(run: OpenRun, at_end: bool) -> None:
    recorder = run.recorder
    fresh = run.kept.inputs.fresh(str(run.project), recorder.store, at_end=at_end, elapsed_s=recorder.elapsed_us() / 1e6)
    if fresh is not None:
        recorder.fact("inputs", **fresh)


def _keep_environment(run: OpenRun) -> None:
    """How torch computes, once the main loop has begun: a run that is killed comes to no end."""
    if run.kept.torch is None and written.loop_begun is not None and not run.joined:
        run.kept.torch = environment.torch_now() or {}
        if run.kept.torch:
            run.recorder.fact("environment", torch=run.kept.torch)


def _keep_streams(run: OpenRun) -> None:
    """The first state of NumPy's random stream, once that is there: most programs import it behind the first call."""
    if not run.kept.streams and not run.joined and (stream := environment.numpy_stream()) is not None:
        run.kept.streams = True
        run.recorder.fact("streams", numpy=stream)


def _keep_outputs(run: OpenRun) -> None:
    """Files begun since, with their size before: what was begun after the last checkpoint is known from here alone."""
    fresh = own.fresh(run.recorder.outputs_told, run.project, run.recorder.store.root)
    if fresh is not None:
        run.recorder.fact("outputs", **fresh)


def at_end(run: OpenRun) -> None:
    """What is known by the end."""
    if run.joined:
        return
    try:
        run.kept.modules = -1
        with firsts.unseen():
            keep_up(run, at_end=True)
        inputs.hang_up()
        if run.kept.hooks:
            shell = source.ipython()
            for event, hook in run.kept.hooks.items() if shell is not None else ():
                shell.events.unregister(event, hook)
            if run.kept.cell is not None:
                note_cell_over(run, None)
            if run.snapshot is not None:
                _amend(run, {source.cell_path(k): text.encode() for k, text in run.kept.cells.items()}, "cells executed")
    except (OSError, ValueError, RearviewError) as problem:
        say(f"the end of run {run.recorder.run} could not be noted in full: {problem}")
    run.recorder.fact("environment", **environment.at_end())
    if (peak := environment.peak_bytes()) is not None:
        run.recorder.fact("memory", peak_bytes=peak)
    if not run.explicit:  # one of several runs is not the last to ask
        unasked = [name for name in run.recorder.given.texts if name not in run.recorder.given.asked]
        if unasked:
            run.recorder.fact("unasked", names=unasked)


def tell_repeated(run: OpenRun) -> None:
    """One line if rows that an attempt before this one logged came out otherwise. After the end."""
    from rearview.record.resume import repeated

    assert run.resumed is not None
    try:
        sentence = repeated.compare(run.recorder, run.resumed).sentence(run.recorder.run)
    except (OSError, RearviewError) as problem:
        sentence = f"run {run.recorder.run}: what was logged again could not be compared with what was logged before: {problem}"
    if sentence is not None:
        say(sentence)


def farewell(run: OpenRun, how: str, error: BaseException | None) -> None:
    """One line with what was recorded and its size."""
    recorder = run.recorder
    if recorder.trouble.lost:
        say(f"run {recorder.run}: {recorder.trouble.lost:,} records could not be written")
    if run.joined or run.settings["quiet"] or recorder.rank:
        return
    folder = recorder.store.run(recorder.run)
    try:
        size = runs.size_of(folder)
    except OSError:
        size = 0
    others = {part.writer for part, _ in parts_of(folder)} - {recorder.journal.writer, "supervisor"} if folder.is_dir() else set()
    beside = f" (and those of {len(others)} other process{'es' * (len(others) > 1)})" if others else ""
    ended = f"failed with {type(error).__name__}" if error is not None else how
    names = len(recorder.names_seen)
    kept = f"{recorder.records:,} record{'s' * (recorder.records != 1)} of {names} name{'s' * (names != 1)}{beside}"
    say(f"run {recorder.run} {ended}: {kept}, {_size(size)} (`rearview show {recorder.run[:7]}`)")


def _size(size_bytes: int) -> str:
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
