"""Who a process is, and whether it still lives: (host, boot, pid, start time), never a pid alone.

The one place that looks at processes and at this host's identity.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from rearview.model import ProcessIdentity

SILENT_AFTER_S = 90.0
"""A process on another host that has said nothing for so long is taken for dead (it ticks every 15 s)."""


def boot_id() -> str:
    """What changes at every boot; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def host() -> str:
    """The name of this machine."""
    return platform.node()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None for one that is gone or a zombie, or where nobody tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def began_wall() -> float | None:
    """When this process started, by the clock on the wall; None where nobody tells."""
    ticks, clock = start_ticks(os.getpid()), getattr(time, "CLOCK_BOOTTIME", None)
    if ticks is None or clock is None:
        return None
    return time.time() - (time.clock_gettime(clock) - ticks / os.sysconf("SC_CLK_TCK"))


def identity() -> ProcessIdentity:
    """This process, for good."""
    pid = os.getpid()
    return ProcessIdentity(host(), boot_id(), pid, float(start_ticks(pid) or time.time()))


def lives(process: ProcessIdentity, heard_wall: float | None, *, here: tuple[str, str] | None = None) -> bool:
    """Whether a process lives, given when it was last heard of. `here` is (host, boot id), if the caller asks often."""
    our_host, our_boot = here or (host(), boot_id())
    if process.host == our_host and process.boot_id == our_boot and our_boot:
        started = start_ticks(process.pid)
        return started is not None and started == int(process.started)
    if process.host == our_host and process.boot_id and our_boot:
        return False  # before the last reboot
    if process.host == our_host:
        return exists(process.pid)
    return heard_wall is not None and time.time() - heard_wall < SILENT_AFTER_S


def exists(pid: int) -> bool:
    """Whether a process of that number exists: all that can be known where there is no /proc with start times."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
