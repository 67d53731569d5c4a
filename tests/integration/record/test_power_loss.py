"""A power loss takes at most the last second: the keeper syncs; with `sync = "always"` nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.integration.record.reading import the_run

Python = Callable[..., subprocess.CompletedProcess[str]]

WATCH = """
import os, time, threading
synced = []
real = os.fdatasync
def watch(fd):
    synced.append((threading.current_thread().name, os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_size))
    real(fd)
os.fdatasync = watch
import rearview as rv
"""


def test_the_keeper_syncs_once_a_second_and_only_what_is_new(python: Python, project: Path) -> None:
    done = python(
        WATCH
        + """
rv.log("x", 0.5)
until = time.monotonic() + 3.4
while time.monotonic() < until:
    rv.log("x", 0.5)
    time.sleep(0.01)
    if synced: first = synced[0]
size = os.stat(first[1]).st_size
time.sleep(2.2)
count = len(synced)
time.sleep(1.5)
assert len(synced) == count, "nothing new, nothing to sync"
assert synced[-1][2] == size, "everything is synced when nothing more comes"
print(len(synced), {name for name, _, _ in synced})
""",
        check=True,
    )
    count, names = done.stdout.split(" ", 1)
    assert 2 <= int(count) <= 8
    assert names.strip() == "{'rearview-keeper'}"


def test_always(python: Python, project: Path) -> None:
    done = python(
        WATCH
        + """
for k in range(5):
    rv.log("x", float(k)); rv.log("y", k)
    assert synced[-1][2] == os.stat(synced[-1][1]).st_size
rv.arg("lr", 1)
assert synced[-1][2] == os.stat(synced[-1][1]).st_size
print(sum(name == "MainThread" for name, _, _ in synced))
""",
        env={"REARVIEW_SYNC": "always"},
        check=True,
    )
    assert int(done.stdout) >= 11
    assert the_run(project).values("x") == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_objects_are_synced_before_the_records_that_name_them(python: Python, project: Path) -> None:
    done = python(
        """
import os, time
events = []
for name in ("fsync", "fdatasync"):
    def watch(fd, real=getattr(os, name)):
        events.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)
    setattr(os, name, watch)
import numpy as np
import rearview as rv
rv.log("x", 1.0)
time.sleep(1.5)
events.clear()
rv.log("array", np.arange(1000))
time.sleep(2.2)
kinds = ["object" if "/objects/" in path else "journal" for path in events if "/objects/" in path or path.endswith(".journal")]
print(kinds[0], kinds[-1], sorted(set(kinds)))
""",
        check=True,
    )
    assert done.stdout == "object journal ['journal', 'object']\n"


def test_no_thread_when_nothing_is_recorded_and_none_after_the_end(python: Python, project: Path) -> None:
    done = python(
        """
import threading, rearview as rv
print(threading.active_count())
with rv.run():
    rv.log("x", 1)
    print(threading.active_count())
print(threading.active_count())
from rearview.record import lifecycle
rv.log("y", 1)
lifecycle.rest()
print(threading.active_count())
rv.log("y", "new")
rv.log("z", "new")
""",
        check=True,
    )
    assert done.stdout.split() == ["1", "2", "1", "1"]
