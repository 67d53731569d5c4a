"""However a program ends, nothing is lost, its exit code or signal is its own, and how it ended is told as far as it can be known."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import environment
from tests.integration.record.reading import read_all, the_run

HEAD = """
import ctypes, os, signal, sys, time
import rearview as rv
for n in rv.loop("step", range(5)):
    rv.log("n", n)
print("ready", flush=True)
"""


@dataclass
class Ending:
    code: str
    """What the program does last."""
    returncode: int
    plain: dict[str, Any] | None
    """The `end` fact of a plain `python`; None if it had no chance to say anything."""
    launched: dict[str, Any] | None
    """The same under `rearview run`."""
    exit: dict[str, Any] | None = None
    """What the supervisor notes."""
    send: int | None = None


FINISHED = {"how": "finished", "exception": None}
INTERRUPTED = {"how": "failed", "exception": "KeyboardInterrupt"}
ENDINGS = {
    "normally": Ending("", 0, FINISHED, {**FINISHED, "exit_code": 0}),
    "sys.exit": Ending("sys.exit(3)", 3, FINISHED, {"how": "failed", "exception": None, "exit_code": 3}),
    "sys.exit text": Ending("sys.exit('no data')", 1, FINISHED, {"how": "failed", "exit_code": 1}),
    "exception": Ending(
        "1 / 0", 1, {"how": "failed", "exception": "ZeroDivisionError"}, {"how": "failed", "exception": "ZeroDivisionError", "exit_code": 1}
    ),
    "os._exit": Ending("os._exit(7)", 7, None, None, {"code": 7, "signal": None}),
    "os._exit 0": Ending("os._exit(0)", 0, None, None, {"code": 0, "signal": None}),
    "segfault": Ending("ctypes.string_at(0)", -signal.SIGSEGV, None, None, {"code": None, "signal": "SIGSEGV"}),
    "abort": Ending("os.abort()", -signal.SIGABRT, None, None, {"code": None, "signal": "SIGABRT"}),
    "SIGTERM": Ending("time.sleep(60)", -signal.SIGTERM, None, None, {"code": None, "signal": "SIGTERM"}, send=signal.SIGTERM),
    "SIGTERM handled": Ending(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nprint('set', flush=True)\ntime.sleep(60)", 9,
        FINISHED, {"how": "failed", "exit_code": 9}, send=signal.SIGTERM,
    ),
    "SIGKILL itself": Ending("os.kill(os.getpid(), 9)", -signal.SIGKILL, None, None, {"code": None, "signal": "SIGKILL"}),
    "Ctrl-C": Ending("time.sleep(60)", -signal.SIGINT, INTERRUPTED, INTERRUPTED, send=signal.SIGINT),
}  # fmt: skip


@pytest.mark.parametrize("launched", [False, True], ids=["python", "rearview run"])
@pytest.mark.parametrize("name", sorted(ENDINGS))
def test_ending(project: Path, name: str, launched: bool) -> None:
    ending = ENDINGS[name]
    (project / "train.py").write_text(HEAD + ending.code)
    words = [sys.executable, "train.py"] if not launched else [sys.executable, "-m", "rearview", "run", "train.py"]
    child = subprocess.Popen(words, env=environment(None), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        if ending.send is not None:
            for _ in range(1 + ending.code.count("print(")):
                assert child.stdout.readline()
            time.sleep(0.1)
            child.send_signal(ending.send)
        said = child.communicate(timeout=30)[1]
    assert child.returncode == ending.returncode, said
    run = the_run(project)
    assert run.values("n") == list(range(5))
    expected = ending.launched if launched else ending.plain
    ends = run.fact("end")
    assert len(ends) == (expected is not None)
    if expected is not None:
        assert expected.items() <= ends[0].items()
    exits = [{key: fact[key] for key in ("code", "signal")} for fact in run.fact("exit")]
    assert exits == ([ending.exit] if launched and ending.exit else [])


def test_an_exception_is_kept_with_the_tail_of_its_traceback(project: Path) -> None:
    (project / "train.py").write_text(HEAD + "def deep(n):\n    if n: deep(n - 1)\n    raise ValueError('bad ' + 'x' * 20000)\ndeep(100)")
    done = subprocess.run([sys.executable, "train.py"], env=environment(None), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    (end,) = the_run(project).fact("end")
    assert end["exception"] == "ValueError"
    assert end["message"].startswith("bad xxx")
    assert "raise ValueError" in end["traceback"]
    assert len(end["traceback"]) + len(end["message"]) < 50_000


def test_an_exception_that_cannot_be_printed(project: Path) -> None:
    text = "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd"
    (project / "train.py").write_text(HEAD + text)
    done = subprocess.run([sys.executable, "train.py"], env=environment(None), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    (end,) = the_run(project).fact("end")
    assert (end["how"], end["exception"]) == ("failed", "Odd")
    assert "Exception ignored" not in done.stderr
    assert "rearview/record" not in done.stderr


SLOW_KEEPER = """
import time
import rearview as rv
from rearview.record import lifecycle

def slow(recorder):  # hashing an input on a busy machine
    time.sleep(1.0)
    recorder.fact("inputs", files={"late": 1})

lifecycle._keeper._errands = slow
"""


@pytest.mark.parametrize("explicit", [False, True], ids=["at exit", "inside another run"])
def test_the_keeper_is_in_its_round_when_the_run_ends(project: Path, explicit: bool) -> None:
    """What it notes is written, nothing is said to be lost, and the run around goes on being kept."""
    body = 'rv.log("x", 1.0)\ntime.sleep(1.3)\n'
    if explicit:
        body = 'rv.log("around", 1)\nwith rv.run():\n    rv.log("x", 1.0)\n    time.sleep(1.3)\n'
        body += "assert lifecycle._keeper._thread is not None\n"
    (project / "train.py").write_text(SLOW_KEEPER + body)
    done = subprocess.run([sys.executable, "train.py"], env=environment(None), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "degraded" not in done.stderr and "could not be written" not in done.stderr
    for run in read_all(project):
        assert run.values("x") == [1.0] or explicit
        assert run.fact("inputs") and run.fact("end")[0]["lost"] == 0
        assert all(run.closed.values())
