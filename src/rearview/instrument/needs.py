"""What a replay must run for the statements that were added: where they run, and whether they carry something along of their own.

A temporary that is filled in one place and read in another is in no checkpoint. Between two statements of the same iteration that is no
harm, nor is one that is made before the main loop and left alone afterwards, not even called: that code runs in every worker. Anything
else (a list that grows from epoch to epoch) is only right if the program runs from its start, in one piece, with nothing put back. What
an iteration fills in its nested loop and reads behind that is right where iterations are run in one go. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rearview.instrument.added import Added
from rearview.instrument.calls import DELAYED, bodies, first_line, last_line, statements, tree_of
from rearview.instrument.companions import looks_at_all
from rearview.instrument.depth import Depth, depths, union
from rearview.instrument.program import Program
from rearview.instrument.scopes import Function, bound_by, free, of_own, read_first, root, surely_bound

_CHANGING = frozenset("append extend add update pop popleft appendleft setdefault insert remove clear discard push put".split())
_NOT_COUNTING = frozenset(
    "partial itemgetter attrgetter methodcaller compile vmap ReLU GELU Softmax LogSoftmax Sigmoid Tanh CosineSimilarity "
    "PairwiseDistance Flatten Path Fraction Decimal".split()
)
"""Makers of what gives the same answer at each call; losses do as well."""

_SETTING = frozenset("setattr delattr __setattr__ __delattr__ __builtins__".split())
"""By these a statement can leave something on a library, or on a method, where it finds it the next time; also by changing a `__dict__`."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the statements that were added ask of a replay."""

    depth: Depth
    """Everywhere that any of them runs."""
    from_start: bool = False
    """Only a run from the program's start, in one piece and with nothing put back, gives their values."""
    why: str = ""
    unparted: bool = False
    """They carry something of their own through the iteration of a main loop: it must be run in one go."""
    along: frozenset[str] = frozenset()
    """What they make, or bring with a module, before the main loop and read behind it: it must stay as it was made."""


@dataclass(slots=True)
class _Group:
    statements: list[ast.stmt]
    body: list[ast.stmt]
    around: Function | None
    depth: Depth = field(default_factory=Depth)
    reads: set[str] = field(default_factory=set)
    sure: set[str] = field(default_factory=set)
    """Names that it surely binds."""
    changes: set[str] = field(default_factory=set)
    """Names that it binds, or whose objects it changes."""
    helpers: list[ast.stmt] = field(default_factory=list)
    """Added functions and classes that it uses."""


