"""A set comes back with the order in which it gave its elements out, or it is said that it does not."""

from __future__ import annotations

import itertools
import random
import weakref
from typing import Any

from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.restore import plan
from rearview.state.take import sets


class _NoBuffers:
    def into(self, index: int, dest: memoryview) -> None:
        raise AssertionError

    def size(self, index: int) -> int:
        raise AssertionError


def _back(value: Any, live: Any) -> Any:
    taken = capture({("given", "it"): value})
    return plan(taken.tree, {("given", "it"): live}, _NoBuffers()).apply()["given", "it"], taken


def _grown(draw: random.Random, size: int) -> set[Any]:
    made: set[Any] = set()
    for _ in range(size):
        number = draw.randrange(10**9)
        made.add(draw.choice((number, f"name {number}", (number, "x"))))
    return made


def test_a_set_that_only_grew_comes_back_in_its_order() -> None:
    draw = random.Random(4)
    exact = 0
    for size in (*range(1, 40), 75, 76, 77, 78, 150, 307, 700):
        made = _grown(draw, size)
        for live in (set(), {*reversed([*made])}, set(range(50))):
            back, taken = _back(made, live)
            assert back is live and back == made
            if not taken.unlike:
                exact += 1
                assert list(back) == list(made)
                more = [draw.randrange(10**9) for _ in range(30)]
                one, other = set(back), set(made)
                one.update(more)
                other.update(more)
                assert list(one) == list(other)
    assert exact >= 40 * 3


def test_a_frozen_one_too() -> None:
    draw = random.Random(5)
    for size in (*range(2, 30), 100, 200):
        made = frozenset(_grown(draw, size))
        back, taken = _back(made, frozenset())
        assert back == made and (taken.unlike or list(back) == list(made))


def test_one_from_which_something_was_removed_is_unlike_if_its_table_shows_it() -> None:
    made = {f"name {k}" for k in range(200)}
    for k in range(190):
        made.discard(f"name {k}")
    _, taken = _back(made, set())
    assert [(one.where, one.why) for one in taken.unlike] == [("it", sets.UNLIKE)]
    made = {1, 2, 3}
    made.remove(2)
    made = made | set()  # a new table
    assert not _back(made, set())[1].unlike


def test_the_order_is_no_part_of_the_proof() -> None:
    names = [f"name {k}" for k in range(60)]
    digests = set()
    for order in (names, names[::-1], sorted(names, key=hash)):
        made: set[str] = set()
        for name in order:
            made.add(name)
        digests.add(root_digests(capture({("given", "it"): made}).tree, [])["given", "it"])
    assert len(digests) == 1


def test_an_empty_set_is_unlike_only_if_something_was_in_it() -> None:
    emptied = {1, 2}
    emptied.clear()
    removed = {1, 2}
    for one in (1, 2):
        removed.discard(one)
    captured = capture({("given", "fresh"): set(), ("given", "emptied"): emptied, ("given", "removed"): removed})
    assert [one.where for one in captured.unlike] == ["removed"]


class _Node:
    def __init__(self, value: int) -> None:
        self.value = value


def test_weak_sets_and_sets_of_objects_are_the_same_whatever_the_addresses() -> None:
    def digests(kind: type, first: str, order: list[int]) -> dict[Any, str]:
        nodes = {number: _Node(number // 4) for number in order}  # several are equal
        keep = [nodes[number] for number in sorted(nodes)]
        some = kind(keep[1::2])
        taken = capture({("global", first): keep, ("global", "some"): some})
        return root_digests(taken.tree, [])

    draw = random.Random(3)
    for kind, first in itertools.product((weakref.WeakSet, set, frozenset), ("before", "then")):  # whose elements they are
        known = digests(kind, first, list(range(24)))
        for _ in range(20):
            assert digests(kind, first, draw.sample(range(24), 24)) == known, (kind, first)
        assert digests(kind, first, list(range(20))) != known


def test_a_weak_set_holds_the_same_objects_again() -> None:
    keep = [_Node(k) for k in range(9)]
    value = {"keep": keep, "weak": weakref.WeakSet(keep[2:5])}
    back, _ = _back(value, {"keep": list(keep), "weak": weakref.WeakSet(keep)})
    assert {id(one) for one in back["weak"]} == {id(one) for one in back["keep"][2:5]}
    anew, _ = _back(value, None)
    assert {one.value for one in anew["weak"]} == {2, 3, 4} and all(one in anew["weak"] for one in anew["keep"][2:5])


def _in_turn(*items: int) -> set[int]:
    made: set[int] = set()
    for item in items:
        made.add(item)
    return made


def test_elements_that_were_in_each_others_way_are_where_they_were() -> None:
    """Some pairs are given out in the same order whichever came first, and lie elsewhere: what is added later shows it."""
    pairs = [(a, b) for a in range(5, 4000, 8) for b in (a + 8 * k for k in range(1, 40)) if [*_in_turn(a, b)] == [*_in_turn(b, a)]]
    differ = [(a, b) for a, b in pairs if sets._layout(_in_turn(a, b)) != sets._layout(_in_turn(b, a))]
    assert differ
    for a, b in differ[:50]:
        for made in (_in_turn(a, b), _in_turn(b, a)):
            back, taken = _back(made, set())
            assert not taken.unlike
            assert sets._layout(back) == sets._layout(made)


def test_several_sets_are_looked_at_at_once() -> None:
    empty: list[set[int]] = [set() for _ in range(20)]
    assert sets.all_untouched(empty)
    assert sets.all_untouched([])
    empty[7].add(1)
    assert not sets.all_untouched(empty)
    empty[7].discard(1)
    assert not sets.all_untouched(empty)
