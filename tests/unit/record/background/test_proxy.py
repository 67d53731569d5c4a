"""What stands for a function or an object whose calls are made later."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from rearview.record.background.wrapping import background
from tests.unit.record.background.writers import Broken, Writer

# -- functions ---------------------------------------------------------------------------------------------------------------


def test_a_function_gives_a_handle() -> None:
    gate = threading.Event()

    @background
    def double(values: list[int]) -> list[int]:
        """Twice."""
        gate.wait(30)
        return [2 * value for value in values]

    numbers = [1, 2]
    handle: Any = double(numbers)
    numbers.append(3)
    assert not handle.done()
    with pytest.raises(TimeoutError, match="double was not done"):
        handle.result(timeout=0.01)
    gate.set()
    assert handle.result() == [2, 4]
    assert handle.done() and handle.result(timeout=1) == [2, 4]
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert "done" in repr(handle)


def test_an_error_told_by_the_handle_is_not_told_again() -> None:
    def fail(number: int) -> None:
        raise Broken(number)

    queued: Any = background(fail)
    first = queued(1)
    with pytest.raises(Broken, match="1"):
        first.result()
    with pytest.raises(Broken, match="1"):
        first.result()
    queued(2)
    with pytest.raises(Broken, match="2"):
        queued.flush()


def test_lambdas_methods_builtins_and_callable_objects() -> None:
    class Callable_:
        def __call__(self, value: int) -> int:
            return value + 1

    assert background(lambda value: value + 1)(1).result() == 2  # type: ignore[attr-defined]
    assert background(background(sum))([1, 2]).result() == 3  # type: ignore[attr-defined]
    assert background("abc".upper)().result() == "ABC"  # type: ignore[attr-defined]
    assert background(Callable_())(1).result() == 2  # type: ignore[attr-defined]


def test_in_a_class_it_is_a_method() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.saved: list[Any] = []

        @background
        def save(self, state: Any) -> Any:
            return state

    assert Trainer().save([1]).result() == [1]


@pytest.mark.parametrize("wrong", [None, Writer, int])
def test_what_cannot_be_called_later_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes an object or a function"):
        background(wrong)


def test_a_coroutine_function_is_refused() -> None:
    async def later() -> None: ...

    with pytest.raises(TypeError, match="coroutine"):
        background(later)


# -- the proxy ---------------------------------------------------------------------------------------------------------------


def test_it_looks_like_the_object() -> None:
    writer = Writer()
    proxy = background(writer)
    assert isinstance(proxy, Writer)
    assert proxy.kind == "writer"
    assert background(proxy) is proxy
    assert "seen" in dir(proxy)
    assert repr(proxy).startswith("<background of <")
    assert hash(proxy) == hash(writer)
    assert not callable(proxy)
    assert bool(proxy)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = proxy.nothing_of_that_name


def test_attributes_are_read_and_set_after_what_was_queued() -> None:
    writer = Writer()
    proxy = background(writer)
    for number in range(20):
        proxy.add(number)
    assert proxy.seen == list(range(20))
    proxy.add(20)
    proxy.seen = []
    assert writer.seen == []
    proxy.label = "x"
    assert writer.label == "x"  # type: ignore[attr-defined]
    del proxy.label
    assert not hasattr(writer, "label")


def test_methods_named_in_wait_give_their_result() -> None:
    assert background(Writer()).finish() is None
    assert background(Writer(), wait=["finish"]).finish() == "finished"
    assert background(Writer()).close() == "closed"


def test_protocols_of_the_object_work_and_others_do_not(tmp_path: Path) -> None:
    listed: Any = background([1, 2])
    listed.append(3)
    assert len(listed) == 3 and list(listed) == [1, 2, 3] and listed[0] == 1 and 2 in listed and listed == [1, 2, 3]
    listed[0] = 9
    assert listed[0] == 9
    with pytest.raises(TypeError):
        len(background(Writer()))  # type: ignore[arg-type]
    with background(open(tmp_path / "f", "w")) as file:
        file.write("a")
        file.write("b")
        assert not file.closed
    assert (tmp_path / "f").read_text() == "ab"


def test_leaving_with_an_error_of_ones_own_goes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), background(open(tmp_path / "f", "w")) as file:
        file.write(1)  # type: ignore[arg-type]
        _ = 1 / 0
    assert "write() argument must be str" in capsys.readouterr().err
    with pytest.raises(TypeError, match="must be str"), background(open(tmp_path / "f", "w")) as file:
        file.write(1)  # type: ignore[arg-type]


def test_it_is_not_copied_by_accident() -> None:
    proxy = background(Writer())
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(proxy)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(proxy)
