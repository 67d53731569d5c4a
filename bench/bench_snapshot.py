"""A snapshot of a project of 500 files: the first, and the ones after it, with and without the user's repository.

The baseline is one plain read and sha1 of the same files, in turn with it: what no snapshot can be faster than.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench import harness
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import snapshot

FILES = 500
TIMES = 31
FIRSTS = 7


def make_project(folder: Path) -> list[Path]:
    """Source files of 1 to 20 kB, 25 to a folder, two folders deep."""
    rng = random.Random(1)
    words = [f"name_{k}" for k in range(400)]
    paths = []
    for k in range(FILES):
        path = folder / f"package{k // 125}" / f"part{k // 25 % 5}" / f"module{k}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(f"{rng.choice(words)} = {rng.choice(words)}({rng.random()})" for _ in range(rng.randint(20, 400))))
        paths.append(path)
    return paths


def commit_all(folder: Path) -> None:
    """Make it a user's repository."""
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for arguments in (["init", "-q", "."], ["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def take(store: Store, project: Path) -> snapshot.Snapshot:
    """One snapshot as a run takes it."""
    script = project / "package0" / "part0" / "module0.py"
    return snapshot.take(store, project, script=script, script_source=None, extra={}, limit_bytes=1 << 20)


def read_and_hash(paths: list[Path]) -> None:
    """The baseline."""
    for path in paths:
        hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


def first_times(project: Path) -> list[float]:
    """Seconds of a first snapshot, each into an empty store."""
    taken = []
    for _ in range(FIRSTS):
        shutil.rmtree(project / ".rearview", ignore_errors=True)
        store = layout.create(project / ".rearview")
        begin = time.perf_counter()
        take(store, project)
        taken.append(time.perf_counter() - begin)
    return taken


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory() as place:
        project = Path(place).resolve() / "project"
        paths = make_project(project)
        os.environ["GIT_CEILING_DIRECTORIES"] = str(project.parent)
        walked_first = first_times(project)
        store = layout.open_store(project / ".rearview")
        (walked, _) = harness.in_turn(lambda: take(store, project), lambda: read_and_hash(paths), times=TIMES)
        commit_all(project)
        first = first_times(project)
        store = layout.open_store(project / ".rearview")
        count = len(take(store, project).files)
        again, plain = harness.in_turn(lambda: take(store, project), lambda: read_and_hash(paths), times=TIMES)
        versions = iter(range(1000))

        def edit_and_take() -> None:
            paths[7].write_text(f"x = {next(versions)}\n")
            take(store, project)

        edited = harness.repeat(edit_and_take, times=TIMES)
    milliseconds = {"first_ms": first, "again_ms": again, "edited_ms": edited, "plain_read_ms": plain}
    no_repository = {"first_without_repository_ms": walked_first, "again_without_repository_ms": walked}
    results = harness.figures(**{name: [s * 1e3 for s in seconds] for name, seconds in (milliseconds | no_repository).items()})
    limits = {"again_ms.median": 100.0, "edited_ms.median": 100.0, "again_without_repository_ms.median": 100.0}
    harness.report("snapshot", {"files": count, **results, "again_to_plain_read": harness.ratio(again, plain)}, limits=limits)


if __name__ == "__main__":
    main()
