"""Names that stand for functions, classes and modules: what each of them meant, as text, and that put back.

They are no state, but a program rebinds them (`activation = gelu`, an import inside a loop), and a name that was deleted is bound no more.
Knows namespaces of frames and modules; must not know what a state holds besides.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rearview.state import frames as variables
from rearview.state import scope
from rearview.state.take.objects import found, named
from rearview.state.tree import BESIDE, RootKey

KIND = BESIDE[0]
Meanings = Mapping[RootKey, Mapping[str, str]]
"""("names", module or depth of a frame) -> name -> what it stands for: `module json`, `os.path:join`."""
_MODULE = "module "
_NOWHERE = "? "
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_MADE = (type, types.FunctionType)
_NO_CODE = (str, int, float, bool, type(None), tuple, list, dict, types.GetSetDescriptorType)


def take(frames: Sequence[types.FrameType], project: Path, modules: scope.Modules | None = None) -> dict[RootKey, dict[str, str]]:
    """What all names that stand for code mean now. `modules`: those of the project, where they are known."""
    taken = {}
    for key, namespace in _namespaces(frames, list(scope.project_modules(project)) if modules is None else modules):
        owner = key[1]
        meant = {name: text for name, value in namespace.items() if (text := _made_here(owner, name, value) or _text(value)) is not None}
        if isinstance(owner, str):
            meant.update(_patched(owner, namespace))
        if meant:
            taken[key] = meant
    return taken


def _namespaces(frames: Sequence[types.FrameType], modules: scope.Modules) -> Iterator[tuple[RootKey, dict[str, Any]]]:
    for name, module in modules:
        namespace = vars(module)
        code = [(key, value) for key, value in list(namespace.items()) if isinstance(value, _CODE)]
        yield (KIND, name), {key: value for key, value in code if scope.is_variable(key, namespace)}
    for depth, frame in enumerate(frames):
        if not variables.is_module(frame):
            yield (KIND, depth), variables.variables(frame)


def _made_here(module: str | int, name: str, value: Any) -> str | None:
    """The meaning of most names: what the module made under that name."""
    own = type(value) in _MADE and value.__module__ == module and value.__qualname__ == name
    return f"{module}:{name}" if own else None


def _text(value: Any) -> str | None:
    """What a name stands for; None for a variable, and for what is found in no module."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        ours = name.partition(".")[0] == scope.OURS
        return _MODULE + name if isinstance(name, str) and sys.modules.get(name) is value and not ours else None
    if not isinstance(value, _CODE):
        return None
    called = named(value)
    return None if called is None or called[0].partition(".")[0] == scope.OURS else f"{called[0]}:{called[1]}"


def _patched(module: str, namespace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Methods of the module's classes that are not what the class statement made: `Net.step = faster`."""
    for owner in list(namespace.values()):
        if isinstance(owner, type) and owner.__module__ == module:
            for name, value in list(vars(owner).items()):
                if type(value) in _NO_CODE:
                    continue
                function = getattr(value, "__func__", value)
                if isinstance(function, types.FunctionType) and function.__qualname__ != f"{owner.__qualname__}.{name}":
                    called = named(function) if function is value else None
                    yield f"{owner.__qualname__}.{name}", f"{called[0]}:{called[1]}" if called else f"{_NOWHERE}{function.__qualname__}"


def problems(frames: Sequence[types.FrameType], project: Path, wanted: Meanings) -> list[str]:
    """Names that cannot be given their meaning, a sentence each; nothing is bound yet."""
    now = take(frames, project)
    said = []
    for _, name, text in _differing(now, wanted):
        try:
            _resolved(text)
        except Exception as problem:  # noqa: BLE001 (importing runs code of the user's)
            said.append(f"{name} stood for {text.removeprefix(_MODULE)}, which is not there ({type(problem).__name__}: {problem})")
    return said


def put_back(frames: Sequence[types.FrameType], project: Path, wanted: Meanings) -> None:
    """Let names mean what they did."""
    for key, name, text in _differing(take(frames, project), wanted):
        value = _resolved(text)
        if isinstance(key[1], int):
            if key[1] < len(frames):
                variables.assign(frames[key[1]], {name: value})
        elif "." in name:
            owner, _, attribute = name.rpartition(".")
            type.__setattr__(found(str(key[1]), owner), attribute, value)
        else:
            scope.bind_global(frames, str(key[1]), name, value)


def _differing(now: Meanings, wanted: Meanings) -> Iterator[tuple[RootKey, str, str]]:
    """What is to be bound. A method that was as its class made it, and is not now, cannot be: that function is nowhere any more."""
    for key, meant in wanted.items():
        have = now.get(key, {})
        for name, text in meant.items():
            if have.get(name) != text:
                yield key, name, text
        yield from ((key, name, _NOWHERE + name) for name in have if "." in name and name not in meant)


def _resolved(text: str) -> Any:
    if text.startswith(_MODULE):
        return importlib.import_module(text.removeprefix(_MODULE))
    if text.startswith(_NOWHERE):
        raise NameError("it is in no module")
    module, _, name = text.partition(":")
    value = found(module, name)
    if value is None:
        importlib.import_module(module)
        value = found(module, name)
    if value is None:
        raise NameError(f"{module} has no {name}")
    return value


# -- names that are gone -----------------------------------------------------------------------------------------------------


def gone(
    frames: Sequence[types.FrameType], project: Path, recorded: Mapping[RootKey, object], wanted: Meanings, deleted: Collection[str]
) -> list[RootKey]:
    """Variables that are bound now, were not then, and that the program deletes somewhere."""
    if not deleted:
        return []
    here = scope.roots_of(frames, {}, project)
    found_ = [key for key in here if key[0] in ("local", "global", "class") and key[-1] in deleted and key not in recorded]
    for key, meant in take(frames, project).items() if wanted else ():  # states of older runs say nothing about these
        kind = "local" if isinstance(key[1], int) else "global"
        found_ += [(kind, key[1], name) for name in meant if name in deleted and (kind, key[1], name) not in recorded]
    then = {(("local" if isinstance(key[1], int) else "global"), key[1], name) for key, meant in wanted.items() for name in meant}
    return [key for key in dict.fromkeys(found_) if key not in then]


def unbind(frames: Sequence[types.FrameType], keys: Sequence[RootKey]) -> None:
    """Delete variables."""
    for key in keys:
        name = str(key[-1])
        if key[0] == "local" and isinstance(key[1], int) and key[1] < len(frames):
            variables.unbind(frames[key[1]], [name])
        elif key[0] == "global":
            for namespace in scope.namespaces_of(frames, str(key[1])):
                namespace.pop(name, None)
        elif key[0] == "class":
            owner = found(str(key[1]), str(key[2]))
            if isinstance(owner, type) and name in vars(owner):
                type.__delattr__(owner, name)
