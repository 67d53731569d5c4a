"""The bytes of a tree whose nodes are mostly those of the tree before: the same as without knowing it."""

from __future__ import annotations

import random

import pytest

from rearview.state.tree import FIRST, Encoded, Node, Tree, decode, encode

_VALUES: tuple[Node, ...] = (
    ("int", 3), ("int", 1), ("true", True), ("float", 0.0), ("float", -0.0), ("str", "text"), ("str", ""), ("bytes", b"x"),
    ("bigint", 10**40), ("complex", 1j), ("small", b"memory"), ("list", (0, 0, 1, 2)), ("dict", (0, 0)), ("buffer", 0),
)  # fmt: skip


def trees(seed: int) -> list[Tree]:
    """One after the other, each with a few other nodes than the one before."""
    draw = random.Random(seed)
    nodes: list[Node] = [*FIRST, *(draw.choice(_VALUES) for _ in range(draw.choice((10, 600, 2000))))]
    found = []
    for _ in range(12):
        nodes = list(nodes)
        for _ in range(draw.randrange(4)):
            what, at = draw.choice(("other", "more", "less")), draw.randrange(len(FIRST), len(nodes))
            if what == "other":
                nodes[at] = draw.choice(_VALUES)
            elif what == "more":
                nodes.append(draw.choice(_VALUES))
            else:
                nodes.pop()
        found.append(Tree(nodes, {("local", 0, "x"): 6}, [100]))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_tree_before_changes_no_byte(seed: int) -> None:
    before = Encoded()
    for tree in trees(seed):
        data = encode(tree, before)
        assert data == encode(tree)
        assert [repr(node) for node in decode(data).nodes] == [repr(node) for node in tree.nodes]


def test_many_nodes_need_wider_numbers() -> None:
    before = Encoded()
    for count in (100, 70_000, 100):
        tree = Tree([*FIRST, *[("int", 1)] * count, ("list", (0, 0, count))])
        assert encode(tree, before) == encode(tree)
