"""Promise 5: the user's repository and files are byte-identical after snapshots, in random states, also after a kill.

REARVIEW_TEST_STATES sets how many states are tried.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.store import layout
from rearview.versions import read, snapshot
from tests.conftest import environment
from tests.integration.versions import repositories

STATES = int(os.environ.get("REARVIEW_TEST_STATES", "30"))
SHARES = 6

KILLED = """
import sys
from pathlib import Path
from rearview.store import layout
from rearview.versions import snapshot
store = layout.open_store(Path(sys.argv[1]) / ".rearview")
print("ready", flush=True)
while True:
    snapshot.take(store, store.project, script=None, script_source=None, extra={"cells/1.py": sys.argv[2].encode()}, limit_bytes=1 << 20)
    sys.argv[2] += "x"
"""


def take(project: Path) -> snapshot.Snapshot:
    store = layout.open_store(project / ".rearview")
    return snapshot.take(store, project, script=project / "train.py", script_source=b"ran", extra={}, limit_bytes=1 << 20)


def take_and_kill(project: Path, after_s: float) -> None:
    """Snapshots in a process of their own until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(project), "x"], env=environment(None), stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("share", range(SHARES))
def test_untouched_in_random_states(share: int, project: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[[str, int], None]) -> None:
    seeds = range(share, STATES, SHARES)
    kills = 0
    for seed in seeds:
        rng = random.Random(seed)
        place = project / f"state {seed}"
        place.mkdir()
        folder, state = repositories.random_state(place, rng)
        layout.create(folder / ".rearview")
        marker = place / repositories.MARKER
        repositories.plant(folder, marker)
        marker.unlink(missing_ok=True)  # asking git where its hooks are may itself have sprung a trap
        before = repositories.fingerprint(place)
        with monkeypatch.context() as around:
            around.chdir(rng.choice([folder, place, Path("/")]))
            if rng.random() < 0.5:  # as inside a hook of the user's
                around.setenv("GIT_DIR", str(place / "nowhere"))
                around.setenv("GIT_INDEX_FILE", str(place / "nowhere-index"))
                around.setenv("GIT_WORK_TREE", "/")
                around.setenv("GIT_TRACE", str(place / "trace"))
            if rng.random() < 0.34:
                take_and_kill(folder, rng.uniform(0.0, 0.04))
                kills += 1
            taken = take(folder)
            assert take(folder).version == taken.version
        after = repositories.fingerprint(place)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert not changed, f"seed {seed}, {state}: {sorted(changed)}"
        assert not marker.exists(), f"seed {seed}, {state}: {marker.read_text()}"
        assert taken.git is not None, f"seed {seed}, {state}: {taken.notes}"
        store = layout.open_store(folder / ".rearview")
        for version in read.versions(store):
            assert read.verify(store, version) == []
        assert not any(".env" in path for path in taken.files)
    tally("states of users' repositories left untouched", len(seeds))
    tally("snapshots killed in them", kills)


def test_the_traps_work(project: Path) -> None:
    """The test above proves nothing if what it plants would never run."""
    folder = repositories.committed(project / "repo")
    marker = project / repositories.MARKER
    repositories.plant(folder, marker)
    marker.unlink(missing_ok=True)
    before = repositories.fingerprint(folder)
    repositories.write(folder / "train.py", "edited\n")
    repositories.git(folder, "status", check=False)
    repositories.git(folder, "add", "train.py", check=False)
    repositories.git(folder, "commit", "-m", "x", check=False)
    ran = marker.read_text()
    for expected in ("trap", "pre-commit", "post-index-change"):
        assert expected in ran
    assert repositories.fingerprint(folder) != before
