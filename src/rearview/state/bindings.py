"""Names that stand for functions, classes and modules: what each of them meant, as text, and that put back.

They are no state, but a program rebinds them (`activation = gelu`, an import inside a loop), and a name that was deleted is bound no more.
Knows namespaces of frames and modules; must not know what a state holds besides.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.state import frames as variables
from rearview.state import remade, scope
from rearview.state.take.objects import found, named
from rearview.state.tree import BESIDE, MADE, RootKey

KIND = BESIDE[0]
Meanings = Mapping[RootKey, Mapping[str, str]]
"""("names", module or depth of a frame) -> name -> what it stands for: `module json`, `os.path:join`."""
_MODULE = "module "
_NOWHERE = "? "
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_MADE = (type, types.FunctionType)


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
        code = {key: value for key, value in list(namespace.items()) if isinstance(value, _CODE)}
        yield (KIND, name), {key: code[key] for key in scope.variables_of(code, namespace)}
    for depth, frame in enumerate(frames):
        if not variables.is_module(frame):
            yield (KIND, depth), variables.variables(frame)


def _made_here(module: str | int, name: str, value: Any) -> str | None:
    """The meaning of most names: what the module made under that name."""
    return f"{module}:{name}" if type(value) in _MADE and remade.is_own(module, name, value) else None


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
    for owner, name, value in remade.patched(module, namespace):
        called = named(value) if isinstance(value, types.FunctionType) else None
        function = getattr(value, "__func__", value)
        yield f"{owner.__qualname__}.{name}", f"{called[0]}:{called[1]}" if called else f"{_NOWHERE}{function.__qualname__}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What names are to stand for, and which of them a state has functions of its own for (`remade`)."""

    meanings: Meanings
    made: Collection[RootKey] = ()
    """("made", module, name): restored with the state."""
    lost: Collection[RootKey] = ()
    """The same, of which the state has nothing."""

    def has(self, module: str | int, name: str) -> bool:
        """Whether that name is not for this module to bind."""
        return (MADE, module, name) in self.made or (MADE, module, name) in self.lost


@dataclass(frozen=True, slots=True)
class Problem:
    """A name that cannot be given its meaning."""

    sentence: str
    named_before: bool
    """Whether the checkpoint said so when it was taken; else it is news."""


def problems(frames: Sequence[types.FrameType], project: Path, wanted: Wanted) -> list[Problem]:
    """Names that cannot be given their meaning; nothing is bound yet."""
    said = [Problem(f"{key[2]} was made after the loops began, and is not in the state", True) for key in wanted.lost]
    for _, name, text in _differing(take(frames, project), wanted):
        module, _, called = text.partition(":")
        if (MADE, module, called) in wanted.made:
            continue  # it is there once the state is
        try:
            _resolved(text)
        except Exception as problem:  # noqa: BLE001 (importing runs code of the user's)
            before = text.startswith(_NOWHERE) or (MADE, module, called) in wanted.lost
            said.append(Problem(f"{name} stood for {_shown(text)}, which is not there ({type(problem).__name__}: {problem})", before))
    return said


def put_back(frames: Sequence[types.FrameType], project: Path, wanted: Wanted) -> None:
    """Let names mean what they did, where that is there."""
    for key, name, text in _differing(take(frames, project), wanted):
        try:
            value = _resolved(text)
        except Exception:  # noqa: BLE001 (one of the `problems`; whoever goes on all the same has said so)
            continue
        if isinstance(key[1], int):
            if key[1] < len(frames):
                variables.assign(frames[key[1]], {name: value})
        elif "." in name:
            owner, _, attribute = name.rpartition(".")
            type.__setattr__(found(str(key[1]), owner), attribute, value)
        else:
            scope.bind_global(frames, str(key[1]), name, value)


def differences(frames: Sequence[types.FrameType], project: Path, wanted: Wanted) -> list[str]:
    """Names that mean something else now, a sentence each: in code that was edited, they mean what it says."""
    now = take(frames, project)
    said = []
    for key, name, text in _differing(now, wanted):
        means = now.get(key, {}).get(name)
        said.append(f"{name} stood for {_shown(text)}, and " + ("is left unbound" if means is None else f"stays {_shown(means)}"))
    made = sorted((*wanted.made, *wanted.lost), key=str)
    return said + [f"{key[2]} was made after the loops began, and is left as the code has it now" for key in made]


def _shown(text: str) -> str:
    return text.removeprefix(_MODULE).removeprefix(_NOWHERE)


def _differing(now: Meanings, wanted: Wanted) -> Iterator[tuple[RootKey, str, str]]:
    """What is to be bound. A method that was as its class made it, and is not now, cannot be: that function is nowhere any more."""
    for key, meant in wanted.meanings.items():
        have = now.get(key, {})
        for name, text in meant.items():
            if have.get(name) != text and not wanted.has(key[1], name):
                yield key, name, text
        yield from ((key, name, _NOWHERE + name) for name in have if "." in name and name not in meant and not wanted.has(key[1], name))


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
    frames: Sequence[types.FrameType], project: Path, recorded: Collection[RootKey], wanted: Meanings, deleted: Collection[str]
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
