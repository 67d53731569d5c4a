"""Workers of a replay, forked from a process that has imported torch: what a pool uses of `subprocess`, without importing it each time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.integration.resume.training import Nursery


class Forking:
    """Stands for the module `subprocess` in `replay.pool`."""

    DEVNULL, STDOUT, TimeoutExpired = subprocess.DEVNULL, subprocess.STDOUT, subprocess.TimeoutExpired

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self.started = 0

    def Popen(self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdout: Any, **_: Any) -> Child:
        """Fork `python launch.py TOLD ...`."""
        _, launcher, told, *rest = words
        wishes = json.loads(told)
        wishes["launcher"] = None
        request = {
            "script": launcher, "args": [json.dumps(wishes), *rest], "cwd": str(cwd), "env": dict(env), "stdout": stdout.name,
            "stderr": os.devnull, "joined": True, "unused": [wishes["tell"]],
        }  # fmt: skip
        self.started += 1
        return Child(self._nursery, self._nursery.ask(request))


class Child:
    """What of `subprocess.Popen` a pool uses."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def poll(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        return self._nursery.ended(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it has ended."""
        code = self._nursery.ended(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
        return code
