"""Reading the candidates: what of them is source, and whether the user's repository is dirty.

Knows the rules' order and how to read a file without being led astray by links, pipes or a file that vanishes. Must not
know objects or the store: bytes go to `keep`, which returns their id.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rearview.versions import objects, rules
from rearview.versions.ignore import Patterns
from rearview.versions.listing import Candidates, Tracked, list_candidates
from rearview.versions.walk import Bounds

_HASHED_FOR_DIRT_BYTES = 64 << 20
_NAMES_IN_A_NOTE = 5


@dataclass(slots=True)
class Gathered:
    """The source of a project."""

    entries: dict[bytes, objects.Entry] = field(default_factory=dict)
    git: dict[str, object] | None = None
    notes: list[str] = field(default_factory=list)


class _Reader:
    """Reads files below the project, and remembers which were left out and why."""

    def __init__(self, project: Path, limit_bytes: int) -> None:
        self.root = os.fsencode(project)
        self.real_root = os.path.realpath(self.root)
        self.limit_bytes = limit_bytes
        self.left_out: dict[str, list[str]] = {}
        self._plain_folders: dict[bytes, bool] = {b"": True}

    def stat(self, path: bytes) -> os.stat_result | None:
        """What is there; None if nothing is, or only behind a linked folder."""
        if not self._plain(path.rpartition(b"/")[0]):
            return None
        try:
            return os.lstat(os.path.join(self.root, path))
        except OSError:
            return None

    def _plain(self, folder: bytes) -> bool:
        """Whether no folder on the way is a link."""
        known = self._plain_folders.get(folder)
        if known is None:
            known = self._plain(folder.rpartition(b"/")[0]) and not os.path.islink(os.path.join(self.root, folder))
            self._plain_folders[folder] = known
        return known

    def file(self, path: bytes, at_most: int | None = None) -> bytes | None:
        """The bytes of a regular file; None if it vanished, cannot be read or is too large."""
        limit = self.limit_bytes if at_most is None else at_most
        try:
            fd = os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as problem:
            self.leave_out(f"could not be read ({problem.strerror})", path)
            return None
        try:
            data = os.read(fd, limit + 1)
            while len(data) <= limit and (more := os.read(fd, limit + 1 - len(data))):
                data += more
        except OSError as problem:
            self.leave_out(f"could not be read ({problem.strerror})", path)
            return None
        finally:
            os.close(fd)
        if len(data) > limit:
            self.leave_out(f"larger than {self.limit_bytes} bytes", path)
            return None
        return data

    def link(self, path: bytes) -> tuple[bytes, bytes] | None:
        """The text of a link as it is, and as a version keeps it: relative; None if it leads out of the project."""
        try:
            text = os.readlink(os.path.join(self.root, path))
        except OSError:
            return None
        folder = os.path.join(self.real_root, os.path.dirname(path))
        target = os.path.realpath(os.path.join(folder, text))
        inside = os.path.relpath(target, self.real_root)
        if not objects.safe_path(inside):
            return None
        return text, os.path.relpath(target, folder) if os.path.isabs(text) else text

    def leave_out(self, why: str, path: bytes) -> None:
        self.left_out.setdefault(why, []).append(os.fsdecode(path))

    def notes(self) -> list[str]:
        lines = []
        for why, paths in self.left_out.items():
            shown = ", ".join(sorted(paths)[:_NAMES_IN_A_NOTE]) + (", ..." if len(paths) > _NAMES_IN_A_NOTE else "")
            lines.append(f"left out, {why}: {shown}" + (f" ({len(paths)} files)" if len(paths) > 1 else ""))
        return lines


class _Gathering:
    """One pass over the candidates."""

    def __init__(
        self, reader: _Reader, candidates: Candidates, exclude: Patterns, bounds: Bounds, deadline: float, keep: Callable[[bytes], str]
    ) -> None:
        self.reader = reader
        self.candidates = candidates
        self.exclude = exclude
        self.bounds = bounds
        self.keep = keep
        self.entries: dict[bytes, objects.Entry] = {}
        self.read_bytes = 0
        self.new_files = 0
        self.deadline = deadline
        self.new = set(candidates.new) if candidates.git is not None else set()
        self.dirty = candidates.dirty
        self.hashed_bytes = 0

    def run(self) -> None:
        """The near files first, tracked before new: if a bound is hit, the far ones are missing."""
        tracked, included = self.candidates.tracked, set(self.candidates.included)
        groups = [set(tracked), included - set(tracked), set(self.candidates.new) - set(tracked) - included]
        order = [path for paths in groups for path in sorted(paths, key=_nearness)]
        for count, path in enumerate(order):
            known = tracked.get(path)
            if self._bound_hit(count, known is None):
                for rest in order[count:]:
                    self.reader.leave_out("past the bounds of a snapshot", rest)
                self.dirty = self.dirty or None
                break
            self._take(path, known, path in included)
        if self.entries.keys() & self.new:
            self.dirty = True

    def _bound_hit(self, count: int, is_new: bool) -> bool:
        return (
            len(self.entries) >= self.bounds.files
            or (is_new and self.new_files >= self.bounds.new_files)
            or self.read_bytes >= self.bounds.total_bytes
            or (count % 64 == 63 and time.monotonic() > self.deadline)
        )

    def _take(self, path: bytes, known: Tracked | None, included: bool) -> None:
        found = self.reader.stat(path)
        if found is None or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            if known is not None and not known.left_out:
                self.dirty = True
            return
        if not self._wanted(path, found, known is not None, included):
            if known is not None:
                self._look_at_untaken(path, found, known)
            return
        if stat.S_ISLNK(found.st_mode):
            link = self.reader.link(path)
            if link is None:
                return  # it leads out of the project, as a link to a data folder does
            data, kept, mode = *link, objects.LINK
        else:
            content = self._source(path, included)
            if content is None:
                return
            data = kept = content
            mode = objects.EXECUTABLE if found.st_mode & 0o100 else objects.FILE
        entry = objects.Entry(mode, self.keep(kept))
        self.entries[path] = entry
        self.new_files += known is None
        if known is not None and not self.dirty:
            self.dirty = _differs(data, entry.id if data is kept else None, found, known) or self.dirty

    def _wanted(self, path: bytes, found: os.stat_result, tracked: bool, included: bool) -> bool:
        name = os.fsdecode(path)
        if not objects.safe_path(path) or ".rearview" in name.split("/") or self.exclude.covers(path):
            return False
        if rules.secret(name):
            self.reader.leave_out("may hold a secret", path)
            return False
        if rules.data(name) and not included:
            return False
        if stat.S_ISREG(found.st_mode) and found.st_size > self.reader.limit_bytes:
            self.reader.leave_out(f"larger than {self.reader.limit_bytes} bytes", path)
            return False
        return tracked or included or rules.source_like(name)

    def _source(self, path: bytes, included: bool) -> bytes | None:
        data = self.reader.file(path)
        if data is None:
            return None
        self.read_bytes += len(data)
        if rules.secret_content(data):
            self.reader.leave_out("may hold a secret", path)
            return None
        return None if rules.binary(data) and not included else data

    def _look_at_untaken(self, path: bytes, found: os.stat_result, known: Tracked) -> None:
        """A tracked file that no version holds still makes the repository dirty."""
        if self.dirty or self.candidates.git is None or _as_remembered(found, known):
            return
        if found.st_size != known.size_bytes and found.st_size < 1 << 32 and known.size_bytes:
            self.dirty = True
        elif found.st_size > self.reader.limit_bytes or self.hashed_bytes > _HASHED_FOR_DIRT_BYTES or stat.S_ISLNK(found.st_mode):
            self.dirty = None
        else:
            data = self.reader.file(path)
            self.hashed_bytes += found.st_size
            self.dirty = self.dirty if data is not None and not _differs(data, None, found, known) else True


def _nearness(path: bytes) -> tuple[int, bytes]:
    return path.count(b"/"), path


def _as_remembered(found: os.stat_result, known: Tracked) -> bool:
    """Git's own test for an unchanged file, and its caution: what is as young as the index may have changed unseen."""
    return (
        found.st_mtime_ns == known.mtime_ns
        and found.st_ctime_ns == known.ctime_ns
        and found.st_size & 0xFFFFFFFF == known.size_bytes
        and found.st_mtime_ns < known.index_mtime_ns
    )


