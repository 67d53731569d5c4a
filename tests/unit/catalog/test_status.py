"""How a run stands, decided from facts alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rearview.catalog.alive import looker
from rearview.catalog.status import MainProcess, decide
from rearview.model import ProcessIdentity

SOMEBODY = ProcessIdentity("host", "boot", 7, 1.0)


def main(end: dict[str, object] | None = None, heard: float | None = 20.0) -> MainProcess:
    return MainProcess(SOMEBODY, 10.0, end, heard)


def lives(*_: object) -> bool:
    return True


def dead(*_: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("processes", "exits", "alive", "expected"),
    [
        ([main()], [], lives, ("running", "", 90.0)),
        ([main()], [], dead, ("killed", "", 10.0)),
        ([main()], [{"signal": 9}], dead, ("killed", "SIGKILL", 10.0)),
        ([main()], [{"signal": "SIGTERM"}], dead, ("killed", "SIGTERM", 10.0)),
        ([main()], [{"code": 3, "signal": None}], dead, ("killed", "exit 3", 10.0)),
        ([main({"how": "finished", "wall": 15.0})], [], lives, ("finished", "", 5.0)),
        ([main({"how": "failed", "exception": "ValueError", "wall": 15.0})], [], dead, ("failed", "ValueError", 5.0)),
        ([main({"how": "failed", "exception": None, "exit_code": 3, "wall": 15.0})], [], dead, ("failed", "exit 3", 5.0)),
        ([main({"how": "finished", "wall": 15.0}), main()], [], lives, ("running", "", 90.0)),
        ([main({"how": "finished", "wall": 15.0}), main()], [], dead, ("killed", "", 10.0)),
        ([main({"how": "failed", "exception": "E", "wall": 15.0}), main()], [], dead, ("failed", "E", 10.0)),
        ([main({"how": "finished", "wall": 15.0}), main({"how": "finished", "wall": 18.0})], [], dead, ("finished", "", 8.0)),
        ([main({"how": "finished", "wall": 5.0})], [], dead, ("finished", "", 0.0)),
        ([main(None, None)], [], dead, ("killed", "", None)),
        ([], [], lives, ("killed", "", None)),
    ],
)
def test_decision(
    processes: list[MainProcess], exits: list[dict[str, object]], alive: object, expected: tuple[str, str, float | None]
) -> None:
    status = decide(processes, exits, alive, 100.0)  # type: ignore[arg-type]
    assert (status.status, status.detail, status.duration_s) == expected


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_is_more_than_its_number() -> None:
    """Same pid, other start time: a reused number. Other boot id: gone with the reboot."""
    import platform

    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    started = int(Path(f"/proc/{os.getpid()}/stat").read_bytes().rpartition(b")")[2].split()[19])
    host, alive = platform.node(), looker()
    assert alive(ProcessIdentity(host, boot, os.getpid(), started), None)
    assert not alive(ProcessIdentity(host, boot, os.getpid(), started + 1), None)
    assert not alive(ProcessIdentity(host, "another-boot", os.getpid(), started), time.time())
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    began = int(Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    assert alive(ProcessIdentity(host, boot, child.pid, began), None)
    child.communicate()
    assert not alive(ProcessIdentity(host, boot, child.pid, began), None)


def test_another_host_is_judged_by_when_it_was_heard() -> None:
    alive = looker()
    far = ProcessIdentity("another-host", "boot", 1, 1.0)
    assert alive(far, time.time() - 30)
    assert not alive(far, time.time() - 300)
    assert not alive(far, None)
