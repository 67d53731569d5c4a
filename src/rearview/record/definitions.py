"""What the current journal part has defined: names and blocks, each before it is referred to. Makes bodies, writes nothing.

A part must be readable alone, and which part a frame goes to is only known when it is written. So what waits for the next
write is kept as what happened, never as bytes that refer to a part.
"""

from __future__ import annotations

from typing import NamedTuple

from rearview.record.loops import Node
from rearview.store import frames
from rearview.store.encoding import encode


class Left(NamedTuple):
    """A block ended."""

    node: Node
    begun: int
    ending: int
    at_us: int


class Named(NamedTuple):
    """An iteration got its name after something was recorded in it."""

    node: Node
    iteration: int
    value: object


Waiting = bytes | Left | Named
"""To go out with the next write; bytes are facts, which refer to nothing."""


class Definitions:
    """The names and blocks of one part. A block knows by its `part` whether this part has it."""

    def __init__(self) -> None:
        self.part: object = object()
        self._names: dict[str, int] = {}

    def begin_part(self, root: Node) -> None:
        """A new part knows nothing but the run itself."""
        self.part = object()
        self._names = {}
        root.part = self.part
        root.heads = {}

    def place(self, node: Node, name: str, bodies: list[bytes]) -> int:
        """What a record needs before it; the id of its name."""
        if node.part is not self.part or node.unnamed:
            self.block(node, bodies)
        return self.name(name, bodies)

    def name(self, name: str, bodies: list[bytes]) -> int:
        """The id of a name, defined if it is new."""
        known = self._names.get(name)
        if known is None:
            text = name.encode("utf-8", "surrogatepass")  # before it counts as known: a name may turn out to be no text
            known = self._names[name] = len(self._names)
            bodies.append(frames.NAME_HEAD.pack(frames.NAME, known) + text)
        return known

    def block(self, node: Node, bodies: list[bytes]) -> None:
        """A block, after those around it, and what its iteration is called."""
        if node.parent is None:
            node.part = self.part
            return
        if node.parent.part is not self.part or node.parent.unnamed:
            self.block(node.parent, bodies)
        if node.part is not self.part:
            name_id = self.name(node.name, bodies)
            first, step = node.affine or (0, 0)
            facts = (node.block_id, node.parent.block_id, node.parent_iteration, name_id, node.occurrence)
            bodies.append(frames.BLOCK_HEAD.pack(frames.BLOCK, *facts, node.affine is not None, first, step))
            node.part = self.part
            node.heads = {}
            node.unnamed = node.value is not None
        if node.unnamed:
            node.unnamed = False
            bodies.append(_value(node, node.iteration, node.value))

    def waiting(self, items: list[Waiting]) -> list[bytes]:
        """What waited, as bodies for this part."""
        bodies: list[bytes] = []
        for item in items:
            if isinstance(item, bytes):
                bodies.append(item)
                continue
            if item.node.part is not self.part:
                self.block(item.node, bodies)
            if isinstance(item, Named):
                bodies.append(_value(*item))
            else:
                bodies.append(frames.LEAVE_HEAD.pack(frames.LEAVE, item.node.block_id, item.begun, item.ending, item.at_us))
        return bodies


def _value(node: Node, iteration: int, value: object) -> bytes:
    return frames.VALUE_HEAD.pack(frames.VALUE, node.block_id, iteration) + encode(value)
