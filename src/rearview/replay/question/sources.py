"""The source as it is now, beside that of a recorded version: what was added to it in hindsight, as text and as files.

Reads files by the rules that versions are taken by. Must not know runs, or what the statements are for.
"""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rearview import config
from rearview.errors import NotFound, UsageError, VersionError
from rearview.instrument import place_at
from rearview.instrument.added import Added, Changed, Group, Log, added, added_in_project
from rearview.instrument.cells import Cell
from rearview.instrument.matching import surely_changed
from rearview.instrument.modules import reachable
from rearview.model import RunId, VersionId
from rearview.record import source
from rearview.replay.question import cells, narrowing, notebooks, recognising
from rearview.store.layout import Store
from rearview.versions import read
from rearview.versions.gather import gather
from rearview.versions.snapshot import blob_id
from rearview.versions.walk import Bounds

_NOT_HERE = (source.EXTERNAL + "/", cells.FOLDER)
"""Paths of a version that stand for what comes from elsewhere, or was no file."""
NO_FILES = ("command.py", "stdin.py")
"""Programs that were no file: they are as they were."""


@dataclass(frozen=True, slots=True)
class At:
    """A statement that nobody wrote into a file: `--at train.py:42 "norm(net)" --as grad_norm`."""

    file: str
    line: int
    expression: str
    name: str
    before: bool = False


@dataclass(frozen=True, slots=True)
class Notebook:
    """A run that executed cells: of a notebook, or of an interactive session."""

    run: RunId
    filename: str
    """What it says about the notebook that it was."""


@dataclass(frozen=True, slots=True)
class Statements:
    """What was added to a recorded version."""

    version: VersionId
    added: Added
    files: Mapping[str, bytes]
    """The files that the probed version has instead, or besides."""
    unchanged: Mapping[str, bytes] = field(default_factory=dict)
    """Its other Python files."""

    def program(self) -> dict[str, str]:
        """The text of every Python file that runs."""
        return {path: decoded(data) for path, data in {**self.unchanged, **self.files}.items()}

    def only(self, logs: tuple[Log, ...]) -> tuple[Statements, tuple[Log, ...]]:
        """The same without statements that log nothing of what is asked for, and what is asked for in it."""
        texts = {path: decoded(data) for path, data in self.files.items()}
        added, left = narrowing.narrowed(self.added, texts, logs)
        files = {path: data if left[path] == texts[path] else encoded(left[path], data) for path, data in self.files.items()}
        asked = {(log.file, log.line, log.name) for log in logs}
        kept = tuple(log for log in added.logs if (log.file, log.line, log.name) in asked)
        return replace(self, added=replace(added, files=left), files=files), kept

    def probes(self, logs: tuple[Log, ...]) -> tuple[dict[str, Any], ...]:
        """One for each group of statements in which something runs, as units have them."""
        found = []
        for number, group in enumerate(self.added.groups):
            if group.runs:
                mine = [log for log in logs if log.group == number]
                names = [log.name for log in mine]
                text = self.text(group) if not mine else mine[0].text
                found.append({"file": group.file, "line": group.place[0], "place": list(group.place), "names": names, "text": text})
        return tuple(found)

    def text(self, group: Group) -> str:
        """The statements of a group as they stand in the file."""
        lines = place_at.lines_of(decoded(self.files[group.file]))
        return "".join(lines[group.place[0] - 1 : group.place[2]])

    def digest(self, name: str | None) -> str:
        """What recognises the statements of a name."""
        return recognising.digest(self.added, {path: decoded(data) for path, data in self.files.items()}, name)


