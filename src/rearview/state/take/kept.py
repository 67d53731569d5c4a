"""What is kept of a walk for the next one: its table of nodes, and what containers and tensors were, by identity and by facts.

Plain data; holds texts, numbers and classes of the program, none of its objects.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from rearview.state.tree import Node, RootKey


@dataclass(slots=True)
class Mark:
    """How far the table had come when a root was walked."""

    key: RootKey
    number: int
    nodes: int
    buffers: int
    steady: bool
    """It lacks nothing, and nothing of it was put together by code of the program."""
    paired: int = 0
    """How many objects had a node when it was compared one by one; 0: it was not yet."""


@dataclass(slots=True)
class Quick:
    """What a container held, by identity."""

    ids: tuple[int, ...]
    links: dict[int, int]
    """Identity -> node of what is no text or number."""
    inner: list[tuple[int, int]]
    """Where it holds something that is to be looked at in turn, and the node of that."""
    empty: list[tuple[int, int, type]]
    """Where it holds a container that was empty."""
    held: list[object]
    """Texts and numbers: as long as they are held, nothing else has their identity."""
    names: list[str] | None = None
    """Of attributes: all of them."""
    wanted: Any = None
    """Gets those that are kept."""


@dataclass(slots=True)
class Kept:
    """The table of an earlier walk, as far as it is expected to stay."""

    nodes: list[Node]
    parents: list[int]
    interned: dict[type, dict[Any, int]]
    cache: dict[Hashable, Any]
    sizes: list[int]
    """Of the buffers."""
    numbers: list[int]
    """The nodes of the buffers."""
    memo: dict[int, int]
    """Identity of an object -> its node, as it was the last time: a guess."""
    names: dict[tuple[str, str], int]
    """The nodes of objects that every process has."""
    marks: list[Mark]
    quick: dict[int, Quick] = field(default_factory=dict)
    facts: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Of tensors: what makes their nodes."""
    program: Any = None
    """The table, compiled for comparing it at once; after `failures`, no more."""
    failures: int = 0
    shape: object = field(default_factory=object)
    """The same object as long as nothing but numbers and memory has changed."""
