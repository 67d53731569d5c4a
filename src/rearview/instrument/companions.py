"""Statements next to a log, and what of the things that it reads they may change.

Who adds `total = sum(hist)` and `rv.log("total", total)` means both: without the first the second logs something else under the same name.
Goes by names and attributes as they are written. Two names of one object are not known here: a call for its own sake may change anything.
Must not know what travels along, or what becomes of a statement that does not. Pure.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator

from rearview.instrument.calls import Calls, children, nodes
from rearview.instrument.scopes import Function, bound_by, free, root

Path = tuple[str, ...]
"""`net.gn` as ("net", "gn"). One changes what the other reads if one begins with the other, so that the empty one is everything."""
ANYTHING: Path = ()
CHANGING = frozenset("append extend add update pop popleft appendleft setdefault insert remove clear discard push put sort reverse".split())
"""Methods of containers that change them."""
TELLS = re.compile(
    r"p?print\w*|log\w*|info|debug|warn(ing)?|error|exception|critical|write(lines)?|add_(scalars?|text|histogram|images?|figure)|"
    r"scalars?|set_(description|postfix)\w*|display|report\w*"
)
"""Functions and methods that print, log or report, by their names."""
FILES: Path = ("a file",)
"""What is on the disk; no variable is called so."""
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "rearview", "flor"}
_COMPUTING = frozenset("math cmath statistics functools itertools operator collections copy torch numpy rearview flor".split())
"""Libraries whose functions read what they are given, but for those that load."""
_WAITING = frozenset("sleep synchronize barrier collect empty_cache flush perf_counter time".split())
_WRITING = frozenset("save savez savez_compressed savetxt dump makedirs mkdir imsave save_image copy copyfile copytree move".split())
_READING = re.compile(r"open|(load|read|from_?(file|pretrained)|memmap|listdir|glob)\w*")
"""Functions of libraries, by their names: those that change nothing, files, or read them. Any other for its own sake may set anything."""
_LOOKING = frozenset({"locals", "globals", "eval", "exec"})
_LOOKING_IF_GIVEN_NOTHING = frozenset({"vars", "dir"})
_FRAMES = frozenset({"_getframe", "currentframe"})
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Assert)
_ALWAYS_CALLED = frozenset({"__call__", "forward"})


def looks_at_all(node: ast.AST) -> str | None:
    """How an expression looks at all variables, or evaluates a text that may name any of them: `locals()`; None if it does not."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):  # `net.eval()` is something else
        return node.func.attr if node.func.attr in _FRAMES else None
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    given = bool(node.args or node.keywords)
    return name if name in _LOOKING or name in _FRAMES or (name in _LOOKING_IF_GIVEN_NOTHING and not given) else None


def concerns(changes: Iterable[Path], reads: Iterable[Path]) -> str | None:
    """Something that is changed and read, as it is written; empty if it cannot be said; None if there is nothing."""
    known = sorted(reads)
    for one in sorted(changes, reverse=True):
        for other in known:
            if one[: len(other)] == other or other[: len(one)] == one:
                return ".".join(one if len(one) > len(other) else other) if one else ""
    return None


