"""The marks that a program itself sets: `rv.loop`s by their names and those around them, `rv.log`s by what they log, in which loops.

They are what a statement of hindsight is about, and they stay while the code around them is rewritten. Knows rearview's calls. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable

from rearview.instrument.calls import name_given
from rearview.propagate.tree import File, Node

Chain = tuple[str, ...]


class Loops:
    """The marks of one file."""

    def __init__(self, file: File) -> None:
        self._calls = file.calls if file.mentions_rearview else None

    def name(self, node: Node) -> str | None:
        """The name of the `rv.loop` that a `for` runs over, also through `enumerate`, `tqdm` and the like."""
        loop = node.syntax
        if self._calls is None or not isinstance(loop, ast.For | ast.AsyncFor):
            return None
        every = [one for one in ast.walk(loop.iter) if isinstance(one, ast.Call) and self._calls.called(one) == "loop"]
        return name_given(every[0]) if len(every) == 1 else None

    def chain(self, node: Node) -> Chain:
        """The names of the loops that a statement is in, the outermost first; of a loop, its own last."""
        return tuple(name for one in reversed([node, *node.above()]) if (name := self.name(one)) is not None)

    def here(self, node: Node) -> Hashable:
        """What recognises a loop in the function that it is in."""
        name = self.name(node)
        return ("loop", name, node.qualified) if name is not None else None

    def anywhere(self, node: Node) -> Hashable:
        """What recognises a loop wherever it stands."""
        return ("loop", self.chain(node)) if self.name(node) is not None else None

    def log(self, node: Node) -> Hashable:
        """What recognises a statement that logs a name, in its loops."""
        name = self.logged(node) if not node.nothing else None
        return ("log", name, self.chain(node)) if name is not None else None

    def logged(self, node: Node) -> str | None:
        """The name that a statement does nothing but log."""
        call = node.syntax.value if isinstance(node.syntax, ast.Expr) else None
        if self._calls is None or not isinstance(call, ast.Call) or self._calls.called(call) != "log":
            return None
        return name_given(call)
