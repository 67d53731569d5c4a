"""The beginning of a run: where the store is, which source runs, what `run.json` says. Written once, before anything else."""

from __future__ import annotations

import datetime as dt
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rearview import config
from rearview.model import ProcessIdentity, ProcessNumber, RunId, VersionId
from rearview.record import arguments, environment, firsts, process, source
from rearview.record.resume import choosing, recorded_code
from rearview.record.say import say
from rearview.store import layout, processes, runs
from rearview.store.layout import Store
from rearview.versions import snapshot
from rearview.versions.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a run stands."""

    store: Store
    project: Path
    program: source.Program
    settings: config.Settings
    snapshot: Snapshot | None
    fresh: bool
    """The store was made just now."""
    elsewhere: bool
    """The project folder cannot be written: the store is in the user's data folder."""


def ground(program: source.Program, *, take: bool, store_root: Path | None = None, version: VersionId | None = None) -> Ground | None:
    """Find or make the store and take the source, unless a recorded `version` runs. None if this project is not to be recorded."""
    start = _start(program)
    with firsts.unseen():
        project, _ = layout.find_project(start, os.environ.get("REARVIEW_DIR"), Path.home())
        settings = config.load(project)
        if not settings["record"]:
            return None
        if store_root is not None:
            store, fresh, elsewhere = layout.open_store(store_root), False, False
        else:
            store, fresh, elsewhere = layout.prepare(start)
        if version is not None:
            taken: Snapshot | None = recorded_code.recorded(store, version)
        else:
            taken = take_source(store, project, program, settings) if take else None
    return Ground(store, project, program, settings, taken, fresh, elsewhere)


def _start(program: source.Program) -> Path:
    """The folder to look for the project from: the script's, for a module the one it is imported from."""
    if program.path is None or firsts.of_the_interpreter(str(program.path)):
        return Path.cwd()
    above = len(program.name.split(".")) if program.how == "module" else 1
    return Path(*program.path.parts[:-above]) if len(program.path.parts) > above else program.path.parent


def take_source(store: Store, project: Path, program: source.Program, settings: config.Settings) -> Snapshot:
    """The version that runs: the project's source, with what was really imported in place of what lies there now."""
    extra: dict[str, bytes] = {}
    for path, file in source.loaded_sources(project).items():
        data = firsts.sources.get(file)
        if data is None and path.startswith(source.EXTERNAL + "/"):
            data = firsts.read(file)
        if data is not None:
            extra[path] = data
    shell = source.ipython()
    if shell is not None:
        extra |= {source.cell_path(k): text.encode() for k, text in source.cells(shell).items()}
    command = source.command_text() if program.how == "command" else None
    if command is not None:
        extra["command.py"] = command.encode("utf-8", "surrogateescape")
    piped = source.stdin_text() if program.how == "stdin" else None
    if piped is not None:
        extra["stdin.py"] = piped
    script = program.path if program.how in ("script", "module") else None
    script_source = firsts.script_source if script is not None and str(script) == firsts.script_path else None
    return snapshot.take(
        store, project, script=script, script_source=script_source, extra=extra,
        limit_bytes=settings["source_limit"], include=settings["include"], exclude=settings["exclude"],
    )  # fmt: skip


def _relative(path: Path, project: Path) -> str:
    try:
        return str(path.relative_to(project))
    except ValueError:
        return str(path)


def write(
    ground: Ground, run: RunId, who: ProcessIdentity, wished: dict[str, Any],
    *, wall: float, parent: tuple[RunId, ProcessNumber] | None, place: int, launch: process.Launch | None, explicit: list[bool],
) -> None:  # fmt: skip
    """Write `run.json`, unless another rank was first."""
    program, taken = ground.program, ground.snapshot
    facts: dict[str, Any] = {
        **wished,
        "projid": ground.project.name,
        "tstamp": dt.datetime.fromtimestamp(wall, dt.UTC).isoformat(timespec="microseconds"),
        "filename": _relative(program.path, ground.project) if program.path else program.name,
        "argv": list(sys.argv),
        "orig_argv": list(sys.orig_argv),
        "cwd": _relative(Path(source.starting_folder()), ground.project),
        "how": program.how,
        "module": program.module,
        "version": taken.version if taken else None,
        "parent": {"run": parent[0], "process": parent[1]} if parent else None,
        "process": asdict(who),
        "place": place,
        "imported_s": _imported_s(wall),
        "explicit": explicit,
        "environment": environment.at_start(os.environ),
        "git": taken.git if taken else None,
        "launch": asdict(launch) if launch else None,
        "given": arguments.given().texts,
        "key": wished.get("key") or choosing.job_key(os.environ),
        "settings": {name: list(value) if isinstance(value, tuple) else value for name, value in ground.settings.values.items()},
    }
    with firsts.unseen():
        runs.write_run(ground.store, run, facts)


def _imported_s(wall: float) -> float | None:
    """How long the process had lived when the run began: mostly imports, which a replay does again."""
    began = processes.began_wall()
    return None if began is None else round(max(0.0, wall - began), 3)


def greet(ground: Ground, quiet: bool) -> None:
    """Say once where the store is."""
    if ground.elsewhere:
        say(f"the folder {ground.project} cannot be written: recording to {ground.store.root} instead")
    elif ground.fresh and not quiet:
        say(f"recording to {ground.store.root} (it ignores itself in git; `rearview runs` shows what is there)")
    if ground.program.how == "stdin" and ground.snapshot is not None and "stdin.py" not in ground.snapshot.files:
        say("the program came through a pipe and cannot be read again: its source is not in the version (`rearview run -` keeps it)")
    for note in ground.snapshot.notes if ground.snapshot else ():
        # What is left out of versions is said with the first run and shown by `rearview show`; about the script itself, always.
        if ground.fresh or (ground.program.path is not None and note.startswith((_script(ground), f"the script {_script(ground)}"))):
            say(note)


def _script(ground: Ground) -> str:
    assert ground.program.path is not None
    return _relative(ground.program.path, ground.project)
