"""Iterators that a program holds in variables and draws from, where the stored states cannot say where they stand. Pure: manifests in.

The digest of such a variable changes with each item that is drawn: a state lacks something only if the run drew from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rearview.plan.timeline import BLOCK, ITERATION
from rearview.store.manifests import Checkpoint, Manifest

POSITION = "position"
"""The kind of what is missing, in a manifest, where a position is not exact."""
_HELD = "adapted"
"""The kind of a variable that holds an iterator."""


def unplaced(groups: Sequence[Checkpoint]) -> dict[str, tuple[str, ...]]:
    """Manifest -> the variables whose iterators it cannot bring to where they stood, of those that the run drew from.

    The last state has none: it is where the run goes on to its end.
    """
    states = [group.members[0] for group in groups if group.part in (BLOCK, ITERATION)]
    seen: dict[str, set[str]] = {}
    for one in states:
        for name, digest in _held(one).items():
            seen.setdefault(name, set()).add(digest)
    drawn = {name for name, digests in seen.items() if len(digests) > 1}
    inexact = [one for one in states[:-1] if any(row[1] == POSITION for row in one.missing)]
    return {str(one.name): tuple(sorted(drawn & _held(one).keys())) for one in inexact}


def _held(manifest: Manifest) -> dict[str, str]:
    """The variables of a state that hold an iterator, with their digests."""
    return {root.rsplit("/", 1)[-1]: str(told[0]) for root, told in manifest.roots.items() if len(told) > 2 and told[2] == _HELD}
