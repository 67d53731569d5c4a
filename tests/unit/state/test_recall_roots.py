"""A root that became something else since the capture before: it is walked anew, and nothing of the comparison is left."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rearview.state.capture import Recall, capture

VALUES: list[Any] = [None, True, 3, 2.5, "text", b"raw", (1, 2), [], [None], {"a": 1.5}, {1.5}, frozenset((2,)), ..., 1j, range(3)]


def seen(roots: dict[Any, Any], recall: Recall | None) -> Any:
    captured = capture(roots, recall=recall) if recall is not None else capture(roots)
    return {key: _shown(captured.tree, number) for key, number in captured.tree.roots.items()}


def _shown(tree: Any, number: int) -> Any:
    """A node with what it holds in the place of numbers of nodes."""
    kind, payload = tree.nodes[number]
    if isinstance(payload, list):
        return kind, [_shown(tree, child) for child in payload]
    return kind, payload


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(VALUES, 2)))
def test_a_variable_that_became_something_else(before: Any, after: Any) -> None:
    recall = Recall()
    for value in (before, before, after, after, before):
        roots = {("global", "m", "w"): 1.0, ("global", "m", "best"): value, ("global", "m", "held"): [after, 7.25]}
        assert seen(roots, recall) == seen(roots, None)
