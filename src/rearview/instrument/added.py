"""Is the current source the recorded one with statements added? Which, where, and what they need.

A run whose code differs in any other way is a run of another version. Knows text and statements. Must not know runs, checkpoints, or
when a statement runs (`depth`). Pure.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rearview.instrument.admissible import Admissible, switches_mode
from rearview.instrument.calls import Calls, bodies, calls_of, first_line, heads, last_line, name_given, parse, statements
from rearview.instrument.companions import Companions, Path, concerns
from rearview.instrument.matching import Difference, Matching, Run
from rearview.instrument.modules import Modules, only_definitions, reachable
from rearview.instrument.pieces import only_lines, only_name, pieces_of, without
from rearview.instrument.place_at import lines_of
from rearview.instrument.scopes import bound_by, root, used

_AGAIN = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)
"""What is in these may run again: what is behind a log comes before its next time."""
Place = tuple[int, int, int, int]
"""Line, column, end line, end column."""


@dataclass(frozen=True, slots=True)
class Log:
    """A log statement that was added."""

    file: str
    line: int
    """In the current file."""
    name: str | None
    """None if it is computed."""
    text: str
    function: str
    """The qualified name of the function it is written in; empty at module level."""
    loops: tuple[str | None, ...]
    """The `rv.loop`s around it in that function, the outermost first; None for a computed name."""
    group: int
    """Its place in `Added.groups`."""


@dataclass(frozen=True, slots=True)
class Group:
    """Statements that were added next to each other: a log with its temporaries and what is around it, or what one needs."""

    file: str
    place: Place
    """For `rewrite`: all of them are one probe."""
    runs: bool
    """False for imports and definitions alone, and for a new file: what they define runs where it is called."""


@dataclass(frozen=True, slots=True)
class Added:
    """Statements were added, and nothing else was changed."""

    logs: tuple[Log, ...] = ()
    groups: tuple[Group, ...] = ()
    files: Mapping[str, str] | None = None
    """The text of each file that got statements, or is new and needed by them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are now logged and were not, in their order."""
        return tuple(dict.fromkeys(log.name for log in self.logs if log.name is not None))


@dataclass(frozen=True, slots=True)
class Changed:
    """Something else was changed: the runs of the recorded source are runs of another version."""

    why: str
    line: int
    file: str = ""
    unreadable: bool = False
    """The file as it is now is no Python."""
    spoiled: Mapping[str | None, str] | None = None
    """Nothing but additions: by the names of logs that were added, what was added next to them and changes what they read. A log cannot be
    taken without it, and it cannot be taken. None if something else was changed."""

    def __str__(self) -> str:
        return f"{self.file + ' ' if self.file else ''}line {self.line}: {self.why}"


def added(
    recorded: str, current: str, *, file: str = "", helpers: frozenset[str] = frozenset(), taken: frozenset[str] = frozenset()
) -> Added | Changed:
    """Compare a recorded file with the current one.

    `helpers`: new modules of the project, whose functions may be called. `taken`: names that mean something at its module level besides
    those of the file, as for a cell of a notebook those of the other cells.
    """
    if recorded == current:
        return Added()
    found = _around_the_same(recorded, current, file, helpers, taken)
    if found is not None:
        return found
    trees = []
    for text, whose in ((recorded, "recorded"), (current, "current")):
        try:
            trees.append(parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            line = problem.lineno or 1 if isinstance(problem, SyntaxError) else 1
            why = f"the {whose} file cannot be read as Python: {getattr(problem, 'msg', problem)}"
            return Changed(why, line, file, unreadable=whose == "current")
    earlier, later = trees
    calls = calls_of(current)
    runs = _runs(earlier, later, calls, file, helpers, taken)
    return _found(runs, calls, current.removeprefix("\ufeff"), file) if not isinstance(runs, Changed) else runs


def _around_the_same(recorded: str, current: str, file: str, helpers: frozenset[str], taken: frozenset[str]) -> Added | None:
    """The same by what is around functions that both files have; None if what is in these could matter, or something was changed."""
    try:
        pieces = pieces_of(recorded), pieces_of(current)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    defined = [Counter(name for piece in some for name in piece.defines) for some in pieces]
    shared = {piece.text for piece in pieces[0]} & {piece.text for piece in pieces[1]}
    same = [piece for piece in pieces[0] if piece.outline and piece.text in shared and all(one[piece.defines[0]] == 1 for one in defined)]
    if not same:
        return None
    left_out = {piece.text for piece in same}
    one_by_one = len(pieces[0]) == len(pieces[1]) and all(a.text == b.text or a.count == b.count == 1 for a, b in zip(*pieces, strict=True))
    left = only_lines if one_by_one else only_name  # else they keep apart what is before and behind them
    earlier, later = (parse(without(some, lambda piece: piece.text in left_out, left)) for some in pieces)
    calls = Calls(later)
    runs = _runs(earlier, later, calls, file, helpers, taken)
    if isinstance(runs, Changed):
        return None
    words = frozenset().union(*(piece.words for piece in same))
    touched = {name for run in runs for statement in run.statements for name in _touched(statement)}
    if words & (touched | calls.modules | set(calls.functions)):
        return None
    return _found(runs, calls, current.removeprefix("\ufeff"), file)


def _touched(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement binds, or whose objects it changes."""
    for node in ast.walk(statement):
        yield from bound_by(node)
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield root(node) or ""