class Companions:
    """What statements of one file read and change."""

    def __init__(self, tree: ast.Module, calls: Calls) -> None:
        self._calls = calls
        self._functions: dict[str, list[Function]] = {}
        self._libraries: set[str] = set(calls.modules)
        self._outside: set[str] = set()
        """Names of libraries that may read files."""
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    self._imports(one.name, bound_by(one))
            elif isinstance(node, ast.ImportFrom) and not node.level:
                self._imports(node.module or "", (name for one in node.names for name in bound_by(one)))

    def _imports(self, module: str, names: Iterable[str]) -> None:
        first = module.partition(".")[0]
        if first in _LIBRARIES:
            names = set(names)
            self._libraries |= names
            if first not in _COMPUTING:
                self._outside |= names

    # -- reads ----------------------------------------------------------------------------------------------------------------

    def reads(self, statements: Iterable[ast.AST]) -> frozenset[Path]:
        """What statements read, with the globals of the file's functions that they name."""
        found: set[Path] = set()
        words: set[str] = set()
        pending = list(statements)
        while pending:
            node = pending.pop()
            if looks_at_all(node):
                found.add(ANYTHING)
            if isinstance(node, ast.Call):
                pending += [*node.args, *node.keywords]
                words |= _ALWAYS_CALLED
                if self._calls.called(node) == "log":
                    continue
                if isinstance(node.func, ast.Attribute):  # a method may read all of its object
                    words.add(node.func.attr)
                    pending.append(node.func.value)
                else:
                    pending.append(node.func)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                words.add(node.attr)
                path = _path(node)
                if path is not None:
                    found.add(self._without_properties(path))
                pending += _beneath(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                words.add(node.id)
                found.add((node.id,))
            else:
                if isinstance(node, ast.AugAssign):
                    found.add(_path(node.target) or ANYTHING)
                pending += children(node)
        found |= {(name,) for name in self._globals_of(words)}
        words |= {path[0] for path in found if path}
        if any(_READING.fullmatch(word) for word in words) or not self._outside.isdisjoint(words):
            found.add(FILES)
        return frozenset(found)

    def _without_properties(self, path: Path) -> Path:
        """A property of the file's own may read all of its object."""
        at = next((k for k, word in enumerate(path) if k and word in self._functions), len(path))
        return path[:at]

    def _globals_of(self, words: Iterable[str]) -> set[str]:
        """What the functions of these names read from outside, and those that they name."""
        found: set[str] = set()
        seen: set[str] = set()
        pending = list(words)
        while pending:
            word = pending.pop()
            if word in seen:
                continue
            seen.add(word)
            for one in self._functions.get(word, ()):
                found |= free(one)
                mentioned = [node for node in nodes(one) if isinstance(node, ast.Name | ast.Attribute)]
                pending += [node.id if isinstance(node, ast.Name) else node.attr for node in mentioned]
        return found

    # -- changes --------------------------------------------------------------------------------------------------------------

    def changes(self, statements: Iterable[ast.AST]) -> frozenset[Path]:
        """What statements bind or may change."""
        found: set[Path] = set()
        for node in _running(statements):
            found.update((name,) for name in bound_by(node))
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                found.add(_path(node) or ANYTHING)
                if root(node) in self._libraries:  # a setting
                    found.add(ANYTHING)
            elif isinstance(node, _LEAVES):
                found.add(ANYTHING)
            elif isinstance(node, ast.Call):
                found.update(self._changed_inside(node))
            elif isinstance(node, ast.Expr):
                value = node.value.value if isinstance(node.value, ast.Await) else node.value
                if isinstance(value, ast.Call):
                    found.update(self._changed_by(value))
        return frozenset(found)

    @classmethod
    def sets(cls, statements: Iterable[ast.AST]) -> frozenset[Path]:
        """Of that, what is plain to see, besides variables: attributes, elements, containers that are filled or emptied."""
        found: set[Path] = set()
        for node in _running(statements):
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                found.add(_path(node) or ANYTHING)
            elif isinstance(node, ast.Call):
                found.update(cls._changed_inside(node))
        return frozenset(found - {ANYTHING})

    @staticmethod
    def _changed_inside(call: ast.Call) -> Iterator[Path]:
        """By a call whatever it stands in: what is plain from its name."""
        if isinstance(call.func, ast.Attribute):
            name = call.func.attr
            if name in CHANGING or (name.endswith("_") and not name.endswith("__")):
                yield _path(call.func.value) or ANYTHING
        elif isinstance(call.func, ast.Name):
            name = call.func.id
            if name in ("exec", "eval"):
                yield ANYTHING
            elif name in ("setattr", "delattr", "next") and call.args:
                path = _path(call.args[0])
                given = call.args[1] if len(call.args) > 1 and name != "next" else None
                attribute = (given.value,) if isinstance(given, ast.Constant) and isinstance(given.value, str) else ()
                yield (*path, *attribute) if path else ANYTHING

    def _changed_by(self, call: ast.Call) -> Iterator[Path]:
        """By a call for its own sake: what it is given, the object whose method it is, and what else nobody knows."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if self._calls.called(call) == "log":
            return
        if TELLS.fullmatch(name):
            yield from self._told_to(call)
            return
        if name not in _WRITING:
            yield from filter(None, map(_path, [*call.args, *(one.value for one in call.keywords)]))
        if isinstance(call.func, ast.Name) and hasattr(builtins, name) and name not in self._functions:
            if name == "open":
                yield FILES
            return
        if root(call.func) in self._libraries:
            if name not in _WAITING:
                yield FILES if name in _WRITING else ANYTHING
            return
        if isinstance(call.func, ast.Attribute):
            yield _path(call.func.value) or ANYTHING
            if name in CHANGING:
                return
        yield ANYTHING

    @staticmethod
    def _told_to(call: ast.Call) -> Iterator[Path]:
        """Where something is written to: the object, or a file of which it is not known which."""
        targets = [one.value for one in call.keywords if one.arg == "file"]
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("write", "writelines"):
            targets.append(call.func.value)
        for one in targets:
            yield _path(one) or FILES


def _path(node: ast.AST) -> Path | None:
    """What an expression is part of, as far as it is written: `net.layers` of `net.layers[0].weight`; None if that is no variable."""
    words: list[str] = []
    while True:
        if isinstance(node, ast.Name):
            return (node.id, *reversed(words))
        if isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript | ast.Starred):
            words.clear()
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words.clear()
            node = node.func.value
        else:
            return None


def _beneath(node: ast.AST) -> list[ast.AST]:
    """What an attribute is one of, if that is more than names and attributes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return [] if isinstance(node, ast.Name) else [node]


def _running(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All that runs when statements do: not what is in functions and classes that they define."""
    pending = list(statements)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += children(node)
