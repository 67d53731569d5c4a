"""Output files of a run that is resumed: what becomes of each, copies set aside, and their content at the checkpoint brought back.

`survey` decides and touches nothing, `set_aside` copies and changes nothing of the user's, `bring_back` runs in the resumed
program at the restore point and rewrites files in place, so that handles opened by the code before the loop stay valid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rearview.errors import CheckpointError, RearviewError
from rearview.model import MAIN_PROCESS
from rearview.record import firsts
from rearview.record.files import handles
from rearview.record.files.outputs import TAIL_BYTES, Row, tail_digest
from rearview.store import objects
from rearview.store.layout import Store

SLACK_S = 20.0
"""A process ticks every 15 s: what was changed so long after its last sign of life may still be its own doing."""
_LARGE_BYTES = 64 << 20
_SETTLED = "settled"
"""In the name of a mark in the folder of an attempt: its process has come to its place and brought its files back."""
_BLOCK_BYTES = 8 << 20

SAME, CUT, PUT_BACK, MADE, BEGUN, LEFT, LOST = "same", "cut", "put back", "made again", "begun later", "left", "lost"
FOLDER = "folder made later"
APART = "not followed"


@dataclass(slots=True)
class Plan:
    """What becomes of one output file."""

    path: str
    """As rows have it: below the project, relative to it."""
    what: str
    """`same`, `cut` (back to its length then), `put back` (from the content kept), `made again`, `begun later` (it was not
    there at the checkpoint), `left` (somebody changed it since), `lost` (cannot be brought back); `folder made later`;
    `not followed` (not the run's output: nobody knows how it was, and it is not touched)."""
    length: int
    """At the checkpoint."""
    size: int | None
    """Now; None if it is not there."""
    position: int | None = None
    key: str | None = None
    before_loop: bool | None = None
    """The code before the loop opens it; if `mode` is `w`, that empties it."""
    mode: str = "w"
    stamp: list[int] | None = None
    """mtime and inode now."""
    aside: str | None = None
    """The copy of the file as it is now."""
    content: str | None = None
    """A file with its content at the checkpoint, where that is not the beginning of the copy."""
    deleted_before_loop: bool = False
    full: str = ""
    """The absolute path."""
    process: str = MAIN_PROCESS
    """Whose file it is: that process brings it back, when it comes to its own restore point."""

    def is_emptied(self) -> bool:
        """Whether the code before the loop, when it runs again, empties or deletes the file."""
        return self.size is not None and (self.deleted_before_loop or bool(self.before_loop and self.mode == "w"))


# -- deciding ------------------------------------------------------------------------------------------------------------


def survey(
    store: Store, project: Path, rows: Iterable[Row], later: Iterable[Sequence[Any]], removed: Iterable[str], ended_wall: float | None,
    instead: Mapping[str, Path] | None = None,
) -> list[Plan]:  # fmt: skip
    """A plan for every output file.

    `rows` are the checkpoint's files; `later` are (path, mode, size before) of every file the run opened for writing; behind
    either may stand the process, and behind that, of a file of `later`, that it is not the run's output. `removed` is what the
    run deleted. `ended_wall` is its last sign of life. `instead` are copies that will be put back before anything else: absolute
    path -> copy.
    """
    instead = instead or {}
    latest = None if ended_wall is None else int((ended_wall + SLACK_S) * 1e9)
    plans: dict[str, Plan] = {}
    for row in rows:
        path, length, mode, key, mtime_ns, tail, position, before, process = (*row, *([None] * 9))[:9]
        full = os.path.join(os.path.abspath(project), str(path))
        appended = mode == "a" or (position is not None and bool(before))
        plan = _noted(store, str(path), str(instead.get(full, full)), int(length), str(mode), key, mtime_ns, tail, latest, appended)
        plan.position, plan.before_loop, plan.process = position, before, process or MAIN_PROCESS
        plans.setdefault(str(path), plan)
    for path, mode, prior, process, apart in ((*one, None, None)[:5] for one in later):
        full = os.path.join(os.path.abspath(project), str(path))
        if apart and str(path) not in plans:
            if os.path.isfile(full):
                plans[str(path)] = Plan(str(path), APART, 0, None, mode=str(mode), process=process or MAIN_PROCESS)
        elif str(path) not in plans:
            found = _unnoted(str(path), str(instead.get(full, full)), str(mode), prior, latest)
            if found is not None:
                found.process = process or MAIN_PROCESS
                plans[str(path)] = found
    gone = [os.path.join(os.path.abspath(project), path) for path in removed]
    for plan in plans.values():
        plan.full = os.path.join(os.path.abspath(project), plan.path)
        plan.deleted_before_loop = any(plan.full == path or plan.full.startswith(os.path.join(path, "")) for path in gone)
    return list(plans.values())


def folders_since(project: Path, made: Mapping[str, float], wall: float) -> list[Plan]:
    """The folders that a run made in its loop after a moment, the innermost first: the program makes them again."""
    later = sorted((path for path, when in made.items() if when > wall), key=lambda path: (-path.count(os.sep), path))
    there = [(path, os.path.join(os.path.abspath(project), path)) for path in later]
    return [Plan(path, FOLDER, 0, None, full=full) for path, full in there if os.path.isdir(full) and not os.path.islink(full)]


def _noted(
    store: Store, path: str, full: str, length: int, mode: str, key: Any, mtime: Any, tail: Any, latest: int | None, appended: bool
) -> Plan:
    """A file that the checkpoint knows. `appended`: nobody writes but at its end."""
    kept = isinstance(key, str) and _is_kept(store, key)
    try:
        facts = os.stat(full)
    except OSError:
        return Plan(path, MADE if kept or not length else LOST, length, None, key=key if kept else None, mode=mode)
    plan = Plan(path, SAME, length, facts.st_size, key=key if kept else None, mode=mode, stamp=[facts.st_mtime_ns, facts.st_ino])
    if (facts.st_size, facts.st_mtime_ns) == (length, mtime):
        return plan
    if latest is not None and facts.st_mtime_ns > latest:
        plan.what = LEFT
    elif _begins_alike(full, length, tail, key if kept else None, appended or facts.st_size > length):
        plan.what = SAME if facts.st_size == length else CUT
    else:
        plan.what = PUT_BACK if kept else LOST
    return plan


def _unnoted(path: str, full: str, mode: str, prior: Any, latest: int | None) -> Plan | None:
    """A file that the run opened and the checkpoint does not know: it was not there then, or nobody had written to it."""
    try:
        facts = os.stat(full)
    except OSError:
        return None
    if not os.path.isfile(full):
        return None
    plan = Plan(path, BEGUN, 0, facts.st_size, mode=mode, stamp=[facts.st_mtime_ns, facts.st_ino])
    if latest is not None and facts.st_mtime_ns > latest:
        plan.what = LEFT
    elif isinstance(prior, int):  # older than the run
        appended = mode == "a" and facts.st_size >= prior
        plan.what, plan.length = (CUT if facts.st_size > prior else SAME, prior) if appended else (LOST, facts.st_size)
    return plan


def look_again(plans: Iterable[Plan]) -> None:
    """Files were put back since the survey, from the copies that it looked at: how to tell that they are untouched is new."""
    for plan in plans:
        if plan.size is not None:
            try:
                facts = os.stat(plan.full)
            except OSError:
                plan.size = None  # it could not be put back
            else:
                plan.stamp, plan.size = [facts.st_mtime_ns, facts.st_ino], facts.st_size


def _is_kept(store: Store, key: str) -> bool:
    try:
        return objects.path_of(store, key).is_file()
    except (RearviewError, OSError):
        return False


def _begins_alike(path: str, length: int, tail: Any, key: str | None, grew: bool) -> bool:
    """Whether a file that was written to since still begins with what it held at the checkpoint.

    The bytes at the end of what it was tell that of a file that grew; of one written anew in its old length they tell nothing about
    those before them.
    """
    try:
        if key is not None:
            with open(path, "rb") as file:
                data = file.read(length)
            return len(data) == length and objects.key_of(data) == key
        return tail is not None and (grew or length <= TAIL_BYTES) and tail_digest(path, length) == tail
    except OSError:
        return False


# -- copying -------------------------------------------------------------------------------------------------------------


def bytes_to_copy(plans: Iterable[Plan]) -> int:
    """What setting aside writes."""
    return sum(plan.size for plan in plans if plan.size is not None and not _may_link(plan))


def _may_link(plan: Plan) -> bool:
    """A large file that neither the code before the loop nor we write to: another name for it is enough."""
    untouched = plan.what in (SAME, LEFT, LOST) and plan.before_loop is False
    return untouched and plan.size is not None and plan.size > _LARGE_BYTES


def set_aside(store: Store, plans: Sequence[Plan], folder: Path) -> list[dict[str, Any]]:
    """Copy every file that is there, and lay out the content to be brought back. Gives what `bring_back` needs."""
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = bytes_to_copy(plans), shutil.disk_usage(folder).free
    if needed > free:
        raise CheckpointError(
            f"setting the run's output files aside takes {needed:,} bytes and {free:,} are free at {folder}: make room, or move them away"
        )
    for number, plan in enumerate(plans):
        name = f"{number:05d}"
        try:
            if plan.size is not None:
                _copy(plan.full, folder / name, link=_may_link(plan))
                plan.aside = name
            if plan.what in (PUT_BACK, MADE):
                data = objects.get(store, plan.key) if plan.key is not None else b""
                (folder / f"{name}.then").write_bytes(data)
                plan.content = f"{name}.then"
        except OSError as problem:
            raise CheckpointError(f"{plan.path} could not be set aside: {problem.strerror}; nothing was changed") from problem
    return [asdict(plan) for plan in plans]


def _copy(path: str, to: Path, *, link: bool) -> None:
    if link:
        try:
            os.link(os.path.realpath(path), to)
            return
        except OSError:
            pass  # another disk
    shutil.copy2(path, to)


# -- bringing back -------------------------------------------------------------------------------------------------------


def bring_back(aside: Path, files: Sequence[dict[str, Any]], process: str | None = None) -> list[str]:
    """Give each file of a process (None: of all) its content at the checkpoint, in place. A sentence for each that could not be.

    Handles that the program has open on them go on where they were at the checkpoint. Never raises.
    """
    said = []
    with firsts.unseen():
        plans = [plan for plan in (Plan(**facts) for facts in files) if process in (None, plan.process) and plan.what != APART]
        full = {plan.full: plan for plan in plans}
        open_now = handles.descriptors(full)
        objects_on = handles.on({fd for fds in open_now.values() for fd in fds})
        handles.flush(ref() for refs in objects_on.values() for ref in refs)
        for path, plan in full.items():
            fds = open_now.get(path, [])
            try:
                _bring_back(aside, plan, path, bool(fds))
                _go_on_at(plan, fds, [ref() for fd in fds for ref in objects_on.get(fd, ())])
            except OSError as problem:
                said.append(
                    f"{plan.path} could not be brought back to its content at the checkpoint: {problem.strerror}"
                    if plan.what != FOLDER
                    else f"the folder {plan.path} was made after the checkpoint and could not be removed: {problem.strerror}"
                )
            if plan.before_loop and plan.position is not None and not fds:
                said.append(
                    f"{plan.path} was open at the checkpoint and is not now: the code before the loop opened another file (a name with "
                    "the time in it?), and what is written goes there"
                )
            if plan.what == BEGUN and firsts.opened.get(path) == "r":
                said.append(f"{plan.path} was read before the loop, but the run wrote it only later: what was read is from the future")
        settle(aside, process)
    return said


def settle(aside: Path, process: str | None) -> None:
    """From now on the files of a process (None: of all) are what the resumed program makes of them."""
    with contextlib.suppress(OSError):  # a full disk: the next resume would take the copies again, and say so
        (aside / f"{_SETTLED}-{process or 'all'}").touch()


def is_settled(aside: Path, process: str) -> bool:
    """Whether nobody needs the copies any more."""
    return any((aside / f"{_SETTLED}-{who}").exists() for who in (process, "all"))


def _bring_back(aside: Path, plan: Plan, path: str, is_open: bool) -> None:
    if plan.what == FOLDER:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)
        return
    try:
        facts: os.stat_result | None = os.stat(path)
    except OSError:
        facts = None
    untouched = facts is not None and [facts.st_mtime_ns, facts.st_ino] == plan.stamp and facts.st_size == plan.size
    if plan.what == BEGUN:
        if is_open:
            os.truncate(path, 0)
        elif facts is not None:
            os.unlink(os.path.realpath(path))  # a link to it is as old as whoever made it
        return
    whole = plan.what in (LEFT, LOST)
    if untouched and (whole or plan.what == SAME):
        return
    if untouched and plan.what == CUT:
        os.truncate(path, plan.length)
        return
    source = plan.content or plan.aside
    if source is not None and not (whole and plan.size is None):
        rewrite(aside / source, path, plan.size if whole and plan.size is not None else plan.length)


