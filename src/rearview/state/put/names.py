"""What the recorded program called things, found in the running one: classes, functions, code.

A name is looked up in its module, which is imported if it has to be. What was made inside a function has no such name: a class is
recognised at the live objects, the code of a function in the code around it.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rearview.state.put.kind import ABSENT
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
        self.problems: dict[int, str] = {}
        self._inside: dict[str, dict[str, list[types.CodeType]]] = {}

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
        if getattr(hint, "__module__", None) == module and getattr(hint, "__qualname__", None) == name:
            self._found[number] = hint
            return hint
        if "<locals>" in name:
            self.problems[number] = f"{module}.{name} was made inside a function, and no live object has that class"
        return ABSENT

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

    def same_code(self, live: types.CodeType, name: str, digest: str, cells: int) -> bool:
        """Whether a live function can take what a recorded one held: the same place in the source, closing over as many things."""
        return live.co_qualname == name and len(live.co_freevars) == cells

    def code(self, module: str, name: str, line: int, digest: str, cells: int) -> types.CodeType | None:
        """The code of a recorded function: the very same if it is there, else the one function of that name."""
        if module not in self._inside:
            self._inside[module] = self._search(module)
        candidates = [code for code in self._inside[module].get(name, ()) if len(code.co_freevars) == cells]
        same = [code for code in candidates if code_digest(code) == digest]
        if same:
            return min(same, key=lambda code: abs(code.co_firstlineno - line))
        return candidates[0] if len(candidates) == 1 else None

    def _search(self, module: str) -> dict[str, list[types.CodeType]]:
        found: dict[str, list[types.CodeType]] = {}
        seen: set[int] = set()
        pending = [*self._codes, *_codes_of(sys.modules.get(module))]
        while pending:
            code = pending.pop()
            if id(code) in seen:
                continue
            seen.add(id(code))
            found.setdefault(code.co_qualname, []).append(code)
            pending.extend(const for const in code.co_consts if isinstance(const, types.CodeType))
        return found


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
