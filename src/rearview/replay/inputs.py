"""Whether what a run read is still what it read: named before anything runs, with what was compared.

Size, time and inode are looked at first; where the time differs and the record has a hash, the content decides. Reads files and
folders of the user's, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.record.files import input_hashes
from rearview.record.files import inputs as noted
from rearview.record.resume.past import Past

CHANGED, GONE, APPEARED = "changed", "gone", "appeared"
CONTENT, SIZE_AND_TIME, NAMES = "content", "size and time", "names"
_SOURCE = (".py", ".pyc", ".pyi", ".ipynb")


@dataclass(frozen=True, slots=True)
class InputChange:
    """One input that is not what it was."""

    path: str
    """Below the project, relative to it."""
    what: str
    """`changed`, `gone` or `appeared`."""
    compared_by: str
    """`content`, `size and time`, or for a folder `names`."""
    sentence: str


@dataclass(slots=True)
class Compared:
    """All inputs of a run, compared."""

    changes: list[InputChange] = field(default_factory=list)
    by: dict[str, int] = field(default_factory=dict)
    """How many of those that are the same were compared by what."""

    def sentence(self) -> str:
        """For the plan."""
        total = sum(self.by.values())
        if not total and not self.changes:
            return "no input files were noted"
        how = ", ".join(f"{count:,} by {by}" for by, count in self.by.items() if count)
        same = f"{total:,} input{'s' * (total != 1)} unchanged ({how})" if total else "no input is unchanged"
        return same + (f"; {len(self.changes):,} not as in the run" if self.changes else "")


def changes(past: Past, project: Path, sources: Container[str] = (), *, thorough: bool = False) -> list[InputChange]:
    """The inputs of a run that are not what they were."""
    return compare(past, project, sources, thorough=thorough).changes


def compare(past: Past, project: Path, sources: Container[str] = (), *, thorough: bool = False) -> Compared:
    """Compare everything that the run only read. `sources` are paths that come from the recorded version, whatever is there now.

    With `thorough` the content is compared wherever the record has a hash, not only where the time differs.
    """
    found = Compared()
    own = {str(row[0]) for row in past.opened}
    for path, row in _last_rows(past.inputs).items():
        if path in own or path in sources or path.endswith(_SOURCE):
            continue
        _judge(found, *_file(path, row, os.path.join(project, path), thorough))
    for path, row in _last_rows(past.folders).items():
        _judge(found, *_folder(path, row, os.path.join(project, path), _own_names(path, past)))
    return found


def _judge(found: Compared, change: InputChange | None, by: str) -> None:
    if change is not None:
        found.changes.append(change)
    elif by:
        found.by[by] = found.by.get(by, 0) + 1


def _last_rows(rows: list[list[Any]]) -> dict[str, list[Any]]:
    """The last row of each path that was only read: with its hash, if it came to have one. A path once written is no input."""
    found: dict[str, list[Any]] = {}
    written = {str(row[0]) for row in rows if len(row) > 1 and row[1] == "w"}
    for row in rows:
        path = str(row[0])
        before = found.get(path)
        if len(row) < 5 or path in written or (before is not None and before[2] is not None and row[2] is None):
            continue
        if before is not None and len(before) > 5 and len(row) <= 5 and before[:5] == row[:5]:
            continue  # opened again, as it was
        found[path] = row
    return found


# -- files ----------------------------------------------------------------------------------------------------------------


def _file(path: str, row: list[Any], full: str, thorough: bool) -> tuple[InputChange | None, str]:
    then = tuple(row[2:5])
    key = row[5] if len(row) > 5 and isinstance(row[5], str) else None
    now = input_hashes.identity_of(full)
    if then[0] is None:
        if now is None:
            return None, SIZE_AND_TIME
        return InputChange(path, APPEARED, SIZE_AND_TIME, f"{path} was looked for by the run and was not there; now it is"), ""
    if now is None:
        if os.path.exists(full):
            return None, ""  # a pipe or a device, then and now
        return InputChange(path, GONE, SIZE_AND_TIME, f"{path} was read by the run and is gone"), ""
    if now[0] != then[0]:
        return InputChange(path, CHANGED, SIZE_AND_TIME, f"{path} had {then[0]:,} bytes and has {now[0]:,}"), ""
    if now[1] == then[1] and not (thorough and key) and not (key and now[2] != then[2]):
        return None, SIZE_AND_TIME
    if key is None:
        sentence = f"{path} was written since (same size, another time); its content was not hashed, so it may be the same"
        return InputChange(path, CHANGED, SIZE_AND_TIME, sentence), ""
    if input_hashes.hash_of(full) == key:
        return None, CONTENT
    return InputChange(path, CHANGED, CONTENT, f"{path} has another content than the run read"), ""


# -- folders --------------------------------------------------------------------------------------------------------------


def _folder(path: str, row: list[Any], full: str, own: set[str]) -> tuple[InputChange | None, str]:
    _, count, digest, mtime_ns, _ = row[:5]
    shown = path or "the project's folder"
    there = os.path.isdir(full)
    if mtime_ns is None:
        if not there:
            return None, NAMES
        return InputChange(path, APPEARED, NAMES, f"the folder {shown} was listed by the run and was not there; now it is"), ""
    if not there:
        return InputChange(path, GONE, NAMES, f"the folder {shown} was listed by the run and is gone"), ""
    if digest is None:
        if os.stat(full).st_mtime_ns == mtime_ns:
            return None, SIZE_AND_TIME
        sentence = f"the folder {shown} was changed since the run listed it; it has too many names to compare them"
        return InputChange(path, CHANGED, SIZE_AND_TIME, sentence), ""
    try:
        count_now, digest_now = noted.names_in(full, own)
    except OSError as problem:
        return InputChange(path, GONE, NAMES, f"the folder {shown} cannot be listed: {problem.strerror}"), ""
    if digest_now == digest:
        return None, NAMES
    numbers = f"it had {count:,} and has {count_now or 0:,}" if count_now != count else f"as many as before, {count:,}"
    return InputChange(path, CHANGED, NAMES, f"the folder {shown} has other names in it than the run found: {numbers}"), ""


def _own_names(folder: str, past: Past) -> set[str]:
    """What the run itself put into a folder."""
    start = os.path.join(folder, "") if folder else ""
    paths = (*(str(row[0]) for row in past.opened), *past.made)
    return {path[len(start) :].split(os.sep)[0] for path in paths if path.startswith(start)}
