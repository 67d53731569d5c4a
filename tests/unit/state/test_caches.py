"""What cached functions of the project remember."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable
from typing import Any

from rearview.state.caches import Caches
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.state.take.walk import Lost
from rearview.testing.states import Kept

TEXT = """
import functools, random

@functools.cache
def free(x, y=0): return random.random()

@functools.lru_cache(maxsize=4)
def limited(x): return random.random()

class Owner:
    @staticmethod
    @functools.cache
    def fixed(x): return random.random()
"""


def loaded() -> tuple[list[tuple[str, types.ModuleType]], Any]:
    module: Any = types.ModuleType("of_a_program")
    exec(TEXT, vars(module))
    return [("of_a_program", module)], module


def test_answers_go_into_the_cache_of_another_process() -> None:
    modules, then = loaded()
    caches = Caches(modules)
    expected = [then.free(1), then.free(2, 3), then.Owner.fixed("a")]
    kept = Kept(capture(caches.roots(modules)))
    modules, now = loaded()
    now.free(9)
    plan(kept.tree, Caches(modules).roots(modules), kept).apply()
    assert [now.free(1), now.free(2, 3), now.Owner.fixed("a")] == expected
    assert now.free.cache_info().currsize == 2, "what was not remembered then is not now"


def test_what_cannot_be_filled_again_is_named_if_the_loops_filled_it() -> None:
    modules, module = loaded()
    module.limited(1)
    caches = Caches(modules)
    module.limited(1)
    assert capture(caches.roots(modules)).missing == [], "the code before the loops fills it again"
    module.limited(2)
    module.free(x=1)
    missing = capture(caches.roots(modules)).missing
    assert {lack.where for lack in missing} == {"of_a_program.limited", "of_a_program.free"}


def test_a_cache_of_a_library_is_its_own() -> None:
    modules, module = loaded()
    outside: Callable[[int], float] = functools.lru_cache(maxsize=4)(lambda x: random.random() + x)
    outside.__module__ = "elsewhere"
    module.borrowed = outside
    caches = Caches(modules)
    outside(1)
    assert not any(isinstance(value, Lost) for value in caches.roots(modules).values())
