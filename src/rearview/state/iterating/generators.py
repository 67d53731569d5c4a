"""Where a suspended Python generator is, and how a fresh one of the same code is brought there.

A generator is where it is by its instruction, the variables that can still matter to it, and the iterators it is in the middle of
(a `for` statement keeps its iterator out of sight; the garbage collector knows it). There are two ways back. *Advance*: take items
from a fresh generator, as many as were taken, or until it looks like the recorded one. *Step in*: if it runs over a loader, advance
it to the same instruction only, then put the iterators inside it where they were and assign its plain variables: the items
before are not loaded again. Either way the result is compared with the record, and what differs is said.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Iterator
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from rearview.errors import Unstorable
from rearview.state import frames
from rearview.state.iterating.liveness import alive
from rearview.state.loading import notes
from rearview.state.loading.holdings import SCALARS

if TYPE_CHECKING:
    from rearview.state.iterating.layers import Again, Shape

MOST_STEPS = 1_000_000
MOST_SECONDS = 20.0
"""How long a generator is advanced whose number of steps is not known."""
STEP_IN = 64
"""How many items it may take until a fresh generator is at the same instruction."""
_MOST_ITEMS = 50_000
_MOST_INNER = 16


def is_generator(thing: object) -> bool:
    """Whether this is a generator of Python code."""
    return type(thing) is GeneratorType


def describe(generator: GeneratorType[Any, Any, Any]) -> Shape | None:
    """Where a generator is; None while it is running."""
    if generator.gi_running:
        return None
    frame = generator.gi_frame
    shape: Shape = {"kind": "generator", "code": generator.__qualname__, "finished": frame is None, "inexact": []}
    if frame is None:
        return shape
    plain, digests = _variables(generator)
    inner = [_described(iterator) for iterator in inside(generator)]
    shape |= {"lasti": frame.f_lasti, "fresh": _is_fresh(generator), "plain": plain, "digests": digests, "inner": inner}
    shape["inexact"] = [sentence for part in inner if part is not None for sentence in part.get("inexact", ())]
    return shape


def _is_fresh(generator: GeneratorType[Any, Any, Any]) -> bool:
    return inspect.getgeneratorstate(generator) == inspect.GEN_CREATED


def _described(iterator: object) -> Shape | None:
    from rearview.state.iterating.layers import describe as describe_layer

    return describe_layer(iterator)


def inside(generator: GeneratorType[Any, Any, Any]) -> list[Any]:
    """The iterators that a generator holds: in variables, and in the statements it is in the middle of."""
    frame = generator.gi_frame
    if frame is None:
        return []
    found: dict[int, Any] = {}
    for thing in (*frames.variables(frame).values(), *gc.get_referents(generator)):
        if hasattr(type(thing), "__next__") and thing is not generator:
            found.setdefault(id(thing), thing)
    return list(found.values())[:_MOST_INNER]


def variables_of(generator: GeneratorType[Any, Any, Any]) -> dict[str, Any]:
    """The variables of a suspended generator."""
    return {} if generator.gi_frame is None or generator.gi_running else frames.variables(generator.gi_frame)


def function_of(generator: GeneratorType[Any, Any, Any]) -> FunctionType | None:
    """The function that made a generator."""
    held = gc.get_referents(generator)
    return next((thing for thing in held if isinstance(thing, FunctionType) and thing.__code__ is generator.gi_code), None)


def _variables(generator: GeneratorType[Any, Any, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """(values that are plain, digests of small containers of them) of the variables that matter."""
    frame = generator.gi_frame
    if frame is None:
        return {}, {}
    matter = alive(generator.gi_code, frame.f_lasti)
    plain: dict[str, Any] = {}
    digests: dict[str, str] = {}
    for name, value in frames.variables(frame).items():
        if name not in matter and not _is_fresh(generator):
            continue
        if type(value) in SCALARS and notes.storable(value) is value:
            plain[name] = value
        else:
            digest = _digest(value)
            if digest:
                digests[name] = digest
    return plain, digests


def _digest(value: Any) -> str:
    """A digest of small plain data, arrays and tensors; "" for anything else: it is somebody else's to put back."""
    data: Any = value
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if getattr(value, "nbytes", 1 << 30) > 1 << 20 or getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
            return ""
        try:
            data = (str(value.dtype), list(value.shape), repr(value.tolist()))
        except (TypeError, RuntimeError, ValueError):
            return ""
    elif not isinstance(value, (list, tuple, dict)) or len(value) > _MOST_ITEMS:
        return ""
    try:
        return notes.digest(data)
    except Unstorable:
        return ""


