"""What a file has in functions that were left out of it: enough to know whether an answer could depend on them.

Must not know why they were left out (`apart`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


class LeftOut(Exception):
    """What is asked for may be in functions that were left out of a file."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is in these functions, and what the file mentions as a whole."""

    names: frozenset[str]
    """The variables that the file mentions."""
    globals: frozenset[str]
    """What its functions declare to be the module's."""
    bound: frozenset[str]
    """What the module binds."""
    imports_all: bool
    functions: frozenset[str]
    """Those that were left out, by name."""
    words: frozenset[str]
    """Of these functions."""
    marks: frozenset[Hashable]
    """All by which their statements are recognised."""
    bag: frozenset[int]
    """The keys of all statements in them."""
