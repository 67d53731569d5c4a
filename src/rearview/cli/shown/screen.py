"""What this process's output looks at: a terminal or not, how wide, coloured or not; and writing to it.

The only module that asks the terminal anything. Must not know what is shown.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import click

STYLES: dict[str, dict[str, Any]] = {
    "head": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "busy": {"fg": "cyan"},
    "odd": {"fg": "yellow"},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "place": {"fg": "cyan"},
}
"""Meaning -> how it looks. Text says the same without colour."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Facts about where output goes."""

    width: int
    height: int
    terminal: bool
    colour: bool

    def paint(self, text: str, style: str) -> str:
        """Text in a style, if this screen shows colours."""
        if not self.colour or not style or not text:
            return text
        return click.style(text, **(STYLES.get(style) or {"fg": style}))


def of_stdout(color: str = "auto") -> Screen:
    """The screen that standard output is. Width: COLUMNS, else the terminal's, else 80."""
    size = shutil.get_terminal_size(fallback=(80, 24))
    terminal = sys.stdout.isatty()
    return Screen(max(size.columns, 20), max(size.lines, 8), terminal, _coloured(color, terminal))


def _coloured(color: str, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_AT_A_TIME = 4096


def write(lines: Iterable[str]) -> None:
    """Lines to standard output, some at a time; what its encoding lacks is shown as an escape, never an error."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    rest = iter(lines)
    while some := list(islice(rest, _AT_A_TIME)):
        _hush()
        click.echo("".join(f"{line}\n" for line in some).encode(encoding, "backslashreplace"), nl=False)


def note(line: str) -> None:
    """One line beside the output, on standard error."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    _hush()
    click.echo(f"{line}\n".encode(encoding, "backslashreplace"), nl=False, err=True)


PATIENCE_S = 1.0
"""Work shorter than this shows nothing."""


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Say what takes so long, on standard error, if that is a terminal and it lasts more than a second; until something else is written."""
    if not sys.stderr.isatty():
        yield
        return
    _tellers.append(teller := _Teller(doing))
    try:
        yield
    finally:
        _tellers.remove(teller)
        teller.end()


class _Teller:
    """A thread that says how long something takes already, in one line that is gone at the end."""

    def __init__(self, doing: str) -> None:
        self._done = threading.Event()
        self._thread = threading.Thread(target=_tell, args=(doing, self._done), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._done.set()
        self._thread.join()


_tellers: list[_Teller] = []
"""Those at work: a process has one terminal, and whoever writes to it must not write into their line."""


def _hush() -> None:
    for teller in _tellers:
        teller.end()


def _tell(doing: str, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(PATIENCE_S):
        return
    while True:
        sys.stderr.write(f"\r{doing} ... {time.monotonic() - began:.0f} s")
        sys.stderr.flush()
        if done.wait(0.5):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
