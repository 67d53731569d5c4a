"""What a state costs the garbage collector of the program: its nodes are looked through at first, not for as long as they are kept."""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.tree import decode, encode

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

KEPT: dict[str, Any] = {
    "containers": [1, (2.5, "a"), {"b": [None]}, {3}, frozenset({4}), deque([5]), OrderedDict(c=6), defaultdict(list, d=[7])],
    "network": nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.ReLU()),
    "tensors": [torch.ones(3), torch.ones(3, 3).to_sparse(), torch.ones(2, requires_grad=True) * 2],
    "functions": [len, KeyError, lambda x: x, [].append],
}


@pytest.mark.parametrize("name", KEPT)
def test_nodes_are_not_looked_through_again(name: str) -> None:
    tree = capture({("given", name): KEPT[name]}).tree
    for _ in range(2):  # first what nodes hold, then themselves
        gc.collect()
    assert {kind for kind, payload in tree.nodes if gc.is_tracked(payload)} == set()
    assert not any(map(gc.is_tracked, tree.nodes))
    assert decode(encode(tree)) == tree
