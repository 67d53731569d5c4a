"""What the recorded program called things, found in the running one: classes, functions, code.

A name is looked up in its module, which is imported if it has to be. What was made inside a function has no such name: a class is
recognised at the live objects, the code of a function in the code around it. Classes that torch makes for
parametrized tensors are made again.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rearview.state import parametrized
from rearview.state.put.kind import ABSENT
from rearview.state.put.modules import begin
from rearview.state.take.classes import BASE
from rearview.state.take.functions import code_digest
from rearview.state.tree import Tree


def _hidden() -> dict[str, type]:
    """Types of Python itself that no module shows by their names."""
    samples: tuple[Any, ...] = (
        None, ..., NotImplemented, iter([]), iter(()), iter(""), iter("\u0100"), iter(b""), iter(bytearray()), iter(range(0)),
        iter(range(1 << 65)), iter({}),
        iter({}.values()), iter({}.items()), iter(set()), reversed([]), reversed({}), {}.keys(), {}.values(), {}.items(), iter(int, 0),
    )  # fmt: skip
    kinds = [type(sample) for sample in samples] + [kind for kind in vars(types).values() if isinstance(kind, type)]
    return {kind.__qualname__: kind for kind in kinds if kind.__module__ == "builtins"}


_HIDDEN = _hidden()


class Names:
    """The names of one tree."""

    def __init__(self, tree: Tree, codes: Iterable[types.CodeType]) -> None:
        self._nodes = tree.nodes
        self._codes = list(codes)
        self._found: dict[int, Any] = {}
        self._hinted: set[int] = set()
        self.problems: dict[int, str] = {}
        self._inside: dict[str, list[dict[str, list[types.CodeType]]]] = {}

    def of(self, number: int, hint: Any = None) -> Any:
        """What a `ref` node names; ABSENT if it is not there. `hint` may be it, if it can be found in no module."""
        if number in self._found:
            return self._found[number]
        kind, payload = self._nodes[number]
        if kind != "ref":
            return ABSENT
        module, name = self._nodes[payload[0]][1], self._nodes[payload[1]][1]
        if "<locals>" not in name:
            found = self._import(number, str(module), name)
            if found is not ABSENT:
                self._found[number] = found
                return found
        base = self._parametrized(str(module), payload, hint)
        theirs = module in (getattr(hint, "__module__", None), "__main__")  # what was the program then may have been imported now
        fits = base is None or (isinstance(hint, type) and parametrized.is_one(hint) and hint.__mro__[1] is base)
        if theirs and fits and getattr(hint, "__qualname__", None) == name and id(hint) not in self._hinted:
            self._found[number] = hint
            self._hinted.add(id(hint))  # a function that ran twice made two of that name
            return hint
        made = None if base is None else parametrized.make(base, begin)
        if made is not None:
            self._found[number] = made
            return made
        if "<locals>" in name:
            self.problems[number] = f"{module}.{name} was made inside a function, and no live object has that class"
        return ABSENT

    def _parametrized(self, module: str, payload: Any, hint: Any) -> Any:
        """The base of a class that torch made for parametrized tensors; None if it is no such class, or its base is not there."""
        labels = [self._nodes[label][1] for label in payload[2::2]] if module == parametrized.MODULE else []
        if parametrized.TENSORS not in labels:
            return None
        live = hint.__mro__[1] if isinstance(hint, type) and parametrized.is_one(hint) else hint
        base = self.of(payload[3 + 2 * labels.index(f"{BASE}1")], live)
        return base if isinstance(base, type) else None

    def _import(self, number: int, module: str, name: str) -> Any:
        if number in self.problems:
            return ABSENT
        if module == "builtins" and name in _HIDDEN:
            return _HIDDEN[name]
        try:
            at: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in name.split("."):
                at = getattr(at, part)
        except (ImportError, AttributeError, ValueError) as problem:
            self.problems[number] = f"{module}.{name} is not there ({problem})"
            return ABSENT
        except Exception as problem:  # noqa: BLE001 (importing runs code of the user's)
            self.problems[number] = f"{module} cannot be imported ({type(problem).__name__}: {problem})"
            return ABSENT
        return at

    def small(self, kind: str, payload: Any, plain: Callable[[int], Any]) -> Any:
        """Small values that serve as keys: members of enums, dtypes and devices of torch."""
        if kind == "enum":
            owner, name = self.of(payload[0]), plain(payload[1])
            return owner.__members__.get(name, ABSENT) if isinstance(owner, type) and name is not None else ABSENT  # type: ignore[attr-defined]
        if kind == "npdtype":
            from rearview.state.put.arrays import dtype_of

            parts = [self.of(item) if self._nodes[item][0] == "ref" else plain(item) for item in payload]
            return ABSENT if ABSENT in parts[:1] else dtype_of(parts)
        if kind == "tvalue":
            from rearview.state.put.tensors import small_value

            return small_value([plain(item) for item in payload])
        return ABSENT

    # Code

    def same_code(self, live: types.CodeType, module: str, name: str, line: int, digest: str, cells: int) -> bool:
        """Whether a live function can take what a recorded one held: the same place in the source, closing over as many things.

        Where several are called so, another one may be meant: what a `def` further down makes.
        """
        if live.co_qualname != name or len(live.co_freevars) != cells:
            return False
        if code_digest(live) == digest:
            return True
        others = [code for code in self._named(module, name, cells)[0] if code is not live]
        if any(code_digest(code) == digest for code in others):
            return False
        return live.co_firstlineno == line or all(code.co_firstlineno != line for code in others)

    def code(self, module: str, name: str, line: int, digest: str, cells: int) -> types.CodeType | None:
        """The code of a recorded function: the very same if it is there, else the one function of that name."""
        there, in_source = self._named(module, name, cells)
        same = [code for code in there if code_digest(code) == digest]
        if name.endswith("<lambda>"):  # all are called so: another one may have been made of a text
            there, in_source = ([code for code in part if code.co_firstlineno == line] for part in (there, in_source))
        one = there[0] if len(there) == 1 else None
        if not same:  # what runs may be marked where its source is not: the same place is the same function
            taken = None if one is None else one.co_firstlineno
            same = [code for code in in_source if code.co_firstlineno != taken and code_digest(code) == digest]
        if same:
            return min(same, key=lambda code: abs(code.co_firstlineno - line))
        return in_source[0] if not there and len(in_source) == 1 else one

    def _named(self, module: str, name: str, cells: int) -> list[list[types.CodeType]]:
        """The functions of a module that are called so: those that are there, and those that its source has."""
        if module not in self._inside:
            here = sys.modules.get(module)
            self._inside[module] = [_inside([*self._codes, *_codes_of(here)]), _inside(_source_of(here))]
        return [[code for code in part.get(name, ()) if len(code.co_freevars) == cells] for part in self._inside[module]]


def is_in(code: types.CodeType, codes: Iterable[types.CodeType], module: str, *, also_live: bool) -> bool:
    """Whether the code of a function can be had again: of code that runs, of its module's source, or of what the module has now."""
    here = sys.modules.get(module)
    digest = code_digest(code)
    live = _codes_of(here) if also_live else ()
    return any(code_digest(one) == digest for one in _inside([*codes, *live, *_source_of(here)]).get(code.co_qualname, ()))


