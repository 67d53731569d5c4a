"""A command with a terminal for input, output and errors."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import SOURCE


def on_terminal(
    project: Path, *words: str, answer: str = "", env: Mapping[str, str] | None = None, columns: int = 100, timeout: float = 120.0
) -> tuple[int, str]:
    """Run `rearview` with some words, and what somebody types; its exit code and what it showed."""
    ours, its = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    environ = {**kept, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "COLUMNS": str(columns), **(env or {})}
    child = subprocess.Popen([sys.executable, "-m", "rearview", *words], stdin=its, stdout=its, stderr=its, env=environ, cwd=project)
    os.close(its)
    if answer:
        os.write(ours, answer.encode())
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux: the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return child.wait(timeout=timeout), shown.decode()
