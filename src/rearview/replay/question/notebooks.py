"""The cells that a run executed, and the notebook in which they are now. Reads notebook files and journals; executes nothing.

A notebook file says nothing about which kernel executed it, and a kernel does not always know its file: where the run does not tell, the
notebook is taken that has most of the cells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rearview.errors import NotFound, RearviewError
from rearview.instrument.cells import Cell, Matched, match
from rearview.model import RunId, VersionId
from rearview.plan.timeline import History
from rearview.record import source
from rearview.record.resume import past
from rearview.record.resume.past import facts_in, is_main
from rearview.replay.journals import history
from rearview.replay.question import cells, joined
from rearview.store import runs
from rearview.store.journal import parts_of
from rearview.store.layout import Store
from rearview.versions import read

KINDS = ("notebook", "interactive")
"""How runs were started that executed cells."""
SUFFIX = ".ipynb"
_ASKED = cells.FOLDER + "asked.ipynb"
"""Where a kept question has the cells that it stood in."""
_KERNEL_S = 0.4
"""IPython and a shell of it, measured."""
_MOST_BYTES = 200_000_000
_MOST_FOLDERS = 20_000
_NOT_LOOKED_INTO = frozenset(("__pycache__", "node_modules", "site-packages", "venv", "env"))


def executed(store: Store, run: RunId, version: VersionId) -> dict[int, str]:
    """Number -> text of every cell that the run's process executed up to the end of the run.

    A kernel that was killed has no time to put its last cells into the version: its journal has them.
    """
    found = in_version(store, version)
    for name, part in parts_of(store.run(run)):
        if is_main(name.writer):
            for fact in facts_in(part, "cell"):
                found.setdefault(int(fact["index"]), str(fact["source"]))
    return dict(sorted(found.items()))


def in_version(store: Store, version: VersionId) -> dict[int, str]:
    """Number -> text of every cell that a version has."""
    numbers = {cells.number_of(path): path for path in read.files(store, version)}
    found = {number: path for number, path in numbers.items() if number is not None}
    return {number: read.source(store, version, found[number]).decode("utf-8", "surrogateescape") for number in sorted(found)}


def first_of(store: Store, run: RunId) -> int:
    """The first cell in which an added statement, outside of functions, would have logged into the run.

    The one in which `rv.run` began it; of a run that began by itself, the first one behind the run before it.
    """
    facts = runs.read_run(store, run)
    explicit, version = facts.get("explicit") or [False], facts.get("version")
    if explicit[-1]:
        paths = read.files(store, VersionId(str(version))) if version is not None else {}
        return max((number for number in map(cells.number_of, paths) if number is not None), default=0)
    before = [past.look(store, other) for other in _before(store, facts)]
    return max((max(executed(store, one.run, one.version), default=0) for one in before if one.version is not None), default=0)


def _before(store: Store, facts: Mapping[str, Any]) -> list[RunId]:
    """The runs that the same kernel had before one."""
    found = []
    for other in runs.list_runs(store) if facts.get("place") else ():
        try:
            its = runs.read_run(store, other)
        except RearviewError:
            continue
        if its.get("process") == facts.get("process") and int(its.get("place") or 0) < int(facts["place"]):
            found.append(other)
    return found


def as_replayed(store: Store, timeline: History, run: RunId, notes: list[str]) -> History:
    """What of a run can be replayed: a kernel begins with the runs before, and nobody interrupts a cell a second time."""
    timeline = replace(timeline, start_s=timeline.start_s + _KERNEL_S + _loops_before_s(store, run))
    cut = [number for number, block in enumerate(timeline.blocks) if block.ending in ("left", "exception")]
    interrupted = _interrupted(store, run)
    if not interrupted or not cut:
        return timeline
    notes.append(f"cell [{interrupted[0]}] was interrupted in its loop: what came after its last whole iteration is not replayed")
    kept = [one for one in timeline.boundaries if one.block <= cut[0]]
    return replace(timeline, blocks=timeline.blocks[: cut[0] + 1], boundaries=tuple(kept), status="killed", suffix_s=0.0)


def _loops_before_s(store: Store, run: RunId) -> float:
    """How long the main loops of earlier runs of the same kernel took: they are on the way."""
    before = _before(store, runs.read_run(store, run))
    return sum(sum(block.total_s) for other in before for block in history.read(store, other, "finished").blocks)


def _interrupted(store: Store, run: RunId) -> list[object]:
    """Cells that somebody interrupted."""
    parts = [part for name, part in parts_of(store.run(run)) if is_main(name.writer)]
    ran = (fact for part in parts for fact in facts_in(part, "cell_ran"))
    return [fact.get("index") for fact in ran if fact.get("error") == KeyboardInterrupt.__name__]


def lacking(store: Store, run: RunId, version: VersionId) -> dict[str, bytes]:
    """The cells that only the journal has, by their paths in the version."""
    there = read.files(store, version)
    every = files_of(executed(store, run, version))
    return {path: text.encode("utf-8", "surrogateescape") for path, text in every.items() if path not in there}


def files_of(texts: Mapping[int, str]) -> dict[str, str]:
    """Cells by their paths in a version."""
    return {source.cell_path(number): text for number, text in texts.items()}


def now(project: Path, filename: str, then: Mapping[int, str], instead: Sequence[Cell] | None = None) -> tuple[Matched, str | None]:
    """Executed cells, as Python, as they are in the notebook now, and the path of that; None: there is no such notebook.

    `instead` are the cells of a notebook as it was.
    """
    if instead is not None:
        return match(then, instead), filename
    since = _since(then)
    best, name = match(then, [], since), None
    for path in _notebooks(project, filename):
        found = match(then, read_cells(path), since)
        if found.score > best.score:
            best, name = found, os.path.relpath(path, project)
            if name == filename:
                break
    return best, name


def today(project: Path, filename: str, then: Mapping[int, str]) -> list[str]:
    """The cells of the notebook that a run executed earlier cells of: its own if it is known, else the one most like it."""
    best, most = list[str](), 0.0
    for path in _notebooks(project, filename):
        found = [cell.text for cell in read_cells(path)]
        if found and os.path.relpath(path, project) == filename:
            return found
        if (alike := joined.likeness(found, then.values())) > most:
            best, most = found, alike
    return best


def kept(store: Store, version: VersionId) -> list[Cell]:
    """The cells that stand with a question that was asked."""
    try:
        return _cells_in(read.source(store, version, _ASKED))
    except NotFound:
        return []


def keeping(texts: Sequence[str]) -> dict[str, bytes]:
    """Cells as a file of the version that a question is kept in; without what they displayed."""
    listed = [{"cell_type": "code", "source": text} for text in texts]
    return {_ASKED: json.dumps({"cells": listed}).encode("utf-8", "surrogatepass")} if listed else {}


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook file, as Python; none if it is no notebook."""
    try:
        facts = path.stat()
    except OSError:
        return []
    return _read_cells(path, facts.st_mtime_ns, facts.st_size) if facts.st_size <= _MOST_BYTES else []


