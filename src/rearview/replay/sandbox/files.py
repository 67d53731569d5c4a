"""The run's own output files in a sandbox: as they were before the run when the program starts, as they were at the checkpoint when
it gets there.

A program that finds the `best.pt` of its own end does something else than it did. `lay_out` is called in the sandbox before the
program; what it gives is for `record.aside.bring_back` at the restore point. What cannot be brought back is said by name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rearview.errors import RearviewError
from rearview.record import firsts
from rearview.record.files.outputs import TAIL_BYTES
from rearview.record.resume import aside
from rearview.record.resume.past import Past
from rearview.replay.sandbox.entering import Protection, Spec
from rearview.store import objects
from rearview.store.layout import Store

Rows = Iterable[Sequence[Any]]
"""The `files` of a manifest."""


@dataclass(slots=True)
class LaidOut:
    """What `record.aside.bring_back(folder, files, process)` needs at the restore point, and how to go on from there."""

    store: Store
    spec: Spec
    protection: Protection
    past: Past
    folder: Path
    files: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Sentences: files that are not as the recorded run had them."""
    contents: int = 0
    """How many contents were laid out in the folder."""

    def prepare(self, rows: Rows) -> tuple[list[dict[str, Any]], list[str]]:
        """What `bring_back` needs for the boundary with these files, and what is lost."""
        self.folder.mkdir(exist_ok=True)
        files, said = [], []
        for plan in _survey(self.store, self.spec.project, self.past, rows, self.protection):
            self.contents += 1
            sentence = _prepare(self.store, plan, self.protection.original(plan.full), self.folder / f"{self.contents:05d}")
            plan.full = self.protection.inside(plan.full, self.spec.project)
            said += [sentence] if sentence else []
            files.append(asdict(plan))
        return files, said

    def pass_over(self, before: Rows | None, after: Rows, process: str) -> list[str]:
        """A block is not run but its end put in place: give the files that it wrote their content at its end.

        `before` are the files at the last boundary before it, None if that is not known. Only what differs is touched, and nothing is
        looked at if nothing does: finding the program's open handles takes a while.
        """
        after = [list(row) for row in after]
        known = {str(row[0]): list(row[1:6]) for row in before or ()}
        wanted = {str(row[0]) for row in after if before is None or known.get(str(row[0])) != row[1:6]}
        deleted = set(known) - {str(row[0]) for row in after}
        if not wanted and not deleted:
            return []
        with firsts.unseen():
            for path in deleted:
                full = os.path.join(os.path.abspath(self.spec.project), path)
                with contextlib.suppress(OSError):  # by the outer body too
                    os.unlink(self.protection.inside(full, self.spec.project))
            files, said = self.prepare(after)
            return said + aside.bring_back(self.folder, [one for one in files if one["path"] in wanted], process)


def written(past: Past, project: Path) -> tuple[str, ...]:
    """The absolute paths that a run wrote, removed or made, for `Spec.written`."""
    paths = (*(str(row[0]) for row in past.opened), *past.removed, *past.made)
    return tuple(dict.fromkeys(os.path.join(os.path.abspath(project), path) for path in paths))


def lost(store: Store, project: Path, past: Past, rows: Rows | None) -> list[str]:
    """What a replay would not find as it was: before the run (`rows` None), or at the checkpoint with these files. Touches nothing."""
    if rows is None:
        return [sentence for sentence, _ in (_before(row, past, project) for row in _first(past)) if sentence]
    return [_loss(plan) for plan in lost_files(store, project, past, rows)]


def lost_files(store: Store, project: Path, past: Past, rows: Rows) -> list[aside.Plan]:
    """The files that cannot get the content that they had at the checkpoint with these files. Touches nothing."""
    return [plan for plan in _survey(store, project, past, rows) if plan.what == aside.LOST]


def lay_out(store: Store, spec: Spec, protection: Protection, past: Past, rows: Rows | None) -> LaidOut:
    """Put the run's output files to their state before the run, and prepare their state at the checkpoint whose files `rows` are."""
    out = LaidOut(store, spec, protection, past, spec.scratch / "then")
    with firsts.unseen():
        if rows is not None:
            out.files, out.lost = out.prepare(rows)
        out.lost += _begin(spec, protection, past)
    return out


def _survey(store: Store, project: Path, past: Past, rows: Rows, protection: Protection | None = None) -> list[aside.Plan]:
    """Without the time at which the run ended: what somebody changed since does not matter, nothing of it is touched."""
    noted = [list(row) for row in rows]
    paths = [os.path.join(os.path.abspath(project), str(row[0])) for row in (*noted, *past.opened)]
    originals = {path: Path(protection.original(path)) for path in paths} if protection is not None else {}
    opened = [row[:4] for row in past.opened]  # in a sandbox those that are not the run's output are to be as they were, too
    plans = aside.survey(store, project, noted, opened, past.removed, None, originals)
    for plan in plans:
        row = next((row for row in noted if str(row[0]) == plan.path), None)
        if row is not None and plan.what in (aside.SAME, aside.CUT) and plan.key is None and _was_written_anew(plan, row):
            plan.what = aside.LOST
    return plans


