"""The append-only file of one process: one checksummed frame, one write call, then it is acknowledged.

One of the two modules that write store files (the other is `atomic`). A journal is a row of parts; a part is closed
by its last frame and never touched again, the last part of a killed process simply stops. Each part defines the names
and blocks it uses, so it can be read alone.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rearview.errors import RecordingFailed
from rearview.model import ProcessNumber
from rearview.store import atomic, frames

PART_BYTES = 4 << 20
PART_FRAMES = 1 << 16
"""A part is closed when it has either: readers parse only the open part of a live run afresh."""
SUFFIX = ".journal"


@dataclass(frozen=True, slots=True, order=True)
class PartName:
    """`<writer>-a<attempt>-<part>.journal`: who wrote it, in which attempt, which part."""

    writer: str
    """A process number, or `supervisor`."""
    attempt: int
    part: int

    def __str__(self) -> str:
        return f"{self.writer}-a{self.attempt}-{self.part:04d}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> PartName | None:
        """The parts of a file name, or None if it is not a journal's."""
        fields = name.removesuffix(SUFFIX).rsplit("-", 2)
        if not name.endswith(SUFFIX) or len(fields) != 3 or not fields[1].startswith("a"):
            return None
        try:
            return cls(fields[0], int(fields[1][1:]), int(fields[2]))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class SyncHandle:
    """A part as it is now, to be synced beside its writer. It stays valid when the writer closes the part."""

    fd: int
    folder: Path | None
    """The folder, if the part is new in it."""

    def sync(self) -> None:
        """Wait for the disk."""
        os.fdatasync(self.fd) if hasattr(os, "fdatasync") else os.fsync(self.fd)
        if self.folder is not None:
            atomic.sync_folder(self.folder)

    def close(self) -> None:
        """Let go of it."""
        os.close(self.fd)


class JournalWriter:
    """Appends frames for one process of one run. The caller serialises calls (one lock per process)."""

    def __init__(self, folder: Path, writer: ProcessNumber | str, attempt: int = 1) -> None:
        self.folder = folder
        self.writer = str(writer)
        self.attempt = attempt
        self.part = 0
        self.fd = -1
        self.sequence = 0
        """Of the next frame in the current part."""
        self.make_room: Callable[[], bool] | None = None
        """Asked when the disk is full: whether there is room now."""
        self._frames_before = 0
        self._appended_bytes = 0
        """In the current part, without what the recorder's short way writes: that is bounded by the number of frames."""
        self._synced = 0
        """The sequence number up to which everything survives a power loss."""
        self._folder_synced = True
        """A power loss would not take the name of the current part."""
        self.syncing = threading.RLock()
        """Held by whoever syncs beside the writer, until it is done: what somebody else took on himself may not be on the disk yet."""

    @property
    def frames(self) -> int:
        """Frames written in all parts."""
        return self._frames_before + self.sequence

    def is_full(self) -> bool:
        """Whether it is time for the next part."""
        return self.sequence > PART_FRAMES or self._appended_bytes > PART_BYTES

    def open_part(self, hello: bytes) -> None:
        """Begin the next part; its first frame says who writes."""
        if self.fd >= 0:
            self._append(bytes((frames.CLOSE,)))
            self.sync()
            os.close(self.fd)
            self.fd = -1
            self._frames_before -= 1  # the frame that closed it says nothing
        self._frames_before += self.sequence
        self.sequence = self._synced = self._appended_bytes = 0
        self.part += 1
        try:
            self.fd = self._create()
            self.write(frames.MAGIC + frames.frame(0, hello))
        except BaseException:  # leave no empty file behind: on a full disk this is tried again and again
            self._take_back_part()
            raise
        self.sequence = 1
        self._folder_synced = False

    def _take_back_part(self) -> None:
        if self.fd >= 0:
            self.abandon()
            try:
                os.unlink(self.folder / str(PartName(self.writer, self.attempt, self.part)))
            except OSError:
                return  # a part that is torn at once; the next one has the next number
        self.part -= 1

    def _create(self) -> int:
        """A file that nobody has: should two processes claim one number, the later one gets a letter more."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            try:
                return os.open(self.folder / str(PartName(self.writer, self.attempt, self.part)), flags, 0o666)
            except FileExistsError:
                self.writer += "x"

    def _append(self, body: bytes) -> None:
        self.write(frames.frame(self.sequence, body))
        self.sequence += 1

    def append(self, bodies: list[bytes]) -> None:
        """Write several frames with one write call."""
        sequence = self.sequence
        self.write(b"".join([frames.frame(sequence + k, body) for k, body in enumerate(bodies)]))
        self.sequence = sequence + len(bodies)

    def write(self, data: bytes) -> None:
        """One write call; a short write is taken back, so that no frame is ever half in the middle."""
        try:
            written = os.write(self.fd, data)
        except OSError as problem:
            written = self.refused(problem)
        if written != len(data):
            self.take_back(written, data)
        self._appended_bytes += len(data)

    def refused(self, problem: OSError) -> int:
        """A write failed: nothing was written, if it may be tried again."""
        if problem.errno == errno.ENOSPC and self.make_room is not None:
            return 0
        raise RecordingFailed(f"cannot write to {self.folder.name}: {problem.strerror}") from problem

    def take_back(self, written: int, data: bytes) -> None:
        """Undo a short write: the disk is full. Once there is room, all of it is written."""
        os.ftruncate(self.fd, os.fstat(self.fd).st_size - written)
        if self.make_room is None or not self.make_room():
            raise RecordingFailed(f"cannot write to {self.folder.name}: the disk is full")
        self.write(data)

    def sync(self) -> None:
        """Make what was written survive a power loss. An error is final for the part."""
        handle = self.sync_handle()
        if handle is not None:
            try:
                handle.sync()
            finally:
                handle.close()

    def sync_handle(self) -> SyncHandle | None:
        """What is to be synced now, for a thread that does not want to hold up the writer; None if nothing is."""
        if self.sequence == self._synced or self.fd < 0:
            return None
        self._synced = self.sequence
        folder = None if self._folder_synced else self.folder
        self._folder_synced = True
        return SyncHandle(os.dup(self.fd), folder)

    def close(self) -> None:
        """Close the last part: it becomes immutable."""
        if self.fd >= 0:
            try:
                self._append(bytes((frames.CLOSE,)))
                self._frames_before -= 1
                self.sync()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Let go of the file without a word, as in a forked child."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def parts_of(folder: Path) -> list[tuple[PartName, Path]]:
    """The journal parts of a run in order."""
    found = []
    for entry in os.scandir(folder):
        name = PartName.parse(entry.name)
        if name is not None:
            found.append((name, Path(entry.path)))
    return sorted(found)