@lru_cache(maxsize=1000)
def _read_cells(path: Path, mtime_ns: int, size_bytes: int) -> list[Cell]:  # noqa: ARG001 (what recognises the file)
    try:
        return _cells_in(path.read_bytes())
    except OSError:
        return []


def _cells_in(data: bytes) -> list[Cell]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return []
    found = []
    listed = content.get("cells") if isinstance(content, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("cell_type") == "code":
            text, count = one.get("source"), one.get("execution_count")
            joined = "".join(map(str, text)) if isinstance(text, list) else str(text or "")
            found.append(Cell(cells.as_python(joined), count if isinstance(count, int) else None))
    return found


def _since(then: Mapping[int, str]) -> dict[int, str]:
    """In the kernel that asks: what was executed since, if these are its own first cells. It may be in no file, or not saved."""
    shell = source.ipython()
    if shell is None or not then:
        return {}
    all_of_it = source.cells(shell)
    if any(cells.as_python(all_of_it.get(number, "")).strip() != text.strip() for number, text in then.items()):
        return {}
    return {number: cells.as_python(text) for number, text in all_of_it.items() if number > max(then)}


def _notebooks(project: Path, filename: str) -> Iterator[Path]:
    """The run's own notebook if it is known, then the others of the project."""
    own = project / filename if filename.endswith(SUFFIX) else None
    if own is not None and own.is_file():
        yield own
    for seen, (root, folders, names) in enumerate(os.walk(project)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_LOOKED_INTO)
        if seen > _MOST_FOLDERS:
            return
        for name in sorted(names):
            path = Path(root, name)
            if name.endswith(SUFFIX) and not name.startswith(".") and path != own:
                yield path