def _differs(data: bytes, id_: str | None, found: os.stat_result, known: Tracked) -> bool:
    """Whether a file's bytes are not those in the index.

    Line ends and filters make them differ in an unchanged file: then git's memory of the file decides.
    """
    if not known.id:
        return True
    algorithm = "sha1" if len(known.id) == 40 else "sha256"
    if (id_ if id_ is not None and algorithm == "sha1" else objects.object_id("blob", data, algorithm)) == known.id:
        return False
    if b"\r\n" in data and objects.object_id("blob", data.replace(b"\r\n", b"\n"), algorithm) == known.id:
        return False
    return not _as_remembered(found, known)


def gather(
    project: Path, *, limit_bytes: int, include: Sequence[str], exclude: Sequence[str], bounds: Bounds, keep: Callable[[bytes], str]
) -> Gathered:
    """Read the project's source, giving each file's bytes to `keep`."""
    deadline = time.monotonic() + bounds.seconds
    candidates = list_candidates(project, include, bounds)
    reader = _Reader(project, limit_bytes)
    gathering = _Gathering(reader, candidates, Patterns.parse(os.fsencode(text) for text in exclude), bounds, deadline, keep)
    gathering.run()
    facts = None if candidates.git is None else {**candidates.git, "dirty": gathering.dirty}
    return Gathered(gathering.entries, facts, [*candidates.notes, *reader.notes()])
