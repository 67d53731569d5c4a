"""How a `for` statement got its iterator and let go of it. Reads the code of the frame that did."""

from __future__ import annotations

import dis
import functools
from types import CodeType, FrameType

LEFT, EXHAUSTED, BREAK, RETURN, EXCEPTION = range(5)

_POPS = ("POP_TOP", "POP_ITER")
_NOTHING = ("NOP", "CACHE", "EXTENDED_ARG")
_JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


def how_dropped(frame: FrameType) -> int:
    """Whether a for statement let go of its iterator by break or return; LEFT if it was something else, an exception mostly.

    Leaving a loop in order pops the iterator; an exception unwinds the stack from the instruction that raised. A break has come to its end
    there and jumps behind the loop, or is there already. A return goes on: through loops, `with` and `finally` around it, or returns.
    A break in front of a short return looks like one, and is taken for it.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0 or dis.opname[code[at]] not in _POPS:
        return LEFT
    at += 2
    while at < len(code) and dis.opname[code[at]] in _NOTHING:
        at += 2
    goes_on_there = at < len(code) and (dis.opname[code[at]] in _JUMPS or at in _behind_loops(frame.f_code))
    return BREAK if goes_on_there else RETURN


def is_begun_by_for(frame: FrameType) -> bool:
    """Whether a `for` itself asks for the iterator that is being made: then nothing else, no `zip`, stands between."""
    at = frame.f_lasti
    return at >= 0 and dis.opname[frame.f_code.co_code[at]] == "GET_ITER"


@functools.lru_cache(maxsize=64)
def _behind_loops(code: CodeType) -> frozenset[int]:
    return frozenset(one.argval for one in dis.get_instructions(code) if one.opname == "FOR_ITER")
