"""Statements of two versions that stand directly below the same comment: evidence that they are counterparts, however they were rewritten.

A comment says what its lines are for, and stays while they are rewritten: `# bootstrap value if not done` heads the same step of an
algorithm before and after its loop became another. What a comment heads that is left out is never asked: where the statement to be placed
was the one below it, the comment is as new as that. Knows comments and trees. Must not know which statement is to be placed. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from rearview.propagate.hidden import LeftOut
from rearview.propagate.tree import File, Node

_COMMENT = re.compile(r"^[ \t]*#+(.*)$", re.MULTILINE)
_NO_WORD = re.compile(r"\W+")
_SAYS_ENOUGH = 10
"""Letters: a shorter comment may stand anywhere."""


def same_heading(new: File, old: File) -> Iterator[tuple[Node, Node]]:
    """Pairs of statements below a comment that each file has once."""
    shared = _once(new) & _once(old)
    if not shared:
        return
    if shared & _left_out(new) != shared & _left_out(old):
        raise LeftOut  # what it heads in one version stands in a function that was left out
    theirs = _below(old, shared)
    for text, one in _below(new, shared).items():
        other = theirs.get(text)
        if other is not None and not one.nothing and not other.nothing:
            yield one, other


def _once(file: File) -> set[str]:
    """The comments, on lines of their own, that a file has once and that say enough."""
    counts = Counter(_comments(file.text))
    return {text for text, count in counts.items() if count == 1 and len(text) >= _SAYS_ENOUGH}


def _left_out(file: File) -> set[str]:
    """The comments in functions that were left out."""
    return set(_comments(file.text)) - set(_comments(file.outline)) if file.outline is not None else set()


@lru_cache(maxsize=8)
def _comments(text: str) -> tuple[str, ...]:
    """What the comments on lines of their own say; one version is compared with many."""
    return tuple(_said(found) for found in _COMMENT.findall(text))


@lru_cache(maxsize=4096)
def _said(text: str) -> str:
    """What a comment says, whatever its layout."""
    return _NO_WORD.sub("", text).lower()


def _below(file: File, texts: set[str]) -> dict[str, Node]:
    """The statements directly below some comments, of a block of the same indentation."""
    found: dict[str, Node] = {}
    seen: set[int] = set()
    for node in file.nodes:
        if node.line in seen:
            continue  # several on a line: the first
        seen.add(node.line)
        at = node.line - 2
        space = _indentation(file.lines[node.line - 1])
        while at >= 0 and file.lines[at].lstrip().startswith("#") and _indentation(file.lines[at]) == space:
            text = _said(file.lines[at])
            if text in texts:
                found.setdefault(text, node)
            at -= 1
    return found


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
