"""A lease says: somebody is making a checkpoint, leave alone what it may rely on. A small file per checkpoint in the making.

Taken before the first chunk is looked up, released when the manifest is there or given up. gc hides packs from new
checkpoints first and looks for leases then (`docs/formats/checkpoints.md`), so one of the two sees the other. The lease of
a process that died counts for nothing; on another host that shows when it is no longer refreshed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rearview.model import ProcessIdentity
from rearview.store import atomic, processes
from rearview.store.layout import Store

REFRESH_S = 15.0
SUFFIX = ".lease"


@dataclass(slots=True)
class Lease:
    """One that this process holds."""

    path: Path
    refreshed: float
    owner: int
    """The process that took it: a forked child must not give it back."""

    def refresh(self) -> None:
        """Say that it is still meant. Cheap when called often."""
        now = time.monotonic()
        if now - self.refreshed > REFRESH_S:
            self.refreshed = now
            with contextlib.suppress(OSError):
                os.utime(self.path)

    def release(self) -> None:
        """Give it back."""
        if os.getpid() == self.owner:
            with contextlib.suppress(OSError):  # a lease that stays ends with its process
                self.path.unlink(missing_ok=True)


def folder_of(store: Store) -> Path:
    """Where leases are."""
    return store.root / "leases"


def take(store: Store) -> Lease:
    """Take a lease. An `OSError` means: none was taken, rely on nothing."""
    who = {**asdict(processes.identity()), "pids": _pid_space()}
    path = folder_of(store) / f"{os.getpid()}-{os.urandom(6).hex()}{SUFFIX}"
    atomic.publish(path, json.dumps(who).encode() + b"\n", tmp=store.tmp, durable=False)
    return Lease(path, time.monotonic(), os.getpid())


def _pid_space() -> str:
    """Containers may share a host's name and boot, and still count their processes by themselves."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def live(store: Store) -> set[str]:
    """The names of leases whose holders live. Those of the dead are removed on the way."""
    here = (processes.host(), processes.boot_id())
    found = set()
    for path, age_s in _all(store):
        if _lives(path, age_s, here):
            found.add(path.name)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return found


def _all(store: Store) -> Iterator[tuple[Path, float]]:
    """Each lease with its age, by the clock of the file system where it can be had: hosts differ."""
    try:
        entries = list(os.scandir(folder_of(store)))
    except FileNotFoundError:
        return
    now = file_system_time(store) if entries else 0.0
    for entry in entries:
        if entry.name.endswith(SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                yield Path(entry.path), now - entry.stat().st_mtime


def file_system_time(store: Store) -> float:
    """Now, as the store's file system stamps files."""
    path = None
    try:
        path = atomic.temp_name(store.tmp)
        atomic.claim(path)
        return path.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _lives(path: Path, age_s: float, here: tuple[str, str]) -> bool:
    fresh = age_s < processes.SILENT_AFTER_S
    try:
        facts = json.loads(path.read_bytes())
        if facts.pop("pids") != _pid_space():
            return fresh
        process = ProcessIdentity(**facts)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, KeyError):
        return fresh  # not ours to understand: a later rearview, perhaps
    return processes.lives(process, time.time() - age_s, here=here)
