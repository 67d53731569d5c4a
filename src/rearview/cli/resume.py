"""`rearview resume`: go on with a run that was killed or failed, from its last whole checkpoint."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rearview import config
from rearview.cli import options, starting
from rearview.cli.shown import outlook, output, screen, text
from rearview.errors import EXIT_FAILED, CheckpointError, Damaged, NotFound, PlaceNotReached, RestoredOtherwise, UsageError
from rearview.record import environment, process
from rearview.record.resume import handshake, past, recorded_code, restore_points, resuming
from rearview.record.resume.past import Past
from rearview.replay.running import again, interpreters
from rearview.store import layout
from rearview.store.runs import read_run
from rearview.versions import read

if TYPE_CHECKING:
    from rearview.catalog.checkpoints import CheckpointInfo
    from rearview.catalog.runs import RunInfo
    from rearview.model import RunId
    from rearview.store.layout import Store

_TRIES = 4
"""States that are gone on with by one command, where they do not come back as they were."""
_LOOKED_AT = 50


@click.command("resume", short_help="Go on with a run that was killed or failed.")
@options.run_argument(required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--current-code", is_flag=True, help="Go on with the source as it is now: a new run that names this one as its parent.")
@click.option("--at", metavar="PLACE", help="From the checkpoint at this place, e.g. epoch=3; else the newest whole one.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@options.as_json
@options.color
@click.pass_context
def command(
    ctx: click.Context, run_ref: str | None, yes: bool, current_code: bool, at: str | None, dry_run: bool, as_json: bool, color: str
) -> None:
    """Start the program of RUN again and go on from its last whole checkpoint, in the same run, as its next attempt.

    The recorded source runs, with the same arguments, settings and interpreter, where it ran. Says first where it starts, what is done
    again and what becomes of the files the run writes, and asks. Without RUN: the newest run that was killed or failed. The exit
    code, or the signal that ended the program, is passed on.
    """
    if as_json and not dry_run:
        raise UsageError("--json is for the plan: add --dry-run (the output of a run is its own)")
    if config.recording_is_off(os.environ):
        raise UsageError("REARVIEW is off, and a run that is resumed is recorded: unset it")
    run, found = _look(run_ref, at, current_code)
    if as_json:
        output.write("rearview.resume/1", **outlook.as_json(found.outlook))
        return
    view = screen.of_stdout(color)
    lines = outlook.page(found.outlook, view, dt.datetime.now(dt.UTC))
    if dry_run:
        screen.write(lines)
        return
    for line in lines:
        screen.note(line)
    if not yes and not _agreed(found.outlook):
        return
    code = found.start(run) if current_code or at is not None else _go_on(run, found)
    ctx.exit(EXIT_FAILED if code == 0 and _went_astray(run) else starting.pass_on(code))


def _go_on(run: RunInfo, found: _Resume) -> int:
    """Start it; once more from an older state where this one did not come back as it was. To begin anew is for a person to decide."""
    code = found.start(run)
    tried = 0
    while code and tried < _TRIES and _was_refused(run):
        run, found = _look(run.run, None, current_code=False)
        if found.outlook.prospect.point is None:
            break
        screen.note(f"rearview: going on as attempt {found.outlook.attempt}, from {text.escape(found.outlook.place)}")
        code, tried = found.start(run), tried + 1
    return code


def _went_astray(run: RunInfo) -> bool:
    """Whether the program ended without coming to the place of its checkpoint, which it does not know: it says that all is well."""
    return _ended_by(run, PlaceNotReached)


def _was_refused(run: RunInfo) -> bool:
    """Whether its state did not come back as it was, so that nothing was gone on with: an older one may."""
    return process.launch_of(os.environ, os.getppid()) is None and _ended_by(run, RestoredOtherwise)


def _ended_by(run: RunInfo, error: type[Exception]) -> bool:
    from rearview.cli import opening

    with opening.catalog() as catalog:
        return bool(catalog.run(run.run).detail == f"{error.__module__}.{error.__name__}")


def _agreed(found: outlook.Outlook) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("resume asks before it starts, and there is nobody to ask: add --yes")
    none = "No checkpoint can be used" if found.prospect.passed_over else "There is no checkpoint"
    question = "Go on?" if found.prospect.point is not None else f"{none}: begin anew, as the next attempt of this run?"
    return click.confirm(question, default=True, err=True)


def _look(run_ref: str | None, at: str | None, current_code: bool) -> tuple[RunInfo, _Resume]:
    """Choose the run and put together what going on with it means. Nothing is written."""
    from rearview.cli import opening

    with opening.catalog() as catalog:
        store = catalog.store
        run = catalog.run(run_ref) if run_ref is not None else _newest_unfinished(catalog)
    project = _project(store)
    if run.status == "running" and not _is_ours(store, run):
        raise UsageError(f"run {run.run} is still running{_where(store, run)}: wait for it, or end it first")
    if run.status == "finished" and not current_code:
        raise UsageError(
            f"run {run.run} has finished: there is nothing to go on with; --current-code --at PLACE begins a new run from one of its "
            "checkpoints"
        )
    known = past.look(store, run.run)
    return run, _Resume(store, project, known, current_code, at, run)


def _newest_unfinished(catalog: Any) -> RunInfo:
    """The newest one whose program can be started again; where there is none, the newest one, of which that is said."""
    running: RunInfo | None = None
    passed_over: dict[RunId, tuple[RunInfo, str]] = {}
    for limit in (_LOOKED_AT, None):
        for run in catalog.runs(limit=limit):
            if run.status in ("killed", "failed") or (run.status == "running" and _is_ours(catalog.store, run)):
                found: RunInfo = run
                why = _cannot_start(catalog.store, found)
                if why:
                    passed_over[found.run] = found, why
                    continue
                for _, reason in passed_over.values():
                    screen.note(f"rearview: passed over, as it is newer: {text.escape(reason)}")
                return found
            running = running or (run if run.status == "running" else None)
    if passed_over:
        return next(iter(passed_over.values()))[0]
    if running is not None:
        where = _where(catalog.store, running)
        raise NotFound(f"no run was killed or failed; run {running.run} is still running{where}: wait for it, or end it first")
    raise NotFound("no run was killed or failed: there is nothing to go on with; `rearview runs` lists them")


def _cannot_start(store: Store, run: RunInfo) -> str:
    try:
        return again.why_not(read_run(store, run.run))
    except (Damaged, OSError) as problem:  # nothing says what it was
        return str(problem)


def _is_ours(store: Store, run: RunInfo) -> bool:
    """Whether another rank of this launch goes on with a run already: this one comes late."""
    here = process.launch_of(os.environ, os.getppid())
    return here is not None and handshake.joined(store, run.run, here.key) is not None


def _where(store: Store, run: RunInfo) -> str:
    who: Mapping[str, Any] = read_run(store, run.run).get("process") or {}
    return f" (process {who.get('pid')} on {who.get('host')} began it)" if who else ""


def _project(store: Store) -> Path:
    """The folder that the store is for: beside it, unless that could not be written."""
    project, exists = layout.find_project(Path.cwd(), os.environ.get("REARVIEW_DIR"), Path.home())
    return store.project if exists or store.root == project / layout.FOLDER else project


class _Resume:
    """Going on with one run: what is known of it, and how it is started."""

    def __init__(self, store: Store, project: Path, known: Past, current_code: bool, at: str | None, run: RunInfo) -> None:
        self._store, self._project, self._past, self._current_code = store, project, known, current_code
        facts = known.facts
        self._asked = at is not None
        self._command = again.command_of(facts)
        self._launch = _launch(facts, known)
        self._cwd = _folder(project, facts)
        self._interpreter = _interpreter(known, current_code)
        self._environ, said = again.environ_of(facts, os.environ, config.load(project, {}))
        points, damaged = _points(store, known, at, current_code)
        prospect = resuming.prospect(store, project, known, points, damaged)
        if at is not None and prospect.point is None:
            raise CheckpointError("; ".join(prospect.passed_over) + _older(store, known, points))
        if current_code and prospect.point is None:
            why = "; ".join([f"run {known.run} has no checkpoint to go on from", *prospect.passed_over])
            raise UsageError(f"{why}: `rearview run` starts the source as it is now")
        if known.version is None and not current_code:
            raise UsageError(f"run {known.run} has no recorded source: --current-code goes on with the source as it is now")
        changed = recorded_code.differences(store, known.version, project) if known.version else []
        of_the_version = read.files(store, known.version) if known.version else {}
        others = [path for path in changed if not path.endswith(".py")] + past.changed_inputs(known, project, of_the_version)
        attempt = 0 if current_code else known.attempt + 1
        self.outlook = outlook.Outlook(
            prospect, f"{run.status} {run.detail}".strip(), attempt, self._command, self._interpreter, str(self._cwd),
            aside=str(store.run(known.run) / "aside"),
            edited=[path for path in changed if path.endswith(".py")],
            inputs=[path for path in others if os.path.exists(project / path)],
            gone=[path for path in others if not os.path.exists(project / path)],
            environment=_environment(known, self._interpreter, self._environ),
            variables=said,
            hash_seed=_hash_seed(store, known, prospect.point),
            place=prospect.point.place if prospect.point else "",
        )  # fmt: skip

    def start(self, run: RunInfo) -> int:
        """Set files aside, start the program, wait for it, and compare what it logged again."""
        turn = handshake.claim(self._store, run.run, self._launch.key if self._launch else None, new_run=self._current_code)
        shake = (
            resuming.agree(self._store, self.outlook.prospect, turn, asked=self._asked)
            if turn.first
            else handshake.follow(self._store, turn)
        )
        given = self._past.facts.get("given")
        wishes: dict[str, object] = {"arg": given if isinstance(given, dict) else {}, "name": None, "tags": [], "notes": None}
        wishes["store"] = str(self._store.root)
        if self._current_code:
            wishes["tags"] = [f"from {run.run}"]
        else:
            wishes |= {"version": self._past.version, "project": str(self._project)}
        environ = {**self._environ, handshake.VARIABLE: shake.text()}
        command, interpreter = self._command, [self._interpreter, *self._command.flags]
        code = starting.supervise_child(
            starting.Start(command.target, command.arguments, command.is_module, wishes, self._project, interpreter, environ, self._cwd)
        )
        if not self._current_code:
            _tell_overlap(run)
        return code


def _launch(facts: Mapping[str, Any], known: Past) -> process.Launch | None:
    """The launch this process is a rank of; it must have as many ranks as the run had."""
    here = process.launch_of(os.environ, os.getppid())
    then = facts.get("launch") or {}
    world = then.get("world") if isinstance(then, dict) else None
    if world and (here is None or here.world != world):
        have = f"this one has {here.world}" if here else "and this is none of a launch"
        raise UsageError(
            f"run {known.run} had {world} ranks, {have}: start as many, as in "
            f"`torchrun --nproc-per-node {world} -m rearview resume {known.run} --yes`"
        )
    if here is not None and not world:
        raise UsageError(f"run {known.run} had one process, and this is rank {here.rank} of {here.world}: resume it without a launcher")
    return here


def _folder(project: Path, facts: Mapping[str, Any]) -> Path:
    folder = project / str(facts.get("cwd") or ".")
    if not folder.is_dir():
        raise UsageError(f"the run was started in {folder}, which is gone: make the folder again")
    return folder


def _interpreter(known: Past, current_code: bool) -> str:
    recorded = str(known.environment.get("executable") or "")
    if recorded and os.access(recorded, os.X_OK):
        return recorded
    if current_code:
        return sys.executable
    raise UsageError(
        f"the interpreter of run {known.run} is gone ({recorded or 'it was not recorded'}): install it there again, "
        f"or go on with {sys.executable} and the source as it is now by --current-code"
    )


def _points(store: Store, known: Past, at: str | None, current_code: bool) -> tuple[list[restore_points.RestorePoint], list[str]]:
    """The places to go on from, newest first: all of them, or the one that was asked for."""
    if at is None:
        return resuming.candidates(store, known, edited=current_code)
    points, _ = restore_points.of_run(store, known.run)
    from rearview.catalog import checkpoints, paths

    found = checkpoints.find(checkpoints.of_run(store, known.run), known.run, paths.parse(at))
    chosen = [point for point in points if _is_at(point, found)]
    if not chosen:
        raise UsageError(
            f"the checkpoint at {at} of run {known.run} cannot be gone on from: its loop ended by {found.members[0].ending}; "
            f"`rearview checkpoints {known.run}` lists the others"
        )
    return chosen, []


def _is_at(point: restore_points.RestorePoint, info: CheckpointInfo) -> bool:
    return (point.attempt, point.number, point.part) == (info.attempt, info.number, info.boundary)


def _older(store: Store, known: Past, points: list[restore_points.RestorePoint]) -> str:
    every, _ = restore_points.of_run(store, known.run)
    older = [point for point in every if point.wall < points[0].wall] if points else []
    return f"; the next older one is {older[0].place}: choose it with --at" if older else "; there is no older one"


def _environment(known: Past, interpreter: str, environ: Mapping[str, str]) -> list[str]:
    """What may give other numbers. The versions of packages are those of the interpreter that will run."""
    now = environment.at_start(environ)
    then = known.environment
    wanted = [name for name in environment.ESSENTIAL if name in (then.get("packages") or {})]
    if wanted or interpreter != sys.executable:
        now |= interpreters.ask(interpreter, wanted, environ)
    return environment.differences(then, now)


def _hash_seed(store: Store, known: Past, point: restore_points.RestorePoint | None) -> str:
    """A sentence if the run's hash seed is not known and something that goes on depends on it."""
    seed = again.unknown_seed(known.facts)
    return seed if seed and point is not None and restore_points.orders_by_hash(store, point) else ""


def _tell_overlap(run: RunInfo) -> None:
    """Whether what was logged again is what was logged before."""
    from rearview.cli import opening
    from rearview.cli.shown import attempts

    with opening.catalog() as catalog:
        overlap, now = catalog.overlap(run.run), catalog.run(run.run)
    for sentence in attempts.sentences(overlap, now.status == "finished"):
        screen.note(f"rearview: {text.escape(sentence)}")
