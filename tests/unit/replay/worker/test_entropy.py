"""What generators that nobody seeded were made from, and making them from that again."""

from __future__ import annotations

import pytest

from rearview.replay.worker import entropy
from rearview.state.capture import capture
from rearview.state.put import unkept

np = pytest.importorskip("numpy")


def test_only_what_came_from_the_system() -> None:
    first, second = np.random.default_rng(), np.random.RandomState()
    state = {"a": first, "b": np.random.default_rng(3), "c": second, "d": first.spawn(2), "e": np.random.default_rng([1, 2])}
    known = entropy.drawn(capture({("global", name): value for name, value in state.items()}).tree)
    assert known == [first.bit_generator.seed_seq.entropy, second._bit_generator.seed_seq.entropy]


def test_they_are_made_from_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.random.bit_generator
    monkeypatch.setattr(bits, "randbits", bits.randbits)
    made = [np.random.default_rng(), np.random.default_rng()]
    entropy.give([one.bit_generator.seed_seq.entropy for one in made])
    monkeypatch.setattr(unkept, "strict", 1)
    other = np.random.default_rng()  # in a statement
    monkeypatch.setattr(unkept, "strict", 0)
    again = [np.random.default_rng() for _ in range(3)]
    assert [one.random() for one in again[:2]] == [one.random() for one in made]
    assert len({one.bit_generator.seed_seq.entropy for one in (other, *again)}) == 4
