"""What belongs to the state of a program: variables of the frames around a loop, and of the project's modules and classes.

All that is bound, not only what was assigned: simple and complete. Left out are modules, what has a name of its own anyway (functions,
classes), and rearview's own objects.
"""

from __future__ import annotations

import enum
import functools
import os
import re
import sys
import types
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rearview.state import compiled, generic
from rearview.state import frames as variables
from rearview.state.iterating.bars import is_only_shown
from rearview.state.take.classes import has_a_name, is_data
from rearview.state.take.objects import found
from rearview.state.take.owners import installed, real_folder, real_path
from rearview.state.take.walk import identity
from rearview.state.tree import OUTER, RootKey

OURS = __name__.partition(".")[0]
_NOTEBOOK = frozenset("In Out get_ipython exit quit open _dh _ih _oh _ __ ___ _i _ii _iii _exit_code".split())
_FUNCTION_PARTS = ("__defaults__", "__kwdefaults__", "__dict__")
OF_CODE = ("function", "class")
"""Roots of what functions and classes remember themselves."""
REMEMBERED = (*OF_CODE, "global")
_PLAIN = (int, float, str, bool, bytes, complex, type(None), type)
_STREAMS = ("stdin", "stdout", "stderr")
_NOTEBOOK_HISTORY = re.compile(r"_i?\d+")


Modules = Sequence[tuple[str, types.ModuleType]]


def roots_of(
    frames: Sequence[types.FrameType],
    given: Mapping[str, object],
    project: Path,
    modules: Modules | None = None,
    around: Sequence[types.FrameType] = (),
) -> dict[RootKey, object]:
    """The roots of a state, by name: what was given, the frames from the outside inwards, then modules and classes of the project.

    `modules`: those of the project, where they are known: looking for them takes longer than all the rest. `around`: functions that
    called the first of the frames, from the inside outwards, where their variables belong to the state too.
    """
    roots: dict[RootKey, object] = {("given", name): value for name, value in given.items()}
    for kind, those in (("local", frames), (OUTER, around)):
        for depth, frame in enumerate(those):
            if not variables.is_module(frame):
                for name, value in variables.variables(frame).items():
                    if not has_a_name(value) and not is_only_shown(frame, name):
                        roots[kind, depth, name] = value
    ours = list(project_modules(project)) if modules is None else modules
    for name, module in ours:
        _take_module(roots, name, module)
    _take_streams(roots, {name for name, _ in ours})
    for frame in frames:
        module_name = str(frame.f_globals.get("__name__"))
        if variables.is_module(frame) and vars(sys.modules.get(module_name, sys)) is not frame.f_globals:
            _take_variables(roots, module_name, frame.f_globals)  # run by something that made no module of it
    return roots


def bind(frames: Sequence[types.FrameType], values: Mapping[RootKey, object], around: Sequence[types.FrameType] = ()) -> None:
    """Give variables the objects that a restored state has for them."""
    running = {"local": frames, OUTER: around}
    by_frame: dict[tuple[str, int], dict[str, object]] = {}
    for key, value in values.items():
        if key[0] in running and isinstance(key[1], int):
            by_frame.setdefault((str(key[0]), key[1]), {})[str(key[2])] = value
        elif key[0] == "global":
            bind_global(frames, str(key[1]), str(key[2]), value)
        elif key[0] == "class":
            owner = found(str(key[1]), str(key[2]))
            if isinstance(owner, type) and vars(owner).get(str(key[3])) is not value:
                type.__setattr__(owner, str(key[3]), value)
            elif isinstance(owner, enum.Enum):
                vars(owner)[str(key[3])] = value
        elif key[0] == "function":
            function = found(str(key[1]), str(key[2]))
            if isinstance(function, types.FunctionType):
                _bind_function(function, str(key[3]), value)
    for (kind, depth), bound in by_frame.items():
        if depth < len(running[kind]) and not variables.is_module(running[kind][depth]):
            variables.assign(running[kind][depth], bound)


