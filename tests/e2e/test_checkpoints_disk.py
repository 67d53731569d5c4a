"""gc where it is needed most: no byte free, or runs that are recording while it works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rearview import past
from rearview.model import RunId
from rearview.store import layout, manifests
from rearview.testing.checkpoints import epoch, keep
from rearview.testing.stores import StoreBuilder
from tests.conftest import RunsProgram, environment
from tests.small_disk import fill
from tests.small_disk import mounted as small_disk_at

MB = 1_000_000


@pytest.fixture
def small_disk(project: Path) -> Iterator[Path]:
    """A disk of 8 MB at the place of the store."""
    with small_disk_at(project / layout.FOLDER, "8M") as store:
        yield store


def test_gc_works_with_no_byte_free(small_disk: Path, project: Path, cli: RunsProgram) -> None:
    run = StoreBuilder(project).run(name="full")
    process = run.process()
    for k, _ in enumerate(process.loop("epoch", range(1, 6))):
        for _ in range(3000):
            process.log("loss", 0.5)  # more than a list of runs parses without sealing
        keep(run, k + 1, epoch(k), {"w": os.urandom(MB)})
    process.end()
    (small_disk / "tmp").mkdir(exist_ok=True)
    ballast = fill(small_disk)
    done = cli("gc", "--keep", "newest:2", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [one["at"] for one in facts["dropped"]] == ["epoch=1", "epoch=2", "epoch=3"]
    assert facts["freed_bytes"] > 2.9 * MB
    assert os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize > 2.9 * MB
    ballast.unlink()
    listed = cli("checkpoints", "--json", check=True)
    assert [one["thinned"] is None for one in json.loads(listed.stdout)["checkpoints"]] == [False, False, False, True, True]


WRITER = """
import os, sys, time
from pathlib import Path
from rearview.testing.checkpoints import keep_state, epoch
from rearview.testing.stores import RunBuilder
from rearview.store import layout
import datetime as dt
from rearview.model import RunId

run = RunBuilder(layout.open_store(Path(".rearview")), RunId(sys.argv[1]), dt.datetime.now(dt.UTC), {"name": sys.argv[1]})
who = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
process = run.process(process={"host": os.uname().nodename, "boot_id": boot, "pid": os.getpid(), "started": float(who)})
shared = bytes(range(256)) * 8000
for k in range(25):
    keep_state(run, k + 1, epoch(k), {("given", "w"): [bytearray(shared), bytearray(os.urandom(300_000))], ("given", "k"): k})
    if k == 0:
        print("ready", flush=True)
process.end()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_gc_beside_runs_that_record(project: Path, cli: RunsProgram) -> None:
    """Whatever gc drops while two runs write, what it says it keeps is whole and reads back right."""
    StoreBuilder(project)
    (project / "writer.py").write_text(WRITER)
    names = ("raaaaaaaaaaaa", "rbbbbbbbbbbbb")
    writers = [
        subprocess.Popen([sys.executable, "writer.py", name], cwd=project, env=environment(None), stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    ended = [cli("gc", "--keep", "newest:2")]
    while any(writer.poll() is None for writer in writers):
        ended.append(cli("gc", "--keep", "newest:2"))
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    ended.append(cli("gc", "--keep", "newest:2"))
    assert {one.returncode for one in ended} == {0}, [one.stderr for one in ended]
    for name in names:
        groups = manifests.grouped(layout.open_store(project / layout.FOLDER), RunId(name))
        assert len(groups) == 25
        assert [one.thinned for one in groups] == [True] * 23 + [False] * 2
        for k in (24, 25):
            state = past.checkpoint(name, epoch=k)
            assert (state["k"], len(state["w"][0]), len(state["w"][1])) == (k - 1, 2_048_000, 300_000)
