"""What killed processes leave in `tmp/` is removed by the next command; what is somebody's stays."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rearview.model import RunId
from rearview.record import leftovers
from rearview.record.reserve import RESERVE_BYTES, Reserve
from rearview.record.resume import handshake
from rearview.store import layout, processes


def _killed(store: layout.Store) -> None:
    """A process that reserved room and died."""
    code = (
        "import os, signal; from pathlib import Path; from rearview.store.layout import Store\n"
        "from rearview.record.reserve import Reserve\n"
        f"held = Reserve(Store(Path({str(store.root)!r}))); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL


def test_reserved_room_of_the_dead_is_given_back(tmp_path: Path) -> None:
    store = layout.create(tmp_path / ".rearview")
    mine = Reserve(store)
    _killed(store)
    assert [path.stat().st_size for path in store.tmp.iterdir()] == [RESERVE_BYTES] * 2
    assert len(leftovers.clean(store)) == 1
    assert len(list(store.tmp.iterdir())) == 1 and leftovers.clean(store) == []
    mine.end()
    assert list(store.tmp.iterdir()) == []


def test_an_attempt_that_nobody_makes_any_more(tmp_path: Path) -> None:
    store, run = layout.create(tmp_path / ".rearview"), RunId("r000000000000")
    store.run(run).mkdir(parents=True)
    handshake.claim(store, run, None)
    assert leftovers.clean(store) == []  # it is ours
    [mark] = store.tmp.glob("*" + handshake.MARK)
    who = processes.identity()
    dead = {"host": who.host, "boot_id": who.boot_id, "pid": os.getpid(), "started": who.started + 1}
    mark.write_text(json.dumps(dead))
    old = mark.stat().st_mtime - 86_400
    os.utime(mark, (old, old))
    (store.run(run) / "aside" / "a1").mkdir(parents=True)
    assert leftovers.clean(store) == []  # what it set aside is there: the next attempt takes another number
    (store.run(run) / "aside" / "a1").rmdir()
    assert leftovers.clean(store) == [mark]


def test_room_that_cannot_be_given_back_ends_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = Reserve(layout.create(tmp_path / layout.FOLDER))

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fails)
        assert not reserve.end()
    assert not reserve.end(), "and it is not tried again"
