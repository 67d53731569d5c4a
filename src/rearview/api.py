"""The public calls. Thin: each asks the session what it means in this process; reading asks the catalog."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rearview import session

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo
    from rearview.record.explicit import RunContext

T = TypeVar("T")


def _begin() -> session.Session:
    with session.lock:  # also the import: a child forked meanwhile would wait for it for ever
        from rearview.record import lifecycle

        return lifecycle.begin_implicitly()


def log(name: str, value: T, *, volatile: bool = False) -> T:
    """Record a value under a name, at the place in the loops where the program is, and return it.

    When the call returns, the record survives a SIGKILL. `volatile=True` marks a value that is not expected to repeat
    (times, throughput).
    """
    active = session.active
    if active is None:
        _check_name("log", name)
        active = _begin()
    active.log(name, value, volatile)
    return value


def arg(name: str, default: Any = None) -> Any:
    """The value of an argument: given by `rearview run --arg name=value` or `--kwargs name=value`, else the default.

    A given value is typed by the default; one that does not fit is an error that says what is expected.
    """
    _check_name("arg", name)
    active = session.active
    if active is None:
        active = _begin()
    return active.arg(name, default)


@overload
def loop(name: str) -> Iterable[int]: ...
@overload
def loop(name: str, iterable: Iterable[T]) -> Iterable[T]: ...
def loop(name: str, iterable: Iterable[Any] | None = None) -> Iterable[Any]:
    """The same iterable, known to be a loop: what is logged inside carries its coordinates.

    Never drained, never copied; `len()` works if it did. Without an iterable it counts from 0, for `while True` programs.
    """
    _check_name("loop", name)
    active = session.active
    if active is None:
        active = _begin()
    return active.loop(name, iterable)


def checkpointing(**objects: Any) -> AbstractContextManager[Any]:
    """Keep the state of the program at the boundaries of the `rv.loop`s inside: `with rv.checkpointing(net=net, opt=opt): ...`.

    What is named is captured, or the run says at once that it cannot; variables of the function and what the loop assigns are captured
    too. Without arguments everything stateful in scope is. How often: settings `eps` and `every`.
    """
    active = session.active
    if active is None:
        active = _begin()
    return active.checkpointing(objects, sys._getframe(1))


def resume(*, key: str | None = None) -> bool:
    """At the top of a script: go on with the newest unfinished run of the same script, argv and arguments, if there is one.

    For clusters that restart jobs. `key` names what belongs together instead; by default the scheduler's job id does. Never a run that is
    still alive; anew after a finished one. True if it goes on.
    """
    if key is not None and not isinstance(key, str):
        raise TypeError(f"rv.resume takes text as key, not {type(key).__name__}")
    with session.lock:
        from rearview.record import lifecycle

    return lifecycle.resume(key)


def background(target: T, *, limit_bytes: int = 256 << 20, wait: Iterable[str] = ()) -> T:
    """The same object or function, with its calls run in order by a thread of ours: what was given is what it was at the call.

    For a TensorBoard `SummaryWriter` and the like: serialising and writing leave the training thread. At most `limit_bytes` of
    arguments wait. `flush`, `close` and the methods named in `wait` come after everything queued and give their result.
    """
    from rearview.record.background.wrapping import background as put_behind

    return put_behind(target, limit_bytes=limit_bytes, wait=wait)


def checkpoint(run: str = "last", *, at: str | None = None, **place: Any) -> Any:
    """A past state: `rv.checkpoint("last", epoch=3)["net"]` is the state dict at the end of the epoch called 3.

    `.restore(net=net)` puts it into live objects.
    """
    from rearview.past import checkpoint as look_up

    return look_up(run, at=at, **place)


def skip_block(name: str) -> Any:
    """A block of the program whose end state is kept, so that a resumed run need not go through it again.

    `block = rv.skip_block("train")`, `if block.step_into(): ...`, `block.end(net, opt)`.
    """
    _check_name("skip_block", name)
    active = session.active
    if active is None:
        active = _begin()
    return active.skip_block(name)


def run(
    *, name: str | None = None, tags: Sequence[str] = (), notes: str | None = None, eps: float | None = None, every: int | None = None,
    risk: float | None = None, keep: str | None = None, peak: str | None = None, checkpoints: bool | None = None,
) -> RunContext:  # fmt: skip
    """Begin a run explicitly, for notebooks and for several runs in one process: `with rv.run(name="a"): ...`.

    The others are settings of its checkpoints, for this run alone.
    """
    with session.lock:
        from rearview.record import explicit

    listed = [tags] if isinstance(tags, str) else list(tags)
    for what, text in (("name", name), ("notes", notes), *(("tags", tag) for tag in listed)):
        if not (isinstance(text, str) or (text is None and what != "tags")):
            raise TypeError(f"rv.run takes text as {what}, not {type(text).__name__}")
    settings = {"eps": eps, "every": every, "risk": risk, "keep": keep, "peak": peak, "checkpoints": checkpoints}
    return explicit.run_explicitly(name, listed, notes, settings)


def _check_name(call: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"rv.{call} takes a name as text first, not {type(name).__name__}")


# -- reading ---------------------------------------------------------------------------------------------------------


def dataframe(*names: str, where: str | None = None, as_: str | None = None, provenance: bool = False) -> Any:
    """One table over all runs: a column per name, beside project, run, time, script and one column per loop.

    pandas if it can be imported, else polars, else Arrow; `as_="pandas" | "polars" | "arrow" | "rows"` chooses. With
    `provenance=True` each name is followed by where its values came from (`recorded`, `replayed`) and their verdict.
    """
    with _catalog() as catalog:
        table = catalog.table(list(names), where=where, provenance=provenance)
        _say_notes(table.notes)
        return _as(table, as_)


def replay(
    *names: str, where: str | None = None, run: str | None = None, only: str | None = None, at: str | None = None,
    expression: str | None = None, before: bool = False, workers: int | None = None, from_start: bool = False, isolate: bool = False,
    unsure: bool = False, missing: bool = False, as_: str | None = None, provenance: bool = False,
) -> Any:  # fmt: skip
    """Fill the columns of log statements that were added since, and give the table: `rv.replay("grad_norm")`.

    Calling it is the agreement to its plan. Without names: every statement that was added. `where`, `run` and `only`
    (`"epoch=10..20"`) choose; `at="train.py:42", expression="norm(net)"` asks without editing. Runs of other versions are asked where
    the statement has a certain place in their source; with `unsure=True` also where it is uncertain. `missing=True` asks what was
    asked before of runs that have no answer yet.
    """
    from rearview.replay import asking

    store = _recording_store()
    filled = asking.replay(
        *names, where=where, run=run, only=only, at=at, expression=expression, before=before, workers=workers, from_start=from_start,
        isolate=isolate, unsure=unsure, missing_only=missing, store=store,
    )  # fmt: skip
    with _catalog() as catalog:
        table = catalog.table(filled, where=where, provenance=provenance)
        _say_notes(table.notes)
        return _as(table, as_)


def sql(query: str, *, as_: str = "rows") -> Any:
    """Rows of one SELECT over the views runs, logs, loops, args, checkpoints, replayed and wide, as a list of dicts."""
    with _catalog() as catalog:
        table = catalog.sql(query)
        _say_notes(table.notes)
        return _as(table, as_)


def runs(where: str | None = None, limit: int | None = None) -> list[RunInfo]:
    """The runs of this project, newest first."""
    with _catalog() as catalog:
        return list(catalog.runs(where=where, limit=limit))


def _catalog() -> Any:
    from rearview import config
    from rearview.catalog.catalog import Catalog
    from rearview.store import layout

    store = _recording_store() or layout.locate(Path.cwd())
    return Catalog(store, timeout_s=config.load(store.project)["query_timeout"])


def _recording_store() -> Any:
    """A program that reads while it records means its own store, wherever it has gone since."""
    return getattr(session.active, "store", None)


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        sys.stderr.write(f"rearview: {note}\n")


def _as(table: Any, as_: str | None) -> Any:
    from rearview.errors import MissingLibrary, UsageError

    if as_ == "rows":
        return table.dicts()
    makers = {"pandas": table.to_pandas, "polars": table.to_polars, "arrow": table.to_arrow}
    if as_ is not None:
        if as_ not in makers:
            raise UsageError(f"as_ is {as_!r}, expected one of: {', '.join(makers)}, rows")
        return makers[as_]()
    for make in makers.values():
        try:
            return make()
        except MissingLibrary:
            continue
    raise MissingLibrary("rv.dataframe needs pandas, polars or pyarrow: `pip install rearview-ml[pandas]`, or ask with as_='rows'")
