"""Taking a version: the project's source, the script that runs, and what else ran, as one commit in `code.git`.

Knows how a version is put together. Must not know how files are found (`gather`) or lie on disk (`repository`). The same
source gives the same version id from any number of processes at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rearview.errors import VersionError
from rearview.model import VersionId
from rearview.store.layout import Store
from rearview.versions import objects, rules
from rearview.versions.gather import gather
from rearview.versions.repository import Repository
from rearview.versions.walk import Bounds

OUTSIDE = "external"
"""The folder in a version for a script that is not below the project."""

_SCRIPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version that was taken, and what was seen on the way."""

    version: VersionId
    files: dict[str, str]
    """Path in the version -> blob id; compare with `blob_id`."""
    git: dict[str, object] | None
    """`head`, `branch`, `dirty` of the user's repository; `dirty` is None where it could not be told."""
    notes: list[str]
    written: list[Path]
    """Files that are new in the store and not yet synced to disk."""
    script: str | None = None
    """The path of the running script in the version."""
    modes: dict[str, int] = field(default_factory=dict)
    """The mode of what is not a plain file: executables and links."""
    refused: frozenset[str] = frozenset()
    """Paths that were given with their bytes and are not in the version: they may hold a secret, or git cannot name them."""


def blob_id(data: bytes) -> str:
    """The id that a file with these bytes has in every version.

    >>> blob_id(b"hello\\n")
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    return objects.object_id("blob", data)


def take(
    store: Store,
    project: Path,
    *,
    script: Path | None,
    script_source: bytes | None,
    extra: Mapping[str, bytes],
    limit_bytes: int,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
    bounds: Bounds | None = None,
) -> Snapshot:
    """Take the project's source as it is now. The script is always in it, with the bytes that really ran."""
    with Repository(store) as repository:
        try:
            repository.prepare()
            blob = _blob_keeper(repository)
            gathered = gather(
                project.absolute(),
                limit_bytes=limit_bytes,
                include=include,
                exclude=exclude,
                bounds=bounds or Bounds(),
                keep=blob,
            )
            contents = _Contents(gathered.entries, gathered.notes, blob)
            script_path = _add_script(contents, project.absolute(), script, script_source)
            contents.add_all(extra)
            return _commit(repository, contents, gathered.git, script_path)
        except OSError as problem:
            raise _cannot_keep(store, problem) from problem


def amend(store: Store, base: Snapshot, changed: Mapping[str, bytes], why: str) -> Snapshot:
    """The version with some files replaced or added: a commit of its own, `base` stays as it is."""
    with Repository(store) as repository:
        try:
            repository.prepare()
            entries = {os.fsencode(path): objects.Entry(base.modes.get(path, objects.FILE), id_) for path, id_ in base.files.items()}
            contents = _Contents(entries, [*base.notes], _blob_keeper(repository))
            contents.refused |= base.refused
            contents.add_all(changed)
            if put := sorted(set(changed) - contents.refused):
                contents.notes.append(f"{why}: {', '.join(put)}")
            return _commit(repository, contents, base.git, base.script)
        except OSError as problem:
            raise _cannot_keep(store, problem) from problem


def _blob_keeper(repository: Repository) -> Callable[[bytes], str]:
    def keep(data: bytes) -> str:
        return repository.put("blob", data)

    return keep


def _cannot_keep(store: Store, problem: OSError) -> VersionError:
    why = problem.strerror or problem
    return VersionError(f"the source could not be kept in {store.code}: {why}; free space there or make it writable")


class _Contents:
    """The files of a version in the making; no path may be another one's folder."""

    def __init__(self, entries: dict[bytes, objects.Entry], notes: list[str], blob: Callable[[bytes], str]) -> None:
        self.entries = entries
        self.notes = notes
        self.refused: set[str] = set()
        self._blob = blob
        self._folders = {folder for path in entries for folder in _folders_of(path)}

    def add(self, path: str, data: bytes) -> bool:
        """Put a file in, over one of that path. False, and a note, if git could not hold it."""
        try:
            name = os.fsencode(path)
        except UnicodeEncodeError:
            name = b""
        above = _folders_of(name)
        if not objects.safe_path(name) or name in self._folders or any(folder in self.entries for folder in above):
            self.refused.add(path)
            self.notes.append(f"left out, a version cannot have a file of this path: {path!r}")
            return False
        before = self.entries.get(name)
        mode = before.mode if before is not None and before.mode != objects.LINK else objects.FILE
        self.entries[name] = objects.Entry(mode, self._blob(data))
        self._folders.update(above)
        return True

    def add_all(self, files: Mapping[str, bytes]) -> None:
        """Put files in as they are, but no secrets."""
        for path, data in files.items():
            if rules.secret(path) or rules.secret_content(data):
                self.refused.add(path)
                self.notes.append(f"left out, may hold a secret: {path}")
            else:
                self.add(path, data)


def _folders_of(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:k]) for k in range(1, len(parts))]


def script_path_in(project: Path, script: Path) -> str:
    """The path that a script has in a version: relative to the project, or below OUTSIDE."""
    absolute = script.absolute()
    real_project, real_script = Path(os.path.realpath(project)), Path(os.path.realpath(script))
    for base, path in ((real_project, real_script), (project.absolute(), absolute), (real_project, absolute)):
        relative = os.path.relpath(path, base)  # also takes `..` out of a path as it was typed
        if relative != ".." and not relative.startswith("../"):
            return relative
    return f"{OUTSIDE}/{script.name}"


def _add_script(contents: _Contents, project: Path, script: Path | None, source: bytes | None) -> str | None:
    if script is None:
        if source is None:
            return None
        path = f"{OUTSIDE}/__main__.py"
        return path if contents.add(path, source) else None
    path = script_path_in(project, script)
    before = contents.entries.get(os.fsencode(path))
    if source is None:
        if before is not None and before.mode != objects.LINK:
            return path
        try:
            with script.open("rb") as file:
                source = file.read(_SCRIPT_BYTES)
        except OSError as problem:
            contents.notes.append(f"the script {path} is not in the version: it could not be read ({problem.strerror})")
            return None
    elif before is not None and before.mode != objects.LINK and before.id != blob_id(source):
        contents.notes.append(f"{path} was changed on disk after it started: the version has what ran")
    return path if contents.add(path, source) else None


def _commit(repository: Repository, contents: _Contents, facts: dict[str, object] | None, script: str | None) -> Snapshot:
    tree = objects.fold(contents.entries, repository.put)
    commit = repository.put("commit", objects.commit_data(tree))
    repository.anchor(commit)
    ordered = sorted(contents.entries.items())
    return Snapshot(
        version=VersionId("v" + commit),
        files={os.fsdecode(path): entry.id for path, entry in ordered},
        git=facts,
        notes=contents.notes,
        written=repository.written,
        script=script,
        modes={os.fsdecode(path): entry.mode for path, entry in ordered if entry.mode != objects.FILE},
        refused=frozenset(contents.refused),
    )