def _inside(codes: Iterable[types.CodeType]) -> dict[str, list[types.CodeType]]:
    """The code of functions by their names, with all that are made in them."""
    found: dict[str, list[types.CodeType]] = {}
    seen: set[int] = set()
    pending = list(codes)
    while pending:
        code = pending.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        found.setdefault(code.co_qualname, []).append(code)
        pending.extend(const for const in code.co_consts if isinstance(const, types.CodeType))
    return found


def _source_of(module: Any) -> list[types.CodeType]:
    """A module's own code, made again of its source: nothing keeps it when the module has been imported."""
    file = vars(module).get("__file__") if module is not None else None
    lines = linecache.getlines(file) if isinstance(file, str) else []
    try:
        return [compile("".join(lines), file, "exec", dont_inherit=True)] if file and lines else []
    except (SyntaxError, ValueError, RecursionError):
        return []  # compiled only, or no Python


def _codes_of(module: Any) -> Iterator[types.CodeType]:
    """The code of the functions and classes of a module."""
    pending = list(vars(module).values()) if module is not None else []
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            pending.extend(part for part in (value.fget, value.fset, value.fdel) if part is not None)
        elif isinstance(value, types.FunctionType):
            yield value.__code__
            pending.extend(part for part in vars(value).values() if isinstance(part, types.FunctionType))
        elif isinstance(value, type) and value.__module__ == module.__name__:
            pending.extend(vars(value).values())
