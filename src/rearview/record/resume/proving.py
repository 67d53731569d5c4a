"""The net under a resume: the state is taken once more where it was put back, and has to have the digests that its checkpoint has.

Says which variables are another thing. What the checkpoint itself names as not held, or as coming back otherwise, was
said before and is not said again. Nothing of the program is changed or drawn from, as when a checkpoint is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.record.checkpoints import differing
from rearview.record.checkpoints.scope import Roots
from rearview.record.resume.kept import NOW, Kept
from rearview.record.trouble import is_the_programs
from rearview.state import positions, streams
from rearview.state.apart import Apart, Told
from rearview.state.capture import capture
from rearview.state.leaves import State
from rearview.state.places import root_text
from rearview.state.tree import RootKey
from rearview.store.manifests import Manifest

_POSITION = "position"
_OURS = (_POSITION, "stream", "item")
"""Kinds of roots that are no variables."""
_MOST_SAID = 5
"""So many variables are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it."""

    sentences: list[str]
    """What is to be said: nothing, or one sentence."""
    refused: str = ""
    """Why the state must not be gone on with: something that was put back does not hold what it held. Nothing, where it is as it was, or
    differs only in who else holds it."""


def prove(kept: Kept, roots: Callable[[], Roots]) -> Proof:
    """Compare a state that was put back; `roots` gives it as it is now."""
    manifest = kept.manifest
    try:
        now = roots()
        names, shared = differing_names(kept, now) if now else ([], set())
    except Exception as problem:
        if is_the_programs(problem):
            raise
        why = f"{type(problem).__name__}: {problem}"
        said = f"what was put back could not be compared with checkpoint {manifest.name}, please report this: {why}; the training goes on"
        return Proof([said])
    if not names:
        return Proof([])
    others = f"`rearview resume {manifest.run} --at PLACE`, with a place from `rearview checkpoints {manifest.run}`"
    are = "is" if len(names) == 1 else "are"
    fact = f"{_listed(names)} {are} not what checkpoint {manifest.name} holds, after that was put back"
    said = (
        f"{fact}: what follows may differ from the uninterrupted run; an earlier state may come back exactly: {others}; please report this"
    )
    return Proof([said], "" if shared.issuperset(names) else f"{fact}; please report this")


def differing_names(kept: Kept, roots: Roots) -> tuple[list[str], set[str]]:
    """The variables of a state that are not what a checkpoint holds, as a person would write them; which of them hold the same, and differ
    in who else holds it.

    Those that are there now and were not then are none of them, but what functions remember: a program may bind names as it likes.
    """
    manifest, tree = kept.manifest, kept.tree
    roots[NOW] = streams.take()
    captured = capture(roots, adapters=[positions.Iterators()])
    rows = differing.differences(captured, differing.comparable(manifest), lambda: differing.state_of(tree, manifest))
    if not rows:
        return [], set()
    every = {"/".join(map(str, key)): key for key in (*captured.tree.roots, *tree.roots)}
    keys = list(dict.fromkeys(_key_of(str(row[0]), every) for row in rows))
    then, now = State(tree, kept.seen_digests()), State(captured.tree, differing.buffer_digests(captured))
    apart = Apart(then, now, _told_by(manifest))
    others = [key for key in keys if apart.is_other(key)]  # what several lead to belongs to the first: the rest may only share it
    found: dict[str, None] = {}
    for key in others or keys:
        called = _called(key, manifest)
        places = apart.places(key, called)
        found.update(dict.fromkeys([called] if places and key[0] in _OURS else places))  # how we write them down is nobody's business
    return list(found), apart.shared


def _told_by(manifest: Manifest) -> Told:
    """What a checkpoint names itself as not held, or as coming back otherwise. Of an iterator it names the loop, and not who holds it."""
    rows = [*manifest.missing, *manifest.unlike]
    places = {where for where, kind, *_ in rows if kind != _POSITION}
    iterators = any(kind == _POSITION for _, kind, *_ in rows)
    for level in range(len(manifest.path) - _outside(manifest)):
        called = _called((_POSITION, level), manifest)
        # What an iterable held when its loop began is known again only as far as it had changed by the checkpoint.
        places.add(called if iterators else f"{called}['values']")

    def is_told(path: str, kind: str) -> bool:
        inside = (path == where or path.startswith((f"{where}.", f"{where}[")) for where in places)
        return (iterators and kind == "adapted") or any(inside)

    return is_told


def _key_of(text: str, keys: dict[str, RootKey]) -> RootKey:
    """The root that a row is about: what follows its name is the way to a value in it."""
    return keys[max((one for one in keys if text.startswith(one)), key=len)]


def _called(key: RootKey, manifest: Manifest) -> str:
    if key[0] == _POSITION:
        return f"the position of loop {manifest.path[_outside(manifest) + int(key[1])][0]!r}"
    if key[0] == "stream":
        return "the random streams" if key == NOW else "the random streams that the iteration began with"
    return "what the iteration is about" if key[0] == "item" else root_text(key)


def _outside(manifest: Manifest) -> int:
    return int(manifest.stats.get("outside", 0))


def _listed(names: Sequence[Any]) -> str:
    shown = list(names[:_MOST_SAID])
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
