"""What is still referred to: chunks by manifests, objects by manifests, journals (those of replays too) and `run.json`. Reading only.

Careful on one side: whatever looks like a name counts as a reference, wherever it stands, also in files that are damaged.
A thinned manifest refers to nothing any more; it is mentioned apart, since what it named was certainly finished.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rearview.model import RunId
from rearview.store import manifests, replays
from rearview.store.layout import Store
from rearview.store.manifests import ManifestName

_CHUNK = re.compile(rb'"([0-9a-f]{32})"')
_OBJECT = re.compile(rb"xxh3-[0-9a-f]{32}")


@dataclass(slots=True)
class References:
    """What manifests say of chunks and objects."""

    chunks: set[bytes] = field(default_factory=set)
    """Needed by a checkpoint."""
    objects: set[str] = field(default_factory=set)
    """Needed by a checkpoint."""
    doubtful: set[bytes] = field(default_factory=set)
    """Named by damaged manifests: a neighbour may be needed too, under a name that cannot be read."""
    released: set[bytes] = field(default_factory=set)
    """Named by thinned manifests, or by those that are to be."""


def of_manifests(store: Store, dropped: Collection[ManifestName] = ()) -> References:
    """The references of all manifests, as if those of `dropped` were thinned already."""
    found = References()
    gone = {manifests.path_of(store, name) for name in dropped}
    for folder in _folders(store):
        thinned = manifests.marked(store, RunId(folder.name), manifests.THINNED)
        for path in _files(folder / "checkpoints"):
            if path.suffix != manifests.SUFFIX:
                continue
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            _add(found, data, is_gone=path in gone or path.stem in thinned)
    return found


def _add(found: References, data: bytes, *, is_gone: bool) -> None:
    chunks = {bytes.fromhex(name.decode()) for name in _CHUNK.findall(data)}
    if is_gone:
        found.released |= chunks
        return
    found.chunks |= chunks
    found.objects.update(key.decode() for key in _OBJECT.findall(data))
    if not manifests.is_sound(data):
        found.doubtful |= chunks


def of_run(store: Store, run: RunId) -> set[bytes]:
    """The chunks that the manifests of one run name, thinned ones too."""
    found = References()
    for path in _files(manifests.folder_of(store, run)):
        if path.suffix == manifests.SUFFIX:
            with contextlib.suppress(OSError):
                _add(found, path.read_bytes(), is_gone=True)
    return found.released


def _folders(store: Store) -> list[Path]:
    """Of runs, and of what may yet become one."""
    try:
        return [Path(entry.path) for entry in os.scandir(store.runs) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _files(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def of_records(store: Store, keys: set[str]) -> set[str]:
    """Those of these objects that a run's journals or facts refer to. Reads every journal of the store."""
    found: set[str] = set()
    for folder in (*_folders(store), *replays.folders(store)):
        for path in _files(folder):
            found |= keys & set(_keys(path))
            if found == keys:
                return found
    return found


def _keys(path: Path) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    for match in _OBJECT.finditer(data):
                        yield match[0].decode()
    except FileNotFoundError:
        return
