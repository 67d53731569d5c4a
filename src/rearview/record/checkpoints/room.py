"""How much memory the program may still have: what the machine has, what its group is allowed (containers, jobs of a scheduler), and
its own limit on addresses (`ulimit -v`). None where the system does not tell."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_VERSION_2 = ("memory.max", "memory.current")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_NO_LIMIT = 1 << 60
"""As large is what a group without a limit says that its limit is."""

Read = Callable[[Path], str | None]


def available_bytes() -> int | None:
    """Memory that can be had without swapping, and without being killed for it."""
    known = [size for size in (_of_machine(_read), _of_groups(_read), _of_addresses(_read)) if size is not None]
    return max(min(known), 0) if known else None


def has_address_limit() -> bool:
    """Whether addresses themselves are counted: then none may be reserved that are not used."""
    return _address_limit() is not None


def _of_machine(read: Read) -> int | None:
    for line in (read(Path("/proc/meminfo")) or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_groups(read: Read) -> int | None:
    """The least that any group around the process leaves it; what files hold of it can be had back."""
    left = []
    for folder, names, kept in _groups(read):
        limit, used = (_number(read(folder / name)) for name in names)
        if limit is not None and used is not None and limit < _NO_LIMIT:
            left.append(limit - used + _of_files(read(folder / "memory.stat") or "", kept))
    return min(left) if left else None


def _groups(read: Read) -> Iterator[tuple[Path, tuple[str, str], str]]:
    """The folders of the groups that the process is in, the innermost first, with the names of their files."""
    for line in (read(Path("/proc/self/cgroup")) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            top, names, kept = _GROUPS, _VERSION_2, "inactive_file"
        elif "memory" in controllers.split(","):
            top, names, kept = _GROUPS / "memory", _VERSION_1, "total_inactive_file"
        else:
            continue
        folder = top / path.lstrip("/")
        yield from ((one, names, kept) for one in (folder, *folder.parents) if one == top or top in one.parents)


def _of_files(stat: str, kept: str) -> int:
    for line in stat.splitlines():
        name, _, size = line.partition(" ")
        if name == kept:
            return _number(size) or 0
    return 0


def _of_addresses(read: Read) -> int | None:
    limit = _address_limit()
    pages = _number((read(Path("/proc/self/statm")) or "").partition(" ")[0])
    return None if limit is None or pages is None else limit - pages * os.sysconf("SC_PAGE_SIZE")


def _address_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _number(text: str | None) -> int | None:
    """A number in a file; `max` is none."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return None


def is_of_memory(problem: Exception | None) -> bool:
    """Whether there was no memory: there may be some the next time."""
    return isinstance(problem, MemoryError) or (isinstance(problem, OSError) and problem.errno == errno.ENOMEM)
