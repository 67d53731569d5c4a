"""Objects of any class: their attributes, their own protocol for being copied, or, if neither is there, the reason why not.

Decided once per class: attributes where they are all there is; `__getstate__` where `__setstate__` takes it back; what the class
says about its copying (`__reduce_ex__`) otherwise. Classes, functions and modules that can be imported are kept by their names.
"""

from __future__ import annotations

import _csv
import contextvars
import copyreg
import functools
import gc
import io
import itertools
import logging
import sys
import threading
import types
import warnings
from typing import Any

from rearview.state.take import dropped
from rearview.state.take.attributes import attributes, own_dict, plain_layout
from rearview.state.take.loggers import take_logger
from rearview.state.take.owners import is_the_users
from rearview.state.take.walk import Taker, Uncapturable, Walk, identity
from rearview.state.tree import NOTHING, Node
from rearview.store.encoding import type_name

_LIVE_TYPES: dict[str, str] = {
    "threading.Thread": "a thread",
    "multiprocessing.process.BaseProcess": "a process",
    "concurrent.futures._base.Executor": "it owns threads or processes",
    "concurrent.futures._base.Future": "work that is under way",
    "subprocess.Popen": "a process",
    "logging.Handler": "it writes outside the program",
    "asyncio.events.AbstractEventLoop": "it runs tasks",
    "asyncio.futures.Future": "work that is under way",
    "multiprocessing.pool.Pool": "it owns processes",
    "timeit.Timer": "its code is made of text",
    "pyarrow.lib.Table": "a table that is read, perhaps from a mapped file",
    "datasets.table.Table": "a table that is read, perhaps from a mapped file",
}
"""Objects that are more than their attributes, by class."""

_WRITING = frozenset(
    ("logging.StreamHandler", "logging.FileHandler", "logging.NullHandler", "logging.handlers.RotatingFileHandler",
     "logging.handlers.TimedRotatingFileHandler", "logging.handlers.WatchedFileHandler")
)  # fmt: skip
"""Handlers of `logging` that write what they are given and hold nothing back. A program's own may keep what was logged."""

_OURS = __name__.partition(".")[0]
_OWN_PROTOCOLS = frozenset((*sys.stdlib_module_names, "torch", "numpy"))
"""Libraries whose objects are known; of any other it is said that they are put back by their own code for being pickled."""

_OF_THE_LAUNCH = ("torch._C._distributed", "torch.distributed.distributed_c10d", "torch.distributed.device_mesh")
"""Groups, stores and reducers of a launch hold no state of the training."""

_OVER_HASHED = frozenset(
    "dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator dict_reversevalueiterator dict_reverseitemiterator "
    "set_iterator odict_iterator".split()
)
"""Iterators that are copied as a list of what they have left."""

_AT_WORK = ("threading.Thread", "multiprocessing.process.BaseProcess", "concurrent.futures._base.Executor", "subprocess.Popen")

LIVE_PACKAGES = frozenset(
    (
        "tensorboard",
        "tensorboardX",
        "wandb",
        "mlflow",
        "comet_ml",
        "neptune",
        "clearml",
        "aim",
        "rich",
        "IPython",
        "ipykernel",
        "matplotlib",
        "plotly",
        "bokeh",
        "altair",
        "visdom",
    )
)
"""Libraries whose objects show or send what happens; the training does not depend on them."""

_BUILT_IN: dict[type, str] = {
    types.FrameType: "a running function",
    types.TracebackType: "a traceback of running functions",
    types.GeneratorType: "a generator: its position is not known",
    types.CoroutineType: "a coroutine",
    types.AsyncGeneratorType: "an asynchronous generator",
    memoryview: "a view of memory",
    types.CodeType: "code",
}


def take_module(walk: Walk, value: types.ModuleType) -> Node:
    """A module, by its name."""
    return ("module", (walk.slot(value.__name__),))


