"""Which statements read the clock, or what else differs from run to run: memory, process ids, random ids. Pure: looks at program text.

A state that was put back brings the old `t0` along, so nothing differs that a comparison could see, and yet `time.time() - t0` is not
what it was. A variable counts if it was computed from a clock by arithmetic; one that merely holds such a thing among others does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

_FUNCTIONS = {
    "time": "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time ctime localtime "
    "gmtime strftime asctime",
    "timeit": "default_timer",
    "datetime.datetime": "now utcnow today",
    "datetime.date": "today",
    "os": "getpid getppid times getloadavg urandom",
    "uuid": "uuid1 uuid4",
    "socket": "gethostname",
    "platform": "node",
    "resource": "getrusage",
    "gc": "get_count get_stats",
    "sys": "getrefcount",
    "torch.cuda": "memory_allocated max_memory_allocated memory_reserved max_memory_reserved utilization mem_get_info",
}
_CLOCKS = frozenset(f"{module}.{name}" for module, names in _FUNCTIONS.items() for name in names.split()) | {"id", "hash"}
_MODULES = ("psutil.", "tracemalloc.", "secrets.", "tempfile.", "pynvml.")
_PLAIN = frozenset(("round", "float", "int", "str", "abs", "min", "max", "format", "divmod", "sum"))
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.BoolOp, ast.JoinedStr, ast.FormattedValue, ast.NamedExpr)

Scope = str
"""The qualified name of a function; empty at module level."""


class Statement(Protocol):
    """A log statement that was added."""

    @property
    def file(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def text(self) -> str: ...
    @property
    def function(self) -> str: ...


def clocked(files: Mapping[str, str], logs: Iterable[Statement]) -> frozenset[str]:
    """The names whose statements read a clock, or a variable that was computed from one, or given such a thing as an argument."""
    known = {path: _File.of(text) for path, text in files.items()}
    _hand_over(list(known.values()))
    named = [log for log in logs if log.name is not None and log.file in known]
    return frozenset(log.name for log in named if log.name is not None and known[log.file].reads_clock(log.text, log.function))


def _hand_over(files: list[_File]) -> None:
    """What is computed from a clock and given to a function of the program, by its name, is so there too."""
    functions: dict[str, list[tuple[_File, Scope, ast.arguments]]] = {}
    for file in files:
        for scope, node in _scoped(file.tree, ""):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                called = scope.rpartition(".")[2] if node.name == "__init__" else node.name
                functions.setdefault(called, []).append((file, f"{scope}.{node.name}" if scope else node.name, node.args))
    calls = [
        (file, scope, node, functions[name]) for file in files for scope, node in _scoped(file.tree, "")
        if isinstance(node, ast.Call) and (name := getattr(node.func, "attr", getattr(node.func, "id", ""))) in functions
    ]  # fmt: skip
    again = bool(calls)
    while again:
        again = False
        for file, scope, call, meant in calls:
            timed = [at for at, one in enumerate(call.args) if file.is_computed(one, scope)]
            words = {one.arg for one in call.keywords if one.arg is not None and file.is_computed(one.value, scope)}
            for other, inside, given in meant if timed or words else ():
                again |= other.given(inside, given, timed, words)


def _scoped(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, ast.AST]]:
    """Every node, with the function or class it is in."""
    for child in ast.iter_child_nodes(node):
        yield scope, child
        name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        yield from _scoped(child, ".".join(filter(None, (scope, name))))


def timed(files: Mapping[str, str]) -> frozenset[str]:
    """The variables of a program that were computed from a clock, and the names under which it logs such things."""
    found = set()
    for text in files.values():
        known = _File.of(text)
        found |= {name.rpartition(".")[2] for _, name in known.tainted}
        for call in ast.walk(known.tree):
            if isinstance(call, ast.Call) and len(call.args) > 1 and _dotted(call.func).rpartition(".")[2] == "log":
                name = call.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str) and known.reads_any(call.args[1]):
                    found.add(name.value)
    return frozenset(found)


@dataclass(slots=True)
class _File:
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    imported: dict[str, str] = field(default_factory=dict)
    """What a name stands for: `pc` for `time.perf_counter`."""
    bound: dict[Scope, set[str]] = field(default_factory=dict)
    tainted: set[tuple[Scope, str]] = field(default_factory=set)
    assigned: list[tuple[Scope, str, ast.AST]] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> _File:
        made = cls()
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return made
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                made.imported.update({one.asname or one.name.partition(".")[0]: _meant(one) for one in node.names})
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                made.imported.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
        made.tree = tree
        made.assigned = list(_assignments(tree, ""))
        for scope, target, _ in made.assigned:
            made.bound.setdefault(scope, set()).add(target)
        made.spread()
        return made

    def spread(self) -> None:
        """Variables that are computed from tainted ones are tainted."""
        before = -1
        while before != len(self.tainted):  # a variable may be computed from one that is found later
            before = len(self.tainted)
            for scope, target, value in self.assigned:
                if self.is_computed(value, scope):
                    self.tainted.add(("" if "." in target else scope, target))

    def given(self, function: Scope, arguments: ast.arguments, places: list[int], words: set[str]) -> bool:
        """A function is given tainted arguments, by place or by word; whether that is new."""
        listed = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
        first = 1 if listed[:1] in (["self"], ["cls"]) else 0
        names = {listed[first + at] if first + at < len(listed) else getattr(arguments.vararg, "arg", "") for at in places}
        names |= words & {*listed, *(one.arg for one in arguments.kwonlyargs)}
        new = {(function, name) for name in names if name} - self.tainted
        self.bound.setdefault(function, set()).update(name for _, name in new)
        self.tainted |= new
        if new:
            self.spread()
        return bool(new)

    def reads_clock(self, text: str, scope: Scope) -> bool:
        """Whether anything in a statement reads one."""
        try:
            tree = ast.parse(text.strip())
        except (SyntaxError, ValueError, RecursionError):
            return False
        return any(self._is_clock(node) or self._is_tainted(node, scope) for node in ast.walk(tree))

    def reads_any(self, value: ast.AST) -> bool:
        """Whether anything in an expression reads one, whichever function it is in."""
        tainted = {name for _, name in self.tainted}
        return any(self._is_clock(node) or _dotted(node) in tainted for node in ast.walk(value))

    def _is_clock(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        written = _dotted(node.func)
        first, dot, rest = written.partition(".")
        meant = self.imported.get(first, first) + dot + rest
        return meant in _CLOCKS or meant.startswith(_MODULES)

    def _is_tainted(self, node: ast.AST, scope: Scope) -> bool:
        written = _dotted(node)
        if not written:
            return False
        if "." in written:
            return ("", written) in self.tainted
        while scope and written not in self.bound.get(scope, ()):
            scope = scope.rpartition(".")[0]
        return (scope, written) in self.tainted

    def is_computed(self, node: ast.AST, scope: Scope) -> bool:
        """By arithmetic from a clock, or from what was."""
        if self._is_clock(node) or self._is_tainted(node, scope):
            return True
        if isinstance(node, ast.Call):
            return _dotted(node.func) in _PLAIN and any(self.is_computed(one, scope) for one in node.args)
        return isinstance(node, _ARITHMETIC) and any(self.is_computed(one, scope) for one in ast.iter_child_nodes(node))


def _meant(one: ast.alias) -> str:
    return one.name if one.asname else one.name.partition(".")[0]


def _dotted(node: ast.AST) -> str:
    """`a.b.c` as it is written; nothing for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _assignments(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, str, ast.AST]]:
    """(scope, variable, value) of every assignment, those in functions too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _assignments(child, f"{scope}.{child.name}" if scope else child.name)
            continue
        if isinstance(child, ast.Assign):
            yield from ((scope, _dotted(target), child.value) for target in child.targets if _dotted(target))
        elif isinstance(child, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and child.value is not None and _dotted(child.target):
            yield scope, _dotted(child.target), child.value
        yield from _assignments(child, scope)