# Back


def restore(generator: GeneratorType[Any, Any, Any], shape: Shape, again: Again) -> None:
    """Bring a live generator there, in place; sentences about what is not as it was."""
    if generator.__qualname__ != shape["code"]:
        again.said.append(f"the generator {generator.__qualname__} is where {shape['code']} was; it was left where it is")
        return
    if generator.gi_running or _is_there(generator, shape):
        return
    if shape["finished"]:
        generator.close()
        return
    again.at_beginning()
    taken = _step_in(generator, shape, again) if _has_loader(shape) or again.steps is None else 0
    if taken is not None:
        _advance(generator, shape, again, taken)
    _compare(generator, shape, again)


def _step_in(generator: GeneratorType[Any, Any, Any], shape: Shape, again: Again) -> int | None:
    """None if it stepped in; else how many items were taken in vain."""
    from rearview.state.iterating import layers

    inner = shape["inner"]
    if not _has_loader(shape) or any(part is None or part["kind"] not in layers.IN_PLACE for part in inner):
        return 0
    taken = 0
    while taken < STEP_IN and not _at(generator, shape):
        if next(generator, _END) is _END:
            return taken + 1
        taken += 1
    live = inside(generator)
    if not _at(generator, shape) or len(live) != len(inner):
        return taken
    below = again.below(one_to_one=False)
    for iterator, part in zip(live, inner, strict=True):
        layers.restore(iterator, part, below)
    assign(generator, shape["plain"])
    return None


def assign(generator: GeneratorType[Any, Any, Any], variables: dict[str, Any]) -> None:
    """Bind variables of a suspended generator."""
    if generator.gi_frame is not None:
        frames.assign(generator.gi_frame, variables)


_END = object()


def _advance(generator: GeneratorType[Any, Any, Any], shape: Shape, again: Again, taken: int) -> None:
    from rearview.state.iterating.layers import skip

    if again.steps is not None:
        wanted = again.steps - taken
        if skip(generator, wanted) < wanted:
            again.said.append(f"the generator {generator.__qualname__} ended before the {again.steps} items that were taken from it")
        return
    until = time.monotonic() + MOST_SECONDS
    for _ in range(MOST_STEPS):
        if (_at(generator, shape) and _is_there(generator, shape)) or time.monotonic() > until:
            return
        if next(generator, _END) is _END:
            return


def _at(generator: GeneratorType[Any, Any, Any], shape: Shape) -> bool:
    frame = generator.gi_frame
    return frame is not None and frame.f_lasti == shape["lasti"]


def _is_there(generator: GeneratorType[Any, Any, Any], shape: Shape) -> bool:
    now = describe(generator)
    return now is not None and _differences(now, shape) == []


def _differences(now: Shape, shape: Shape) -> list[str]:
    """What makes two positions of one generator differ: "where it is", or names of variables."""
    if now["finished"] or shape["finished"]:
        return [] if now["finished"] == shape["finished"] else ["where it is"]
    differ = [] if now["lasti"] == shape["lasti"] and now["fresh"] == shape["fresh"] else ["where it is"]
    for group in ("plain", "digests"):
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


def _compare(generator: GeneratorType[Any, Any, Any], shape: Shape, again: Again) -> None:
    now = describe(generator)
    differ = ["where it is"] if now is None else _differences(now, shape)
    if differ:
        again.said.append(f"the generator {generator.__qualname__} could not be brought to where it was: {', '.join(differ)} differ")
