"""Failures of recording end in recording; what a signal handler raises there reaches the program."""

from __future__ import annotations

import errno
import signal
import struct
from pathlib import Path

import pytest

from rearview.errors import RecordingFailed
from rearview.model import RunId
from rearview.record.trouble import Trouble, is_ours


def caught(make: object) -> Exception:
    try:
        make()  # type: ignore[operator]
    except Exception as problem:
        return problem
    raise AssertionError("it did not raise")


def test_a_system_call_that_failed_is_ours() -> None:
    assert is_ours(OSError(errno.ENOSPC, "No space left on device"))
    assert is_ours(RecordingFailed("the disk is full"))


def test_what_a_handler_raises_is_not() -> None:
    def handler() -> None:
        raise TimeoutError("30 s are over")

    assert not is_ours(caught(handler))
    assert not is_ours(caught(lambda: struct.pack("<I", -1)))  # raised by this file's code, not by rearview's


def test_a_handler_that_raises_ends_the_call_it_interrupts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rearview as rv
    from rearview.record import recorder

    class Over(Exception):
        pass

    def raise_over(*_: object) -> None:
        raise Over

    monkeypatch.chdir(project)
    monkeypatch.setenv("REARVIEW_DIR", str(project))
    before = signal.signal(signal.SIGUSR1, raise_over)
    real = recorder._write
    with rv.run():
        rv.log("a", 1.0)

        def interrupted(fd: int, data: bytes) -> int:
            signal.raise_signal(signal.SIGUSR1)
            return real(fd, data)

        monkeypatch.setattr(recorder, "_write", interrupted)
        with pytest.raises(Over):
            rv.log("a", 2.0)
        monkeypatch.setattr(recorder, "_write", real)
        rv.log("a", 3.0)
        with pytest.raises(TypeError, match="name as text"):
            rv.log(3, 1.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="name as text"):
            rv.log([], 1.0)  # type: ignore[arg-type]
    signal.signal(signal.SIGUSR1, before)
    assert [row["a"] for row in rv.dataframe("a", as_="rows")] == [1.0, 3.0]


def test_a_fault_of_ours_is_said_as_such(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Trouble(RunId("r1"), tmp_path).degrade(struct.error("bad"))
    assert "a fault in rearview, please report it: error: bad" in capsys.readouterr().err
