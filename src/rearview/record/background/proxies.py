"""The two faces of `rv.background`: a proxy that stands for an object, and one that stands for a function.

Knows what each kind of access means (queued, after the others, at once); how calls are kept and wait is below it, what happens at a
fork or the exit above.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

from rearview.record.background.arguments import Uncopyable
from rearview.record.background.calls import Call, Plain
from rearview.record.background.queue import Queue, in_words
from rearview.record.background.tensorboard import TensorBoard, summary_writer
from rearview.record.say import say

FORWARDED = (
    "__iter__", "__next__", "__len__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__bool__", "__eq__", "__ne__",
    "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__int__", "__float__", "__index__", "__add__", "__iadd__", "__lshift__",
    "__rshift__", "__fspath__",
)  # fmt: skip
"""Protocols that a proxy has if the object has them: made at once, after the queue was drained."""


class Back:
    """What stands behind a proxy: the object, its queue, and how its calls are kept."""

    def __init__(self, target: Any, queue: Queue, wait: Iterable[str], before_call: Callable[[], None]) -> None:
        self.target = target
        self.queue = queue
        queue.owner = self  # while calls wait, the object they are for is not given up
        self.calls = TensorBoard(target, wait, queue.limit_bytes) if summary_writer(target) else Plain(target, wait)
        queue.on_idle = self.calls.idle
        self._before_call = before_call
        self._open = True
        """Not closed through us."""

    def method(self, name: str) -> Callable[..., Any]:
        """What `proxy.name` is if it can be called."""
        if not self.calls.is_queued(name):
            return functools.partial(self._after_the_others, name)

        def queued(*args: Any, **kwargs: Any) -> None:
            self._ask(name, getattr(self.target, name), args, kwargs)

        return queued

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle:
        """A call of the object itself."""
        return Handle(self.queue, self._ask("", self.target, args, kwargs))

    def _ask(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        queue = self.queue
        queue.raise_error()
        self._before_call()
        self._open = True
        asked = self.calls.ask(name, method, args, kwargs)
        label = f"{queue.name}.{name}" if name else queue.name
        queue.make_room(asked.nbytes)
        try:
            kept = asked.keep()
        except Uncopyable:
            queue.give_back(asked.nbytes)
            return self._at_once(Call(lambda: method(*args, **kwargs), 0, label, _place()))
        except BaseException:
            queue.give_back(asked.nbytes)
            raise
        return queue.put(Call(kept.run, asked.nbytes, label, _place(), kept.prepare))

    def _at_once(self, call: Call) -> Call:
        self.queue.drain()
        self.queue.raise_error()
        self.queue.stats.direct += 1
        call.value = call.run()
        call.done = True
        return call

    def _after_the_others(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Made even if there is an error to tell: a file has to be closed all the same."""
        self.queue.drain()
        try:
            result = getattr(self.target, name)(*args, **kwargs)
        finally:
            self.queue.raise_error()
        if name == "close":
            self.closed()
        return result

    def settle(self) -> None:
        """Everything queued was made, and what it raised is raised."""
        self.queue.drain()
        self.queue.raise_error()

    def closed(self) -> None:
        """Nothing is to be flushed any more."""
        self._open = False
        self.calls.closed()

    def flush(self) -> None:
        """What `flush` of the object does, if it has one and was used here."""
        if self._open and self.queue.used and callable(flush := getattr(self.target, "flush", None)):
            flush()


class Handle:
    """A call of a function in the background."""

    __slots__ = ("_call", "_queue")

    def __init__(self, queue: Queue, call: Call) -> None:
        self._queue = queue
        self._call = call

    def done(self) -> bool:
        """Whether it was made."""
        return self._call.done

    def result(self, timeout: float | None = None) -> Any:
        """What it returned, once it was made; what it raised is raised."""
        if not self._queue.wait(self._call, timeout):
            raise TimeoutError(f"{self._call.label} was not done after {timeout} s: wait longer, or flush")
        error = self._call.error
        if error is not None:
            raise self._queue.take_error(self._call) or error
        return self._call.value

    def __repr__(self) -> str:
        return f"<{self._call.label} in the background, {'done' if self._call.done else 'waiting'}>"


