"""Where a suspended Python generator is, and how a fresh one of the same code is brought there.

A generator is where it is by its instruction, the variables that can still matter to it, and the iterators it is in the middle of
(a `for` statement keeps its iterator out of sight; the garbage collector knows it). There are two ways back. *Step in*: advance a
fresh one to the same instruction only, then put the iterators inside it where they were and write its variables: nothing is
read or drawn twice. It needs all of that to be known. *Advance*: take items from a fresh one, as many as were taken, or until it
looks like the recorded one. Either way the result is compared with the record, and what differs is said.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from rearview.state import frames, refilling
from rearview.state.iterating import parts, sent, simple
from rearview.state.iterating.liveness import alive
from rearview.state.iterating.variables import IN_PLACE, Variables, classify, hidden, write

if TYPE_CHECKING:
    from rearview.state.iterating.layers import Again, Shape

    Generator = GeneratorType[Any, Any, Any]

MOST_STEPS = 1_000_000
MOST_SECONDS = 20.0
"""How long a generator is advanced whose number of steps is not known."""
STEP_IN = 64
"""How many items it may take until a fresh generator is at the same instruction."""
_MOST_INNER = 16
_DRAWS = "generator"
"""How generators of random numbers are held: on the way there, the code draws from them."""
_EXPRESSION = "an expression it is in the middle of"
_END = object()


def is_generator(thing: object) -> bool:
    """Whether this is a generator of Python code."""
    return type(thing) is GeneratorType


def describe(generator: Generator) -> Shape | None:
    """Where a generator is; None while it is running."""
    if generator.gi_running:
        return None
    frame = generator.gi_frame
    shape: Shape = {"kind": "generator", "code": generator.__qualname__, "finished": frame is None, "inexact": []}
    if frame is None:
        return shape
    found = _variables(generator)
    running = inside(generator)
    inner = [_described(iterator) for iterator in running]
    untold = [type(iterator).__qualname__ for iterator, part in zip(running, inner, strict=True) if part is None]
    shape |= {
        "lasti": frame.f_lasti,
        "fresh": _is_fresh(generator),
        "plain": found.plain,
        "held": found.held,
        "digests": found.digests,
        "open": found.open,
        "inner": inner,
        "untold": untold,
        "sent": sent.is_behind(frame.f_code, frame.f_lasti) or (sent.takes_values(frame.f_code) and not all(map(_is_set, inner))),
    }
    shape["inexact"] = [sentence for part in inner if part is not None for sentence in part.get("inexact", ())]
    return shape


def untold(shape: Shape) -> list[str]:
    """What is to be said of a generator of which nobody knows how many items were taken from it: what it runs over does not tell it, or
    more than its variables would be needed."""
    if shape["kind"] != "generator" or shape["finished"] or shape["fresh"]:
        return []
    here = [f"the generator {shape['code']} runs over a {kind}, which does not tell how far it is" for kind in shape.get("untold", ())]
    if _EXPRESSION in shape["open"]:
        here.append(f"the generator {shape['code']} is in the middle of an expression, and values that are part of it are not kept")
    if shape.get("sent"):
        here.append(f"the generator {shape['code']} came there by what was sent to it, which nobody knows")
    return [*here, *(sentence for part in shape["inner"] if part is not None for sentence in untold(part))]


def _is_set(part: Shape | None) -> bool:
    """Whether an iterator inside is put where it was, so that the body is not gone through again."""
    return part is not None and part["kind"] in IN_PLACE and all(type(number) is int for number in part.get("args", ()))


def _is_fresh(generator: Generator) -> bool:
    return inspect.getgeneratorstate(generator) == inspect.GEN_CREATED


def _described(iterator: object) -> Shape | None:
    from rearview.state.iterating.layers import describe as describe_layer

    return describe_layer(iterator) or parts.describe(iterator, _described)


def inside(generator: Generator) -> list[Any]:
    """The iterators that a generator holds: in variables, and in the statements it is in the middle of."""
    found: dict[int, Any] = {}
    for thing in (*variables_of(generator).values(), *gc.get_referents(generator)):
        if hasattr(type(thing), "__next__") and thing is not generator:
            found.setdefault(id(thing), thing)
    return list(found.values())[:_MOST_INNER]


def variables_of(generator: Generator) -> dict[str, Any]:
    """The variables of a suspended generator."""
    return {} if generator.gi_frame is None or generator.gi_running else frames.variables(generator.gi_frame)


def _that_matter(generator: Generator) -> dict[str, Any]:
    """The variables of a suspended generator that its code can still read."""
    variables, frame = variables_of(generator), generator.gi_frame
    if frame is None or _is_fresh(generator):
        return variables
    return {name: variables[name] for name in alive(frame.f_code, frame.f_lasti) if name in variables}


def holds(generator: Generator) -> dict[str, Any]:
    """What a suspended generator holds: its variables that can still matter, and the iterators that it runs over. The others may hold
    items of the program's data, and other ones where it was brought to its place."""
    return {**_that_matter(generator), "": tuple(inside(generator))}


