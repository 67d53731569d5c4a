"""Programs that are forked from a process that has imported what they import (see `nursery.py`), instead of being started."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.warm import end

ADDRESS = "REARVIEW_TEST_NURSERY"
"""For a command of a warm process (see `warm.py`): where the workers that it starts are forked."""
TORCH = ("numpy", "torch", "torch._dynamo", "torch.optim.swa_utils", "torch.utils.data", "tqdm")


class Nursery:
    """A process that forks programs; started when the first is asked for."""

    def __init__(self, environ: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._environ, self._modules = {**environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}, modules
        self._server: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="rearview-nursery-"))

    @property
    def address(self) -> str:
        """Where it listens."""
        address = str(self.folder / "socket")
        if self._server is None:
            command = [sys.executable, str(Path(__file__).with_name("nursery.py")), address, *self._modules]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environ)
            assert self._server.stdout is not None
            assert self._server.stdout.readline() == b"ready\n", "the nursery died"
        return address

    def execute(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout_s: float = 300, *, joined: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """`python WORDS`, to its end; `joined`: all that it prints is in `stdout`."""
        address = self.address
        with tempfile.TemporaryDirectory(dir=self.folder) as folder, open(os.devnull, "rb") as null:
            paths = Path(folder, "stdout"), Path(folder, "stderr")
            with paths[0].open("ab") as out, paths[1].open("ab") as err:
                child = fork(address, words, env, cwd, (null.fileno(), out.fileno(), (out if joined else err).fileno()))
            code = child.wait(timeout_s)
            return subprocess.CompletedProcess(list(words), code, *(path.read_text(encoding="utf-8") for path in paths))

    def close(self) -> None:
        """End it."""
        end(self._server)
        shutil.rmtree(self.folder, ignore_errors=True)


def fork(
    address: str,
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    streams: Sequence[int],
    numbers: Sequence[int] = (),
    before: str = "",
) -> Forked:
    """`python WORDS` as a child of a nursery, with files of this process under their numbers; `before` is code that runs first."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    is_module = words[0] == "-m"
    name, *args = words[is_module:]
    what = "module" if is_module else "script"
    request = {what: name, "args": args, "env": dict(env), "cwd": str(cwd), "numbers": list(numbers), "before": before}
    socket.send_fds(connection, [b"."], [*streams, *numbers])
    connection.sendall(json.dumps(request).encode() + b"\n")
    return Forked(connection, words)


class Forked:
    """What of `subprocess.Popen` the product and the tests use."""

    def __init__(self, connection: socket.socket, words: Sequence[str]) -> None:
        self._connection, self.args, self.returncode = connection, words, None
        self._read = b""
        self.pid = int(self._line(None))

    returncode: int | None

    def _line(self, within_s: float | None) -> bytes:
        """What it is told next; nothing if that is not in time."""
        while b"\n" not in self._read:
            if not select.select([self._connection], [], [], within_s)[0]:
                return b""
            more = self._connection.recv(64)
            assert more, "the nursery died"
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line

    def poll(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it has ended."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def _ended(self, within_s: float | None) -> int | None:
        if self.returncode is None and (line := self._line(within_s)):
            self.returncode = int(line)
            self._connection.close()
        return self.returncode


class Forking:
    """Stands for the module `subprocess` where a program is started: Python is forked, all else is started."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.started = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, **given: Any) -> Any:
        """`python launch.py TOLD ...`; with options of Python, or another environment of it, it is started."""
        self.started += 1
        launcher, told, *rest = words[1:]
        if words[0] != sys.executable or not launcher.endswith("launch.py") or not takes(env):
            return subprocess.Popen(words, env=env, cwd=cwd, **given)
        told = json.dumps({**json.loads(told), "launcher": None})  # the nursery is its parent
        null = os.open(os.devnull, os.O_RDWR)
        try:
            out = given["stdout"].fileno()
            return fork(self._address, [launcher, told, *rest], env, cwd, (null, out, out), given["pass_fds"])
        finally:
            os.close(null)


def takes(env: Mapping[str, str]) -> bool:
    """Whether a program with these variables can be forked."""
    python = {name: value for name, value in env.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}
    return python.pop("PYTHONHASHSEED", "0") == "0" and python.keys() <= {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