def _runs(
    earlier: ast.Module, later: ast.Module, calls: Calls, file: str, helpers: frozenset[str], taken: frozenset[str]
) -> list[Run] | Changed:
    """What was added to a tree, or why it is another one."""
    admissible = Admissible(earlier, later, calls, helpers, taken)
    matching = Matching(admissible.admits)
    try:
        matching.compare(earlier, later)
    except Difference as problem:
        return Changed(problem.why, problem.line, file)
    except RecursionError:
        return Changed("its statements are nested too deeply to be compared", 1, file)
    refused = next(filter(None, (_refused(run, admissible, calls) for run in matching.runs)), None)
    if refused is None:
        return matching.runs
    line, why = refused
    return Changed(why, line, file, spoiled=_spoiled(matching.runs, admissible, Companions(later, calls), calls, file))


def _refused(run: Run, admissible: Admissible, calls: Calls) -> tuple[int, str] | None:
    """Why what was added next to each other makes it another program, and in which line that is."""
    for statement in run.statements:
        refused = admissible.refuses(statement, run.scope)
        if refused:
            return refused[0], f"`{_short(statement)}` was added: {refused[1]}"
    alone = next(filter(switches_mode, run.statements), None)
    if alone is not None and not any(_logs_of(one, calls) for one, _ in _with_around(run)):
        return alone.lineno, f"`{_short(alone)}` was added: it does something else than log, and may change the run"
    return None


def _spoiled(runs: list[Run], admissible: Admissible, companions: Companions, calls: Calls, file: str) -> dict[str | None, str]:
    """By the names of logs, what was added next to them, changes what they read, and is no temporary of theirs."""
    found: dict[str | None, str] = {}
    for run in runs:
        every = [statement for statement, around in _with_around(run) if not any(map(_defines, around[len(run.around) :]))]
        logs = {at: names for at, one in enumerate(every) if (names := [name_given(call) for call in _logs_of(one, calls)])}
        again = any(isinstance(one, _AGAIN) for one in run.around)
        temporaries = [one for one in every if isinstance(one, ast.Assign | ast.AnnAssign) and admissible.admits(one, run.scope)]
        for at, names in logs.items():
            reads = companions.reads([*_own(every[at]), *temporaries])
            for place, one in enumerate(every):
                around = any(inner is every[at] for inner in statements([one]))
                what = None if around or (place > at and not again) else concerns(_visible(one, run.scope, admissible, companions), reads)
                if what is not None:
                    line, why = admissible.refuses(one, run.scope) or (one.lineno, f"it may change `{what}`")
                    said = Changed(f"`{_short(one)}` was added: {why}", line, file)
                    for name in names:
                        mine = f"`{name or 'what is logged'}` reads `{what}`, and would be another value without it"
                        found.setdefault(name, f"{said} ({mine})")
    return found


def _own(statement: ast.stmt) -> list[ast.AST]:
    """A statement without those inside it."""
    return [statement] if _defines(statement) or next(bodies(statement), None) is None else list(heads(statement))