class Function:
    """A function in the background: a call returns a `Handle` at once."""

    def __init__(self, back: Back) -> None:
        functools.update_wrapper(self, back.target)
        self._rearview = back

    def __call__(self, *args: Any, **kwargs: Any) -> Handle:
        return self._rearview.call(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a decorator in a class: a method."""
        return self if instance is None else functools.partial(self, instance)

    def flush(self) -> None:
        """Return when every call was made; raises what one of them raised."""
        self._rearview.settle()

    close = flush

    def __repr__(self) -> str:
        return f"<background of {self._rearview.target!r}>"


class Object:
    """An object in the background. `type()` tells it from the object, `isinstance` does not."""

    __slots__ = ("__weakref__", "_rearview")
    _rearview: Back

    def __init__(self, back: Back) -> None:
        object.__setattr__(self, "_rearview", back)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._rearview.target)

    def __getattr__(self, name: str) -> Any:
        back = self._rearview
        found = getattr(type(back.target), name, None)
        if callable(found) and not isinstance(found, type):
            return back.method(name)
        back.settle()
        value = getattr(back.target, name)
        return back.method(name) if callable(value) and not isinstance(value, type) and not name.startswith("__") else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._rearview.settle()
        setattr(self._rearview.target, name, value)

    def __delattr__(self, name: str) -> None:
        self._rearview.settle()
        delattr(self._rearview.target, name)

    def __dir__(self) -> list[str]:
        return dir(self._rearview.target)

    def __repr__(self) -> str:
        return f"<background of {self._rearview.target!r}>"

    def __hash__(self) -> int:
        return hash(self._rearview.target)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {self._rearview.queue.name} in the background cannot be copied or pickled: pass the object itself")


def _forwarding(name: str) -> Callable[..., Any]:
    def forwarded(self: Object, *args: Any) -> Any:
        self._rearview.settle()
        result = getattr(self._rearview.target, name)(*args)
        return self if result is self._rearview.target else result

    forwarded.__name__ = name
    return forwarded


def _call(self: Object, *args: Any, **kwargs: Any) -> Handle:
    return self._rearview.call(args, kwargs)


def _enter(self: Object) -> Any:
    self._rearview.settle()
    entered = self._rearview.target.__enter__()
    return self if entered is self._rearview.target else entered


def _exit(self: Object, *raised: Any) -> Any:
    """Also when the body raised: then a background error is only told, the body's own goes on."""
    back = self._rearview
    back.queue.drain()
    error = back.queue.take_error()
    try:
        result = back.target.__exit__(*raised)
    finally:
        back.closed()
        if error is not None and raised[0] is None:
            raise error
    if error is not None:
        say(f"an error of a background call was met while leaving with another\n{in_words(error)}")
    return result


@functools.cache
def proxy_type(kind: type) -> type[Object]:
    """A proxy type that has the protocols of the object's type, and no others."""
    special = {"__call__": _call, "__enter__": _enter, "__exit__": _exit}
    made = {name: _forwarding(name) for name in FORWARDED} | special
    has = {name: function for name, function in made.items() if _defines(kind, name)}
    return cast("type[Object]", type(f"Background{kind.__name__}", (Object,), {"__slots__": (), **has, "__hash__": Object.__hash__}))


def _defines(kind: type, name: str) -> bool:
    """Whether a class or one above it, but not `object`, says how (a class itself can always be called)."""
    return next((vars(base)[name] for base in kind.__mro__ if base is not object and name in vars(base)), None) is not None


def _place() -> tuple[str, int]:
    """Where the program is: the first frame that is not ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
