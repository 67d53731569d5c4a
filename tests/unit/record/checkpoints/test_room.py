"""How much memory the program may still have."""

from pathlib import Path

import pytest

from rearview.record.checkpoints import room

MACHINE = "MemTotal: 100 kB\nMemAvailable:   5000 kB\n"


def left(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> int | None:
    monkeypatch.setattr(room, "_read", lambda path: files.get(str(path)))
    monkeypatch.setattr(room, "_address_limit", lambda: None)
    return room.available_bytes()


def test_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left(monkeypatch, {"/proc/meminfo": MACHINE}) == 5000 * 1024
    assert left(monkeypatch, {}) is None


def test_the_tightest_group_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/meminfo": MACHINE, "/proc/self/cgroup": "0::/jobs/17\n", "/sys/fs/cgroup/jobs/17/memory.max": "max\n",
             "/sys/fs/cgroup/jobs/17/memory.current": "10\n", "/sys/fs/cgroup/jobs/memory.max": "1000\n",
             "/sys/fs/cgroup/jobs/memory.current": "900\n", "/sys/fs/cgroup/jobs/memory.stat": "anon 7\ninactive_file 50\n"}  # fmt: skip
    assert left(monkeypatch, files) == 150
    assert left(monkeypatch, files | {"/sys/fs/cgroup/jobs/17/memory.max": "40\n"}) == 30
    assert left(monkeypatch, files | {"/sys/fs/cgroup/jobs/memory.current": "2000\n"}) == 0


def test_groups_of_the_first_version(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "/sys/fs/cgroup/memory/docker/ab"
    files = {"/proc/meminfo": MACHINE, "/proc/self/cgroup": "4:cpu,memory:/docker/ab\n1:cpu:/x\n0::/\n",
             f"{group}/memory.limit_in_bytes": "1000\n", f"{group}/memory.usage_in_bytes": "400\n",
             f"{group}/memory.stat": "total_inactive_file 100\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
             "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n"}  # fmt: skip
    assert left(monkeypatch, files) == 700


def test_its_own_limit_on_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_address_limit", lambda: 1 << 30)
    monkeypatch.setattr(room.os, "sysconf", lambda _: 4096)
    assert room._of_addresses(lambda path: "1000 5 5\n" if path == Path("/proc/self/statm") else None) == (1 << 30) - 1000 * 4096


def test_here() -> None:
    available = room.available_bytes()
    assert available is None or available > 0
