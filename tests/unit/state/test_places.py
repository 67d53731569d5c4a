"""Paths of nodes: many at once are what they are one by one."""

from __future__ import annotations

import array
from typing import Any

from rearview.state.capture import capture


def test_many_paths_at_once_are_the_same() -> None:
    shared: dict[Any, Any] = {"weights": array.array("d", [1.0] * 5000), 7: [array.array("d", [2.0] * 5000)]}
    deep: list[Any] = [array.array("d", [3.0] * 5000)]
    for _ in range(300):
        deep = [deep]
    captured = capture({("given", "a"): shared, ("local", 0, "b"): [shared, array.array("d", [4.0] * 5000)], ("local", 0, "c"): deep})
    one_by_one = [buffer.where for buffer in captured.buffers]
    assert captured.places.several(captured.buffer_nodes) == one_by_one
    assert len(one_by_one) == 4
    assert "a['weights']" in one_by_one
    assert "b[1]" in one_by_one
