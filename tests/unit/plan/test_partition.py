"""Sharing among workers: balanced, at legal places, with the limits that whole epochs set."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from rearview.plan.partition import Piece, partition, speedup
from tests.laws import examples


def _equal(n: int, begin_s: float = 0.0) -> list[Piece]:
    return [Piece(1.0, begin_s) for _ in range(n)]


def test_two_hundred_epochs_on_sixteen_workers_take_thirteen() -> None:
    found = partition([_equal(200)], 16)
    assert max(share.last - share.first + 1 for share in found.shares) == 13
    assert round(speedup(200.0, found.seconds), 2) == 15.38
    assert found.workers == 16


def test_a_worker_that_brings_nothing_is_not_taken() -> None:
    assert partition([_equal(4, begin_s=1000.0)], 4).workers == 1
    assert partition([_equal(3)], 8).workers == 3


def test_shares_begin_only_where_something_can_begin() -> None:
    row = [Piece(1.0, 0.0 if k % 5 == 0 else None) for k in range(20)]
    found = partition([row], 3)
    assert {share.first % 5 for share in found.shares} == {0}
    assert found.seconds == 10.0


def test_unequal_pieces() -> None:
    row = [Piece(seconds, 0.0) for seconds in (9.0, 1, 1, 1, 1, 1, 1, 1, 1, 1)]
    assert partition([row], 2).seconds == 9.0


def test_more_rows_than_workers_are_queued() -> None:
    found = partition([[Piece(4.0, 1.0)], [Piece(2.0, 1.0)], [Piece(2.0, 1.0)]], 2)
    assert (len(found.shares), found.workers, found.seconds) == (3, 2, 6.0)


def test_nothing_to_share() -> None:
    assert partition([], 4).shares == ()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=9), st.integers(1, 4), st.integers(0, 3))
def test_the_largest_share_is_as_small_as_it_can_be(pieces: list[tuple[int, bool]], workers: int, begin: int) -> None:
    row = [Piece(float(cost), float(begin) if can or at == 0 else None) for at, (cost, can) in enumerate(pieces)]
    cuts = [at for at in range(1, len(row)) if row[at].begin_s is not None]
    best = math.inf
    for count in range(min(workers, len(cuts) + 1)):
        for chosen in itertools.combinations(cuts, count):
            ends = [0, *chosen, len(row)]
            best = min(best, max(begin + sum(p.seconds for p in row[a:b]) for a, b in itertools.pairwise(ends)))
    found = partition([row], workers)
    assert sum(piece.seconds for piece in row) / workers - 1e-6 <= found.seconds <= best * 1.02 + 1e-6
    assert [at for share in found.shares for at in range(share.first, share.last + 1)] == list(range(len(row)))
