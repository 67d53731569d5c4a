"""What cannot be kept, is not kept on purpose, or is put back by its own code: listed by name, and left live."""

from __future__ import annotations

import ctypes
import dataclasses
import pathlib
import queue
import re
import threading
import timeit
import types
from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.testing.states import Kept, digests, roots
from tests.unit.state.round_trip import put, taken


@dataclasses.dataclass
class Settings:
    lr: float = 0.1
    names: list[str] = dataclasses.field(default_factory=list)


def test_what_cannot_be_kept_is_listed_and_stays_live(tmp_path: pathlib.Path) -> None:
    def numbers() -> Any:
        yield 1

    class Worker:
        def __init__(self) -> None:
            self.thread, self.jobs = threading.Thread(target=print), [1]

    generator, lock, worker = numbers(), threading.Lock(), Worker()
    lock.acquire()
    o = Settings()
    o.lock, o.generator, o.worker, o.inside = lock, generator, worker, [lock, 1]  # type: ignore[attr-defined]
    captured = capture(roots(o=o))
    listed = {missing.where: missing.type_name for missing in captured.missing}
    assert listed.keys() == {"o.lock", "o.generator", "o.worker"}
    assert listed["o.generator"] == "generator"
    assert "lock" in listed["o.lock"]
    kept = Kept(captured)
    o.lr = 9
    worker.jobs.append(2)
    plan(kept.tree, roots(o=o), kept).apply()
    assert o.lr == 0.1
    assert o.lock is lock  # type: ignore[attr-defined]
    assert o.generator is generator  # type: ignore[attr-defined]
    assert o.worker is worker  # type: ignore[attr-defined]
    assert worker.jobs == [1, 2]
    fresh = Settings()
    other = fresh.lock = threading.Lock()  # type: ignore[attr-defined]
    made = plan(kept.tree, roots(o=fresh), kept)
    assert {note.where for note in made.notes} == {"o.generator", "o.worker"}
    made.apply()
    assert fresh.lock is other  # type: ignore[attr-defined]
    assert not hasattr(fresh, "generator")
    assert fresh.inside == [other, 1]  # type: ignore[attr-defined]


def test_objects_whose_own_code_fails_are_listed() -> None:
    class Broken:
        def __getstate__(self) -> Any:
            raise RuntimeError("not now")

        def __setstate__(self, state: Any) -> None: ...

    captured = capture(roots(b=Broken(), n=1))
    assert [(missing.where, missing.why) for missing in captured.missing] == [("b", "RuntimeError: not now")]


def test_a_class_that_is_gone_refuses_with_its_name() -> None:
    gone = types.ModuleType("gone_module")
    exec("class Thing:\n    pass", vars(gone))
    import sys

    sys.modules["gone_module"] = gone
    try:
        kept = taken(o=[vars(gone)["Thing"]()], n=[1])
    finally:
        del sys.modules["gone_module"]
    live = {"n": [5]}
    with pytest.raises(RestoreRefused, match=r"gone_module") as refused:
        plan(kept.tree, roots(**live), kept)
    assert len(refused.value.reasons) == 1
    assert live["n"] == [5]


def test_omitting_on_purpose_is_noticed() -> None:
    o = Settings(names=["a"])
    whole = digests(capture(roots(o=o)))
    captured = capture(roots(o=o), omit=lambda where, _: where == "o.names")
    assert [missing.where for missing in captured.missing] == ["o.names"]
    assert digests(captured) != whole


def test_objects_of_other_libraries_are_put_back_by_their_own_code_and_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})
    captured = capture(roots(frame=frame, n=1))
    assert captured.missing == []
    assert captured.pickled != []
    assert all(where.startswith("frame") for where in captured.pickled)
    kept = Kept(captured)
    copy = frame.copy()
    frame.loc[0, "a"] = 99
    back = plan(kept.tree, roots(frame=frame), kept).apply()["given", "frame"]
    assert back is frame
    assert back.equals(copy)
    assert plan(kept.tree, {}, kept).apply()["given", "frame"].equals(copy)


def test_what_is_rearviews_own_stays_and_lacks_nowhere() -> None:
    from rearview.record.loops import Node as Loop

    loop = Loop.__new__(Loop)
    o: dict[str, Any] = {"mine": [1], "loop": loop}
    captured = capture(roots(o=o))
    assert captured.missing == []
    kept = Kept(captured)
    o["mine"].append(2)
    back = plan(kept.tree, roots(o=o), kept).apply()["given", "o"]
    assert back["loop"] is loop
    assert back["mine"] == [1]


def test_locks_that_nobody_holds_are_no_state() -> None:
    o = {"lock": threading.Lock(), "again": threading.RLock(), "event": threading.Event(), "jobs": queue.Queue()}
    o["jobs"].put(1)  # type: ignore[attr-defined]
    kept = taken(o=o)
    lock = o["lock"]
    o["jobs"].put(2)  # type: ignore[attr-defined]
    o["event"].set()  # type: ignore[attr-defined]
    back = put(kept, o=o)["o"]
    assert back["lock"] is lock
    assert not back["event"].is_set()
    assert list(back["jobs"].queue) == [1]
    anew = put(kept)["o"]
    assert anew["jobs"].get(timeout=1) == 1
    with anew["lock"], anew["again"]:
        pass


def test_what_was_made_in_a_loop_of_code_or_classes_that_have_no_name_refuses_nothing() -> None:
    numbers = re.finditer(r"\d+", "1 22 333")
    next(numbers)
    made = {
        "numbers": numbers, "cells": (ctypes.c_double * 4)(1, 2), "text": ctypes.create_string_buffer(b"abc"),
        "timer": timeit.Timer("1 + 1"),
    }  # fmt: skip
    captured = capture(roots(**made, n=1))
    assert {missing.where.partition("[")[0] for missing in captured.missing} == made.keys()
    kept = Kept(captured)
    there = plan(kept.tree, roots(**made, n=5), kept).apply()
    assert all(there["given", name] is value for name, value in made.items() if name != "numbers")
    assert next(there["given", "numbers"]).group() == "22", "the live one stays"  # type: ignore[call-overload]
    for nothing in ({}, dict.fromkeys(made)):
        back = plan(kept.tree, roots(**nothing), kept).apply()
        assert back["given", "n"] == 1


def test_methods_of_expressions_libraries_and_read_only_dicts_are_kept() -> None:
    o = {
        "word": re.compile(r"[a-z]+").match, "libc": ctypes.CDLL(None), "settings": types.MappingProxyType({"lr": [0.1]}),
        "again": None,
    }  # fmt: skip
    o["again"] = o["settings"]
    kept = taken(o=o)
    for live in ({}, {"o": dict.fromkeys(o)}, {"o": o}):
        back = put(kept, **live)["o"]
        assert back["word"]("ab1").group() == "ab"
        assert back["libc"].abs(-3) == 3
        assert back["settings"] == {"lr": [0.1]}
        assert back["again"] is back["settings"]
        assert type(back["settings"]) is types.MappingProxyType
    assert put(kept, o=o)["o"]["libc"] is o["libc"]
    assert [one.why for one in capture(roots(view=vars(Settings))).missing] == ["a view of a namespace"]


def test_a_lock_is_made_where_there_is_nothing() -> None:
    kept = taken(lock=threading.Lock())
    made: Any = put(kept, lock=None)["lock"]
    assert made.acquire(blocking=False)
