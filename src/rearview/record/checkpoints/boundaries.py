"""Where in the loops a state is taken, in the words of a manifest: the path, what was counted on the way, how a block ended. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rearview.record.dropped import BREAK, EXHAUSTED
from rearview.record.loops import Node

INSIDE, BLOCK, ITERATION = "inside", "block", "iteration"
_ENDINGS = {EXHAUSTED: "exhausted", BREAK: "break"}


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place between two steps of the program."""

    part: str
    path: list[list[Any]]
    """From the outermost loop inwards: name, occurrence, iteration that ended, what that is called."""
    loops: list[dict[str, Any]]
    """For the run itself and each of them: records counted and loops entered in its iteration."""
    ending: str | None = None
    outside: int = 0
    """How many of the loops are around `checkpointing`."""
    current: tuple[Node, int] | None = None
    """The iteration of the main loop."""
    compute_s: float = 0.0
    function: str = ""
    """The one that `checkpointing` stands in."""
    inexact: list[str] = field(default_factory=list)
    """What a position cannot bring back."""
    beside: list[list[str]] = field(default_factory=list)
    """Work that would be started again on the way here (`at_work`), or that is not done yet (`under_way`), as rows of a manifest."""
    rebound: Callable[[], frozenset[str]] = frozenset
    """Tells the variables whose values are of no further use here: they get others before anything reads them. Reads source."""


def chain(node: Node) -> list[Node]:
    """From the run itself inwards to a loop."""
    nodes = [node]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes[::-1]


def of(part: str, node: Node, followed: int, *, ending: int | None = None, compute_s: float = 0.0, function: str = "") -> Boundary:
    """The boundary that a loop has come to; the innermost `followed` loops are inside `checkpointing`."""
    nodes = chain(node)
    main = nodes[len(nodes) - followed]
    return Boundary(
        part,
        [[one.name, one.occurrence, one.iteration, called(one)] for one in nodes[1:]],
        [counted(one) for one in nodes],
        None if ending is None else _ENDINGS.get(ending),
        len(nodes) - 1 - followed,
        (main, main.iteration),
        compute_s,
        function,
    )


def ending_of(text: str | None) -> int | None:
    """How a loop ended, from the words of a manifest."""
    return next((ending for ending, known in _ENDINGS.items() if known == text), None)


def of_skip_block(name: str, occurrence: int, around: Node) -> Boundary:
    """The end of a block that is no loop: it stands in the path like one of a single iteration."""
    nodes = chain(around)
    path = [[one.name, one.occurrence, one.iteration, called(one)] for one in nodes[1:]]
    levels = [*(counted(one) for one in nodes), {"counts": {}, "entered": {}}]
    return Boundary(BLOCK, [*path, [name, occurrence, 0, None]], levels, "exhausted", len(path))


def counted(node: Node) -> dict[str, Any]:
    """What was counted in the iteration of a loop."""
    return {"counts": dict(node.counts), "entered": dict(node.entered)}


def called(node: Node) -> object:
    """What an iteration is called, as plain JSON."""
    if node.affine is not None:
        return node.affine[0] + node.iteration * node.affine[1]
    value = node.value
    if isinstance(value, float) and not -1e300 < value < 1e300:
        return repr(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def place(node: Node, ahead: int) -> list[tuple[str, int, int]]:
    """An iteration of a loop, in words that every rank has alike."""
    return [(one.name, one.occurrence, one.iteration + (ahead if one is node else 0)) for one in chain(node)[1:]]
