"""Which variables of a suspended function can still matter: those that may be read before they are written again.

A plain backward analysis over the function's instructions, exact enough to know that `batch` in `for batch in loader: yield batch`
is of no use to the next step. What cannot be told counts as alive. Knows instructions by the parts of their names, from 3.11 on.
"""

from __future__ import annotations

import dis
import functools
import re
from types import CodeType

_ACCESS = re.compile(r"(LOAD|STORE|DELETE)_FAST")
_NEVER_ON = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
"""Instructions after which the one behind them does not come next."""


@functools.lru_cache(maxsize=256)
def alive(code: CodeType, lasti: int) -> frozenset[str]:
    """The variables that matter to a function suspended at an instruction. Those in cells always do: others may read them."""
    always = frozenset((*code.co_cellvars, *code.co_freevars))
    at, before = _analyse(code)
    behind = [offset for offset in at if offset > lasti]
    if not behind:
        return always
    return always | before[at[min(behind)]]


def _analyse(code: CodeType) -> tuple[dict[int, int], list[set[str]]]:
    """(number of the instruction at each offset, what is alive before each instruction)."""
    instructions = list(dis.get_instructions(code))
    at = {instruction.offset: number for number, instruction in enumerate(instructions)}
    following = [_following(instructions, number, at) for number in range(len(instructions))]
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]  # an exception may come up anywhere in its range
        for offset in range(entry.start, entry.end, 2):
            if offset in at and entry.target in at:
                following[at[offset]].append(at[entry.target])
    accesses = [_accesses(instruction) for instruction in instructions]
    before: list[set[str]] = [set() for _ in instructions]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(instructions))):
            live: set[str] = set().union(*(before[after] for after in following[number]))
            for verb, name in reversed(accesses[number]):
                if verb == "LOAD":
                    live.add(name)
                elif verb == "STORE":
                    live.discard(name)
            if live != before[number]:
                before[number] = live
                changed = True
    return at, before


def _following(instructions: list[dis.Instruction], number: int, at: dict[int, int]) -> list[int]:
    instruction = instructions[number]
    following = [] if instruction.opname in _NEVER_ON or number + 1 == len(instructions) else [number + 1]
    if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
        target = at.get(instruction.argval)
        if target is not None:
            following.append(target)
    return following


def _accesses(instruction: dis.Instruction) -> list[tuple[str, str]]:
    verbs = _ACCESS.findall(instruction.opname)
    if not verbs:
        return []
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    if len(names) != len(verbs):
        return [("LOAD", str(name)) for name in names]
    return list(zip(verbs, map(str, names), strict=True))