def rewrite(source: Path, path: str, length: int) -> None:
    """Write the first bytes of one file over another, keeping the file that is there."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if os.path.exists(path) and os.path.samefile(source, path):
            return  # a link to it
        rest = length
        with open(source, "rb") as content:
            while rest and (data := content.read(min(rest, _BLOCK_BYTES))):
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                rest -= len(data)
        os.ftruncate(fd, length - rest)
    finally:
        os.close(fd)


def _go_on_at(plan: Plan, fds: Sequence[int], found: Sequence[Any]) -> None:
    """Open handles stand where they stood: at the end, unless it was noted otherwise."""
    position = plan.position if plan.position is not None else plan.length
    if plan.what == LEFT and plan.size is not None:
        position = plan.size
    for fd in fds:
        try:
            os.lseek(fd, position, os.SEEK_SET)
        except OSError:
            continue  # a pipe or a terminal has no position
    handles.seek(found, position)


def in_words(plan: Plan) -> str:
    """What becomes of a file, for a person."""
    size = "?" if plan.size is None else f"{plan.size:,}"
    return {
        SAME: f"is as it was at the checkpoint ({plan.length:,} bytes)",
        CUT: f"is cut back from {size} bytes to the {plan.length:,} it had at the checkpoint",
        PUT_BACK: f"gets back its content at the checkpoint ({plan.length:,} bytes); it was written anew since",
        MADE: f"is gone and is made again as it was at the checkpoint ({plan.length:,} bytes)",
        BEGUN: f"was not there then ({size} bytes now): it is set aside and begins anew",
        FOLDER: "is a folder that was made later: what the run wrote there is set aside, and it is removed unless others have files in it",
        APART: "is among temporary files, or hidden in the home folder, and was not open at the checkpoint: it stays as it is now",
        LEFT: "was changed after the run had ended, by somebody else: it is left as it is",
        LOST: (
            f"was written anew since the checkpoint and its content then ({plan.length:,} bytes) was not kept: it stays as it is now"
            if plan.size is not None
            else f"is gone and its content ({plan.length:,} bytes) was not kept: it cannot be brought back"
        ),
    }[plan.what]