def _was_written_anew(plan: aside.Plan, row: Sequence[Any]) -> bool:
    """Whether a file may hold something else than at the checkpoint, though the bytes at its end are the same: the beginning of one
    that is not merely appended to is not known."""
    untouched = plan.stamp is not None and (plan.size, plan.stamp[0]) == (plan.length, row[4])
    appended = plan.mode == "a" or (plan.position is not None and bool(plan.before_loop))
    return not untouched and not appended and plan.length > TAIL_BYTES


def _prepare(store: Store, plan: aside.Plan, original: str, content: Path) -> str | None:
    """Lay the content out that a file is to get. The original serves as the copy that a resume would have set aside."""
    if plan.size is not None:
        plan.aside = original
    if plan.what in (aside.PUT_BACK, aside.MADE):
        try:
            content.write_bytes(objects.get(store, plan.key) if plan.key is not None else b"")
            plan.content = content.name
        except (OSError, RearviewError):
            plan.what = aside.LOST
    if plan.what != aside.LOST:
        return None
    sentence = _loss(plan)
    if _is_hidden(plan):
        plan.what = aside.BEGUN  # which is taken away at the restore point
    return sentence


def _is_hidden(plan: aside.Plan) -> bool:
    """A file with a content of another time is better not there: reading it then fails, instead of giving a wrong value."""
    return plan.mode != "+"


def _loss(plan: aside.Plan) -> str:
    then = f"{plan.path} had a content at the checkpoint ({plan.length:,} bytes) that was not kept"
    return f"{then}: the program does not find it there" if _is_hidden(plan) else f"{then}: the program finds it as it is now"


# -- before the run ------------------------------------------------------------------------------------------------------


def _first(past: Past) -> list[Sequence[Any]]:
    """What is known of each file when the run first opened it; a resume opens it again."""
    found: dict[str, Sequence[Any]] = {}
    for row in past.opened:
        found.setdefault(str(row[0]), row)
    return list(found.values())


def _before(row: Sequence[Any], past: Past, project: Path) -> tuple[str | None, int | None]:
    """What cannot be done about a file, and the length that it is to have; None: it was not there."""
    path, mode, prior = str(row[0]), str(row[1]), row[2]
    if not isinstance(prior, int):
        return None, None
    size = _size(os.path.join(project, path))
    if mode == "a" and size is not None and size >= prior:
        return None, prior
    read = any(str(one[0]) == path and one[1] == "r" for one in past.inputs)
    if size is None and mode != "w":
        return f"{path} was there before the run ({prior:,} bytes) and is gone", prior
    if mode == "+" or read:
        return f"{path} was there before the run ({prior:,} bytes) and the run wrote it anew: the program finds it as it is now", size
    return None, size


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size if os.path.isfile(path) else None
    except OSError:
        return None


def _begin(spec: Spec, protection: Protection, past: Past) -> list[str]:
    """Give the files of the run the state that they had before it."""
    said = []
    for row in _first(past):
        sentence, length = _before(row, past, spec.project)
        said += [sentence] if sentence else []
        path = protection.inside(os.path.join(os.path.abspath(spec.project), str(row[0])), spec.project)
        size = _size(path)
        try:
            if size is not None and length is None:
                os.unlink(path)
            elif size is not None and length is not None and size > length:
                os.truncate(path, length)
        except OSError as problem:
            said.append(f"{row[0]} could not be put to its state before the run: {problem.strerror}")
    return said + _folders(spec, protection, past)


def _folders(spec: Spec, protection: Protection, past: Past) -> list[str]:
    """Folders that the run made are not there when it starts; those that it removed first are there."""
    said = []
    project = os.path.abspath(spec.project)
    removed = {os.path.join(project, path) for path in past.removed}
    for shown in sorted(past.made, key=lambda path: -path.count(os.sep)):
        full = os.path.join(project, shown)
        path = protection.inside(full, spec.project)
        if full in removed or not os.path.isdir(path) or os.path.islink(path):
            continue
        if _holds_only_caches(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            said.append(f"the folder {shown} was made by the run and holds files of others now: the program finds it there")
    for full in removed:
        path = protection.inside(full, spec.project)
        if any(made.startswith(os.path.join(full, "")) or made == full for made in (os.path.join(project, one) for one in past.made)):
            os.makedirs(path, exist_ok=True)
    return said


def _holds_only_caches(folder: str) -> bool:
    """Whether nothing is left in a folder but what Python puts there."""
    return all(name == "__pycache__" for name in os.listdir(folder))
