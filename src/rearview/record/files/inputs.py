"""What a run reads: files with what identifies them, and folders with the names in them. Off the training thread, within limits.

`firsts` sees what Python code opens and lists; `seen_by_the_system` adds what native code holds open or has mapped; forked
children tell their parent through a pipe. Files are hashed a little at a time, large ones once for all runs
(`cache/inputs.json`, which may be deleted). Must not know what is compared later (`replay.inputs`).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from rearview.record import firsts
from rearview.record.files import input_hashes, written
from rearview.record.files.input_hashes import Hashing
from rearview.store.layout import Store

ROUND_CPU_S, ROUND_WALL_S = 0.005, 0.02
"""For each round of the keeper, one a second: below a hundredth of the run's time."""
_END_SHARE, _END_AT_LEAST_S, _END_S = 0.005, 0.01, 1.0
"""At the end that part of the run's time, but at least and at most so long."""
_MAX_NAMES = 200_000
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ

Row = list[Any]
"""path, `r` or `w`, size, mtime in ns, inode, and the hash of the content where there is one. A later row of a path replaces it."""


@dataclass(slots=True)
class Inputs:
    """What one run has noted so far."""

    files: dict[str, str] = field(default_factory=dict)
    """Path -> mode, as it was last noted."""
    folders: set[str] = field(default_factory=set)
    to_hash: deque[str] = field(default_factory=deque)
    hashing: Hashing | None = None
    """The large file that is being read."""
    cache: input_hashes.Cache | None = None
    rounds: int = 0

    def fresh(self, project: str, store: Store, *, at_end: bool = False, elapsed_s: float = 0.0) -> dict[str, Any] | None:
        """The fact `inputs`: what was read since the last call, and what was hashed; None if nothing."""
        receive()
        self.rounds += 1
        if at_end or self.rounds & (self.rounds - 1) == 0:  # ever more rarely: such files are held for long
            seen_by_the_system()
        budget = self._budget(at_end, elapsed_s)
        shown = Shown(project, os.path.join(store.root, ""))
        files = self._files(shown)
        hashed = self._hash(shown, store, budget)
        for row in files:
            row[5:] = [hashed.pop(row[0])[5]] if row[0] in hashed and hashed[row[0]][:5] == row[:5] else []
        folders = self._folders(shown, budget)
        if at_end and self.cache is not None:
            self.cache.save(store)
        files += hashed.values()
        return {"files": files, **({"folders": folders} if folders else {})} if files or folders else None

    def _budget(self, at_end: bool, elapsed_s: float) -> Budget:
        in_replay = "REARVIEW_REPLAY" in os.environ  # there inputs were compared before it began
        if at_end and not in_replay:
            allowed_s = max(_END_AT_LEAST_S, min(_END_S, elapsed_s * _END_SHARE))
            return Budget(allowed_s, 10 * allowed_s)  # on busy cores waiting is not working
        if in_replay or threading.current_thread() is threading.main_thread():  # before a fork: the program waits
            return Budget(0.0, 0.0)
        return Budget(ROUND_CPU_S, ROUND_WALL_S)

    def _files(self, shown: Shown) -> list[Row]:
        if len(firsts.opened) == len(self.files):
            return []
        rows = []
        for path, mode in list(firsts.opened.items()):
            if self.files.get(path) != mode:
                self.files[path] = mode
                if shown.is_the_stores(path):
                    continue
                rows.append(describe(shown.name(path), path, mode))
                if mode == "r" and rows[-1][2]:
                    self.to_hash.append(path)
        return rows

    def _hash(self, shown: Shown, store: Store, budget: Budget) -> dict[str, Row]:
        """Rows with a hash, of as many files as there is time for."""
        rows: dict[str, Row] = {}
        while (self.hashing is not None or self.to_hash) and not budget.is_spent():
            if self.hashing is None:
                path = self.to_hash.popleft()
                if firsts.opened.get(path) != "r" or path in written.files:
                    continue
                self.cache = self.cache or input_hashes.Cache()
                self.hashing = self.cache.begin(path, store)
                if self.hashing is None:
                    continue
            if self.hashing.go_on():
                done, self.hashing = self.hashing, None
                if done.key is not None:
                    name = shown.name(done.path)
                    rows[name] = [name, "r", *done.identity, done.key]
                    assert self.cache is not None
                    self.cache.keep(done)
        return rows

    def _folders(self, shown: Shown, budget: Budget) -> list[Row]:
        if len(firsts.listed) == len(self.folders):
            return []
        rows = []
        for path in list(firsts.listed):
            if path not in self.folders and not budget.is_spent():
                self.folders.add(path)
                if not shown.is_the_stores(path) and not path.startswith(_NOT_FOLDERS):
                    rows.append(describe_folder(shown.name(path), path, own_names(path)))
        return rows


@dataclass(frozen=True, slots=True)
class Shown:
    """How paths appear in facts: below the project, relative to it."""

    project: str
    store: str

    def name(self, path: str) -> str:
        """As facts have it; the project's own folder has no name."""
        return "" if path == self.project else path.removeprefix(os.path.join(self.project, ""))

    def is_the_stores(self, path: str) -> bool:
        """Whether a path is in the store, or the store itself."""
        return os.path.join(path, "").startswith(self.store)


