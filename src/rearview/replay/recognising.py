"""Is a question one that was answered before? By what decides its values: statements, what was added for them, where they stand.

Comments, layout and statements that were added for something else do not count. Pure.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping

from rearview.instrument.added import Added, Log
from rearview.instrument.calls import statements, tree_of
from rearview.instrument.pieces import begins, pieces_of
from rearview.instrument.scopes import bound_by, of_own
from rearview.replay.narrowing import outermost


def digest(added: Added, files: Mapping[str, str], name: str | None) -> str:
    """What recognises the statements of a name (None: of a computed one). `files` are those that got statements."""
    trees = {path: _near(added, path, text) for path, text in files.items()}
    found = hashlib.blake2b(digest_size=12)
    for log in added.logs:
        if log.name == name:
            text = "\0".join((_where(log), str(_behind(added, log, files[log.file])), log.text, *_made_for(added, log, trees)))
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


def _behind(added: Added, log: Log, text: str) -> int:
    """Behind how many statements of the recorded file a log stands."""
    ours = [(group.place[:2], group.place[2:]) for group in added.groups if group.file == log.file]
    begin = added.groups[log.group].place[:2]
    count = 0
    pieces = pieces_of(text)
    for piece, line in zip(pieces, begins(pieces), strict=True):
        last = line + piece.lines
        if last <= begin[0] and not any(first[0] < last and line <= end[0] for first, end in ours):
            count += piece.statements
        elif line <= begin[0]:
            every = [(one.lineno + line - 1, one.col_offset) for one in statements(tree_of(piece.text).body)]
            count += sum(1 for at in every if at < begin and not any(first <= at < end for first, end in ours))
    return count


def _made_for(added: Added, log: Log, trees: Mapping[str, ast.Module]) -> list[str]:
    """What else was added and decides the value: what is around the log, and all that makes a name which it reads."""
    every = [(group, one) for group in range(len(added.groups)) for one in _outermost(added, group, trees)]
    mine = [one for group, one in every if group == log.group and not isinstance(one, ast.Expr)]
    wanted = {word for one in mine for word in _words(one)} | set(_words_of(log.text))
    found = {id(one): one for one in mine}
    while fresh := [one for _, one in every if id(one) not in found and not isinstance(one, ast.Expr) and wanted & set(_binds(one))]:
        found |= {id(one): one for one in fresh}
        wanted |= {word for one in fresh for word in _words(one)}
    return [ast.unparse(one) for _, one in every if id(one) in found]


def _outermost(added: Added, group: int, trees: Mapping[str, ast.Module]) -> list[ast.stmt]:
    one = added.groups[group]
    return outermost(trees[one.file], one.place) if one.file in trees else []


def _binds(statement: ast.stmt) -> Iterator[str]:
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