def named(value: Any) -> tuple[str, str] | None:
    """(module, qualified name) under which an object can be found again, if it can."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<locals>" in name or "<lambda>" in name:
        return None
    if found(module, name) is value:
        return module, name
    if isinstance(value, types.BuiltinFunctionType) and found(module, value.__name__) is value:
        return module, value.__name__  # torch says of its functions that they belong to a class, and shows them as its own
    return None


def found(module: str, name: str) -> Any:
    """What a loaded module calls by a qualified name; None if nothing."""
    at: Any = sys.modules.get(module)
    for part in name.split("."):
        at = getattr(at, part, None)
    return at


_ONE_OF_A_KIND = (
    ("random", "_inst"), ("numpy.random.mtrand", "_rand"), ("numpy.random.mtrand", "_rand._bit_generator"), ("torch", "default_generator"),
    ("os", "environ"), ("sys", "stdin"), ("sys", "stdout"), ("sys", "stderr"), ("sys", "modules"),
    ("sys", "__stdin__"), ("sys", "__stdout__"), ("sys", "__stderr__"),
)  # fmt: skip
"""Objects of the process that are meant by their names: the global random streams are kept by themselves, in `streams`. What the program
put there of a class of its own (a `sys.stdout` that tells a file as well) is one like any other."""


def take_names(walk: Walk) -> None:
    """Know the objects that every process has before any is met."""
    for module, name in _ONE_OF_A_KIND:
        value = found(module, name)
        if value is not None and identity(value) not in walk.memo and not is_the_users(type(value).__module__):
            walk.memo[identity(value)] = walk.add(("ref", walk.slots((module, name))))
            walk.keep.append(value)


def take_object(walk: Walk, value: Any) -> Node:
    """An object that is its attributes."""
    at_work = walk.at_work
    for held in list((own_dict(value) or {}).values()):
        kind = type(held)
        working = at_work.get(kind)
        if working or (working is None and _at_work(walk, kind)):
            raise Uncapturable(f"it owns a {kind.__name__}")
    return ("obj", (walk.slot(type(value)), *attributes(walk, value)))


def _at_work(walk: Walk, kind: type) -> bool:
    """Whether objects of a class are threads or processes: who holds one is more than its attributes."""
    names = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__}
    walk.at_work[kind] = known = not names.isdisjoint(_AT_WORK)
    return known


def take_state(walk: Walk, value: Any) -> Node:
    """An object that gives out its state and takes it back."""
    state = value.__getstate__()
    walk.keep.append(state)
    for name in dropped.names(value, [state]):
        walk.differs(value, dropped.WHY, f".{name}")
    return ("getset", (walk.slot(type(value)), walk.slot(state)))


def reduced(value: Any) -> str | tuple[Any, ...]:
    """What an object says about how it is copied."""
    reducer = copyreg.dispatch_table.get(type(value)) or _reduce
    if type(value).__module__ != "itertools":
        return reducer(value)
    with warnings.catch_warnings():  # only here: it makes Python forget which warnings it has shown
        warnings.simplefilter("ignore")  # they warn that they will be copied no longer
        return reducer(value)


def _reduce(value: Any) -> Any:
    return value.__reduce_ex__(4)


def take_reduced(walk: Walk, value: Any) -> Node:
    """An object that is copied by a call, and perhaps a state put in afterwards."""
    answer = reduced(value)
    if isinstance(answer, str):
        return ("ref", (walk.slot(_module_of(value, answer)), walk.slot(answer)))
    if type(value).__module__.partition(".")[0] not in _OWN_PROTOCOLS:
        walk.pickled.append(walk.at)
    function, args, state, items, pairs, setter = [*answer, None, None, None, None][:6]
    if state == {} and isinstance(value, BaseException):  # it has one once anybody has looked
        state = None
    parts = [type(value), function, args, state, None if items is None else list(items), None if pairs is None else list(pairs), setter]
    walk.keep.append(parts)
    if state is None and items is None and pairs is None and own_dict(value) and is_the_users(type(value).__module__):
        walk.differs(value, dropped.WHY)  # it is found by its name, whatever was set on it
    for name in dropped.names(value, parts[2:6]):
        walk.differs(value, dropped.WHY, f".{name}")
    if type(value).__name__ in _OVER_HASHED and args[0]:
        walk.differs(value, "an iterator over a dict or set: it comes back over what it has left now, whatever is changed in that")
    return ("reduce", walk.slots(parts))


def _take_groups(walk: Walk, value: Any) -> Node:
    """Groups of neighbours. One that was begun and not taken to its end says nothing of its key when it is copied: it would come again."""
    answer, held = reduced(value), [one for one in gc.get_referents(value) if one is not type(value)]  # which it refers to from 3.12 on
    if len(answer) > 2 or len(held) < 3:  # between two groups, or before the first
        return take_reduced(walk, value)
    return ("reduce", walk.slots((type(value), begun_group, (*answer[1], held[2]), None, None, None, None)))


def begun_group(values: Any, key: Any, of: Any) -> Any:
    """Groups of neighbours of which one was begun, the one of that key. For states that are put back."""
    groups: Any = itertools.groupby(values, key)
    groups.__setstate__((of, None, of))
    next(itertools._grouper(groups, of))  # type: ignore[attr-defined]  # what was taken last is taken
    return groups


def _module_of(value: Any, name: str) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    if found(module, name) is not value:
        raise Uncapturable(f"it says it is {module}.{name}, which is something else")
    return str(module)


def _take_ours(walk: Walk, value: Any) -> Node:
    """Something of rearview's own, or that every launch makes anew: it stays, and is nothing that a state lacks."""
    return ("live", walk.slots((type_name(value), "belongs to the process", None)))


