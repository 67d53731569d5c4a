"""Coordinates stay right whatever the program does with its loops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rearview.record import loops
from rearview.record.loops import Loop, Node


class Program:
    """A recorder without a journal: remembers where each record was made."""

    def __init__(self) -> None:
        self.root = Node(self, None, "", None)
        self.records: list[tuple[str, Any, int]] = []
        self.ends: list[tuple[str, int, str]] = []
        self._blocks = 0

    guard = None

    def next_block_id(self) -> int:
        self._blocks += 1
        return self._blocks

    def block_left(self, node: Node, ending: int) -> None:
        self.ends.append((node.name, node.iteration + 1, ("left", "exhausted", "break", "return", "exception")[ending]))

    def value_known(self, node: Node) -> None:
        pass

    def loop(self, name: str, iterable: Any = None) -> Loop:
        import sys

        return Loop(self, self.root, name, iterable, sys._getframe(1))

    def log(self, name: str, value: Any = None) -> None:
        node: Node | None = loops.here(self, self.root)
        assert node is not None
        ordinal = node.counts.get(name, 0)
        node.counts[name] = ordinal + 1
        path = []
        while node is not None and node.parent is not None:
            path.append(f"{node.name}{'+' * node.occurrence}{node.iteration}")
            node = node.parent
        self.records.append(("/".join(reversed(path)), name, ordinal))

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.records]


@pytest.fixture
def rv() -> Iterator[Program]:
    loops.current.set(None)
    yield Program()
    loops.current.set(None)


def test_nested(rv: Program) -> None:
    for _ in rv.loop("e", range(2)):
        for _ in rv.loop("s", range(2)):
            rv.log("a")
        rv.log("b")
    rv.log("c")
    assert rv.paths == ["e0/s0", "e0/s1", "e0", "e1/s0", "e1/s1", "e1", ""]
    assert rv.ends == [("s", 2, "exhausted"), ("s", 2, "exhausted"), ("e", 2, "exhausted")]


def test_break_continue_and_else(rv: Program) -> None:
    for e in rv.loop("e", range(3)):
        for s in rv.loop("s", range(5)):
            if s == 1:
                continue
            if s == 3:
                break
            rv.log("a")
        else:
            raise AssertionError("a loop left by break must not run its else")
        rv.log("b")
        if e == 1:
            break
    rv.log("c")
    assert rv.paths == ["e0/s0", "e0/s2", "e0", "e1/s0", "e1/s2", "e1", ""]


def test_return_out_of_a_helper(rv: Program) -> None:
    def helper() -> int:
        for s in rv.loop("s", range(5)):
            rv.log("a")
            if s == 1:
                return s
        return -1

    for _ in rv.loop("e", range(2)):
        helper()
        rv.log("b")
    assert rv.paths == ["e0/s0", "e0/s1", "e0", "e1/s0", "e1/s1", "e1"]


def test_exception_caught_outside(rv: Program) -> None:
    def helper() -> None:
        for _ in rv.loop("s", range(5)):
            rv.log("a")
            raise KeyError

    for _ in rv.loop("e", range(2)):
        with contextlib.suppress(KeyError):
            helper()
        rv.log("b")
        try:
            for _ in rv.loop("t", range(5)):
                raise ValueError
        except ValueError:
            rv.log("c")
    assert rv.paths == ["e0/s0", "e0", "e0", "e1/s0", "e1", "e1"]


def test_exception_while_its_traceback_holds_a_named_iterator(rv: Program) -> None:
    def helper() -> None:
        iterator = iter(rv.loop("s", range(5)))
        for _ in iterator:
            raise KeyError

    def main() -> None:
        try:
            helper()
        except KeyError as error:
            rv.log("b")  # the traceback keeps helper's frame, and so its iterator, alive
            assert error.__traceback__ is not None

    main()
    assert rv.paths == [""]


def test_iterator_driven_by_next(rv: Program) -> None:
    steps = rv.loop("s", range(10))
    for _ in rv.loop("e", range(2)):
        next(steps)
        rv.log("a")
        next(steps)
        rv.log("a")
    assert rv.paths == ["e0/s0", "e0/s1", "e1/s2", "e1/s3"]


def test_next_by_a_helper_keeps_the_coordinates_in_its_caller(rv: Program) -> None:
    class Feed:
        def __init__(self) -> None:
            self.it = iter(rv.loop("s", range(10)))

        def get(self) -> int:
            return int(next(self.it))

    def train() -> None:
        feed = Feed()
        for _ in rv.loop("e", range(2)):
            feed.get()
            rv.log("a")

    train()
    assert rv.paths == ["e0/s0", "e1/s1"]


def test_named_iterator_left_when_its_frame_returns(rv: Program) -> None:
    kept = []

    def helper() -> None:
        iterator = iter(rv.loop("s", range(5)))
        kept.append(iterator)
        next(iterator)
        rv.log("a")

    def main() -> None:
        helper()
        rv.log("b")

    main()
    assert rv.paths == ["s0", ""]


def test_inner_loop_left_when_the_outer_advances(rv: Program) -> None:
    iterators = []
    for _ in rv.loop("e", range(2)):
        iterator = iter(rv.loop("s", range(5)))
        iterators.append(iterator)
        next(iterator)
        rv.log("a")
    rv.log("b")
    assert rv.paths == ["e0/s0", "e1/s0", ""]


def test_generator_closed_late(rv: Program) -> None:
    def batches() -> Iterator[int]:
        yield from rv.loop("s", range(5))

    kept = []
    for _ in rv.loop("e", range(2)):
        generator = batches()
        kept.append(generator)
        next(generator)
        rv.log("a")
        next(generator)
        rv.log("a")
    rv.log("b")
    kept.clear()
    gc.collect()
    rv.log("c")
    assert rv.paths == ["e0/s0", "e0/s1", "e1/s0", "e1/s1", "", ""]


def test_two_loops_of_one_name(rv: Program) -> None:
    for _ in rv.loop("e", range(2)):
        for _ in rv.loop("s", range(1)):
            rv.log("a")
        for _ in rv.loop("s", range(1)):
            rv.log("a")
    assert rv.paths == ["e0/s0", "e0/s+0", "e1/s0", "e1/s+0"]


def test_loop_inside_a_loop_of_the_same_name(rv: Program) -> None:
    for _ in rv.loop("x", range(2)):
        for _ in rv.loop("x", range(1)):
            rv.log("a")
    assert rv.paths == ["x0/x0", "x1/x0"]


def test_helper_called_twice_and_unnamed_outer_for(rv: Program) -> None:
    def helper() -> None:
        for _ in rv.loop("s", range(1)):
            rv.log("a")

    for _fold in range(2):
        helper()
        helper()
    assert rv.paths == ["s0", "s+0", "s++0", "s+++0"]


def test_recursion(rv: Program) -> None:
    def descend(depth: int) -> None:
        for _ in rv.loop("d", range(2)):
            if depth:
                descend(depth - 1)
            else:
                rv.log("a")

    descend(1)
    assert rv.paths == ["d0/d0", "d0/d1", "d1/d0", "d1/d1"]


def test_ordinals_count_within_the_iteration(rv: Program) -> None:
    for _ in rv.loop("e", range(2)):
        rv.log("a")
        for _ in rv.loop("s", range(1)):
            rv.log("a")
        rv.log("a")
        rv.log("b")
    assert rv.records == [
        ("e0", "a", 0), ("e0/s0", "a", 0), ("e0", "a", 1), ("e0", "b", 0),
        ("e1", "a", 0), ("e1/s0", "a", 0), ("e1", "a", 1), ("e1", "b", 0),
    ]  # fmt: skip


def test_interleaved_iterators(rv: Program) -> None:
    for _ in zip(rv.loop("a", range(2)), rv.loop("b", range(2)), strict=False):
        rv.log("x")
    rv.log("y")
    assert rv.paths == ["a0/b0", "a1/b1", ""]


def test_threads_have_their_own_coordinates(rv: Program) -> None:
    def work() -> None:
        for _ in rv.loop("w", range(2)):
            rv.log("a")

    for _ in rv.loop("e", range(1)):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        rv.log("b")
    assert rv.paths == ["w0", "w1", "e0"]


def test_tasks_have_their_own_coordinates(rv: Program) -> None:
    async def work(name: str) -> None:
        for _ in rv.loop(name, range(2)):
            await asyncio.sleep(0)
            rv.log("a")

    async def main() -> None:
        for _ in rv.loop("e", range(1)):
            await asyncio.gather(work("p"), work("q"))
            rv.log("b")

    asyncio.run(main())
    assert sorted(rv.paths) == ["e0", "e0/p0", "e0/p1", "e0/q0", "e0/q1"]


def test_never_drained_and_never_ahead(rv: Program) -> None:
    fetched = []

    def stream() -> Iterator[int]:
        for k in range(100):
            fetched.append(k)
            yield k

    for k in rv.loop("s", stream()):
        assert fetched == list(range(k + 1))
        if k == 3:
            break
    assert fetched == [0, 1, 2, 3]


def test_nothing_of_the_user_is_kept(rv: Program) -> None:
    import weakref

    class Batch:
        pass

    seen = []

    def stream() -> Iterator[Batch]:
        for _ in range(2):
            batch = Batch()
            seen.append(weakref.ref(batch))
            yield batch
            del batch
            assert seen[-1]() is None

    for batch in rv.loop("s", stream()):
        del batch


def test_counts_without_an_iterable_and_length(rv: Program) -> None:
    for k in rv.loop("s"):
        rv.log("a")
        if k == 2:
            break
    assert rv.paths == ["s0", "s1", "s2"]
    assert len(rv.loop("s", [1, 2, 3])) == 3
    with pytest.raises(TypeError):
        len(rv.loop("s", iter([])))
    assert list(rv.loop("s", iter([5, 6]))) == [5, 6]
    assert bool(rv.loop("s", [])) is False
    assert bool(rv.loop("s", iter([]))) is True


def test_attributes_of_the_wrapped(rv: Program) -> None:
    class Loader(list[int]):
        dataset = "d"

    assert rv.loop("s", Loader([1])).dataset == "d"
    with pytest.raises(AttributeError):
        _ = rv.loop("s", Loader()).nothing


def test_an_iterator_that_raises_can_go_on(rv: Program) -> None:
    class Flaky:
        def __init__(self) -> None:
            self.k = -1

        def __iter__(self) -> Flaky:
            return self

        def __next__(self) -> int:
            self.k += 1
            if self.k == 1:
                raise OSError("lost connection")
            if self.k == 3:
                raise StopIteration
            return self.k

    iterator = iter(rv.loop("s", Flaky()))
    assert next(iterator) == 0
    with pytest.raises(OSError):
        next(iterator)
    assert next(iterator) == 2
    rv.log("a")
    with pytest.raises(StopIteration):
        next(iterator)
    assert rv.paths == ["s+2"]


def test_iterating_twice_is_two_blocks(rv: Program) -> None:
    loop = rv.loop("s", range(1))
    for _ in loop:
        rv.log("a")
    for _ in loop:
        rv.log("a")
    assert rv.paths == ["s0", "s+0"]


def test_tqdm_and_enumerate(rv: Program) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    bar = tqdm(rv.loop("e", range(3)), disable=True)
    assert len(bar) == 3
    for k in bar:
        for i, _ in enumerate(rv.loop("s", "ab")):
            rv.log("a")
            if i == k:
                break
        rv.log("b")
        if k == 1:
            break
    rv.log("c")
    assert rv.paths == ["e0/s0", "e0", "e1/s0", "e1/s1", "e1", ""]
