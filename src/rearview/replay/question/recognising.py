"""Is a question one that was answered before? By what decides its values: statements, what was added for them, where they stand.

Comments, layout and statements that were added for something else do not count. Pure.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence

from rearview.instrument.added import Added, Group, Log
from rearview.instrument.calls import bodies, statements, tree_of
from rearview.instrument.pieces import begins, means_nothing, pieces_of
from rearview.instrument.scopes import bound_by, of_own
from rearview.replay.question.narrowing import is_one_of, outermost


def digest(added: Added, files: Mapping[str, str], name: str | None) -> str:
    """What recognises the statements of a name (None: of a computed one). `files` are those that got statements."""
    trees = {path: _near(added, path, text) for path, text in files.items()}
    places = [_place(added, group, files[group.file]) if group.file in files else "" for group in added.groups]
    found = hashlib.blake2b(digest_size=12)
    for log in added.logs:
        if log.name == name:
            text = "\0".join((_where(log), places[log.group], log.text, *_made_for(added, log, trees, places)))
            found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


def _where(log: Log) -> str:
    return f"{log.file}\0{log.function}\0{log.loops}"


def _near(added: Added, path: str, text: str) -> ast.Module:
    """A file with no more in it than what statements were added to."""
    pieces = pieces_of(text)
    groups = [group.place for group in added.groups if group.file == path]
    near = [
        piece.text if any(place[0] < begin + piece.lines and begin <= place[2] for place in groups) else "\n" * piece.lines
        for piece, begin in zip(pieces, begins(pieces), strict=True)
    ]
    return tree_of("".join(near))


def _place(added: Added, group: Group, text: str) -> str:
    """Behind how many statements of the recorded file a group stands, and in which of them.

    What means nothing does not count: where statements were left out that nobody asked for, there is a `pass`.
    """
    ours = [(one.place[:2], one.place[2:]) for one in added.groups if one.file == group.file]
    begin = group.place[:2]
    count, around = 0, []
    pieces = pieces_of(text)
    for piece, line in zip(pieces, begins(pieces), strict=True):
        last = line + piece.lines
        if last <= begin[0] and not any(first[0] < last and line <= end[0] for first, end in ours):
            count += piece.statements
        elif line <= begin[0]:
            for one in statements(tree_of(piece.text).body):
                at = one.lineno + line - 1, one.col_offset
                if at >= begin or means_nothing(one) or any(first <= at < end for first, end in ours):
                    continue
                count += 1
                if ((one.end_lineno or 0) + line - 1, one.end_col_offset or 0) > begin:
                    bodies_before = [body for body in bodies(one) if (body[0].lineno + line - 1, body[0].col_offset) <= begin]
                    around.append((count, len(bodies_before)))
    return f"{count} {around}"


def _made_for(added: Added, log: Log, trees: Mapping[str, ast.Module], places: Sequence[str]) -> list[str]:
    """What else was added and decides the value, and where: what is around the log, and all that makes or changes what it reads."""
    numbered = [(group, one) for group in range(len(added.groups)) for one in _outermost(added, group, trees)]
    ours = {id(one) for group, one in numbered if group == log.group and is_one_of([log], one)}
    every = [(group, one) for group, one in numbered if not means_nothing(one) and not is_one_of(_logs_in(added, group), one)]
    found = {id(one) for group, one in every if group == log.group and not isinstance(one, ast.Expr)}
    wanted = {word for _, one in every if id(one) in found for word in _words(one)} | set(_words_of(log.text))
    while fresh := [one for _, one in every if id(one) not in found and wanted & set(_changes(one))]:
        found |= {id(one) for one in fresh}
        wanted |= {word for one in fresh for word in _words(one)}
    told = [(group, "" if id(one) in ours else ast.unparse(one)) for group, one in numbered if id(one) in found | ours]
    return [f"{added.groups[group].file} {places[group]}: {text}" for group, text in told]


def _logs_in(added: Added, group: int) -> list[Log]:
    return [log for log in added.logs if log.group == group]


def _outermost(added: Added, group: int, trees: Mapping[str, ast.Module]) -> list[ast.stmt]:
    one = added.groups[group]
    return outermost(trees[one.file], one.place) if one.file in trees else []


def _changes(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement makes; of a call that stands alone all that it mentions: `seen.append(x)`."""
    if isinstance(statement, ast.Expr):
        yield from _words(statement)
    for node in of_own([statement]):
        yield from bound_by(node)


def _words(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


def _words_of(text: str) -> list[str]:
    try:
        return list(_words(tree_of(text)))
    except (SyntaxError, ValueError, RecursionError):
        return text.replace(".", " ").replace("(", " ").replace(")", " ").replace(",", " ").split()
