"""A resume that ended before it came to its place: the output files that its code before the loop has changed are as they were.

The copies are those that `aside` made when the resume began. A process that ends puts its own files back; after one that was killed the
next resume does. Files that somebody changed since are left alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import RunId
from rearview.record import firsts
from rearview.record.files import handles
from rearview.record.resume import aside, handshake
from rearview.record.resume.aside import Plan
from rearview.store.layout import Store


@dataclass(frozen=True, slots=True)
class Left:
    """A file that an attempt left otherwise than it found it."""

    plan: Plan
    folder: Path
    """Of the attempt, with the copies."""

    @property
    def copy(self) -> Path:
        """The file as it was."""
        assert self.plan.aside is not None
        return self.folder / self.plan.aside


def undo(folder: Path, files: Sequence[dict[str, Any]], process: str) -> list[str]:
    """Put the files of this process back, while it still has them open. Sentences about it; never raises."""
    with firsts.unseen():
        changed = [one for one in _changed(folder, files) if one.plan.process == process]
        open_now = handles.descriptors([one.plan.full for one in changed])
        on_them = [ref() for refs in handles.on({fd for fds in open_now.values() for fd in fds}).values() for ref in refs]
        handles.flush(on_them)  # or it would come after us, when the interpreter lets go of them
        said = put_back(changed)
        aside.settle(folder, process)
    return said


def put_back(changed: Iterable[Left]) -> list[str]:
    """Give files back the content, and the time, that they had before the attempt. A sentence for all, and for each that could not be."""
    said, done = [], []
    for one in changed:
        try:
            aside.rewrite(one.copy, one.plan.full, one.copy.stat().st_size)
            shutil.copystat(one.copy, one.plan.full)
            done.append(one.plan.path)
        except OSError as problem:
            said.append(f"{one.plan.path} could not be put back as it was ({problem.strerror}): a copy of it is {one.copy}")
    if done := list(dict.fromkeys(done)):  # several attempts may have left the same file
        said.insert(0, f"as before that attempt again, from copies: {', '.join(done[:5])}{' ...' if len(done) > 5 else ''}")
    return said


def left_by(store: Store, run: RunId, ended_wall: float | None) -> list[Left]:
    """What attempts of a run that were killed on their way have changed; the newest attempt first. Nobody else has changed it since."""
    latest = None if ended_wall is None else int((ended_wall + aside.SLACK_S) * 1e9)
    found: list[Left] = []
    for folder in sorted((store.run(run) / "aside").glob("a[0-9]*"), key=lambda path: int(path.name[1:]), reverse=True):
        try:
            files = handshake.read(store, folder).files
        except (Damaged, OSError):
            continue  # it was killed before it began
        ours = [one for one in _changed(folder, files) if not aside.is_settled(folder, one.plan.process)]
        found += [one for one in ours if latest is None or _changed_at(one.plan.full) <= latest]
    return found


def copies(left: Iterable[Left]) -> dict[str, Path]:
    """Path -> the copy that it will be made from. The oldest one: later attempts found what earlier ones had left."""
    return {one.plan.full: one.copy for one in left}


def _changed(folder: Path, files: Sequence[dict[str, Any]]) -> list[Left]:
    """The files that are not as they were when they were set aside."""
    found = []
    for plan in (Plan(**facts) for facts in files):
        if plan.aside is not None:
            try:
                facts = os.stat(plan.full)
                same = [facts.st_mtime_ns, facts.st_ino] == plan.stamp and facts.st_size == plan.size
            except OSError:
                same = False
            if not same:
                found.append(Left(plan, folder))
    return found


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0  # it is gone
