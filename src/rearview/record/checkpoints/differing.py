"""Which roots of a state are another thing than a checkpoint holds, by digest: the live state against the manifest.

Whoever replays asks at each boundary that the record kept, whoever resumes once, where a state was put back. Takes no state itself, and
must not know what a difference means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rearview.errors import Damaged
from rearview.record.checkpoints import staging
from rearview.record.checkpoints.boundaries import ITERATION
from rearview.state import bindings, caches, leaves, visible
from rearview.state.capture import Captured
from rearview.state.digests import root_digests
from rearview.state.look import look
from rearview.state.scope import OF_CODE, REMEMBERED, assigned_by_functions
from rearview.state.tree import RootKey, Tree
from rearview.store.manifests import Manifest
from rearview.store.packs import buffer_digest, names_of
from rearview.store.packs.hashing import digest

MOST_NAMED = 20
"""So many differing roots are named; the others are counted."""


def comparable(manifest: Manifest) -> dict[str, Sequence[Any]]:
    """The recorded roots that a state at the same boundary has as well.

    How far a loop had come that was left by break is no state: it goes on no more.
    """
    left = manifest.ending == "break" and manifest.part == ITERATION
    return {root: told for root, told in manifest.roots.items() if not (left and root.startswith("position/"))}


def state_of(tree: Tree, manifest: Manifest) -> leaves.State:
    """A recorded state, to look into."""
    return leaves.State(tree, [bytes.fromhex(buffer.digest) for buffer in manifest.buffers])


def differences(
    captured: Captured, recorded: Mapping[str, Sequence[Any]], state: Callable[[], leaves.State | None] = lambda: None
) -> list[list[Any]]:
    """The roots of a recorded state that are another thing now, with both digests; None for one that is not there.

    Of one in which only plain values differ, those: what they are, and of which kind. `state` gives the recorded one, to look into.
    Only roots that were recorded count: a probe may have brought names of its own, and what they share with the program's is the
    program's. And what functions and classes of the program remember, that remembered nothing: a probe that calls them made it.
    Of a cache that could not be kept only that it was filled is recorded: one that is empty where it was not put back says nothing.
    """
    keys = {"/".join(str(part) for part in key): key for key in captured.tree.roots}
    wanted = [keys[text] for text in recorded if text in keys]
    memory = buffer_digests(captured)
    digests = root_digests(captured.tree, memory, only=wanted)
    more = [key for text, key in keys.items() if key[0] in REMEMBERED and text not in recorded]
    found: list[list[Any]] = [["/".join(map(str, key)), None, "new"] for key in _of_program(more, state)]
    for text, (before, *told) in recorded.items():
        now = digests[keys[text]] if text in keys else None
        if now == before or (now is None and _is_unkept_cache(text, told)):
            continue
        then = state() if now is not None and len(found) < MOST_NAMED else None
        inside = leaves.differing(then, leaves.State(captured.tree, memory), keys[text], str(before), wanted) if then is not None else []
        found += [leaves.row(text, leaf) for leaf in inside] or [[text, str(before), now]]
    return found


def _is_unkept_cache(root: str, told: Sequence[Any]) -> bool:
    return root.startswith(f"{caches.KIND}/") and told[1:2] == [caches.UNKEPT]


def _of_program(keys: Sequence[RootKey], state: Callable[[], leaves.State | None]) -> list[RootKey]:
    """Those of functions and classes that the recorded program had, and variables that these assign; none if its state is gone."""
    then = state() if keys else None
    had = {} if then is None else {key[1]: look(then.tree, key, _NoMemory()) for key in then.tree.roots if key[0] == bindings.KIND}
    assigned = {module: assigned_by_functions(str(module), names) for module, names in had.items()}
    return [key for key in keys if str(key[2]).partition(".")[0] in (had if key[0] in OF_CODE else assigned).get(key[1], ())]


class _NoMemory:
    """What names stand for is in the tree itself."""

    def into(self, index: int, dest: memoryview) -> None:
        raise Damaged(f"the names of a state have no memory, and want buffer {index}")

    def size(self, index: int) -> int:
        raise Damaged(f"the names of a state have no memory, and want buffer {index}")


def buffer_digests(captured: Captured) -> list[bytes]:
    """The digest of each buffer of a state, as a manifest would have it."""
    far = [buffer for buffer in captured.buffers if not buffer.private and buffer.address == 0 and buffer.nbytes]
    copies = dict(zip(map(id, far), staging.copy(far, staging.Arena()).views, strict=True)) if far else {}
    spans = visible.of_buffers(captured.tree)
    digests = []
    for k, buffer in enumerate(captured.buffers):
        view = copies[id(buffer)] if id(buffer) in copies else buffer.memory()
        if k in spans:  # what no tensor shows is no part of the state
            digests.append(digest(view[slice(*spans[k])]))
            continue
        digests.append(bytes.fromhex(buffer_digest(names_of(view))))
    return digests