def stands_before(value: Any) -> bool:
    """Whether it is what `rv.background` puts before an object of the program's own: that may remember what it was told."""
    if not hasattr(type(value), "_rearview"):
        return False
    return is_the_users(type(object.__getattribute__(value, "_rearview").target).__module__)


def _take_wrapped(walk: Walk, value: Any) -> Node:
    """What `rv.background` made."""
    if stands_before(value):
        walk.differs(value, "what rv.background stands before is not kept: it is as the code before the loop makes it")
    return _take_ours(walk, value)


def _take_csv_writer(walk: Walk, value: Any) -> Node:
    """A writer of rows: how it writes is fixed, and the file has a place of its own in the state."""
    return ("live", walk.slots((type_name(value), "it writes into a file, and has no other state", None)))


def _take_handler(walk: Walk, value: Any) -> Node:
    """A handler that writes at once: the live one stays, made by the code before the loop. Its file goes on as other output files do."""
    stream = getattr(value, "stream", None)
    shown = (None, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    if not isinstance(stream, io.TextIOWrapper) and not any(stream is one for one in shown):
        raise Uncapturable("it writes into something that the program may read")
    walk.differs(value, "a handler of logging, which is not kept: it is as the code before the loop makes it")
    return ("live", walk.slots((type_name(value), "it shows what is logged, and has no other state", None)))


def keyed(compare: Any, *held: Any) -> Any:
    """What `functools.cmp_to_key` makes of a comparison, and of a value if there is one."""
    key = functools.cmp_to_key(compare)
    return key(*held) if held else key


def _take_key(walk: Walk, value: Any) -> Node:
    """A key made of a comparison: what it refers to is its class, the comparison, and the value if it is the key of one."""
    compare, *held = (one for one in gc.get_referents(value) if one is not type(value))
    return ("reduce", walk.slots((None, keyed, (compare, *held), None, None, None, None)))


def _take_bar(walk: Walk, value: Any) -> Node:
    """A progress bar: the live one stays, and counts on as its loop does. What it runs over is part of the state."""
    within = getattr(value, "iterable", None)
    if hasattr(type(within), "__next__") and not _is_ours(type(within)):  # where a loop is belongs to the checkpoint
        raise Uncapturable("a progress bar around an iterator: how far that has come is not known")
    walk.differs(value, "a progress bar, which is not kept: it shows what is done since")
    return ("live", (*walk.slots((type_name(value), "a progress bar", None)), walk.slot(within)))


def _take_proxy(walk: Walk, value: Any) -> Node:
    """A read-only view of a dict, by that dict; not the namespace of a class."""
    mapping = gc.get_referents(value)[0]
    if type(mapping) is not dict or "__module__" in mapping:
        raise Uncapturable("a view of a namespace")
    return ("reduce", walk.slots((type(value), type(value), (mapping,), None, None, None, None)))


def _take_context_variable(walk: Walk, value: contextvars.ContextVar[Any]) -> Node:
    """A variable of the context, with what the program's context has for it: the live one stays, and is set."""
    context = contextvars.copy_context()
    held = walk.slot(context[value]) if value in context else NOTHING
    kind: Any = contextvars.ContextVar
    maker = functools.partial(kind, value.name)
    return ("live", (*walk.slots((type_name(value), "a context variable", maker)), held))


def _take_library(walk: Walk, value: Any) -> Node:
    """A library that was loaded: the live one stays, and where there is none it is loaded again."""
    kind: Any = type(value)
    return ("live", walk.slots((type_name(value), "a library that was loaded", functools.partial(kind, value._name))))


def _take_lock(walk: Walk, value: Any) -> Node:
    """A lock that nobody holds: the live one stays, and where there is none any other will do."""
    if "unlocked" not in repr(value):
        raise Uncapturable("a lock that is held")
    maker = threading.RLock if type(value) is type(threading.RLock()) else threading.Lock
    return ("live", walk.slots((type_name(value), "a lock that nobody holds", maker)))


def _kept_live(why: str) -> Taker:
    def take(_walk: Walk, _value: Any) -> Node:
        raise Uncapturable(why)

    return take


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    locks: dict[type, Taker] = {type(threading.Lock()): _take_lock, type(threading.RLock()): _take_lock}
    others = {kind: _kept_live(why) for kind, why in _BUILT_IN.items()}
    known: dict[type, Taker] = {
        types.ModuleType: take_module, types.MappingProxyType: _take_proxy, _csv.Writer: _take_csv_writer,
        logging.Logger: take_logger, logging.RootLogger: take_logger,
        contextvars.ContextVar: _take_context_variable, itertools.groupby: _take_groups, type(functools.cmp_to_key(max)): _take_key,
    }  # fmt: skip
    return {**known, **locks, **others}


def decide(kind: type) -> Taker:
    """How objects of a class are taken."""
    if issubclass(kind, types.ModuleType):
        return take_module
    names = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
    why = next((_LIVE_TYPES[name] for name in names if name in _LIVE_TYPES), None)
    if why is not None:
        return _take_handler if names[0] in _WRITING else _kept_live(why)
    if kind.__module__ == "ctypes" or type(kind).__module__ == "_ctypes":
        return _of_ctypes(kind)
    package = kind.__module__.partition(".")[0]
    if _is_ours(kind) or kind.__module__.startswith(_OF_THE_LAUNCH):
        return _take_wrapped if hasattr(kind, "_rearview") else _take_ours
    if package == "tqdm":
        return _take_bar
    if package in LIVE_PACKAGES or kind.__module__.startswith("torch.utils.tensorboard"):
        return _kept_live(f"an object of {package} reaches outside the program")
    if kind in copyreg.dispatch_table or kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return take_reduced
    if _own(kind, "__getstate__") and _own(kind, "__setstate__"):
        return take_state
    if hasattr(kind, "__getnewargs_ex__") or hasattr(kind, "__getnewargs__") or not plain_layout(kind):
        return take_reduced
    return take_object


def _of_ctypes(kind: type) -> Taker:
    """Values of C: an array's class is made by `c_double * 4`, under a name that nobody has."""
    if hasattr(kind, "_func_flags_"):
        return _take_library
    return take_reduced if named(kind) else _kept_live("no name leads to its class")


def _is_ours(kind: type) -> bool:
    module = kind.__module__
    return module.partition(".")[0] == _OURS and not module.startswith(f"{_OURS}.testing")


def _own(kind: type, name: str) -> bool:
    return getattr(kind, name, None) is not getattr(object, name, None)
