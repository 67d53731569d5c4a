"""Where the program is: loops entered, iterations counted, loops left. Knows nothing of files.

A loop is entered when it is first advanced and left when it is exhausted, dropped (break, return, exception: the
interpreter lets go of the iterator at once), when the loop around it advances, or when the frame that made it has
returned. The user's iterator is never drained and nothing of what it yields is kept.
"""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, Protocol

from rearview.record.dropped import EXCEPTION, EXHAUSTED, LEFT, RETURN, how_dropped

_LONGEST_NAME = 200
_NAMERS: dict[type, Callable[[Any], object] | None] = {
    kind: (lambda value: value) for kind in (bool, int, float, str, dt.date, dt.datetime)
}
"""How a value of a type names its iteration; None for types that do not. Filled as types are met."""


def _namer(kind: type) -> Callable[[Any], object] | None:
    numpy = sys.modules.get("numpy")
    namer = _NAMERS[kind] = (lambda value: value.item()) if numpy is not None and issubclass(kind, numpy.number) else None
    return namer


_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Owner(Protocol):
    """The recorder, as far as loops know it."""

    def block_left(self, node: Node, ending: int) -> None:
        """A block ended."""

    def next_block_id(self) -> int:
        """A number for a block."""

    def value_known(self, node: Node) -> None:
        """A record was kept while the iteration's value was still being fetched."""

    @property
    def guard(self) -> Guard | None:
        """Who looks after the state of the program in its loops, if anybody does."""


class Guard(Protocol):
    """Follows loops at their boundaries: takes checkpoints there, or brings a resumed program to where it was."""

    def iterator(self, loop: LoopIterator, source: Any) -> Iterator[Any]:
        """What the loop iterates over is about to be asked for an iterator."""

    def entered(self, loop: LoopIterator, node: Node) -> None:
        """The loop is at its first iteration, which has not begun."""

    def advancing(self, loop: LoopIterator, node: Node) -> None:
        """An iteration has ended; the next has not begun."""

    def yielded(self, loop: LoopIterator, item: Any) -> None:
        """The loop gives the program its next item."""

    def left(self, loop: LoopIterator, node: Node, ending: int) -> None:
        """The loop was exhausted or dropped."""


class Node:
    """One execution of a loop: a block, and where it is."""

    __slots__ = (
        "affine", "block_id", "counts", "entered", "frame_key", "heads", "iteration", "name", "occurrence",
        "open", "owner", "parent", "parent_iteration", "part", "sure", "unnamed", "value",
    )  # fmt: skip

    def __init__(self, owner: Owner, parent: Node | None, name: str, affine: tuple[int, int] | None) -> None:
        self.owner = owner
        self.parent = parent
        self.name = name
        self.affine = affine
        self.iteration = -1 if parent else 0
        self.value: object = None
        """What the iteration is called, if that is a scalar; never anything larger of the user's."""
        self.unnamed = False
        """The iteration has a value that the journal does not know yet."""
        self.counts: dict[str, int] = {}
        """Records of each name directly in this iteration."""
        self.entered: dict[str, int] = {}
        """Loops of each name entered in this iteration."""
        self.heads: dict[str, bytes] = {}
        """What the recorder packs alike for every record of a name in this block."""
        self.part: object = None
        """The journal part that defines this block."""
        self.frame_key: tuple[int, CodeType] | None = None
        self.open = True
        self.sure = True
        """Open, and sure to be so without a look at the frames."""
        self.block_id = 0
        self.occurrence = 0
        self.parent_iteration = 0
        if parent is not None:
            self.block_id = owner.next_block_id()
            self.occurrence = parent.entered.get(name, 0)
            parent.entered[name] = self.occurrence + 1
            self.parent_iteration = parent.iteration

    def fresh(self) -> None:
        """Begin counting anew, as for a new iteration or in a forked child."""
        self.counts.clear()
        self.entered.clear()


current: ContextVar[Node | None] = ContextVar("rearview_loop", default=None)
"""The innermost open loop of this thread or task."""


