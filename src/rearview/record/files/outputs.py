"""The files that a run writes, as they are at a checkpoint: length, position, and the content of small ones.

Two steps, because the program goes on: `at_boundary` runs on the training thread, empties the program's own write buffers into
their files and takes lengths; `note` reads and keeps content in the background. Neither ever raises. Must not know how files are
brought back (`aside`), nor what a checkpoint holds besides.
"""

from __future__ import annotations

import os
import stat
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rearview.errors import RearviewError
from rearview.record import firsts
from rearview.record.files import handles, written
from rearview.record.files.own import Own, shown_path

SMALL_BYTES = 1 << 20
"""A file up to this size is kept with its content."""
TINY_BYTES = 64 << 10
"""A file up to this size is kept with its content however much was kept before, and read on the training thread."""
TAIL_BYTES = 4096
"""So many bytes before a noted length tell whether a longer file still begins as it did."""
NOT_KNOWN = 0
"""When a file was written last, for one that is written through memory."""
_KEPT_BYTES = 64 << 20
_READ_AT_BOUNDARY = 256 << 10
_FILES_AT_BOUNDARY = 32
_ENDS_AT_BOUNDARY = 256
"""So many changed files are looked into on the training thread, if only for the bytes at their end."""
_TICK_NS = 50_000_000
"""A file that was written so short a time ago may be written once more and keep its time: systems count it in steps."""

Row = list[Any]
"""path, length, mode, object key or None, mtime in ns, digest of the tail or None, position of the open handle or None,
whether it was opened before the loop (None if that is not known). A path below the project is relative to it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A file at a boundary."""

    path: str
    """Absolute."""
    mode: str
    length: int
    mtime_ns: int
    inode: int
    position: int | None = field(compare=False)
    """Of its one open handle."""
    before_loop: bool | None
    appends: bool = field(default=False, compare=False)
    """Whoever writes to it can do so only at its end."""
    taken_ns: int = field(default=0, compare=False)
    data: bytes | None = field(default=None, compare=False)
    """Its content, where that was read at the boundary."""
    end: bytes | None = field(default=None, compare=False)
    """Its last bytes, where they were."""


