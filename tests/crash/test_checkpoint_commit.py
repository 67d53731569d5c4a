"""SIGKILL, ENOSPC, EIO at every write-side system call of a checkpoint commit: the checkpoint is whole or absent.

Also: bytes that change on the disk are noticed, and never come back as a state.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.errors import Damaged, RearviewError
from rearview.store import check, layout, manifests
from rearview.store.layout import Store
from rearview.store.packs import index
from tests.unit.store.checkpoints import RUN, load, new_store, save

ROOT = Path(__file__).parents[2]
FAULTS = ("SIGKILL", "ENOSPC", "EIO")
STRACE = ("strace", "--seccomp-bpf", "-f", "-qq")
"""Stops at the calls it is asked about only. It does not make a signal arrive at a call: for that it has to stop at each."""
CALLS = (
    "openat", "write", "pwrite64", "pwritev", "pwritev2", "fallocate", "fsync", "fdatasync", "rename", "link", "mkdir", "unlink",
    "utimensat", "ftruncate",
)  # fmt: skip
COMMIT = """
import sys
sys.path[:0] = sys.argv[2:]
import random
from pathlib import Path
from rearview.errors import RearviewError
from rearview.store import layout
from tests.unit.store.checkpoints import save
store = layout.open_store(Path(sys.argv[1]))
try:
    new, frozen = random.Random(2).randbytes(3 << 20), random.Random(0).randbytes(1 << 20)
    save(store, 2, {"w": new, "frozen": frozen, "small": b"2" * 99}, pack_bytes=2 << 20)
except (RearviewError, OSError) as problem:
    sys.exit(f"refused: {problem}")
print("done")
"""
FIRST = {"w": random.Random(1).randbytes(2 << 20), "frozen": random.Random(0).randbytes(1 << 20)}
SECOND = {"w": random.Random(2).randbytes(3 << 20), "frozen": FIRST["frozen"], "small": b"2" * 99}
THIRD = {"w": random.Random(3).randbytes(1 << 20), "frozen": FIRST["frozen"], "small": b"2" * 99}


def commit(store: Store, *strace: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that commits the second checkpoint."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    where = [str(ROOT / "src"), str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    words = [*strace, sys.executable, "-S", "-c", COMMIT, str(store.root), *where]  # -S: it is started some hundred times
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120, check=False)


def anew(store: Store, saved: Path) -> None:
    shutil.rmtree(store.root)
    shutil.copytree(saved, store.root)


def points_of(store: Store, calls: Path) -> list[tuple[str, int]]:
    """(call, its number among calls of that kind) for each call of the commit that writes to the store."""
    assert commit(store, *STRACE, "-y", "-e", f"trace={','.join(CALLS)}", "-o", str(calls)).stdout == "done\n"
    counts: dict[str, int] = {}
    found = []
    for line in calls.read_text().splitlines():
        rest = line.partition(" ")[2].strip()
        call = rest.partition("(")[0]
        if call not in CALLS:
            continue
        counts[call] = counts.get(call, 0) + 1
        reads = call == "openat" and not any(flag in rest for flag in ("O_WRONLY", "O_RDWR", "O_DIRECTORY"))
        if str(store.root) in rest and not reads and " = -1 " not in rest:
            found.append((call, counts[call]))
    return found


def damage(store: Store) -> list[str]:
    return [f"{one.path}: {one.problem}" for one in check.check(store, deep=True) if one.severity == "damage"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_a_system_call(tmp_path: Path, fault: str, tally: Callable[[str, int], None]) -> None:
    store = new_store(tmp_path)
    first = save(store, 1, FIRST)
    saved = tmp_path / "saved"
    shutil.copytree(store.root, saved)
    points = points_of(store, tmp_path / "calls")
    assert {"openat", "write", "fallocate", "fsync", "rename", "link"} < {call for call, _ in points}
    assert len(points) > 30
    outcomes = {"whole": 0, "absent": 0}
    passed_by = 0
    for call, when in points:
        anew(store, saved)
        how = f"signal={fault}" if fault.startswith("SIG") else f"error={fault}"
        trace = tmp_path / "trace"
        strace = [word for word in STRACE if fault != "SIGKILL" or word != "--seccomp-bpf"]
        done = commit(store, *strace, "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={call}:{how}:when={when}")
        where = f"{fault} at {call} number {when}: {done}"
        if "(INJECTED)" not in trace.read_text() and done.stdout == "done\n":
            passed_by += 1  # the interpreter made fewer calls this time, before it came to ours
            continue
        if fault == "SIGKILL":
            assert done.returncode in (-9, 137), where
        else:
            assert trace.read_text().count("(INJECTED)") == 1, where
            assert done.stdout == "done\n" or done.stderr.startswith("refused: "), where
        layout.open_store(store.root)
        assert damage(store) == [], where
        assert load(store, first) == FIRST, where
        names = manifests.list_of(store, RUN)
        outcomes["whole" if len(names) == 2 else "absent"] += 1
        assert len(names) == 2 or not done.stdout, where
        assert [load(store, name) for name in names[1:]] in ([], [SECOND]), where
        assert load(store, save(store, 3, THIRD)) == THIRD, where
        assert damage(store) == [], where
        if fault != "SIGKILL" and call != "unlink":
            assert not list(store.tmp.iterdir()), f"nothing half is left: {where}"
    assert all(outcomes.values()), outcomes
    assert passed_by <= len(points) // 10, f"{passed_by} of {len(points)} calls were not come to"
    tally("faults at system calls of a checkpoint commit", len(points) - passed_by)


FLIPS = int(os.environ.get("REARVIEW_TEST_FLIPS", "2000")) // 10


def test_changed_bytes_never_come_back_as_a_state(tmp_path: Path, tally: Callable[[str, int], None]) -> None:
    """In a manifest, an index or a pack, cut off or flipped: refused by name, or not part of any chunk."""
    store = new_store(tmp_path)
    truth = {"w": random.Random(1).randbytes(150_000), "small": b"3" * 1234, "odd": random.Random(4).randbytes(70_001)}
    name = save(store, 1, truth)
    files = [manifests.path_of(store, name), *sorted(index.folder_of(store).iterdir())]
    assert {path.suffix for path in files} == {".json", ".index", ".pack"}
    dice = random.Random(5)
    refused = 0
    for turn in range(FLIPS):
        path = files[turn % len(files)]
        good = path.read_bytes()
        bad = bytearray(good)
        if dice.random() < 0.2:
            del bad[dice.randrange(len(bad)) :]
        else:
            bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        path.write_bytes(bad)
        try:
            assert load(store, name) == truth
        except Damaged as problem:
            refused += 1
            assert any(word in str(problem) for word in (str(name), path.stem, "chunk")), problem
            assert damage(store), f"check says nothing of {path.name}"
        except RearviewError as problem:
            pytest.fail(f"{path.name}: {problem!r}")
        path.write_bytes(good)
    assert refused > FLIPS * 0.8
    assert load(store, name) == truth
    tally("flipped or cut files of a checkpoint", FLIPS)
