"""The command in a process that has imported it once and forks a child for each call: a tenth of a second instead of half of one.

A child is what `python -m rearview` is: its own process, environment, folder and streams. What depends on how an interpreter is started
(`PYTHON*`, the locale) is not for it. Started as a program by `Warm`; reads one request a line, answers `started PID` and `ended PID CODE`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_NOT_OURS = ("PYTHON", "LC_", "LANG", "TZ", "DUCKDB", "OMP", "XDG", "HOME", "PATH")
"""Variables that an interpreter, or a library when it is imported, looks at once: a call that sets one gets an interpreter of its own."""


class Warm:
    """Runs commands in children of one process."""

    def __init__(self, python: Sequence[str], environ: Mapping[str, str]) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._python, self._environ = python, environ
        self._folder = tempfile.TemporaryDirectory(prefix="rearview-warm-")

    @staticmethod
    def takes(env: Mapping[str, str] | None) -> bool:
        """Whether a call with these variables can be a child of it."""
        return not any(name.startswith(_NOT_OURS) for name in env or ())

    def run(
        self, words: Sequence[str], cwd: Path, environ: Mapping[str, str], stdin: str | None, timeout: float, *, joined: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """What `subprocess.run` gives for `python -m rearview WORDS`; `joined`: all that it prints is in `stdout`."""
        server = self._started()
        names = {name: Path(self._folder.name, name) for name in ("stdin", "stdout", "stderr")}
        for name in ("stdout", "stderr"):
            names[name].write_bytes(b"")
        if stdin is None:
            names["stdin"] = Path(os.devnull)
        else:
            names["stdin"].write_text(stdin, encoding="utf-8", errors="surrogateescape")
        given = {**names, "stderr": names["stdout" if joined else "stderr"]}
        request = {"words": list(words), "cwd": str(cwd), "env": dict(environ), **{name: str(path) for name, path in given.items()}}
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        pid = int(server.stdout.readline().split()[1])
        timer = threading.Timer(timeout, os.killpg, (pid, signal.SIGKILL))
        timer.start()
        try:
            code = int(server.stdout.readline().split()[2])
        finally:
            late = not timer.is_alive()
            timer.cancel()
        out, err = (names[name].read_text(encoding="utf-8", errors="surrogateescape") for name in ("stdout", "stderr"))
        if late:
            raise subprocess.TimeoutExpired(list(words), timeout, out, err)
        return subprocess.CompletedProcess([*self._python, "-m", "rearview", *words], code, out, err)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            command = [*self._python, str(Path(__file__))]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(self._environ))
            atexit.register(self.close)
        return self._server

    def close(self) -> None:
        """End the process."""
        end(self._server)
        self._server = None


def end(server: subprocess.Popen[bytes] | None) -> None:
    """End a process that serves until its input does."""
    if server is not None:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        server.wait()
        server.stdout.close()


def _serve() -> None:
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import tests.forked  # noqa: F401

    sys.path.pop(0)
    import duckdb  # noqa: F401
    import rich.console
    import rich.syntax  # noqa: F401

    from rearview import cli

    for module in pkgutil.iter_modules(cli.__path__, "rearview.cli."):
        importlib.import_module(module.name)
    for name in ("rearview.catalog.catalog", "rearview.replay.asking", "rearview.versions.read", "rearview.store.check"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child that looked at it all would copy it all
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            _be(json.loads(line))
        print("started", pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print("ended", pid, os.waitstatus_to_exitcode(status), flush=True)
    gc.unfreeze()  # libraries look for what was left over


def _be(request: dict[str, Any]) -> None:
    """In the child: be `python -m rearview WORDS`."""
    code = 1
    try:
        os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            handle = os.open(request[name], os.O_RDONLY if not number else os.O_WRONLY | os.O_APPEND)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
        sys.stderr = io.TextIOWrapper(open(2, "wb", 0, closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True)  # noqa: SIM115
        time.tzset()
        _fork_workers(os.environ.pop("REARVIEW_TEST_NURSERY", None))
        code = _command(request["words"])
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
        finally:
            os._exit(code)


def _fork_workers(address: str | None) -> None:
    """The workers of a replay are forked from a nursery."""
    if address is not None:
        from rearview.replay.running import pool
        from tests.forked import Forking

        pool.subprocess = Forking(address)  # type: ignore[assignment]


def _command(words: list[str]) -> int:
    from rearview.cli.main import main

    sys.argv = ["rearview", *words]
    sys.orig_argv = [sys.executable, "-m", "rearview", *words]
    return main()


if __name__ == "__main__":
    _serve()
