"""What was sound once, changed at random: bytes flipped, pieces cut out, doubled, swapped and put in from elsewhere.

Far cheaper an example than a strategy that makes each from nothing, and nearer to what a parser accepts: a million are minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Cut = Callable[[bytes, Sequence[bytes], random.Random], bytes]


def _place(data: bytes, chance: random.Random, longest: int) -> tuple[int, int]:
    begin = chance.randrange(len(data) + 1)
    return begin, min(len(data), begin + chance.randrange(1, longest))


def _flipped(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes((data[at] ^ (1 << chance.randrange(8)),)) + data[at + 1 :] if at < len(data) else data


def _without(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    begin, end = _place(data, chance, 40)
    return data[:begin] + data[end:]


def _doubled(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    begin, end = _place(data, chance, 40)
    return data[:end] + data[begin:]


def _inserted(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(pieces) + data[at:]


def _replaced(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    begin, end = _place(data, chance, 12)
    return data[:begin] + chance.choice(pieces) + data[end:]


def _lines_swapped(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _cut_short(data: bytes, pieces: Sequence[bytes], chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


CUTS: tuple[Cut, ...] = (_flipped, _without, _doubled, _inserted, _replaced, _lines_swapped, _cut_short)


def mutants(sound: Sequence[bytes], pieces: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """So many of them. `pieces` are put in here and there."""
    chance = random.Random(seed)
    for _ in range(count):
        data = chance.choice(sound)
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            data = chance.choice(CUTS)(data, pieces, chance)
        yield data


JUNK: tuple[Any, ...] = (None, True, 0, -1, 1 << 70, 0.5, "", "x", "r1", [], [[]], {}, {"a": []}, [1, "a", None], "../..", "\0")


def changed(facts: Any, chance: random.Random) -> Any:
    """Facts with something else somewhere in them."""
    if isinstance(facts, dict) and facts and chance.random() < 0.9:
        key = chance.choice(list(facts))
        if chance.random() < 0.1:
            return {one: value for one, value in facts.items() if one != key}
        return {**facts, key: changed(facts[key], chance)}
    if isinstance(facts, list) and facts and chance.random() < 0.8:
        at = chance.randrange(len(facts))
        return [*facts[:at], changed(facts[at], chance), *facts[at + 1 :]]
    return chance.choice(JUNK)