def assigned_by_functions(module: str, within: Container[str] | None = None) -> frozenset[str]:
    """The variables of a module that its functions and methods assign (`global`). `within`: only what is called by one of these names."""
    namespace = vars(sys.modules[module]) if module in sys.modules else {}
    every = [value for name, value in list(namespace.items()) if within is None or name in within]
    every += [held for value in every if isinstance(value, type) for held in vars(value).values()]
    functions = (getattr(one, "__wrapped__", getattr(one, "__func__", one)) for one in every)
    own = (one.__code__ for one in functions if isinstance(one, types.FunctionType) and one.__globals__ is namespace)
    return frozenset().union(*map(_assigned, own))


@functools.cache
def _assigned(code: types.CodeType) -> frozenset[str]:
    import dis

    here = frozenset(str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL")
    return here.union(*(_assigned(one) for one in code.co_consts if isinstance(one, types.CodeType)))


def forget(keys: Iterable[RootKey]) -> None:
    """Take from functions and classes what they remember, also in variables that functions assign."""
    for kind, module, called, *rest in keys:
        if kind == "global" and called in assigned_by_functions(str(module)):
            vars(sys.modules[str(module)]).pop(str(called), None)
        elif kind in OF_CODE:
            owner, part = found(str(module), str(called)), str(rest[0])
            if kind == "class" and isinstance(owner, type) and part in vars(owner):
                type.__delattr__(owner, part)
            elif isinstance(owner, enum.Enum):
                vars(owner).pop(part, None)
            elif isinstance(owner, types.FunctionType) and part == "__dict__":
                vars(owner).clear()


def _bind_function(function: types.FunctionType, part: str, value: object) -> None:
    plain = compiled.original(function)
    if plain is not None and part == compiled.OWN and isinstance(value, dict):
        vars(function).update(value)
    elif isinstance(plain, types.FunctionType):
        _bind_function(plain, part, value)
    elif part == generic.REGISTRY:
        live = generic.registered(function)
        if live is not None and isinstance(value, dict):
            if live is not value:
                live.clear()
                live.update(value)
            generic.forget_lookups(function)
    elif getattr(function, part) is not value:
        setattr(function, part, value)


def bind_global(frames: Sequence[types.FrameType], module: str, name: str, value: object) -> None:
    """Bind a variable of a module."""
    for namespace in namespaces_of(frames, module):
        if namespace.get(name, frames) is not value:
            namespace[name] = value


def namespaces_of(frames: Sequence[types.FrameType], module: str) -> list[dict[str, Any]]:
    """The namespaces that a module has: its own, and those of frames that run under its name."""
    found_ = [vars(sys.modules[module])] if module in sys.modules else []
    return [*found_, *(frame.f_globals for frame in frames if frame.f_globals.get("__name__") == module)]


def project_modules(project: Path) -> Iterator[tuple[str, types.ModuleType]]:
    """The loaded modules whose source lies in the project, and the program itself; none that was installed."""
    modules = sys.modules.copy()  # programs put other things there too
    yield from _ours(str(project), tuple(modules), tuple(map(identity, modules.values())))[0]


def library_files(project: Path, without: Collection[str]) -> set[str]:
    """The sources of loaded modules that are neither the project's nor Python's own, nor of these packages."""
    left_out = {*without, *sys.stdlib_module_names, OURS, "__main__"}
    files = {vars(module).get("__file__") for name, module in sys.modules.copy().items() if name.partition(".")[0] not in left_out
             and isinstance(module, types.ModuleType)}  # fmt: skip
    return {file for file in files if type(file) is str and file.endswith(".py") and not _is_of(str(project), file)}


@functools.lru_cache(maxsize=1)
def _ours(folder: str, names: tuple[str, ...], _identities: tuple[int, ...]) -> tuple[list[tuple[str, types.ModuleType]], list[Any]]:
    """Those of the project, and all that were looked at, so that none has the address of another. Thousands: looked at anew if one came."""
    modules: list[tuple[str, Any]] = [(name, sys.modules[name]) for name in names if name in sys.modules]
    return [(name, module) for name, module in modules if name == "__main__" or _is_ours(folder, name, module)], modules


def _is_ours(folder: str, name: str, module: Any) -> bool:
    if type(module) is not types.ModuleType and not isinstance(module, types.ModuleType):
        return False
    namespace = vars(module)
    file = namespace.get("__file__")
    return type(file) is str and _is_of(folder, file) and name == namespace.get("__name__") and name.partition(".")[0] != OURS


@functools.lru_cache(maxsize=100_000)
def _is_of(project: str, file: str) -> bool:
    """Whether a file lies in the project and is not installed there. Asked for every loaded module whenever one came.

    The project as text: a path would be hashed and compared in Python, thousands of times.
    """
    if f"{os.sep}site-packages{os.sep}" in file:
        return False
    file = real_path(file)
    return file.startswith(os.path.join(real_folder(project), "")) and not file.startswith(installed())


def _take_module(roots: dict[RootKey, object], name: str, module: types.ModuleType) -> None:
    _take_variables(roots, name, vars(module))
    seen: set[int] = set()
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name:
            _take_class(roots, name, value, seen)
        elif isinstance(value, types.FunctionType) and value.__module__ == name:
            _take_function(roots, value)


def _take_streams(roots: dict[RootKey, object], ours: Container[str]) -> None:
    """What the program put in the place of `sys.stdout`, where it is of a class of its own: it may count what it tells."""
    for name in _STREAMS:
        stream = getattr(sys, name, None)
        if type(stream).__module__ in ours:
            roots["global", sys.__name__, name] = stream


def _take_function(roots: dict[RootKey, object], function: types.FunctionType) -> None:
    """What a function remembers: attributes, and defaults that can change (`def step(x, seen=[])`)."""
    plain = compiled.original(function)
    if plain is not None:
        own = compiled.attributes(function)
        if own:
            roots["function", function.__module__, function.__qualname__, compiled.OWN] = own
        if isinstance(plain, types.FunctionType):
            _take_function(roots, plain)
        return
    registered = generic.registered(function)
    if registered is not None:
        roots["function", function.__module__, function.__qualname__, generic.REGISTRY] = registered
    for part in _FUNCTION_PARTS:
        held = getattr(function, part) if part != "__dict__" or registered is None else None
        values = held.values() if isinstance(held, dict) else held or ()
        if any(type(value) not in _PLAIN or part == "__dict__" for value in values):
            roots["function", function.__module__, function.__qualname__, part] = held


def _take_variables(roots: dict[RootKey, object], module: str, namespace: Mapping[str, Any]) -> None:
    held = dict(namespace)
    for name in variables_of(held, namespace):
        if not has_a_name(held[name]):
            roots["global", module, name] = held[name]


def variables_of(names: Iterable[str], namespace: Mapping[str, Any]) -> list[str]:
    """Those of a module's names that are the program's: not of the interpreter, the notebook it may run in, or a compiler."""
    others = compiled.names(namespace)
    return [name for name in names if _is_variable(name, namespace) and name not in others]


def _is_variable(name: object, namespace: Mapping[str, Any]) -> bool:
    if not isinstance(name, str) or (name.startswith("__") and name.endswith("__")):
        return False
    return not ("get_ipython" in namespace and (name in _NOTEBOOK or _NOTEBOOK_HISTORY.fullmatch(name)))


def _take_class(roots: dict[RootKey, object], module: str, owner: type, seen: set[int]) -> None:
    """What a class holds as data: `Net.calls = 0`."""
    if id(owner) in seen:
        return
    seen.add(id(owner))
    if issubclass(owner, enum.Enum):
        _take_members(roots, module, owner)
    for name, value in list(vars(owner).items()):
        if isinstance(value, type) and value.__module__ == module and value.__qualname__.startswith(owner.__qualname__ + "."):
            _take_class(roots, module, value, seen)
        elif is_data(name, value):
            roots["class", module, owner.__qualname__, name] = value
        else:
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType) and function.__module__ == module:
                _take_function(roots, function)


def _take_members(roots: dict[RootKey, object], module: str, owner: type[enum.Enum]) -> None:
    """What the members of an enum have beside their names and values: `Mode.A.uses = 0`."""
    for member in owner._member_names_:
        for name, value in list(vars(owner._member_map_[member]).items()):
            if not name.endswith("_") and is_data(name, value):
                roots["class", module, f"{owner.__qualname__}.{member}", name] = value