def here(owner: Owner, root: Node) -> Node:
    """The innermost loop that the program is in; the root if there is none."""
    node = current.get()
    if node is None or node.owner is not owner:
        return root
    while node is not root and (not node.open or (node.frame_key is not None and not _running(node.frame_key))):
        if node.open:
            leave(node, RETURN)
        assert node.parent is not None
        node = node.parent
    current.set(node)
    return node


def count_anew(owner: Owner, root: Node) -> None:
    """In a forked child: records and loops are counted from here."""
    node = current.get()
    while node is not None and node.owner is owner:
        node.fresh()
        node = node.parent
    root.fresh()


def leave(node: Node, ending: int) -> None:
    """Leave a block and every block inside it."""
    top = current.get()
    if top is not None and top.owner is node.owner:
        inner: Node | None = top
        while inner is not None and inner is not node:
            inner = inner.parent
        if inner is node:  # what is on top of it was entered inside it
            inner = top
            while inner is not node and inner is not None:
                _close(inner, LEFT)
                inner = inner.parent
            current.set(node.parent)
    _close(node, ending)


def _of_another_run(owner: Owner) -> bool:
    top = current.get()
    return top is not None and top.owner is not owner


def _close(node: Node, ending: int) -> None:
    if node.open:
        node.open = node.sure = False
        node.owner.block_left(node, ending)


def _running(key: tuple[int, CodeType]) -> bool:
    """Whether a frame is still among the callers of this one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame) == key[0] and frame.f_code is key[1]:
            return True
        frame = frame.f_back
    return False


def affine_of(iterable: object) -> tuple[int, int] | None:
    """(first, step) if iteration k is called first + k * step whatever happens."""
    if type(iterable) is range and -(2**62) < iterable.start < 2**62 and -(2**31) < iterable.step < 2**31:
        return iterable.start, iterable.step
    return None


class LoopIterator:
    """One pass through a loop."""

    __slots__ = (
        "__weakref__", "_affine", "_begun", "_frame_key", "_guard", "_name", "_next", "_node", "_owner", "_root", "has_else", "in_for",
    )  # fmt: skip

    def __init__(self, loop: Loop) -> None:
        self._node: Node | None = None
        self._owner = loop.owner
        self._root = loop.root
        self._name = loop.name
        self._frame_key = loop.frame_key
        self._begun = 0
        self.in_for, self.has_else = loop.in_for, loop.has_else
        source = loop.iterable
        self._affine = (0, 1) if source is None else affine_of(source)
        self._guard = loop.owner.guard
        items = itertools.count() if source is None else source
        self._next: Callable[[], Any] = (iter(items) if self._guard is None else self._guard.iterator(self, items)).__next__

    @property
    def name(self) -> str:
        """The loop's name."""
        return self._name

    def is_at(self, node: Node) -> bool:
        """Whether this is the loop of a node."""
        return self._node is node

    def go_to(self, iteration: int, items: Iterator[Any]) -> None:
        """Begin at an iteration, with what yields from there on: a resumed program was here before."""
        node = self._node
        assert node is None or node.iteration < self._begun, "only before the first iteration"
        self._begun = iteration
        self._next = items.__next__
        if node is not None:
            node.iteration = iteration - 1

    def go_back(self, items: Iterator[Any]) -> None:
        """Begin the iteration that just ended once more, with what yields from its item on."""
        assert self._node is not None
        self._next = items.__next__
        self._node.iteration -= 1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        node = before = self._node
        if node is None or current.get() is not node or not node.open:
            held = sys.getrefcount(self) > _FOR_REFERENCES
            node = self._arrive(held)
        if self._guard is not None:
            if node is before:
                self._guard.advancing(self, node)
            else:
                self._guard.entered(self, node)
        node.iteration += 1
        if node.counts or node.entered:
            node.fresh()
        node.value = None
        node.unnamed = False
        try:
            value = self._next()
        except StopIteration:
            node.iteration -= 1
            leave(node, EXHAUSTED)
            if self._guard is not None:
                self._guard.left(self, node, EXHAUSTED)
            raise
        except BaseException:
            self._begun = node.iteration + 1
            leave(node, EXCEPTION)
            raise
        if self._guard is not None:
            self._guard.yielded(self, value)
        if self._affine is None:
            kind = type(value)
            namer = _NAMERS[kind] if kind in _NAMERS else _namer(kind)
            if namer is not None:
                self._name_iteration(node, namer(value))
        return value

    def _name_iteration(self, node: Node, value: object) -> None:
        if isinstance(value, str) and len(value) > _LONGEST_NAME:
            return
        node.value = value
        node.unnamed = True
        if node.counts or node.entered:
            node.owner.value_known(node)

    def _arrive(self, held: bool) -> Node:
        """Enter the loop, or come back to it past loops inside it that were not finished."""
        node = self._node
        if node is not None and node.open:
            inner = current.get()
            while inner is not None and inner is not node:
                inner = inner.parent
            if inner is None and _of_another_run(self._owner):
                return node  # a run was begun inside this loop and goes on: its coordinates are its own
            if inner is node:
                inside = current.get()
                while inside is not None and inside is not node:
                    _close(inside, LEFT)
                    inside = inside.parent
                current.set(node)
                return node
            _close(node, LEFT)  # driven from another thread or task: enter it there
        if node is not None:
            self._begun = node.iteration + 1
        parent = here(self._owner, self._root)
        node = Node(self._owner, parent, self._name, self._affine)
        node.iteration = self._begun - 1
        if held and self._frame_key is not None and _running(self._frame_key):
            node.frame_key = self._frame_key
            node.sure = False
        self._node = node
        current.set(node)
        return node

    def __length_hint__(self) -> int:
        return operator.length_hint(getattr(self._next, "__self__", None), 0)

    def __del__(self) -> None:
        node = getattr(self, "_node", None)
        if node is not None and node.open and leave is not None:  # None while the interpreter shuts down
            leave(node, LEFT)
            if self._guard is not None:
                caller = sys._getframe().f_back  # none at the very end of the program, or of a thread
                self._guard.left(self, node, LEFT if caller is None else how_dropped(caller))