def decoded(data: bytes) -> str:
    """Source as text, by its own encoding."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return data.decode("utf-8", "surrogateescape")


def encoded(text: str, like: bytes) -> bytes:
    """Text as the bytes of a file that had these."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(like).readline)
        return text.encode(encoding)
    except (SyntaxError, UnicodeEncodeError, LookupError):
        return text.encode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Now:
    """The project's source as it is now, with a statement placed in it if one was given."""

    store: Store
    project: Path
    settings: config.Settings
    at: At | None = None
    source: VersionId | None = None
    """Not today's source, but that of a question that was asked before."""
    corrected: dict[str, list[Any]] = field(default_factory=dict)
    """Version -> file and line behind whose statement the statements stand there, as somebody said."""
    brief: bool = False
    """Nobody reads what is different in a version that is not today's: its statements are placed, or it is said why not."""
    _files: dict[str, bytes] = field(default_factory=dict)
    _gathered: dict[str, bytes] | None = None
    _known: dict[tuple[VersionId, Notebook | None, str | None], Statements | Changed] = field(default_factory=dict)
    _texts: dict[str, str] | None = None

    def against(self, version: VersionId, notebook: Notebook | None = None, entry: str | None = None) -> Statements | Changed:
        """What was added to a version, or what else is different. Asked once for each version; for each run of a notebook.

        `entry` is the file that the program begins with: other scripts of the project may have changed as they like.
        """
        if (version, notebook, entry) not in self._known:
            self._known[version, notebook, entry] = self._compare(version, notebook, entry)
        return self._known[version, notebook, entry]

    def _compare(self, version: VersionId, notebook: Notebook | None, entry: str | None) -> Statements | Changed:
        try:
            blobs = read.files(self.store, version)
        except (NotFound, VersionError) as problem:
            return Changed(f"its source cannot be read: {problem}", 1)
        recorded: dict[str, str] = {}
        current: dict[str, str] = {}
        for path, blob in blobs.items():
            if not path.endswith(".py") or path.startswith(_NOT_HERE):
                continue
            data = self._now(path) if path not in NO_FILES else self._as_it_was(version, path)
            recorded[path] = current[path] = ""  # as it was: nobody needs to look
            if data is None:
                recorded[path] = decoded(read.source(self.store, version, path))
                del current[path]
            elif blob_id(data) != blob:
                recorded[path], current[path] = decoded(read.source(self.store, version, path)), decoded(data)
        unchanged = {path: self._files[path] for path in recorded if path in self._files}
        gone, entries = None, [entry] if entry is not None else []
        if notebook is not None:
            then, now, gone = self._cells(version, notebook)
            recorded, current = recorded | then, current | now
            unchanged |= {path: text.encode("utf-8", "surrogateescape") for path, text in then.items()}
            entries = list(then)
        found = self._added(version, recorded, current, unchanged, entries)
        if notebook is not None and isinstance(found, Statements):
            found = since(found, notebooks.first_of(self.store, notebook.run))
        return gone if gone is not None and isinstance(found, Statements) and not found.added.logs else found

    def _added(
        self, version: VersionId, recorded: dict[str, str], current: dict[str, str], unchanged: dict[str, bytes], entries: list[str]
    ) -> Statements | Changed:
        if all(recorded[path] == current.get(path) for path in recorded):
            return Statements(version, Added(), {}, unchanged)
        current |= {path: decoded(data) for path, data in self._all().items() if path not in recorded}
        if entries:
            _leave_other_scripts(entries, recorded, current, unchanged)
        if self.brief and any(path in current and surely_changed(text, current[path]) for path, text in recorded.items()):
            return Changed("statements were changed", 1)
        found = added_in_project(recorded, current)
        if isinstance(found, Changed):
            return found
        return Statements(version, found, {path: self._bytes(path, text) for path, text in (found.files or {}).items()}, unchanged)

    # -- another version ------------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """Every Python file of the project as it is now."""
        return {path: self._now(path) or data for path, data in self._all().items()}

    def texts(self) -> dict[str, str]:
        """The same as text."""
        if self._texts is None:
            self._texts = {path: decoded(data) for path, data in self.files().items()}
        return self._texts

    def cells_of(self, notebook: Notebook, executed: Mapping[int, str]) -> list[str]:
        """The cells of a run's notebook as they are now, as Python; none if there is no such notebook."""
        if self.source is not None:
            return [cell.text for cell in self._kept()]
        return notebooks.today(self.project, notebook.filename, executed)

    # -- files ----------------------------------------------------------------------------------------------------------------

    def _now(self, path: str) -> bytes | None:
        """A file as it is now, with what was placed in it."""
        if path not in self._files:
            try:
                data = (self.project / path).read_bytes() if self.source is None else read.source(self.store, self.source, path)
            except (OSError, NotFound):
                return None
            if self.at is not None and _means(self.project, self.at.file, path):
                placed = place_at.place(decoded(data), self.at.line, self.at.expression, self.at.name, self.at.before, path=self.at.file)
                data = encoded(placed.text, data)
            self._files[path] = data
        return self._files[path]

    def _as_it_was(self, version: VersionId, path: str) -> bytes:
        """A program that was no file, with what was placed in it."""
        data = read.source(self.store, version, path)
        self._files[path] = encoded(self._placed(path, decoded(data)), data)
        return self._files[path]

    def _cells(self, version: VersionId, notebook: Notebook) -> tuple[dict[str, str], dict[str, str], Changed | None]:
        """The executed cells as they were, and as they are in the notebook now; one that is in none."""
        raw = notebooks.executed(self.store, notebook.run, version)
        then = {number: cells.as_python(text) for number, text in raw.items()}
        matched, name = notebooks.now(self.project, notebook.filename, then, None if self.source is None else self._kept())
        where = f"in {name}" if name is not None else "in a notebook of the project"
        gone = [Changed(f"cell [{one}] is not {where} as it was executed", 1, source.cell_path(one)) for one in matched.gone[-1:]]
        now = {path: self._placed(path, text) for path, text in notebooks.files_of(matched.texts).items()}
        return notebooks.files_of(then), now, gone[0] if gone else None

    def _kept(self) -> list[Cell]:
        """The cells that a question stood in that was asked before."""
        return notebooks.kept(self.store, self.source) if self.source is not None else []

    def _placed(self, path: str, text: str) -> str:
        """What was no file, with what was placed in it."""
        if self.at is None or self.at.file != path:
            return text
        return place_at.place(text, self.at.line, self.at.expression, self.at.name, self.at.before, path=path).text

    def _bytes(self, path: str, text: str) -> bytes:
        known = self._files.get(path) or self._all().get(path)
        return known if known is not None and decoded(known) == text else encoded(text, known or b"")

    def _all(self) -> dict[str, bytes]:
        """Every Python file that a version taken now would have."""
        if self._gathered is None and self.source is not None:
            self._gathered = python_of(self.store, self.source)
        if self._gathered is None:
            found: dict[str, bytes] = {}

            def keep(data: bytes) -> str:
                ident = blob_id(data)
                found[ident] = data
                return ident

            gathered = gather(
                self.project.absolute(), limit_bytes=self.settings["source_limit"], include=self.settings["include"],
                exclude=self.settings["exclude"], bounds=Bounds(), keep=keep,
            )  # fmt: skip
            by_path = {os.fsdecode(path): entry.id for path, entry in gathered.entries.items()}
            self._gathered = {path: found[ident] for path, ident in by_path.items() if path.endswith(".py") and ident in found}
        return self._gathered

    def check_at(self) -> None:
        """Refuse a place that is in no file of the project, and in no cell or command."""
        if self.at is not None and cells.number_of(self.at.file) is None and self.at.file not in NO_FILES:
            file = Path(self.at.file)
            if not file.is_file() and not (self.project / file).is_file():
                raise UsageError(f"there is no file {self.at.file}: --at takes FILE:LINE of a file of this project")


