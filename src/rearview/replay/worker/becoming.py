"""A worker of a replay, before it becomes the program: protected, with the recorded streams, the probed source and a stage.

Called by the launcher (`record/launch.py`) at the very start of the process, while it has one thread and nothing of the user's is imported.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from rearview.instrument.rewrite import Span
from rearview.model import RunId
from rearview.record import firsts, lifecycle, source
from rearview.record.resume import past, recorded_code
from rearview.record.resume.past import facts_in
from rearview.replay.running import units
from rearview.replay.running.units import Unit
from rearview.replay.sandbox import entering as sandbox
from rearview.replay.sandbox import files as sandbox_files
from rearview.replay.sandbox.entering import Spec
from rearview.replay.worker import device, entropy
from rearview.replay.worker.replayer import Stage, read_manifest
from rearview.store import atomic
from rearview.store.journal import parts_of
from rearview.store.layout import Store
from rearview.versions import read


def enter(code: Callable[[], Any]) -> Callable[[str], str]:
    """Prepare this process for its unit; where the program finds a path of the recorded run.

    `code` gives the recorded source once that is installed.
    """
    unit = units.read(Path(os.environ.pop(units.VARIABLE)))
    os.environ[units.IN_REPLAY] = "1"
    store = Store(Path(unit.store))
    known = past.look(store, unit.run)
    spec = Spec(Path(unit.project), Path(unit.scratch), Path.cwd(), sandbox_files.written(known, Path(unit.project)), store.root)
    protection = sandbox.enter(spec)
    start = None if unit.start is None else read_manifest(store, unit.run, unit.start)
    laid_out = sandbox_files.lay_out(store, spec, protection, known, None if start is None else start.files)
    project = Path(protection.inside(os.path.realpath(unit.project), spec.project))
    _lay_out_version(store, unit, project)
    deleted: set[str] = set()
    _rewrite(unit, project, deleted)
    if unit.device is not None:
        device.use_cpu()
    put_streams_back(first_streams(store, unit.run))
    entropy.give(entropy.kept(store, unit.run))
    place = int(known.facts.get("place") or 0)
    lifecycle.stage = Stage(unit, place, laid_out, lambda: _from_elsewhere(code()), deleted)
    return lambda path: protection.inside(os.path.realpath(path), spec.project) if protection.work is not None else path


def _lay_out_version(store: Store, unit: Unit, project: Path) -> None:
    """Files of the recorded version that are no Python (settings, tables) and not on the disk as they were: the program reads those."""
    for path in recorded_code.differences(store, unit.recorded_version, project):
        file = project / path
        if path.endswith(".py") or not file.parent.resolve().is_relative_to(project.resolve()):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # the mount gives a file of its own: what lies below stays
        with firsts.unseen():
            atomic.publish(file, read.source(store, unit.recorded_version, path), tmp=file.parent, durable=False)


def _rewrite(unit: Unit, project: Path, deleted: set[str]) -> None:
    """Every module of the program comes from the probed version, and is rewritten on its way."""
    from rearview.instrument import rewrite

    by_file, placed = spans(unit), placed_lines(unit)

    def compiled(data: bytes, path: str) -> CodeType:
        name = source.tree_path(project, path)
        if name in placed:
            recorded_code.show_source(path, rewrite.without_lines(data, [line for line, _ in placed[name]]))
        return rewrite.compile_rewritten(data, path, by_file.get(name, ()), deleted, placed.get(name, ()))

    recorded_code.rewriting = compiled


def spans(unit: Unit) -> dict[str, list[Span]]:
    """File -> where its probes are, as `rewrite` takes them: all statements of a probe, not only its first line."""
    by_file: dict[str, list[Span]] = {}
    for index, probe in enumerate(unit.probes):
        place = probe.get("place")
        span: Span = (place[0], place[1], place[2], place[3], index) if place else (int(probe["line"]), index)
        by_file.setdefault(str(probe["file"]), []).append(span)
    return by_file


def placed_lines(unit: Unit) -> dict[str, list[tuple[int, int]]]:
    """File -> lines of statements that are in no file, each with the line of the statement that it was put at."""
    by_file: dict[str, list[tuple[int, int]]] = {}
    for probe in unit.probes:
        if probe.get("placed"):
            line = int(probe["line"])
            by_file.setdefault(str(probe["file"]), []).append((line, line if probe["placed"] == "before" else max(1, line - 1)))
    return by_file


def _from_elsewhere(code: Any) -> list[tuple[str, str]]:
    """Project files that were loaded with other bytes than the version has, and why."""
    return [] if code is None else recorded_code.deviations(code.blobs, code.project)


# -- the first states of the random streams -------------------------------------------------------------------------------


def first_streams(store: Store, run: RunId) -> dict[str, Any]:
    """What the run noted about its random streams when it began, and about NumPy's when that was there."""
    found: dict[str, Any] = {}
    for name, path in sorted(parts_of(store.run(run)), key=lambda part: (part[0].attempt, part[0].part)):
        if name.writer == "0":
            for fact in facts_in(path, "streams"):
                found = {**fact, **found}
    return found


def put_streams_back(noted: dict[str, Any]) -> None:
    """Begin with the streams that the recorded process began with, seeded or not."""
    python = noted.get("python")
    if isinstance(python, (list, tuple)) and len(python) == 3:
        version, words, gauss = python
        random.setstate((version, tuple(words), gauss))
        firsts.python_random = random.getstate()
    entropy = noted.get("numpy")
    if isinstance(entropy, dict):
        try:
            import numpy as np
        except ImportError:
            return  # said as a difference of the environment
        sequence = np.random.SeedSequence(entropy["entropy"], spawn_key=tuple(entropy["spawn_key"]), pool_size=entropy["pool_size"])
        np.random.set_state(np.random.RandomState(np.random.MT19937(sequence)).get_state())