def needs(files: Mapping[str, str], added: Added, entry: str | None = None, program: Program | None = None) -> Needs:
    """`files`: the recorded source with the files that got statements replaced."""
    logs = [(log.file, log.line) for log in added.logs]
    groups = [(group.file, group.place[0]) for group in added.groups]
    found = depths(files, [*logs, *groups], entry, [(group.file, group.place) for group in added.groups], program)
    by_place = dict(zip([*logs, *groups], found, strict=True))
    # A temporary is made where a log needs it; what is before the main loop runs in any case.
    running = [one for one, group in zip(found[len(logs) :], added.groups, strict=True) if group.runs]
    unparted, along = False, set[str]()
    total = union([*found[: len(logs)], *(replace(one, prefix=False, suffix=False) for one in running)])
    for file in sorted({group.file for group in added.groups}):
        tree = tree_of(files[file])
        every = [_group(tree, group.place) for group in added.groups if group.file == file]
        runs = [group for group in every if group is not None and not all(isinstance(one, DELAYED) for one in group.statements)]
        added_here = [one for group in every if group for one in group.statements]
        for line, why in _beside_checkpoints(added_here):
            return Needs(total, True, f"line {line} of {file} {why}")
        definitions = {one.name: one for one in added_here if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        for group in runs:
            group.depth = by_place.get((file, first_line(group.statements[0])), Depth(whole=True))
            _look(group, definitions)
        for name, line in [*_carried(runs, definitions), *_carried_by_definitions(runs, definitions)]:
            why = f"line {line} of {file} reads `{name}`, which added statements fill elsewhere: no checkpoint has it"
            return Needs(total, True, why, unparted=True)
        brought = _brought(tree, added_here, files)
        unparted |= bool(brought)
        along |= brought | {name for name, makers, _ in _own(runs, definitions) if all(one.depth == Depth(prefix=True) for one in makers)}
        unparted |= not all(_harmless_in_parts(name, makers, reader) for name, makers, reader in _own(runs, definitions))
    return Needs(total, unparted=unparted, along=frozenset(along))


def _beside_checkpoints(added: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Where added statements look at all variables, those of their own from the iteration before too, or may set something anywhere."""
    for one in (node for statement in added for node in ast.walk(statement)):
        how, sets = looks_at_all(one), _sets_anywhere(one)
        if how is not None:
            yield getattr(one, "lineno", 1), f"looks at all variables (`{how}`), also at those that no checkpoint has"
        elif sets is not None:
            yield getattr(one, "lineno", 1), f"may set what no checkpoint has (`{sets}`), and read it later"


def _sets_anywhere(node: ast.AST) -> str | None:
    """By what an expression may set something on any object; None if it does not."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {*_CHANGING, "__setitem__"}:
        return next((word for word in ("__dict__", "vars") if word == _word(node.func.value)), None)
    return _word(node) if _word(node) in _SETTING else None


def _word(node: ast.AST) -> str:
    """The last word of a name or an attribute, or of the function that is called by its name."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def _group(tree: ast.Module, place: tuple[int, int, int, int]) -> _Group | None:
    """The statements of a group in the tree, the body they are in, and the function around."""
    pending: list[tuple[list[ast.stmt], Function | None]] = [(tree.body, None)]
    while pending:
        body, around = pending.pop()
        inside = [one for one in body if _within(one, place)]
        if inside:
            return _Group(inside, body, around)
        for one in body:
            inner = one if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) else around
            pending.extend((block, inner) for block in bodies(one))
    return None


def _within(statement: ast.stmt, place: tuple[int, int, int, int]) -> bool:
    line = first_line(statement)
    column = statement.col_offset if line == statement.lineno else 0
    return place[:2] <= (line, column) and (last_line(statement), statement.end_col_offset or 0) <= place[2:]


def _look(group: _Group, definitions: Mapping[str, ast.stmt]) -> None:
    """Fill in what a group reads, binds and changes; what added functions do counts for those who name them."""
    pending = list(read_first(group.statements))
    while pending:
        name = pending.pop()
        if name not in group.reads:
            group.reads.add(name)
            if name in definitions:
                group.helpers.append(definitions[name])
                pending.extend(free(definitions[name]))
                group.changes |= _changed(definitions[name])
    group.sure = surely_bound(group.statements)
    for statement in group.statements:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            group.changes |= _changed(statement)


def _changed(statement: ast.stmt) -> set[str]:
    """Names that a statement binds or whose objects it changes, as far as one can see."""
    names: set[str] = set()
    own = set() if isinstance(statement, DELAYED) else _bound(statement)
    for node in ast.walk(statement):
        target: str | None = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = root(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            target = root(node.func)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next" and node.args:
            target = root(node.args[0])
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _only_looks(node.value):
            names.update(one.id for one in node.value.args if isinstance(one, ast.Name))
            target = root(node.value.func) if isinstance(node.value.func, ast.Attribute) else None
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
        if target:
            names.add(target)
    return names | own


def _only_looks(call: ast.Call) -> bool:
    return _last_word(call.func) in ("log", "print")


def _carried_by_definitions(groups: list[_Group], definitions: Mapping[str, ast.stmt]) -> list[tuple[str, int]]:
    """Names that added functions carry along, whoever calls them, also from another file."""
    found = []
    for definition in definitions.values():
        changed = _changed(definition)
        found += [(name, definition.lineno) for name in sorted(changed & _kept_between_calls(definition))]
        for name in sorted(free(definition) | changed):
            makers = [one for one in groups if name in _bindings(one) and one.around is None]
            if makers and (name in changed or not all(one.depth == Depth(prefix=True) for one in makers)):
                found.append((name, definition.lineno))
    return found


def _kept_between_calls(definition: ast.stmt) -> set[str]:
    """Parameters whose default is an object, and what a function keeps as its own attribute."""
    kept: set[str] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kept.add(node.name)
            places = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(reversed(places), reversed(node.args.defaults), strict=False)]
            pairs += [(one, default) for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default]
            kept.update(one.arg for one, default in pairs if not isinstance(default, ast.Constant))
        elif isinstance(node, ast.ClassDef):
            kept.add(node.name)
    return kept


def _carried(groups: list[_Group], definitions: Mapping[str, ast.stmt]) -> list[tuple[str, int]]:
    """Names that groups carry along, and a line where each is read."""
    every = _own(groups, definitions)
    return [(name, reader.statements[0].lineno) for name, makers, reader in every if not _harmless(name, makers, reader)]


def _own(groups: list[_Group], definitions: Mapping[str, ast.stmt]) -> list[tuple[str, list[_Group], _Group]]:
    """Names that groups have of their own: which fill one, and one that reads it."""
    found = []
    for reader in groups:
        for name in sorted(reader.reads):
            makers = [one for one in groups if name in one.changes and _same_variable(name, one, reader, groups)]
            if name in definitions or any(name in _bindings(one) for one in makers):
                found.append((name, makers, reader))
    return found


def _bindings(group: _Group) -> set[str]:
    own = [one for one in group.statements if not isinstance(one, (ast.Import, ast.ImportFrom, *DELAYED))]
    return {name for one in own for name in _bound(one)}


def _bound(statement: ast.stmt) -> set[str]:
    return {name for node in of_own([statement]) for name in bound_by(node)}


def _same_variable(name: str, one: _Group, other: _Group, groups: list[_Group]) -> bool:
    """Whether a name means the same variable in two groups: that of the function both are in, or the file's."""
    local = {id(group.around) for group in groups if group.around is not None and name in _bindings(group)}
    homes = [id(group.around) if id(group.around) in local else None for group in (one, other)]
    return homes[0] == homes[1]


def _harmless(name: str, makers: list[_Group], reader: _Group) -> bool:
    """Whether what groups make of a name is there for another one wherever a replay begins."""
    if all(one.depth == Depth(prefix=True) for one in makers):
        return not _may_count_along(name, makers, reader)  # that code runs in every worker
    if all(one.depth == Depth(suffix=True) for one in [*makers, reader]):
        return True
    if not all(_in_iterations(one.depth) for one in [*makers, reader]):
        return False
    return any(name in one.sure and _precedes(one, reader) for one in makers)


def _may_count_along(name: str, makers: list[_Group], reader: _Group) -> bool:
    """Whether an object that was made before the main loop may be another after a use: it is called, or of a class and handed on."""
    binding = [one for group in makers if group is not reader for one in group.statements if name in _bound(one)]
    made = {_last_word(node.func) for one in binding for node in ast.walk(one) if isinstance(node, ast.Call)}
    unknown = {word for word in made if word not in _NOT_COUNTING and not word.endswith("Loss")}
    objects = any(word[:1].isupper() for word in unknown)
    uses = [node for one in [*reader.statements, *reader.helpers] for node in ast.walk(one) if isinstance(node, ast.Call)]
    for node in uses if unknown else ():
        if root(node.func) == name and (objects or not isinstance(node.func, ast.Attribute)):
            return True
        if objects and not _only_looks(node) and any(isinstance(one, ast.Name) and one.id == name for one in node.args):
            return True
    return False


def _last_word(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _harmless_in_parts(name: str, makers: list[_Group], reader: _Group) -> bool:
    """The same where an iteration is run in parts: it must be made in the same part, or never change at all."""
    if all(one.depth == Depth(prefix=True) for one in makers):
        made = [node for one in makers if one is not reader for statement in one.statements for node in ast.walk(statement)]
        return not any(isinstance(node, ast.Call) for node in made)  # of an object it is not known whether it counts along
    if all(one.depth == Depth(suffix=True) for one in [*makers, reader]):
        return True
    return any(name in one.sure and _precedes(one, reader) and _in_one_part(one, reader) for one in makers)


def _brought(tree: ast.Module, added_here: list[ast.stmt], files: Mapping[str, str]) -> set[str]:
    """Names by which added statements import modules of the project, or of them, that the file did not: no state has what those keep."""
    mine = {id(node) for one in added_here for node in ast.walk(one)}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    project = {word for path in files for word in path.removesuffix(".py").split("/")}
    known = {module for node in imports if id(node) not in mine for module in _modules(node)}
    new = [node for node in imports if id(node) in mine and not known.issuperset(_modules(node))]
    ours = [node for node in new if any(one.startswith(".") or not project.isdisjoint(one.split(".")) for one in _modules(node))]
    return {alias.asname or alias.name.partition(".")[0] for node in ours for alias in node.names}


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def _in_one_part(maker: _Group, reader: _Group) -> bool:
    """Whether both run on one side of every state inside a nested loop: before that loop, in one step of it, or behind it."""
    depth = reader.depth
    return maker.depth == depth and _in_iterations(depth) and depth.before + depth.after + bool(depth.nested) == 1


def _in_iterations(depth: Depth) -> bool:
    return not (depth.prefix or depth.suffix or depth.whole) and depth != Depth()


def _precedes(maker: _Group, reader: _Group) -> bool:
    """Whether the reader comes behind the maker in the same pass through a body: the name begins anew each time."""
    if maker.around is not reader.around or maker is reader:
        return False
    after = [one for one in maker.body if first_line(one) > first_line(maker.statements[-1])]
    return any(inner is reader.statements[0] for inner in statements(after))
