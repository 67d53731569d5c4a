"""Which bytes of an allocation a state can see: those of its tensors. What lies behind them may never have been written.

`mse_loss` gives a number whose memory is as large as what it was summed from, with whatever was there before: two runs that are the same
differ in it. Such bytes are kept, as all of an allocation is, and are no part of what makes two states equal. Pure: a tree in, ranges out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from rearview.state.regions import Region
from rearview.state.tree import Tree, kinds_of, marked

_ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "uint64": 8, "float16": 2,
    "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
_OFFSET_AT = {"tensor": 6, "quantized": 4}
_ALL = {"nparray": 2, "storage": 0}
"""What else lies over memory that others share, by where its node names it: all of that counts."""

Range = tuple[int, int]


@dataclass(slots=True)
class _Spans:
    """What is seen of memory, by its node, as far as nodes were looked at."""

    partly: dict[int, Range] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    layouts: dict[int, tuple[int, int] | None] = field(default_factory=dict)

    def copy(self) -> _Spans:
        return _Spans(dict(self.partly), set(self.whole), dict(self.layouts))

    def look(self, tree: Tree, first: int, last: int) -> _Spans:
        """Look at the nodes from `first` to before `last`."""
        nodes, partly, layouts = tree.nodes, self.partly, self.layouts
        looked_at = nodes if last - first == len(nodes) else nodes[first:last]
        for kind, payload in itertools.compress(looked_at, marked(kinds_of(looked_at), (*_OFFSET_AT, *_ALL))):
            if kind not in _OFFSET_AT:
                self.whole.add(payload[_ALL[kind]])
                continue
            if payload[1] not in layouts:
                layouts[payload[1]] = _layout(tree, payload[1])
            layout, memory = layouts[payload[1]], payload[2]
            if layout is None:
                self.whole.add(memory)
                continue
            item, reach = layout
            begin = nodes[payload[_OFFSET_AT[kind]]][1] * item if reach else 0
            known = partly.get(memory)
            if known is None or known[0] == known[1]:
                partly[memory] = (begin, begin + reach)
            elif reach:
                partly[memory] = (min(known[0], begin), max(known[1], begin + reach))
        return self.settled(tree)

    def settled(self, tree: Tree) -> _Spans:
        """Without what is seen as a whole, whatever else is met."""
        self.whole |= {memory for memory, span in self.partly.items() if memory not in self.whole and span == (0, _size(tree, memory))}
        self.partly = {memory: span for memory, span in self.partly.items() if memory not in self.whole}
        return self


def ranges(tree: Tree, region: Region | None = None) -> dict[int, Range]:
    """Nodes of memory that is not seen as a whole -> first byte seen, and the one behind the last. `region`: what it has in common with
    the states before."""
    if region is None:
        return _Spans().look(tree, 0, len(tree.nodes)).partly
    spans = region.once("spans", lambda: _Spans().look(tree, region.first, region.last)).copy()
    spans.look(tree, 0, region.first)
    return spans.look(tree, region.last, len(tree.nodes)).partly


def of_buffers(tree: Tree, spans: Mapping[int, Range] | None = None) -> dict[int, Range]:
    """The same for buffers, by their numbers. `spans`: the ranges of all, where they are known."""
    known = ranges(tree) if spans is None else spans
    return {tree.nodes[memory][1]: span for memory, span in known.items() if tree.nodes[memory][0] == "buffer"}


def _layout(tree: Tree, number: int) -> tuple[int, int] | None:
    """Bytes of an element, and from the first element to behind the last; None for a type that is not known here."""
    dtype, _, dimensions, *rest = (tree.nodes[part][1] for part in tree.nodes[number][1])
    item = _ITEM_BYTES.get(dtype)
    if item is None:
        return None
    sizes, strides = rest[:dimensions], rest[dimensions:]
    if 0 in sizes:
        return item, 0
    return item, (1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))) * item


def _size(tree: Tree, memory: int) -> int:
    kind, payload = tree.nodes[memory]
    return len(payload) if kind == "small" else int(tree.buffers[payload])
