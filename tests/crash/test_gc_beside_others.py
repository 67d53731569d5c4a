"""gc beside writers and readers in processes of their own, some of them killed: nothing that is referred to is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rearview.store import check, gc, layout, manifests
from rearview.store.layout import Store
from tests.small_disk import fill
from tests.unit.store.checkpoints import RUN, load, new_store, save

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("REARVIEW_TEST_LONG"))
ROUNDS = 400 if LONG else 40
WRITERS = 6 if LONG else 3
CONTENTS = str(12 * WRITERS)

# Few different contents, so that a checkpoint often needs what another has just dropped.
WRITER = """
import random, sys
from pathlib import Path
from rearview.model import RunId
from rearview.store import layout, packs, runs
from tests.unit.store.checkpoints import save
store = layout.open_store(Path(sys.argv[1]))
run, seed, rounds = RunId(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
dice = random.Random(seed)
runs.write_run(store, run, {"argv": []})
known = packs.Known(store)
for number in range(rounds):
    picked = dice.sample(range(int(sys.argv[5])), 3)
    buffers = {f"b{k}": random.Random(k).randbytes(300_000 + k) for k in picked}
    name = save(store, number, buffers, run=run, known=known, pack_bytes=1 << 21)
    print(name, *picked, flush=True)
"""
GC = """
import random, sys, time
from pathlib import Path
from rearview.errors import CheckpointError
from rearview.store import gc, layout, manifests, runs
store = layout.open_store(Path(sys.argv[1]))
dice = random.Random(int(sys.argv[2]))
while True:
    drop = []
    for run in runs.list_runs(store):
        names = manifests.list_of(store, run)
        thinned = manifests.marked(store, run, manifests.THINNED)
        drop += [name for name in names[:-1] if str(name) not in thinned and dice.random() < 0.95]
    try:
        done = gc.execute(store, gc.plan(store, drop, grace_s=0.0), wait_s=5.0)
        print(done.packs_removed + done.packs_thinned, flush=True)
    except CheckpointError as problem:
        print(f"0 {problem}", flush=True)
"""
READER = """
import random, sys
from pathlib import Path
from rearview.errors import Damaged, NotFound
from rearview.store import layout, manifests, runs
from tests.unit.store.checkpoints import load
store = layout.open_store(Path(sys.argv[1]))
while True:
    for run in runs.list_runs(store):
        for name in manifests.list_of(store, run)[-2:]:
            if manifests.has(store, name, manifests.THINNED):
                continue
            try:
                for where, data in load(store, name).items():
                    k = int(where[1:])
                    assert data == random.Random(k).randbytes(300_000 + k), f"{name} {where}"
            except (Damaged, NotFound) as problem:
                if not manifests.has(store, name, manifests.THINNED):
                    sys.exit(f"{name} of {run} lost: {problem}")
            print("read", flush=True)
"""


Starts = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Starts]:
    """Starts programs; none outlives its test."""
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    started: list[subprocess.Popen[str]] = []

    def begin(text: str, store: Store, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", text, str(store.root), *words]
        started.append(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], how: signal.Signals) -> tuple[list[str], str]:
    process.send_signal(how)
    said, problem = process.communicate(timeout=60)
    return said.splitlines(), problem


def damage(store: Store) -> list[str]:
    return [f"{one.path}: {one.problem}" for one in check.check(store, deep=True) if one.severity == "damage"]


def test_gc_beside_writers_and_readers(tmp_path: Path, start: Starts, tally: Callable[[str, int], None]) -> None:
    store = new_store(tmp_path)
    collector, reader = start(GC, store, "1"), start(READER, store)
    writers = [start(WRITER, store, f"r00000000000{k}", str(k), str(ROUNDS), CONTENTS) for k in range(WRITERS)]
    killed = start(WRITER, store, "r0000000000xx", "77", "100000", CONTENTS)
    assert killed.stdout is not None and killed.stdout.readline()
    time.sleep(0.7)
    killed.kill()
    killed.communicate()
    said = [writer.communicate(timeout=300) for writer in writers]
    assert [problem for _, problem in said] == [""] * WRITERS
    reads, problem = ended(reader, signal.SIGKILL)
    assert problem == ""
    freed, problem = ended(collector, signal.SIGKILL)
    assert problem == ""
    assert reads
    assert sum(int(line.split()[0]) for line in freed if line) > 0, "gc found something to do"
    checked = 0
    for k, (lines, _) in enumerate(said):
        names = manifests.list_of(store, layout.RunId(f"r00000000000{k}"))
        thinned = manifests.marked(store, layout.RunId(f"r00000000000{k}"), manifests.THINNED)
        assert len(names) == ROUNDS
        for name, line in zip(names, lines.splitlines(), strict=True):
            if str(name) not in thinned:
                picked = [int(word) for word in line.split()[1:]]
                assert load(store, name) == {f"b{one}": random.Random(one).randbytes(300_000 + one) for one in picked}
                checked += 1
    assert checked >= WRITERS
    assert damage(store) == []
    gc.execute(store, gc.plan(store, grace_s=0.0), wait_s=5.0)  # after the last kill
    assert damage(store) == []
    tally("checkpoints committed beside gc", WRITERS * ROUNDS)


def test_a_gc_that_is_killed_again_and_again(tmp_path: Path, start: Starts, tally: Callable[[str, int], None]) -> None:
    store = new_store(tmp_path)
    dice = random.Random(3)
    kills = 60 if LONG else 6
    writer = start(WRITER, store, "r000000000001", "5", "100000", CONTENTS)
    assert writer.stdout is not None and writer.stdout.readline()
    for turn in range(kills):
        collector = start(GC, store, str(turn))
        assert collector.stdout is not None and collector.stdout.readline()
        time.sleep(dice.random() * 0.5)
        _, problem = ended(collector, signal.SIGKILL)
        assert problem == ""
    _, problem = ended(writer, signal.SIGKILL)
    assert problem == ""
    run = layout.RunId("r000000000001")
    thinned = manifests.marked(store, run, manifests.THINNED)
    for name in manifests.list_of(store, run):
        if str(name) not in thinned:
            assert load(store, name)
    assert damage(store) == []
    last = save(store, 1, {"b": random.Random(1).randbytes(300_001)})
    gc.execute(store, gc.plan(store, manifests.list_of(store, run), grace_s=0.0))
    assert load(store, last)
    assert not [one for one in check.check(store, deep=True) if "gc" in one.problem]
    assert manifests.list_of(store, RUN) == [last]
    tally("kills of gc", kills)


@pytest.mark.skipif(shutil.which("mount") is None, reason="mounting is not possible here")
def test_gc_on_a_full_disk(tmp_path: Path) -> None:
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(24 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-F", str(image)], capture_output=True, check=False)
    if made.returncode or subprocess.run(["mount", "-o", "loop", str(image), str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        store = new_store(disk)
        names = [save(store, k, {"w": random.Random(k).randbytes(2 << 20), "same": random.Random(99).randbytes(1 << 20)}) for k in range(3)]
        fill(disk)
        plan = gc.plan(store, names[:2], grace_s=0.0)
        done = gc.execute(store, plan)
        assert done.bytes_freed >= 4 << 20
        assert load(store, names[2])["w"] == random.Random(2).randbytes(2 << 20)
        assert damage(store) == []
        assert load(store, save(store, 4, {"w": random.Random(5).randbytes(2 << 20)}))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
