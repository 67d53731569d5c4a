"""What the current journal part has defined: names and blocks, each before it is referred to. Makes bodies, writes nothing."""

from __future__ import annotations

from rearview.record.loops import Node
from rearview.store import frames
from rearview.store.encoding import encode


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
            known = self._names[name] = len(self._names)
            bodies.append(frames.NAME_HEAD.pack(frames.NAME, known) + name.encode("utf-8", "surrogatepass"))
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
            self.value(node, bodies)

    def value(self, node: Node, bodies: list[bytes]) -> None:
        """What the current iteration of a block is called."""
        bodies.append(frames.VALUE_HEAD.pack(frames.VALUE, node.block_id, node.iteration) + encode(node.value))

    def end(self, node: Node, begun: int, ending: int, at_us: int, bodies: list[bytes]) -> None:
        """How a block ended."""
        if node.part is not self.part:
            self.block(node, bodies)
        bodies.append(frames.LEAVE_HEAD.pack(frames.LEAVE, node.block_id, begun, ending, at_us))
