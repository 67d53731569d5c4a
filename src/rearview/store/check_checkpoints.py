"""Are the checkpoints whole? Every manifest, every index, every chunk that is referred to; with `deep` every byte of them.

What nobody refers to (a pack that a killed writer left, an index that a killed gc renamed) is a note: gc takes it. Nothing
here unpickles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import RunId
from rearview.store import manifests, objects, sweeping
from rearview.store.findings import Finding, damage, note
from rearview.store.layout import Store
from rearview.store.manifests import Manifest, ManifestName
from rearview.store.packs import damaged
from rearview.store.packs import index as indexes
from rearview.store.packs.hashing import digest
from rearview.store.packs.index import PackIndex

_MARKS = (manifests.THINNED, manifests.PIN)
_WHOLE_ELSEWHERE = "; another pack has it whole, and `rearview gc` removes this copy"


def check_checkpoints(store: Store, *, deep: bool = False) -> Iterator[Finding]:
    """Everything that is wrong with packs and manifests."""
    there: dict[bytes, int] = {}
    """Chunks that a pack holds, with their sizes."""
    wrong: list[tuple[Path, bytes, int]] = []
    """Chunks whose bytes have another hash: in which pack, and where."""
    yield from _packs(store, there, wrong, deep=deep)
    for path, name, offset in wrong:
        words = f"chunk {name.hex()} at offset {offset}: its bytes have another hash"
        yield damage(path, words + _WHOLE_ELSEWHERE * (name in there))
    yield from _strays(store)
    for folder in sorted(store.runs.iterdir()) if store.runs.is_dir() else ():
        if (folder / "checkpoints").is_dir():
            yield from _manifests(store, RunId(folder.name), there)


def _packs(store: Store, there: dict[bytes, int], wrong: list[tuple[Path, bytes, int]], *, deep: bool) -> Iterator[Finding]:
    for suffix in (indexes.INDEX, indexes.CONDEMNED):
        for pack in sorted(sweeping.packs_with(store, suffix)):
            path = indexes.folder_of(store) / (pack + suffix)
            try:
                index = indexes.read(path)
                size = indexes.pack_path(store, pack).stat().st_size
            except FileNotFoundError:
                if path.exists():
                    yield note(path, "is the index of a pack that is not there: gc removes it")
                continue
            except (Damaged, OSError) as problem:
                yield damage(path, str(problem))
                continue
            if size < index.size_bytes:
                yield damage(indexes.pack_path(store, pack), f"has {size} bytes, and {index.size_bytes} were written")
                continue
            if deep:
                yield from _bytes(store, index, wrong, certain=suffix == indexes.INDEX)
            noted = damaged.noted(store, pack)
            there.update((name, length) for name, _, length in index if name not in noted)


def _bytes(store: Store, index: PackIndex, wrong: list[tuple[Path, bytes, int]], *, certain: bool) -> Iterator[Finding]:
    """Chunks whose bytes have another hash. In a condemned pack a hole may be one: gc was killed before it said so."""
    path = indexes.pack_path(store, index.pack)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    names = set()
    try:
        for name, offset, size in index:
            data = os.pread(fd, size, offset)
            if digest(data) != name and (certain or any(data)):
                names.add(name)
                wrong.append((path, name, offset))
    except OSError as problem:
        names = damaged.wrong(store, index)
        yield damage(path, f"cannot be read: {problem.strerror}")
    finally:
        os.close(fd)
    if certain:
        damaged.note(store, index.pack, names)  # also that nothing is wrong any more: the pack was restored


def _strays(store: Store) -> Iterator[Finding]:
    listed = {*sweeping.packs_with(store, indexes.INDEX), *sweeping.packs_with(store, indexes.CONDEMNED)}
    folder = indexes.folder_of(store)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = indexes.named(path.name)
        if name is None:
            yield note(path, "is not named like a pack")
        elif name[1] == indexes.PACK and name[0] not in listed:
            yield note(path, "is a pack without an index: its writer was killed; gc removes it")
        elif name[1] == indexes.DAMAGED and not indexes.pack_path(store, name[0]).exists():
            yield note(path, "tells what is damaged in a pack that is not there: gc removes it")
        elif name[1] == indexes.CONDEMNED:
            yield note(path, "is the index of a pack that gc was looking at: gc was killed, or is at work; the next one settles it")


def _manifests(store: Store, run: RunId, there: dict[bytes, int]) -> Iterator[Finding]:
    folder = manifests.folder_of(store, run)
    thinned = manifests.marked(store, run, manifests.THINNED)
    for path in sorted(folder.iterdir()):
        name = ManifestName.parse(run, path.name)
        if name is not None:
            yield from _manifest(store, name, path, there, thinned=str(name) in thinned)
        elif path.suffix in _MARKS:
            if not path.with_suffix(manifests.SUFFIX).exists():
                yield note(path, "marks a checkpoint that is not there")
        elif not path.name.endswith(".damaged"):
            yield note(path, "is not named like a checkpoint")


def _manifest(store: Store, name: ManifestName, path: Path, there: dict[bytes, int], *, thinned: bool) -> Iterator[Finding]:
    try:
        manifest = manifests.read(store, name)
        if not thinned:
            yield from _needed(store, manifest, path, there)
    except Damaged as problem:
        yield damage(path, str(problem))


def _needed(store: Store, manifest: Manifest, path: Path, there: dict[bytes, int]) -> Iterator[Finding]:
    wrong = [ref for buffer in manifest.buffers for ref in buffer.refs() if there.get(ref.digest) != ref.size]
    if wrong:
        yield damage(path, f"{len(wrong)} chunks of it are in no pack, or damaged there, the first of them {wrong[0].digest.hex()}")
    for key in dict.fromkeys([manifest.tree, *_contents(manifest.files)]):
        if not objects.path_of(store, key).exists():
            yield damage(path, f"refers to the object {key}, which is missing")


def _contents(files: list[Any]) -> Iterator[str]:
    """The objects with the content of output files, wherever in the entry they are named."""
    for entry in files:
        values = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
        yield from (value for value in values if isinstance(value, str) and value.startswith(objects.PREFIX) and len(value) == 37)


def repair_checkpoints(store: Store) -> list[str]:
    """Put back what a killed gc had taken away, and set damaged manifests aside: what is listed can be read then."""
    done = sweeping.recover(store)
    for folder in sorted(store.runs.iterdir()) if store.runs.is_dir() else ():
        for name in manifests.list_of(store, RunId(folder.name)):
            try:
                manifests.read(store, name)
            except Damaged:
                path = manifests.path_of(store, name)
                aside = path.with_name(path.name + ".damaged")
                os.rename(path, aside)
                done.append(f"checkpoint {name} of run {folder.name} is damaged and was set aside as {aside.name}")
    return done
