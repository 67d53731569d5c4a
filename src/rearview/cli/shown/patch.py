"""A unified diff on the screen: coloured, fitted to a terminal, whole new files in one line each.

Knows the diffs that `versions.read.diff` writes. Must not know what was compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from rearview.cli.shown import text
from rearview.cli.shown.screen import Screen

SMALL = 12
"""A new or removed file of more lines is told in one."""

_FILE = "diff a/"
_NOWHERE = "/dev/null"
_STYLES = {"+++": "head", "---": "head", "@@": "place", "+": "added", "-": "removed"}
_HINT = "(--full shows these files whole)"


def lines(diff: str, view: Screen, full: bool = False) -> list[str]:
    """The diff, line by line. A pipe gets whole lines; with `full`, so does a terminal, and every file is shown whole."""
    shown: list[str] = []
    brief = False
    for file in _files(diff):
        said = "" if full else _in_brief(file)
        brief = brief or bool(said)
        shown += [view.paint(said, "head")] if said else [_line(line, view, full) for line in file]
    return [*shown, view.paint(_HINT, "dim")] if brief else shown


def _files(diff: str) -> Iterator[list[str]]:
    """The lines of each file. Content is always indented by a mark, so a line that begins as a heading is one."""
    file: list[str] = []
    for line in diff.rstrip("\n").split("\n") if diff else ():
        if line.startswith(_FILE) and file:
            yield file
            file = []
        file.append(line)
    if file:
        yield file


def _in_brief(file: list[str]) -> str:
    """`new file model.py, 120 lines`; nothing for a file that changed, or is small."""
    at = next((k for k, line in enumerate(file) if line.startswith("--- ")), None)
    if at is None or at + 1 >= len(file):
        return ""
    before, after = file[at].removeprefix("--- "), file[at + 1].removeprefix("+++ ")
    if before != _NOWHERE and after != _NOWHERE:
        return ""
    many = sum(line.startswith(("+", "-")) for line in file[at + 2 :])
    if many <= SMALL:
        return ""
    what, path = ("new file", after[2:]) if before == _NOWHERE else ("removed file", before[2:])
    return f"{what} {text.escape(path)}, {text.count(many, 'line')}"


def _line(line: str, view: Screen, full: bool) -> str:
    shown = text.escape(line.expandtabs(4))
    if view.terminal and not full:
        shown = text.shorten(shown, view.width)
    style = next((style for mark, style in _STYLES.items() if line.startswith(mark)), "")
    return view.paint(shown, style)