def lists_in(generator: Generator) -> list[Any]:
    """The lists that the iterators inside run over, None for others: no variable may hold them, and made again they may be others."""
    return [simple.list_of(iterator) for iterator in inside(generator)]


def function_of(generator: Generator) -> FunctionType | None:
    """The function that made a generator."""
    held = gc.get_referents(generator)
    return next((thing for thing in held if isinstance(thing, FunctionType) and thing.__code__ is generator.gi_code), None)


def _variables(generator: Generator) -> Variables:
    frame = generator.gi_frame
    variables = variables_of(generator)
    if frame is None:
        return Variables()
    found = classify(frame.f_code, _that_matter(generator))
    names = frozenset((*frame.f_code.co_varnames, *frame.f_code.co_cellvars, *frame.f_code.co_freevars))
    if hidden(gc.get_referents(generator), list(variables.values()), names):
        found.open.append(_EXPRESSION)
    return found


# Back


def restore(
    generator: Generator, shape: Shape, again: Again, variables: Mapping[str, Any] | None = None, lists: Sequence[Any] = ()
) -> None:
    """Bring a live generator there, in place. `variables`: those that matter, if somebody has restored them all; `lists`: of `lists_in`."""
    if generator.__qualname__ != shape["code"]:
        again.said.append(f"the generator {generator.__qualname__} is where {shape['code']} was; it was left where it is")
        return
    if generator.gi_running or id(generator) in again.there or is_there(generator, shape):
        return
    if shape["finished"]:
        generator.close()
        return
    again.at_beginning()
    if not shape["fresh"]:
        known = variables is not None or can_step_in(shape) or _has_loader(shape)
        taken = _step_in(generator, shape, again.said, variables, lists) if known else 0
        if taken is not None:
            _advance(generator, shape, again, taken)
    if again.steps is None:
        again.said += untold(shape)
    now = describe(generator)
    differ = ["where it is"] if now is None else _differences(now, shape)
    if differ:
        again.said.append(f"the generator {generator.__qualname__} could not be brought to where it was: {', '.join(differ)} differ")


def can_step_in(shape: Shape) -> bool:
    """Whether all that makes up a position is known."""
    if shape["finished"]:
        return True
    if shape["open"] or shape["digests"]:
        return False
    return all(
        part is not None and part["kind"] in IN_PLACE and (part["kind"] != "generator" or can_step_in(part)) for part in shape["inner"]
    )


def step_in(generator: Generator, shape: Shape) -> bool:
    """Bring a fresh generator there without advancing it all the way; False if that did not work: it is of no use then."""
    if generator.__qualname__ != shape["code"]:
        return False
    if shape["finished"]:
        generator.close()
        return True
    said: list[str] = []
    if not shape["fresh"] and _step_in(generator, shape, said, None) is not None:
        return False
    return not said and is_there(generator, shape)


