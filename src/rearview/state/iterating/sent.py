"""Whether a generator came to where it is by what was sent to it: `value = yield ...`. Nobody knows these values any more.

Knows instructions by their names, from 3.11 on.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType

_AFTER_YIELD = 1
"""What the two lowest bits of `RESUME` say: behind a `yield`, not at the beginning, nor behind `yield from` or `await`."""


@functools.lru_cache(maxsize=256)
def is_behind(code: CodeType, lasti: int) -> bool:
    """Whether a function suspended there has gone past a `yield` that gives its body a value. By the order of the text: a generator that
    waits at its first `yield` may have gone round a loop, and is there again by one step."""
    instructions, yields = _yields(code)
    waits = [at for at in yields if instructions[at - 1].offset <= lasti]
    return waits != yields[:1] and takes_values(code)


@functools.lru_cache(maxsize=256)
def takes_values(code: CodeType) -> bool:
    """Whether a `yield` of a function gives its body a value."""
    instructions, yields = _yields(code)
    return any(instructions[at + 1].opname != "POP_TOP" for at in yields)


def _yields(code: CodeType) -> tuple[list[dis.Instruction], list[int]]:
    """The instructions, and which of them a `yield` goes on with."""
    instructions = list(dis.get_instructions(code))
    return instructions, [at for at, one in enumerate(instructions) if one.opname == "RESUME" and (one.arg or 0) & 3 == _AFTER_YIELD]