def python_of(store: Store, version: VersionId) -> dict[str, bytes]:
    """The Python files of a version; cells are none."""
    paths = [path for path in read.files(store, version) if path.endswith(".py") and not path.startswith(_NOT_HERE)]
    return {path: read.source(store, version, path) for path in paths}


def since(found: Statements, first: int) -> Statements:
    """Without the log statements in cells that had run before the run began. What they define may be called later."""
    logs = tuple(log for log in found.added.logs if log.function or (cells.number_of(log.file) or first) >= first)
    return replace(found, added=replace(found.added, logs=logs))


def _leave_other_scripts(entries: list[str], recorded: dict[str, str], current: dict[str, str], unchanged: dict[str, bytes]) -> None:
    """A file that the program imports nowhere, then or now, and that is another now, is taken as it was: it is what runs."""
    changed = [path for path in recorded if recorded[path] != current.get(path)]
    same = {path: decoded(data) for path, data in unchanged.items() if path not in changed}
    reached = {path for files in (recorded, current) for entry in entries for path in reachable({**files, **same}, entry)}
    for path in changed:
        if reached and path not in reached and (path not in current or isinstance(added(recorded[path], current[path]), Changed)):
            unchanged[path] = recorded[path].encode("utf-8", "surrogateescape")
            recorded[path] = current[path] = ""


def _means(project: Path, given: str, path: str) -> bool:
    """Whether a file that somebody typed is one of the project: from the current folder, or from the project's."""
    wanted = os.path.realpath(project / path)
    return wanted in (os.path.realpath(given), os.path.realpath(project / given))
