"""What changed from version to version: which files, how many lines.

Knows that equal ids mean equal bytes: a folder or file that did not change is not read. Must not know runs, or which version comes
before which.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rearview.errors import Damaged
from rearview.model import VersionId
from rearview.store.layout import Store
from rearview.versions import objects, read
from rearview.versions.repository import Repository

_Tree = dict[bytes, tuple[int, str]]
"""Name -> mode and id."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What it takes to come from one version to another."""

    files: tuple[str, ...] = ()
    """The paths that came, went, or have other bytes or another mode, in order."""
    added: int = 0
    removed: int = 0
    """Lines, as `rearview diff` shows them; files that are no text have none."""
    problem: str = ""
    """Why it cannot be told: an object is missing or damaged."""


def changes(store: Store, pairs: Iterable[tuple[VersionId, VersionId]]) -> list[Changes]:
    """The changes from the first version of each pair to the second."""
    with Repository(store) as repository:
        comparing = _Comparing(repository)
        return [comparing.of(before, after) for before, after in pairs]


class _Comparing:
    """One look at the repository; trees are read once."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._trees: dict[str, _Tree] = {}

    def of(self, before: VersionId, after: VersionId) -> Changes:
        try:
            differing = list(self._differing(b"", self._root(before), self._root(after)))
            counts = [self._lines(old, new) for _, old, new in differing]
        except Damaged as problem:
            return Changes(problem=str(problem))
        paths = tuple(sorted(os.fsdecode(path) for path, _, _ in differing))
        return Changes(paths, sum(added for added, _ in counts), sum(removed for _, removed in counts))

    def _root(self, version: VersionId) -> str:
        try:
            return objects.parse_commit(self._repository.get(version.removeprefix("v"), "commit"))
        except ValueError as problem:
            raise Damaged(f"version {version} is not as it was written ({problem}): restore it from a copy of the store") from problem

    def _tree(self, id_: str) -> _Tree:
        if id_ not in self._trees:
            try:
                self._trees[id_] = {name: (mode, entry) for name, mode, entry in objects.parse_tree(self._repository.get(id_, "tree"))}
            except ValueError as problem:
                raise Damaged(f"the folder {id_} is not as it was written ({problem}): restore it from a copy of the store") from problem
        return self._trees[id_]

    def _differing(self, folder: bytes, old: str | None, new: str | None) -> Iterator[tuple[bytes, str | None, str | None]]:
        """Path, blob before and blob after of every file that differs; a tree that is the same is not entered."""
        if old == new:
            return
        before, after = self._tree(old) if old else {}, self._tree(new) if new else {}
        for name in {*before, *after}:
            was, is_ = before.get(name), after.get(name)
            if was == is_:
                continue
            folders = [one[1] if one is not None and one[0] == objects.FOLDER else None for one in (was, is_)]
            if any(folders):
                yield from self._differing(folder + name + b"/", *folders)
            files = [one[1] if one is not None and one[0] != objects.FOLDER else None for one in (was, is_)]
            if any(files):
                yield folder + name, files[0], files[1]

    def _lines(self, old: str | None, new: str | None) -> tuple[int, int]:
        if old == new:
            return 0, 0  # only its mode
        before, after = (self._repository.get(id_, "blob") if id_ else b"" for id_ in (old, new))
        return read.line_counts(before, after)