class Outputs:
    """Follows the output files of one run in this process."""

    def __init__(self, project: Path, store_root: Path) -> None:
        self._project = os.path.join(os.path.abspath(project), "")
        self._own = Own(project, store_root)
        self._held: set[str] = set()
        """The files that were open at a boundary."""
        self._seen = 0
        self._open_before: frozenset[str] = frozenset()
        self._marks: dict[str, Mark | None] = {}
        self._handles: dict[int, list[weakref.ref[Any]]] = {}
        self._looked: dict[int, tuple[str, int]] = {}
        """Descriptor -> which opening of which file it was when its handles were looked for."""
        self._real: dict[str, tuple[int, str]] = {}
        """Path -> its real name (none if it does not count), and the serial of the opening when that was looked up: it may be a link
        that leads elsewhere later."""
        self._noted: dict[str, tuple[Mark, Row]] = {}
        self._kept_bytes = 0

    def loop_begins(self) -> None:
        """The main loop is about to begin: what was opened until now is opened again when the run is resumed."""
        written.watch_torch()
        if written.loop_begun is None:
            written.loop_begun = written.now()

    def go_on_with(self, rows: Iterable[Row]) -> None:
        """The run is resumed from a checkpoint with these files: they are its own still, also those that it does not open again."""
        for path, _, mode, _, _, _, _, before_loop in ((*row, *([None] * 8))[:8] for row in rows):
            full, now = os.path.join(self._project, str(path)), written.now()
            self._held.add(full)
            if full not in written.files:
                written.files[full] = written.Written(str(mode), None, 0 if before_loop else now, now)

    # -- on the training thread --------------------------------------------------------------------------------------

    def at_boundary(self, mapped: Iterable[str] = ()) -> list[Mark]:
        """Each output file as it is now, what the program has written to it so far included. `mapped`: those it writes through memory."""
        try:
            with firsts.unseen():
                return self._at_boundary(frozenset(map(handles.real, mapped)))
        except (OSError, ValueError, RuntimeError):
            return [mark for mark in self._marks.values() if mark is not None]

    def _at_boundary(self, mapped: frozenset[str]) -> list[Mark]:
        written.watch_torch()
        since, self._seen = self._seen, written.now()
        inside = self._own.inside()
        paths = list(written.files)
        real = self._real_names(paths, inside)
        on_files = handles.descriptors_of(frozenset(real.values()))
        open_now = {path: on_files[name] for path, name in real.items() if name in on_files}
        self._held.update(open_now)
        self._flush(open_now)
        in_memory = {path for path, name in real.items() if name in mapped and self._counts(path, inside)}
        bytes_left, files_left, ends_left = _READ_AT_BOUNDARY, _FILES_AT_BOUNDARY, _ENDS_AT_BOUNDARY
        gone = tuple(path for path, serial in list(written.removed.items()) if serial >= since)
        below = tuple(os.path.join(path, "") for path in gone)
        opened = {name for path, name in real.items() if self._real[path][0] >= since}
        for path in paths:
            known = written.files.get(path)
            if known is not None and path in in_memory:
                self._marks[path] = self._mark_in_memory(path, known)
                continue
            name = real.get(path, path)  # what one path did to a file, others that lead to it show
            touched = name in opened or path in gone or name in gone or path.startswith(below)
            if known is None or (path in self._marks and not touched and path not in open_now and path not in self._open_before):
                continue
            mark = self._mark(path, known, open_now.get(path)) if self._counts(path, inside) else None
            if mark is not None and ends_left > 0 and self._is_news(mark):
                ends_left -= 1  # what is not read now may be written over before it is, also in a file that is open all the time
                if mark.length <= min(TINY_BYTES, bytes_left) and files_left > 0:
                    bytes_left, files_left = bytes_left - mark.length, files_left - 1
                    mark = replace(mark, data=_read(path, mark.length))
                else:
                    mark = replace(mark, end=_read(path, mark.length, TAIL_BYTES))
            self._marks[path] = mark
        self._open_before = frozenset(open_now)
        return [mark for path, mark in self._marks.items() if mark is not None and path in written.files]

    def _real_names(self, paths: Iterable[str], inside: tuple[str, ...]) -> dict[str, str]:
        """The files that count, or do so if they are open, by the names that the system has for them."""
        for path in paths:
            known, before = written.files.get(path), self._real.get(path)
            if known is None:
                self._real.pop(path, None)
            elif before is None or before[0] != known.serial:
                may_count = self._own.is_own(path, inside, held=True)  # above all, not our own journal
                self._real[path] = (known.serial, handles.real(path) if may_count else "")
        return {path: name for path, (_, name) in self._real.items() if name}

    def _mark_in_memory(self, path: str, known: written.Written) -> Mark | None:
        """A file that is written through memory: neither its time nor its end tells whether it was. A small one is read now."""
        mark = self._mark(path, known, None)
        if mark is None:
            return None
        return replace(mark, mtime_ns=NOT_KNOWN, data=_read(path, mark.length) if mark.length <= SMALL_BYTES else None)

    def _is_news(self, mark: Mark) -> bool:
        before = self._marks.get(mark.path)
        if before is None or before.taken_ns - before.mtime_ns < _TICK_NS:
            return True
        return (before.length, before.mtime_ns, before.inode) != (mark.length, mark.mtime_ns, mark.inode)

    def _flush(self, open_now: dict[str, list[int]]) -> None:
        """Empty write buffers: what is in them at the boundary belongs to the file at the boundary."""
        wanted = {fd: (path, written.files[path].serial) for path, fds in open_now.items() for fd in fds if path in written.files}
        if any(self._looked.get(fd) != opening for fd, opening in wanted.items()):  # all objects are walked only for a new handle
            self._looked, self._handles = wanted, handles.on(set(wanted))
        handles.flush(ref() for fd in wanted for ref in self._handles.get(fd, ()))

    def _mark(self, path: str, known: written.Written, fds: list[int] | None) -> Mark | None:
        try:
            facts = os.stat(path)
        except OSError:
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        position = None
        if fds is not None and len(fds) == 1:
            try:
                position = os.lseek(fds[0], 0, os.SEEK_CUR)
            except OSError:
                pass
        before = None if written.loop_begun is None else known.first < written.loop_begun
        appends = known.mode == "a" if fds is None else handles.append(fds)
        return Mark(path, known.mode, facts.st_size, facts.st_mtime_ns, facts.st_ino, position, before, appends, time.time_ns())

    def _counts(self, path: str, inside: tuple[str, ...]) -> bool:
        return self._own.is_own(path, inside, held=path in self._held)

    # -- in the background -------------------------------------------------------------------------------------------

    def note(self, marks: Iterable[Mark], keep: Callable[[bytes], str]) -> list[Row]:
        """The manifest's `files`. `keep` puts bytes into the store and gives their key."""
        rows = []
        with firsts.unseen():
            for mark in marks:
                before = self._noted.get(mark.path)
                if before is not None and before[0] == mark and _is_no_news(mark, before[1][5]):
                    row = [*before[1][:6], mark.position, mark.before_loop]
                else:
                    row = self._row(mark, before, keep)
                    self._noted[mark.path] = (replace(mark, data=None, end=None), row)
                rows.append(row)
        return rows

    def _row(self, mark: Mark, before: tuple[Mark, Row] | None, keep: Callable[[bytes], str]) -> Row:
        key = None
        data, end = mark.data, mark.end if mark.data is None else mark.data[-TAIL_BYTES:]
        worth_it = self._is_worth_it(mark, before)
        if data is None and mark.mtime_ns != NOT_KNOWN:  # the program goes on meanwhile
            late = _read(mark.path, mark.length) if worth_it else None
            late_end = _read(mark.path, mark.length, TAIL_BYTES) if end is None else end
            if _is_as_it_was(mark) and (late is None or late_end is None or late.endswith(late_end)):
                data, end = late, late_end
        try:
            if worth_it and data is not None:
                key = keep(data)
                self._kept_bytes += len(data)
        except (OSError, RearviewError):
            pass  # without content; it may still be there when it is needed
        tail = None if end is None else digest(end)
        shown = shown_path(mark.path, self._project)
        return [shown, mark.length, mark.mode, key, mark.mtime_ns, tail, mark.position, mark.before_loop]

    def _is_worth_it(self, mark: Mark, before: tuple[Mark, Row] | None) -> bool:
        """Whether to keep the content. A larger file that has only grown still has what it had: its length is enough."""
        if mark.mtime_ns == NOT_KNOWN:
            return mark.data is not None
        if mark.length <= TINY_BYTES:
            return True
        if mark.length > SMALL_BYTES or self._kept_bytes > _KEPT_BYTES:
            return False
        if before is None or before[0].inode != mark.inode or before[0].length >= mark.length or before[1][5] is None:
            return True
        return bool(tail_digest(mark.path, before[0].length) != before[1][5])


