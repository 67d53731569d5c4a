"""Paths of nodes, also very deep ones."""

from __future__ import annotations

import array
from typing import Any

from rearview.state.capture import capture


def test_paths_are_as_a_person_would_write_them() -> None:
    shared: dict[Any, Any] = {"weights": array.array("d", [1.0] * 5000), 7: [array.array("d", [2.0] * 5000)]}
    deep: list[Any] = [array.array("d", [3.0] * 5000)]
    for _ in range(300):
        deep = [deep]
    captured = capture({("given", "a"): shared, ("local", 0, "b"): [shared, array.array("d", [4.0] * 5000)], ("local", 0, "c"): deep})
    paths = [buffer.where for buffer in captured.buffers]
    assert len(paths) == 4
    assert "a['weights']" in paths
    assert "b[1]" in paths
    assert sum(path.startswith("c[0]") and "..." in path for path in paths) == 1