class Loop:
    """What `rv.loop` returns: iterable, with the length of what it was given; `next()` works too."""

    __slots__ = ("_iterator", "frame_key", "has_else", "in_for", "iterable", "name", "owner", "root")

    def __init__(self, owner: Owner, root: Node, name: str, iterable: Iterable[Any] | None, frame: FrameType | None) -> None:
        self.owner = owner
        self.root = root
        self.name = name
        self.iterable = iterable
        self._iterator: LoopIterator | None = None
        self.in_for = self.has_else = False
        """What a replay knows from the source: a `for` statement runs over it, and whether that has an `else`."""
        # Code that can be suspended, and module level, is not among the callers of what runs in its loops.
        plain = frame is not None and not frame.f_code.co_flags & _SUSPENDABLE and frame.f_code.co_name != "<module>"
        self.frame_key = (id(frame), frame.f_code) if frame is not None and plain else None

    def __iter__(self) -> Iterator[Any]:
        if self._iterator is not None:
            return self._iterator  # it was begun with next(): go on with it
        return LoopIterator(self)

    def __next__(self) -> Any:
        if self._iterator is None:
            self._iterator = LoopIterator(self)
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def __length_hint__(self) -> int:
        return operator.length_hint(self.iterable, 0)

    def __bool__(self) -> bool:
        return self.iterable is None or bool(self.iterable)

    def __getattr__(self, attribute: str) -> Any:
        # A wrapped loader still answers for itself: `loop.dataset`, `loop.batch_size`.
        return getattr(object.__getattribute__(self, "iterable"), attribute)


def _references_in_for() -> int:
    """How many references `sys.getrefcount` sees to an iterator that only a for statement holds."""
    seen: list[int] = []

    class Probe:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            if seen:
                raise StopIteration
            seen.append(sys.getrefcount(self))
            return 0

    for _ in Probe():
        pass
    return seen[0]


_FOR_REFERENCES = _references_in_for()
