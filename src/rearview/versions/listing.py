"""Which files a snapshot looks at: the user's index and new files by git, else a walk.

Knows how repositories nest. Must not read files or write anything. Gives candidates; `gather` decides by what is in them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rearview.versions import git, rules, walk
from rearview.versions.ignore import Patterns, literal_folder
from rearview.versions.walk import Bounds

_NESTED_REPOSITORIES = 50


@dataclass(frozen=True, slots=True)
class Tracked:
    """What the user's index says about a file."""

    id: str
    """The blob's id; empty while a conflict is unresolved."""
    left_out: bool
    mtime_ns: int
    ctime_ns: int
    size_bytes: int
    index_mtime_ns: int
    """When the index was written: what changed in that moment or later may have kept its size and time."""


@dataclass(slots=True)
class Candidates:
    """The files to look at, and what git said on the way."""

    tracked: dict[bytes, Tracked] = field(default_factory=dict)
    new: list[bytes] = field(default_factory=list)
    included: list[bytes] = field(default_factory=list)
    """Asked for by the include setting, ignored or not."""
    git: dict[str, object] | None = None
    dirty: bool | None = False
    """As far as the index alone tells."""
    notes: list[str] = field(default_factory=list)


def list_candidates(project: Path, include: Sequence[str], bounds: Bounds) -> Candidates:
    """Everything a snapshot of a project may take."""
    found = Candidates()
    root = os.fsencode(project)
    deadline = time.monotonic() + bounds.listing_s
    listing = git.list_folder(project, skipped=rules.SKIPPED_FOLDERS, deadline=time.monotonic() + bounds.seconds, new_deadline=deadline)
    if listing is None:
        if git.has_repository(project):
            why = "git is not installed" if git.binary() is None else "git could not read it"
            found.notes.append(f"the repository's commit is not noted: {why}; source was found by walking the folder")
    else:
        found.git = {"head": listing.head, "branch": listing.branch}
        found.dirty = listing.staged
        _add(found, listing, project, b"", bounds, deadline)
    if listing is None or listing.new is None or not (found.tracked or found.new):
        # No repository, or git takes too long, or the repository ignores all of this project: it is not the one it is in.
        walked = walk.find(root, rules.source_like, bounds)
        found.new += [path for path in walked.paths if path not in found.tracked]
        found.notes += walked.notes
    found.included = _included(root, include, bounds, found.notes)
    return found


def _add(found: Candidates, listing: git.Listing, project: Path, prefix: bytes, bounds: Bounds, deadline: float) -> None:
    """Add one repository's files, and those of the repositories in it."""
    nested: list[tuple[bytes, str | None]] = []
    for entry in listing.index:
        path = prefix + entry.path
        if entry.is_submodule:
            nested.append((path + b"/", entry.id))
        else:
            id_ = entry.id if entry.stage == 0 else ""
            found.tracked[path] = Tracked(id_, entry.left_out, entry.mtime_ns, entry.ctime_ns, entry.size_bytes, listing.index_mtime_ns)
    new = listing.new or []
    environments = tuple(path.removesuffix(b"pyvenv.cfg") for path in new if path.endswith(b"/pyvenv.cfg"))
    for path in new:
        if path.endswith(b"/"):
            nested.append((prefix + path, None))
        elif not path.startswith(environments) and rules.new_source(os.fsdecode(prefix + path)):
            found.new.append(prefix + path)
    for path, commit in nested[:_NESTED_REPOSITORIES]:
        _add_nested(found, project, path, commit, bounds, deadline)
    if len(nested) > _NESTED_REPOSITORIES:
        found.notes.append(f"only the first {_NESTED_REPOSITORIES} of {len(nested)} submodules were looked into")


def _add_nested(found: Candidates, project: Path, path: bytes, commit: str | None, bounds: Bounds, deadline: float) -> None:
    """A submodule (with the commit that the index wants there), or a repository that merely lies inside."""
    folder = Path(os.fsdecode(os.path.join(os.fsencode(project), path)))
    if not os.path.lexists(folder / ".git") or folder.is_symlink() or path.count(b"/") > 32 or time.monotonic() > deadline:
        return  # a submodule that was never checked out
    listing = git.list_folder(folder, skipped=rules.SKIPPED_FOLDERS, deadline=deadline, new_deadline=deadline)
    if listing is None:
        found.notes.append(f"the repository in {os.fsdecode(path)} could not be read by git; its files were left out")
        return
    if commit is not None:
        found.dirty = True if listing.head != commit or listing.staged else found.dirty
    before, new_before = set(found.tracked), len(found.new)
    _add(found, listing, project, path, bounds, deadline)
    if commit is None:  # to the user's repository all of it is new
        tracked = [name for name in found.tracked if name not in before]
        for name in tracked:
            del found.tracked[name]
        names = [name for name in tracked if rules.source_like(os.fsdecode(name))]
        found.new[new_before:] = sorted({*names, *found.new[new_before:]})


def _included(root: bytes, include: Sequence[str], bounds: Bounds, notes: list[str]) -> list[bytes]:
    paths: list[bytes] = []
    for text in include:
        pattern = os.fsencode(text)
        patterns = Patterns.parse([pattern])
        start = literal_folder(pattern)
        if b".." in start.split(b"/"):
            notes.append(f"the include pattern {text!r} was not used: it leads out of the project")
            continue
        walked = walk.find(root, lambda path, p=patterns: p.covers(os.fsencode(path)), bounds, start=start, everything=True)  # type: ignore[misc]
        paths += walked.paths
        notes += walked.notes
    return paths
