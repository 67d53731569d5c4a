"""A recorded version with statements added in hindsight: a commit of its own in `code.git`, whose parent is the recorded one.

It is source that no run of the user's executed: it has a ref of another kind, so that versions are listed and found by the beginning of
their ids without it, while everything that reads a version by its whole id reads it like any other. The same recorded version with the
same files has the same id. Must not know what was added, or why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from rearview.errors import UsageError, VersionError
from rearview.model import VersionId
from rearview.store import atomic
from rearview.store.layout import Store
from rearview.versions import objects
from rearview.versions.repository import Repository

KIND = "probed"


def derive(store: Store, version: VersionId, files: Mapping[str, bytes]) -> VersionId:
    """The version in which some files have other bytes, or are new. With nothing changed it is the recorded version itself."""
    recorded = version.removeprefix("v")
    if not version.startswith("v") or not objects.is_id(recorded):
        raise UsageError(f"{version!r} is not a whole version id: v and 40 hexadecimal digits")
    with Repository(store) as repository:
        entries = repository.entries(recorded)
        try:
            changed = {os.fsencode(path): _entry(repository, entries, path, data) for path, data in sorted(files.items())}
            if all(entries.get(path) == entry for path, entry in changed.items()):
                return version
            tree = objects.fold({**entries, **changed}, repository.put)
            commit = repository.put("commit", _commit(tree, recorded))
            repository.anchor(commit, KIND)
            for written in repository.written:
                atomic.sync_file(written)
        except OSError as problem:
            why = problem.strerror or problem
            advice = "free space there or make it writable"
            raise VersionError(f"the probed source could not be kept in {store.code}: {why}; {advice}") from problem
    return VersionId("v" + commit)


def _entry(repository: Repository, entries: Mapping[bytes, objects.Entry], path: str, data: bytes) -> objects.Entry:
    name = os.fsencode(path)
    above = [name[:at] for at, sign in enumerate(name) if sign == ord("/")]
    if not objects.safe_path(name) or any(folder in entries for folder in above) or any(one.startswith(name + b"/") for one in entries):
        raise VersionError(f"a version cannot have a file of the path {path!r}: rename it")
    before = entries.get(name)
    mode = objects.FILE if before is None or before.mode == objects.LINK else before.mode
    return objects.Entry(mode, repository.put("blob", data))


def _commit(tree: str, parent: str) -> bytes:
    """Like the commit of a version, after its parent."""
    head, _, rest = objects.commit_data(tree).partition(b"\n")
    return b"%s\nparent %s\n%s" % (head, parent.encode(), rest.replace(b"source as it ran", b"source as it ran, and statements added"))
