"""Generators of NumPy that nobody seeded: what they drew from the system when they were made is in the first state that was kept.

A run that begins again gets the same, in the order in which the variables were found. A generator that was gone by then, or never in a
variable, shifts that order: then the replay diverges, as it would without. Must not know how states are compared.
"""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

from rearview.errors import Damaged, NotFound
from rearview.model import RunId
from rearview.state.put import unkept
from rearview.state.tree import Tree, decode
from rearview.store import manifests, objects
from rearview.store.layout import Store

_DRAWN = 2**64
"""128 bits are drawn from the system; what a program gives as a seed is smaller."""
_TRIED = 5


def kept(store: Store, run: RunId, process: str = "0") -> list[int]:
    """What the generators of a run were made from, as far as its first state has them."""
    members = [one for group in manifests.grouped(store, run) for one in group.members if str(one.process) == process]
    for manifest in sorted(members, key=lambda one: one.name.order)[:_TRIED]:
        try:
            return drawn(decode(objects.get(store, manifest.tree)))
        except (Damaged, NotFound):
            continue  # its bytes are gone; the next one has mostly the same
    return []


def drawn(tree: Tree) -> list[int]:
    """The entropy of each generator in a state that has it from the system; those that were spawned share theirs."""
    found = (tree.nodes[payload[1]] for kind, payload in tree.nodes if kind == "npseed")
    return list(dict.fromkeys(value for kind, value in found if kind in ("int", "bigint") and value >= _DRAWN))


def give(known: list[int]) -> None:
    """From now on, what is made without a seed is made from these; not by statements that were added in hindsight."""
    if not known:
        return
    try:
        bits: Any = importlib.import_module("numpy.random.bit_generator")
        of_the_system = bits.randbits
    except (ImportError, AttributeError):
        return  # said as a difference of the environment
    waiting = deque(known)

    def randbits(size: int) -> int:
        mine = waiting and not unkept.strict and waiting[0].bit_length() <= size
        return waiting.popleft() if mine else int(of_the_system(size))

    bits.randbits = randbits