def _defines(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _visible(statement: ast.stmt, scope: ast.AST, admissible: Admissible, companions: Companions) -> set[Path]:
    """What a statement plainly changes of the recorded program. Names that are new are a temporary's, which goes where the log goes."""
    return {path for path in companions.changes(_own(statement)) if path and not admissible.new_in(path[0], scope)}


def added_in_project(recorded: Mapping[str, str], current: Mapping[str, str], entry: str | None = None) -> Added | Changed:
    """Compare the Python files of a recorded version with the current ones. New files count if an added import reaches them.

    With `entry`, the file that the run began with, files that it reaches by no import are not looked at: another script of the project
    may change as it likes.
    """
    looked_at = reachable(recorded, entry) if entry is not None and entry in recorded else set(recorded)
    modules = Modules(current)
    new = {path for path in current if path not in recorded and path.endswith(".py")}
    helpers = frozenset(name for path in new for name in modules.names(path))
    found = Added()
    files: dict[str, str] = {}
    changed: Changed | None = None
    for path in sorted(looked_at):
        if not path.endswith(".py"):
            continue
        if path not in current:
            return Changed("the file was removed", 1, path)
        taken = _names_of_cells(recorded) if path.startswith("cells/") and recorded[path] != current[path] else frozenset()
        one = added(recorded[path], current[path], file=path, helpers=helpers, taken=taken)
        if isinstance(one, Changed):
            if one.spoiled is None:
                return changed or one
            changed = replace(changed or one, spoiled={**((changed and changed.spoiled) or {}), **one.spoiled})
        elif one.groups:
            files[path] = current[path]
            found = _joined(found, one)
    if changed is not None:
        return changed
    for path in sorted(modules.reached(files, among=new)):
        refused = only_definitions(current[path])
        if refused:
            return Changed(f"the new file, which an added import needs, does more than define: {refused[1]}", refused[0], path)
        files[path] = current[path]
        found = _joined(found, _in_new_file(path, current[path]))
    return replace(found, files=files)


def _names_of_cells(files: Mapping[str, str]) -> frozenset[str]:
    """What means something in a notebook: its cells are one module."""
    names: set[str] = set()
    for path, text in files.items():
        if path.startswith("cells/"):
            try:
                names |= used(parse(text))
            except (SyntaxError, ValueError, RecursionError):
                continue  # that cell failed when it was run, too
    return frozenset(names)


def _joined(one: Added, other: Added) -> Added:
    shift = len(one.groups)
    return Added((*one.logs, *(replace(log, group=log.group + shift) for log in other.logs)), (*one.groups, *other.groups))


def _in_new_file(path: str, text: str) -> Added:
    """A new file is one group; logs in its functions run where those are called."""
    tree = parse(text)
    run = Run(tuple(tree.body), (tree,), tree, tree.body)
    found = _found([run] if tree.body else [], Calls(tree), text.removeprefix("\ufeff"), path)
    return replace(found, groups=tuple(replace(group, runs=False) for group in found.groups))


# -- what was found ------------------------------------------------------------------------------------------------------


def _found(runs: list[Run], calls: Calls, text: str, file: str) -> Added:
    logs: list[Log] = []
    groups: list[Group] = []
    lines = lines_of(text)
    for run in runs:
        first, last = run.statements[0], run.statements[-1]
        column = first.col_offset if first_line(first) == first.lineno else 0
        still = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        place = (first_line(first), column, last_line(last), last.end_col_offset or 0)
        groups.append(Group(file, place, not all(isinstance(one, still) for one in run.statements)))
        for statement, around in _with_around(run):
            for call in _logs_of(statement, calls):
                node: ast.expr | ast.stmt = call if next(bodies(statement), None) is not None else statement
                source = _segment(lines, node) or ast.unparse(node)
                where = _function(around), _loops(around, calls)
                logs.append(Log(file, statement.lineno, name_given(call), source, *where, len(groups) - 1))
    return Added(tuple(logs), tuple(groups))


def _segment(lines: list[str], node: ast.expr | ast.stmt) -> str:
    """The text of a node, its first line without its indentation."""
    end = node.end_lineno or node.lineno
    pieces = [line.encode("utf-8", "surrogatepass") for line in lines[node.lineno - 1 : end]]
    pieces[-1] = pieces[-1][: node.end_col_offset]
    pieces[0] = pieces[0][node.col_offset :]
    return b"".join(pieces).decode("utf-8", "replace")


def _with_around(run: Run) -> Iterator[tuple[ast.stmt, tuple[ast.AST, ...]]]:
    pending = [(one, run.around) for one in reversed(run.statements)]
    while pending:
        statement, around = pending.pop()
        yield statement, around
        inner = [one for body in bodies(statement) for one in body]
        pending.extend((one, (*around, statement)) for one in reversed(inner))


def _logs_of(statement: ast.stmt, calls: Calls) -> list[ast.Call]:
    """The logs of a statement itself, not of those inside it."""
    inside = {id(node) for body in bodies(statement) for one in statements(body) for node in ast.walk(one)}
    return [node for node in ast.walk(statement) if isinstance(node, ast.Call) and calls.called(node) == "log" and id(node) not in inside]


def _function(around: tuple[ast.AST, ...]) -> str:
    names: list[str] = []
    for node in around:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if names and names[-1] == "":
                names[-1] = "<locals>"
            names += [node.name, *([""] if not isinstance(node, ast.ClassDef) else [])]
    return ".".join(name for name in names if name)


def _loops(around: tuple[ast.AST, ...], calls: Calls) -> tuple[str | None, ...]:
    found: list[str | None] = []
    for node in around:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = []
        elif isinstance(node, ast.For | ast.AsyncFor):
            driven = [one for one in ast.walk(node.iter) if isinstance(one, ast.Call) and calls.called(one) == "loop"]
            found += [name_given(one) for one in driven]
    return tuple(found)


def _short(statement: ast.stmt) -> str:
    text = ast.unparse(statement).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."
