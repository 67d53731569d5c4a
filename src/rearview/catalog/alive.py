"""Does a process still live? The only module of the catalog that looks at processes and this host's identity."""

from __future__ import annotations

import os
import platform
import time
from functools import partial
from pathlib import Path

from rearview.catalog.status import SILENT_AFTER_S, Alive
from rearview.model import ProcessIdentity


def looker() -> Alive:
    """A function that tells whether a process lives, for this host and this boot."""
    return partial(_alive, platform.node(), _boot_id())


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _alive(host: str, boot_id: str, process: ProcessIdentity, heard_wall: float | None) -> bool:
    if process.host == host and process.boot_id == boot_id and boot_id:
        started = _start_ticks(process.pid)
        return started is not None and started == int(process.started)
    if process.host == host and process.boot_id and boot_id:
        return False  # before the last reboot
    if process.host == host:
        return _exists(process.pid)
    return heard_wall is not None and time.time() - heard_wall < SILENT_AFTER_S


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/<pid>/stat; None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _exists(pid: int) -> bool:
    """Where there is no /proc: the number is in use, which is all that can be known without a start time."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
