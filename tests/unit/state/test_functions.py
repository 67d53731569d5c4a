"""Functions, lambdas and closures: cells written in place, shared cells stay shared, functions made again from the code that runs."""

from __future__ import annotations

import functools
import math
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state import remade
from rearview.state.restore import plan
from rearview.state.take.objects import named
from tests.unit.state.round_trip import put, taken


def counter(start: int) -> tuple[Callable[[], int], Callable[[], int]]:
    count = start

    def up() -> int:
        nonlocal count
        count += 1
        return count

    def read() -> int:
        return count

    return up, read


def accumulator(items: list[int]) -> Callable[..., Any]:
    return lambda x, seen=[], *, scale=items: (seen.append(x), items.append(x), len(seen), scale)


class Model:
    def __init__(self) -> None:
        self.n = 0

    def step(self, by: int = 1) -> int:
        self.n += by
        return self.n


def top(x: int) -> int:
    return x + 1


@functools.lru_cache
def cached(x: int) -> int:
    return x


def test_cells_are_written_into_the_live_functions() -> None:
    up, read = counter(5)
    up()
    kept = taken(up=up, read=read)
    up()
    up()
    back = put(kept, up=up, read=read)
    assert back["up"] is up
    assert back["read"] is read
    assert read() == 6
    assert up() == 7
    assert read() == 7, "the two still share their cell"


def test_into_functions_made_anew_and_into_nothing() -> None:
    up, read = counter(5)
    up()
    kept = taken(up=up, read=read)
    for live in (dict(zip(("up", "read"), counter(0), strict=True)), {}, {"up": counter(0)[0], "read": counter(0)[1]}):
        back = put(kept, **live)
        assert back["up"]() == 7
        assert back["read"]() == 7
        assert back["up"].__qualname__ == up.__qualname__
        assert back["up"].__module__ == up.__module__


def test_defaults_attributes_and_lambdas() -> None:
    items = [1]
    f = accumulator(items)
    f(3)
    f.calls = {"n": 1}  # type: ignore[attr-defined]
    kept = taken(f=f, items=items)
    for live in ({"f": f, "items": items}, {}):
        f(4)
        f.calls["n"] = 9  # type: ignore[attr-defined]
        back = put(kept, **live)
        g = back["f"]
        assert g.calls == {"n": 1}
        seen = g.__defaults__[0]
        assert seen == [3]
        assert back["items"] == [1, 3]
        assert g.__kwdefaults__["scale"] is back["items"]
        assert g(7)[2] == 2
        assert back["items"] == [1, 3, 7]


def test_functions_that_have_names_are_named() -> None:
    kept = taken(f=top, c=cached, p=functools.partial(top, 3), m=Model.step, t=types.SimpleNamespace)
    back = put(kept)
    assert back["f"] is top
    assert back["c"] is cached
    assert back["m"] is Model.step
    assert back["p"]() == 4


def test_functions_of_libraries_written_in_c_are_named() -> None:
    """torch says of its functions that they belong to a class, and shows them as its own."""
    torch = pytest.importorskip("torch")
    functions = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "sqrt": math.sqrt, "erf": torch.special.erf, "join": os.path.join}
    kept = taken(acts=functions, act=torch.relu)
    back = put(kept)
    assert back["act"] is torch.relu
    assert all(back["acts"][name] is function for name, function in functions.items())
    assert named(torch.relu) == ("torch", "relu")


def test_methods_stay_with_their_objects() -> None:
    model = Model()
    model.step(4)
    o = {"model": model, "step": model.step, "append": [1].append, "partial": functools.partial(model.step, by=2)}
    kept = taken(o=o)
    model.step(10)
    back = put(kept, o=o)["o"]
    assert back["model"] is model
    assert back["step"]() == 5
    assert back["partial"]() == 7
    anew = put(kept)["o"]
    assert anew["step"]() == 5
    assert anew["model"].n == 5
    assert anew["step"].__self__ is anew["model"]


def test_a_function_of_a_running_function_is_found_by_its_frame() -> None:
    namespace: dict[str, Any] = {"__name__": "program_without_a_module"}
    text = "def main(take):\n    scale = 3\n    def f(x):\n        return x * scale\n    return take(f)\n"
    exec(compile(text, "program", "exec"), namespace)
    main = namespace["main"]
    kept = main(lambda f: taken(f=f))
    with pytest.raises(RestoreRefused, match=r"the function main.<locals>.f of program_without_a_module is not in the code"):
        plan(kept.tree, {}, kept)
    module = sys.modules["program_without_a_module"] = types.ModuleType("program_without_a_module")
    try:
        f = put(kept, codes=[main.__code__])["f"]
        assert f(5) == 15
        assert f.__globals__ is vars(module)
    finally:
        del sys.modules["program_without_a_module"]


def test_empty_cells() -> None:
    def build(fill: bool) -> tuple[Any, Any]:
        def f() -> Any:
            return value

        def set_to(x: Any) -> None:
            nonlocal value
            value = x

        if fill:
            value = [1]
        return f, set_to

    f, set_to = build(False)
    kept = taken(f=f)
    set_to(5)
    assert f() == 5
    put(kept, f=f)
    with pytest.raises(NameError):
        f()
    g, _ = build(True)
    assert put(taken(f=g))["f"]() == [1]


def test_recursive_closures_and_decorators() -> None:
    def decorate(function: Any) -> Any:
        calls = []

        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            calls.append(args)
            return function(*args), len(calls)

        return wrapper

    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    wrapped = decorate(top)
    wrapped(1)
    kept = taken(f=factorial, w=wrapped)
    wrapped(2)
    back = put(kept, f=factorial, w=wrapped)
    assert back["w"] is wrapped
    assert wrapped(3) == (4, 2)
    anew = put(kept, codes=[sys._getframe().f_code])
    assert anew["f"](5) == 120
    assert anew["w"](3) == (4, 2)
    assert anew["w"].__wrapped__ is top


def test_an_edited_function_takes_what_the_recorded_one_held() -> None:
    def program(text: str) -> Any:
        namespace: dict[str, Any] = {"__name__": __name__}
        exec(compile(text, "program", "exec"), namespace)
        return namespace["make"]()

    before = program("def make():\n    n = 1\n    def f():\n        nonlocal n\n        n += 1\n        return n\n    return f")
    before()
    kept = taken(f=before)
    after = program(
        "def make():\n    # a comment\n    n = 0\n    def f():\n        nonlocal n\n        n += 10\n        return n\n    return f"
    )
    assert put(kept, f=after)["f"] is after
    assert after() == 12


def test_what_loops_made_is_kept_by_loops_that_follow_and_what_was_made_between_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_twice")
    monkeypatch.setitem(sys.modules, "made_twice", module)
    modules = [("made_twice", module)]
    source = "def f(): return {}\ndef g(): return {}\n"
    exec(source.format(0, 0), vars(module))
    first = remade.Began(modules)
    exec(source.format(1, 0).partition("def g")[0], vars(module))  # in the first loop
    first.ended(modules)
    exec("def g(): return 2\nclass Between: pass", vars(module))  # behind it: that runs again
    second = remade.Began(modules, first)
    made = second.since(modules, list)
    assert [key[-1] for key in made] == ["f"]
    second.ended(modules)
    third = remade.Began(modules, second)
    assert [key[-1] for key in third.since(modules, list)] == ["f"]


def test_a_lambda_of_a_text_is_not_taken_for_another_lambda() -> None:
    kept = taken(f=eval("lambda x: x + 1"))
    with pytest.raises(RestoreRefused, match="the function <lambda> of"):
        put(kept, codes=[(lambda x: x + 2).__code__])
