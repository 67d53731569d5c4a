"""Checkpoints written through the store's own packs and manifests, without a training process around them.

For tests and benchmarks of readers: `keep` puts named bytes, `keep_state` captures live objects as a recording does.

>>> import tempfile
>>> from pathlib import Path
>>> from rearview.testing.stores import StoreBuilder
>>> with tempfile.TemporaryDirectory() as folder:
...     run = StoreBuilder(Path(folder)).run()
...     manifest = keep(run, 0, epoch(1), {"w": b"weights"})
...     str(manifest.name), manifest.size_bytes > 7
('0-a1-000000-iteration', True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rearview.model import ProcessNumber
from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.tree import encode
from rearview.store import manifests, objects, packs
from rearview.store.manifests import Buffer, Manifest
from rearview.testing.stores import RunBuilder


def epoch(number: int, called: object = None, *inner: Sequence[Any]) -> list[list[Any]]:
    """A path of the loop `epoch`: its iteration, what that is called (its number plus one unless told), loops inside."""
    return [["epoch", 0, number, number + 1 if called is None else called], *(list(element) for element in inner)]


def keep(
    run: RunBuilder, number: int, path: list[list[Any]], content: Mapping[str, bytes], *, part: str = "iteration", process: str = "0",
    attempt: int = 1, at_s: float | None = None, tree: bytes = b"", **facts: Any,
) -> Manifest:  # fmt: skip
    """A checkpoint whose buffers are these bytes; `at_s` after the run began, a minute for each number unless told."""
    store = run.store
    after_s = 60.0 * (number + 1) if at_s is None else at_s
    with packs.Packer(store, packs.Known(store)) as packer:
        memory = [bytearray(data) for data in content.values()]
        names = [packer.add(memoryview(data)) for data in memory]
        written = packer.finish()
        tree = tree or f"state {run.run} {process} {attempt} {number} {part}".encode()
        buffers = tuple(Buffer.of(len(data), theirs, where=where) for (where, data), theirs in zip(content.items(), names, strict=True))
        stats = {"stall_s": 0.01, "background_s": 0.1, "background_cpu_s": 0.05, "new_bytes": written.new_bytes}
        roots = {f"given.{where}": [objects.key_of(data), len(data), "bytes"] for where, data in content.items()}
        known: dict[str, Any] = {
            "tree": objects.put(store, tree), "tree_bytes": len(tree), "buffers": buffers, "taken_at": round(after_s * 1e6),
            "wall": run.begun.timestamp() + after_s, "roots": roots, **facts, "stats": {**stats, **facts.get("stats", {})},
        }  # fmt: skip
        manifest = Manifest(run=run.run, process=ProcessNumber(process), attempt=attempt, number=number, part=part, path=path, **known)
        manifests.write(store, manifest)
    return manifest


def keep_state(run: RunBuilder, number: int, path: list[list[Any]], roots: Mapping[tuple[Any, ...], object], **facts: Any) -> Manifest:
    """A checkpoint of live objects, captured as a recording would: `keep_state(run, 0, epoch(0), {("given", "net"): net})`."""
    taken = capture(roots)
    content = {buffer.where or f"buffer {k}": bytes(buffer.memory()) for k, buffer in enumerate(taken.buffers)}
    digests = [bytes.fromhex(packs.buffer_digest(packs.names_of(data))) for data in content.values()]
    sizes = taken.sizes()
    known = {
        "/".join(map(str, key)): [digest, sizes.get(key, 0), taken.tree.nodes[taken.tree.roots[key]][0]]
        for key, digest in root_digests(taken.tree, digests).items()
    }
    missing = [[lack.where, lack.type_name, lack.why] for lack in taken.missing]
    facts = {"roots": known, "missing": missing, "pickled": taken.pickled, "complete": not missing, **facts}
    return keep(run, number, path, content, tree=encode(taken.tree), **facts)