# -- content -------------------------------------------------------------------------------------------------------------


def _read(path: str, length: int, last: int | None = None) -> bytes | None:
    """The first bytes of a file, or the last so many of these; None if it no longer has them."""
    start = 0 if last is None else max(0, length - last)
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            data = file.read(length - start)
    except OSError:
        return None
    return data if len(data) == length - start else None


def _is_no_news(mark: Mark, tail: str | None) -> bool:
    """Whether what was read at the boundary, if anything, says nothing against a file of the same size and time being the same."""
    return mark.mtime_ns != NOT_KNOWN and mark.data is None and (mark.end is None or digest(mark.end) == tail)


def _is_as_it_was(mark: Mark) -> bool:
    """Whether a file certainly has the bytes still that it had at the boundary: nobody wrote to it since, or only at its end."""
    try:
        facts = os.stat(mark.path)
    except OSError:
        return False
    untouched = (facts.st_size, facts.st_mtime_ns) == (mark.length, mark.mtime_ns)
    return facts.st_ino == mark.inode and (untouched or (mark.appends and facts.st_size >= mark.length))


def digest(data: bytes) -> str:
    """A short digest, for telling whether bytes changed."""
    import xxhash

    return str(xxhash.xxh3_64_hexdigest(data))


def tail_digest(path: str, length: int) -> str | None:
    """The digest of the last bytes before a length; None if the file is shorter, or gone."""
    data = _read(path, length, TAIL_BYTES)
    return None if data is None else digest(data)