def _step_in(
    generator: Generator, shape: Shape, said: list[str], variables: Mapping[str, Any] | None, lists: Sequence[Any] = ()
) -> int | None:
    """None if it stepped in; else how many items were taken in vain."""
    from rearview.state.iterating.layers import Again
    from rearview.state.iterating.layers import restore as restore_layer

    inner = shape["inner"]
    if any(part is None or part["kind"] not in IN_PLACE for part in inner):
        return 0
    taken = 0
    while taken < STEP_IN and not _at(generator, shape):
        taken += 1
        if next(generator, _END) is _END:
            return taken
    if taken:
        refilling.code_ran()
    live = inside(generator)
    if not _at(generator, shape) or len(live) != len(inner) or not all(map(simple.stays, live, inner)):
        return taken
    for there, was in zip(lists_in(generator), lists, strict=False):
        if isinstance(there, list) and isinstance(was, list) and there is not was:
            there[:] = was
    for iterator, part in zip(live, inner, strict=True):
        restore_layer(iterator, part, Again(said=said))
    if variables is not None:  # and nothing is written to what the fresh one holds: that may be an item of the program's data
        assign(generator, variables)
        write(variables, {name: value for name, value in shape["held"].items() if value[0] == _DRAWS})
    else:
        assign(generator, shape["plain"])
        assign(generator, write(variables_of(generator), shape["held"]))
    return None


def assign(generator: Generator, variables: Mapping[str, Any]) -> None:
    """Bind variables of a suspended generator."""
    if generator.gi_frame is not None and variables:
        frames.assign(generator.gi_frame, variables)


def _advance(generator: Generator, shape: Shape, again: Again, taken: int) -> None:
    try:
        _go_on(generator, shape, again, taken)
    finally:
        refilling.code_ran()


def _go_on(generator: Generator, shape: Shape, again: Again, taken: int) -> None:
    if again.steps is not None:
        wanted = again.steps - taken
        if simple.skip(generator, wanted) < wanted:
            again.said.append(f"the generator {generator.__qualname__} ended before the {again.steps} items that were taken from it")
        return
    until = time.monotonic() + MOST_SECONDS
    for _ in range(MOST_STEPS):
        if (_at(generator, shape) and is_there(generator, shape)) or time.monotonic() > until:
            return
        if next(generator, _END) is _END:
            return


def _at(generator: Generator, shape: Shape) -> bool:
    frame = generator.gi_frame
    return frame is not None and frame.f_lasti == shape["lasti"]


def is_there(generator: Generator, shape: Shape) -> bool:
    """Whether a generator is where the described one was."""
    now = describe(generator)
    return now is not None and _differences(now, shape) == []


def _differences(now: Shape, shape: Shape) -> list[str]:
    """What makes two positions of one generator differ: "where it is", or names of variables."""
    if now["finished"] or shape["finished"]:
        return [] if now["finished"] == shape["finished"] else ["where it is"]
    differ = [] if now["lasti"] == shape["lasti"] and now["fresh"] == shape["fresh"] else ["where it is"]
    for group in ("plain", "held", "digests"):
        recorded, live = shape[group], now[group]
        differ += [name for name in sorted(recorded.keys() | live.keys()) if not _equal(recorded.get(name), live.get(name))]
    if len(now["inner"]) != len(shape["inner"]) or not all(map(_same_place, now["inner"], shape["inner"])):
        differ.append("the iterators it runs over")
    return differ


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or bool(one != one and other != other)


def _same_place(one: Shape | None, other: Shape | None) -> bool:
    if one is None or other is None or one["kind"] != "loader" or other["kind"] != "loader":
        return bool(_without_words(one) == _without_words(other))
    # What its workers hold was compared or set when it was put back.
    return all(one.get(key) == other.get(key) for key in ("yielded", "streams", "base_seed", "finished", "created"))


def _without_words(shape: Shape | None) -> Any:
    return shape if shape is None else {key: value for key, value in shape.items() if key != "inexact"}


def _has_loader(shape: Shape) -> bool:
    return any(part is not None and (part["kind"] == "loader" or _has_loader(part)) for part in _parts_of(shape))


def _parts_of(shape: Shape) -> Iterator[Shape | None]:
    yield from shape.get("inner", ())
    yield from shape.get("of", ())
