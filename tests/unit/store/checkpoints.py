"""Stores with checkpoints in them, without a training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rearview.model import ProcessNumber, RunId
from rearview.store import direct, layout, manifests, objects, packs, runs
from rearview.store.layout import Store
from rearview.store.manifests import Buffer, Manifest, ManifestName

RUN = RunId("r0123456789ab")


def new_store(folder: Path, run: RunId = RUN) -> Store:
    store = layout.create(folder / layout.FOLDER)
    runs.write_run(store, run, {"argv": []})
    return store


def staged(*buffers: bytes) -> list[memoryview]:
    """Copies in page-aligned memory, each at a page, as a recording stages them."""
    memory = memoryview(direct.aligned_memory(sum(direct.up(len(data)) for data in buffers)))
    views, at = [], 0
    for data in buffers:
        views.append(memory[at : at + len(data)])
        views[-1][:] = data
        at += direct.up(len(data))
    return views


def save(
    store: Store,
    number: int,
    buffers: Mapping[str, bytes],
    *,
    run: RunId = RUN,
    process: str = "0",
    part: str = "iteration",
    known: packs.Known | None = None,
    pack_bytes: int = 1 << 22,
    rank: int = 0,
    world: int = 1,
    constant: bool = False,
    loop: str = "epoch",
    occurrence: int = 0,
    missing: Sequence[list[str]] = (),
) -> ManifestName:
    """One whole checkpoint, committed the way a recording does it."""
    views = staged(*buffers.values())
    with packs.Packer(store, known or packs.Known(store), pack_bytes) as packer:
        names = [packer.add(view, constant) for view in views]
        packer.finish()
        tree = json.dumps([run, number, part, sorted(buffers)]).encode()
        manifest = Manifest(
            run=run, process=ProcessNumber(process), attempt=1, number=number, part=part, path=[[loop, occurrence, number, number]],
            tree=objects.put(store, tree, durable=True), tree_bytes=len(tree), rank=rank, world=world, missing=list(missing),
            buffers=tuple(
                Buffer.of(len(data), found, constant, where) for (where, data), found in zip(buffers.items(), names, strict=True)
            ),
        )  # fmt: skip
        manifests.write(store, manifest)
    return manifest.name


def load(store: Store, name: ManifestName) -> dict[str, bytes]:
    """The buffers of a checkpoint as they come back."""
    known = packs.Known(store)
    manifest = manifests.read(store, name)
    assert len(objects.get(store, manifest.tree)) == manifest.tree_bytes
    return {one.where: packs.read_buffer(store, known, one.refs()) for one in manifest.buffers}
