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


CHECKPOINTS = """
import errno, os, threading, time
events = []
real_sync, real_link = os.fdatasync, os.link
def watch(fd):
    path, size = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_size
    if path.endswith(".journal"):
        before_sync()
    real_sync(fd)
    events.append((threading.current_thread().name, "journal" if path.endswith(".journal") else "other", size))
def link(source, to, **more):
    if "/checkpoints/" in str(to):
        events.append((threading.current_thread().name, "manifest", 0))
    real_link(source, to, **more)
def before_sync():
    pass
os.fdatasync, os.link = watch, link
import rearview as rv
from rearview.record import keeper
keeper.PERIOD_S = 3600.0
w, sizes = 0.0, []
def step(epoch):
    global w
    w += epoch
    rv.log("w", w)
    run, = lifecycle.opened.runs
    sizes.append(os.fstat(run.recorder.journal.fd).st_size)
from rearview.record import lifecycle
"""


def test_what_was_recorded_before_a_state_is_on_the_disk_before_its_manifest(python: Python, project: Path) -> None:
    """Else a resume after a power loss would go on from there, and the rows before would be in no attempt."""
    done = python(
        CHECKPOINTS
        + """
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        step(epoch)
    lifecycle.opened.runs[0].recorder.keeping.materializer.wait()
told = [(kind, size) for _, kind, size in events if kind != "other"]
at = [k for k, (kind, _) in enumerate(told) if kind == "manifest"]
assert len(at) == 4, told
for k, size in zip(at, sizes):
    assert max(synced for kind, synced in told[:k] if kind == "journal") >= size, (k, told, sizes)
print({name for name, kind, _ in events if kind == "journal"})
""",
        env={"REARVIEW_EVERY": "1"},
        check=True,
    )
    assert "rearview-writer" in done.stdout
    assert "MainThread" not in done.stdout, "the training does not wait for it"


def test_a_sync_that_somebody_else_has_begun_is_waited_for(python: Python, project: Path) -> None:
    done = python(
        CHECKPOINTS
        + """
begun, go_on = threading.Event(), threading.Event()
def before_sync():
    if threading.current_thread().name == "keeper":
        begun.set()
        go_on.wait(20)
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(1)):
        step(epoch)
        run, = lifecycle.opened.runs
        other = threading.Thread(target=keeper.sync, args=(run.recorder,), name="keeper")
        other.start()
        begun.wait(20)
    materializer = run.recorder.keeping.materializer
    assert not materializer.wait(0.5), "it has nothing of its own to sync, and waits all the same"
    rv.log("meanwhile", 1)
    go_on.set()
    other.join()
    materializer.wait()
kinds = [(name, kind) for name, kind, _ in events if kind != "other"]
assert kinds.index(("keeper", "journal")) < kinds.index(("rearview-writer", "manifest")), kinds
""",
        env={"REARVIEW_EVERY": "1"},
    )
    assert done.returncode == 0, done.stderr


def test_without_the_rows_on_the_disk_there_is_no_checkpoint(python: Python, project: Path) -> None:
    done = python(
        CHECKPOINTS
        + """
def before_sync():
    raise OSError(errno.EIO, os.strerror(errno.EIO))
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        step(epoch)
print("end", [kind for _, kind, _ in events if kind == "manifest"])
""",
        env={"REARVIEW_EVERY": "1"},
        check=True,
    )
    assert done.stdout == "end []\n"
    assert "no more checkpoints of run" in done.stderr and "Input/output error" in done.stderr
    assert "is degraded" in done.stderr
    assert "Traceback" not in done.stderr


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
