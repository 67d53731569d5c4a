"""Where a statement *runs*: before the main loop, in its iterations before or behind the nested loop, in a nested loop, after it all.

The program is walked in the order in which it runs, through the calls of project functions, and each statement is told what may be
going on around it. Where that cannot be told the answer is *anywhere*: then everything is run. An answer has too much in it rather than
too little: what is missing from it would be missing from the values. Must not know checkpoints or plans. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rearview.instrument.calls import bodies, first_line, last_line, statements
from rearview.instrument.modules import reachable
from rearview.instrument.places import MAIN, NEST, UNKNOWN, Place
from rearview.instrument.program import Part, Program
from rearview.instrument.walking import Walk

ANY_LOOP = "*"


@dataclass(frozen=True, slots=True)
class Depth:
    """Everywhere a statement may run."""

    prefix: bool = False
    """Before the first main loop."""
    before: bool = False
    """In an iteration of a main loop, before its first nested loop."""
    after: bool = False
    """In an iteration, behind it."""
    nested: frozenset[str] = frozenset()
    """In these loops directly in a main loop; `*`: in any."""
    suffix: bool = False
    """After the last main loop."""
    whole: bool = False
    """Anywhere: it could not be told, or there is no checkpointing."""
    why: str = ""
    """Why it could not be told."""

    def __or__(self, other: Depth) -> Depth:
        return Depth(
            self.prefix or other.prefix, self.before or other.before, self.after or other.after, self.nested | other.nested,
            self.suffix or other.suffix, self.whole or other.whole, self.why or other.why,
        )  # fmt: skip


def depths(
    files: Mapping[str, str], probes: Sequence[tuple[str, int]], entry: str | None = None,
    added: Sequence[tuple[str, tuple[int, int, int, int]]] = (), whole: Program | None = None,
) -> list[Depth]:  # fmt: skip
    """For each (file, line) where its statement runs. `entry`: the file that the run began with; None: it may be any of them.

    `added`: files and places of statements that were added; loops in them are not those of the record.
    """
    program = _program(files, {file for file, _ in probes}, entry, whole)
    walk = Walk(program, added)
    walk.run(entry)
    return [_depth(program, walk, file, line) for file, line in probes]


def _program(files: Mapping[str, str], probed: set[str], entry: str | None, whole: Program | None) -> Program:
    """What can be part of the program: what its first file reaches; everything, if modules are found by names that are computed."""
    if entry is not None and entry in files:
        reached = probed | reachable(files, entry)
        if whole is not None and reached >= set(files):
            return whole
        program = Program({path: text for path, text in files.items() if path in reached})
        if not program.dynamic:
            return program
    return whole if whole is not None else Program(files)


def _depth(program: Program, walk: Walk, file: str, line: int) -> Depth:
    if program.unread:
        return Depth(whole=True, why=f"{program.unread[0]} cannot be read as Python")
    if walk.strange:
        return Depth(whole=True, why=walk.strange)
    if not walk.checkpointed:
        return Depth(whole=True, why="the program has no `with rv.checkpointing` around a loop")
    found = _statement(program, file, line)
    if found is None:
        return Depth(whole=True, why=f"there is no statement on line {line} of {file}")
    statement, part = found
    places = walk.places.get(id(statement), frozenset())
    where = f"`{part.name}`" if part is not program.bodies[file] else file
    if not places:
        return Depth(whole=True, why=f"nothing in the project's source calls {where}")
    depth = Depth()
    for place in places:
        depth |= _of_place(place, walk, where)
    if (program.dynamic or part.doubtful) and part is not program.bodies[file] and not walk.structure.drives(part):
        how = "by a name that the program computes" if program.dynamic else "where it looks like a method of a library's object"
        depth |= Depth(whole=True, why=f"{where} may also be called {how}")
    if part.anywhere:
        depth |= Depth(whole=True, why=f"{where} {part.anywhere}: it may run at any time")
    return depth


def _of_place(place: Place, walk: Walk, where: str) -> Depth:
    kind = place[0]
    if kind == UNKNOWN:
        return Depth(whole=True, why=f"{where} may be called from anywhere")
    if kind == MAIN:
        return Depth(after=True) if place[2] else Depth(before=True)
    if kind == NEST:
        return Depth(nested=frozenset([str(place[2]) if place[2] is not None else ANY_LOOP]))
    if place[1] == 0:
        return Depth(prefix=True)
    if place[1] in walk.entered_after:
        return Depth(whole=True, why=f"{where} runs between two main loops")
    return Depth(suffix=True)


def _statement(program: Program, file: str, line: int) -> tuple[ast.stmt, Part] | None:
    """The innermost statement that covers a line, and the function it is in."""
    if file not in program.files:
        return None
    best: ast.stmt | None = None
    for one in statements(program.files[file].tree.body):
        if first_line(one) <= line <= last_line(one):
            best = one
    if best is None:
        return None
    inside = [part for part in program.parts if part.file == file and _has(part.node, best)]
    inside.sort(key=lambda part: part.node.lineno if not isinstance(part.node, ast.Module) else 0)
    return best, inside[-1] if inside else program.bodies[file]


def _has(node: ast.AST, statement: ast.stmt) -> bool:
    return any(one is statement for body in bodies(node) for one in statements(body))


def union(every: Sequence[Depth]) -> Depth:
    """Everywhere that some statements run."""
    total = Depth()
    for one in every:
        total |= one
    return replace(total, why=total.why)