class Budget:
    """Time that may be spent."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        self._cpu_until = time.thread_time() + cpu_s
        self._wall_until = time.monotonic() + wall_s

    def is_spent(self) -> bool:
        """Whether it is over."""
        return time.thread_time() >= self._cpu_until or time.monotonic() >= self._wall_until


# -- what identifies a file or folder ---------------------------------------------------------------------------------------


def describe(name: str, path: str, mode: str) -> Row:
    """A row without a hash; three times None if the file is not there."""
    try:
        facts = os.stat(path)
    except OSError:
        return [name, mode, None, None, None]
    return [name, mode, facts.st_size, facts.st_mtime_ns, facts.st_ino]


def own_names(folder: str) -> set[str]:
    """What this program itself put into a folder: it is not part of what it found there."""
    start = os.path.join(folder, "")
    paths = (*list(written.files), *list(written.made))
    return {path[len(start) :].split(os.sep)[0] for path in paths if path.startswith(start)}


def describe_folder(name: str, path: str, own: set[str]) -> Row:
    """path, how many names, their digest, mtime in ns, inode. Without names if it is not there or has too many."""
    try:
        facts = os.stat(path)
        count, digest = names_in(path, own)
    except OSError:
        return [name, None, None, None, None]
    return [name, count, digest, facts.st_mtime_ns, facts.st_ino]


def names_in(path: str, own: set[str]) -> tuple[int | None, str | None]:
    """How many names a folder has, and their digest: whatever their order, and without what the program put there."""
    names: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name not in own and entry.name not in (".rearview", "__pycache__"):
                names.append(entry.name)
            if len(names) > _MAX_NAMES:
                return None, None
    return len(names), input_hashes.digest("\0".join(sorted(names)).encode(errors="surrogateescape"))


# -- files that Python code did not open ------------------------------------------------------------------------------------


def seen_by_the_system() -> None:
    """Files that native code has open for reading, or mapped (HDF5, LMDB, Arrow, safetensors). Linux only; never raises."""
    found = []
    try:
        for name in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink(f"/proc/self/fd/{name}")
                if path.startswith("/") and path not in firsts.opened and _is_read_only(name):
                    found.append(path)
            except OSError:
                continue  # closed meanwhile
        with open("/proc/self/maps", "rb") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return
    mapped = {os.fsdecode(parts[5]) for parts in (line.split(None, 5) for line in lines) if len(parts) == 6 and b"x" not in parts[1]}
    executable = {os.fsdecode(parts[5]) for parts in (line.split(None, 5) for line in lines) if len(parts) == 6 and b"x" in parts[1]}
    found += [path for path in mapped - executable if path.startswith("/") and path not in firsts.opened]
    for path in found:
        if not firsts.of_the_interpreter(path) and not path.startswith(_NOT_DATA) and path not in written.files and _is_regular(path):
            firsts.opened.setdefault(path, "r")


_NOT_FOLDERS = ("/proc", "/sys", "/dev")
"""What the operating system shows of itself: libraries look for processes and devices there."""
_NOT_DATA = ("/usr/", "/lib", "/etc/", "/memfd:", "/SYSV", "/run/", "/var/cache/")


def _is_read_only(fd: str) -> bool:
    with open(f"/proc/self/fdinfo/{fd}", encoding="utf-8") as facts:
        for line in facts:
            if line.startswith("flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY
    return False


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


# -- forked children, such as the workers of a loader -----------------------------------------------------------------------

_pipe: tuple[int, int, int] | None = None
"""Both ends, and the inode by which they are known again: a program may close what it does not know. Made before the first fork."""
_rest = b""
_runs = 0
"""Open runs of this process that want to hear."""
_watches_forks = False


def listen() -> None:
    """Let children that are forked from now on tell what they open."""
    global _runs, _watches_forks  # noqa: PLW0603
    if firsts.fork_path or not hasattr(os, "pipe2"):
        return
    _runs += 1
    if not _watches_forks:
        _watches_forks = True
        os.register_at_fork(before=_before_fork)


def hang_up() -> None:
    """A run has ended. After the last one nothing of this is left in the process."""
    global _runs, _pipe  # noqa: PLW0603
    if firsts.fork_path or not _runs:
        return
    _runs -= 1
    if not _runs and _pipe is not None:
        (hear, tell, inode), _pipe = _pipe, None
        for fd in (hear, tell):
            if _is_ours(fd, inode):
                os.close(fd)


def _before_fork() -> None:
    """A child has both ends: that its parent is gone never shows as a broken pipe."""
    global _pipe  # noqa: PLW0603
    if not _runs or _pipe is not None or firsts.fork_path:
        return
    try:
        hear, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # none to spare: what children read is not noted
    try:
        import fcntl

        fcntl.fcntl(tell, _SET_PIPE_SIZE, _PIPE_BYTES)
    except OSError:
        pass
    _pipe = hear, tell, os.fstat(tell).st_ino
    firsts.tell = _tell


def _is_ours(fd: int, inode: int) -> bool:
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


def _tell(path: str) -> None:
    """In a child: a file is opened for reading. One write, never waited for."""
    if _pipe is not None and _is_ours(_pipe[1], _pipe[2]):
        data = os.fsencode(path) + b"\0"
        if len(data) <= 4096:  # such a write is whole or not at all
            os.write(_pipe[1], data)


def receive() -> None:
    """In the parent: take what children told."""
    global _rest
    if _pipe is None or firsts.fork_path:
        return
    try:
        while _is_ours(_pipe[0], _pipe[2]) and (data := os.read(_pipe[0], _PIPE_BYTES)):
            *paths, _rest = (_rest + data).split(b"\0")
            for path in map(os.fsdecode, paths):
                if path in written.files:
                    written.read(path)
                elif len(firsts.opened) < firsts.MAX_OPENED:
                    firsts.opened.setdefault(path, "r")
    except OSError:
        return  # nothing waits
