"""Lines put into a file's own text: every other byte stays. Also the text of statements as it is put there: indented, renamed.

Knows lines, columns and indentation. Must not know why a line goes where it goes. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rearview.instrument.calls import parse
from rearview.instrument.scopes import bound_by
from rearview.propagate.spots import Spot
from rearview.propagate.telling import tells
from rearview.propagate.tree import File, Node


@dataclass(frozen=True, slots=True)
class Insertion:
    """Lines that come before a line of a file (one past the last: at its end)."""

    line: int
    lines: tuple[str, ...]
    """Without their ends."""


def splice(file: File, insertions: Sequence[Insertion]) -> tuple[str, list[tuple[int, int]], list[int]]:
    """The text with the lines put in, the ranges of characters that are new in it, and the line each insertion begins at."""
    ending = _ending(file)
    pieces: list[str] = [file.mark]
    ranges: list[tuple[int, int]] = []
    begins: list[int] = [0] * len(insertions)
    length, shift, done = len(file.mark), 0, 0
    for order in sorted(range(len(insertions)), key=lambda one: insertions[one].line):
        one = insertions[order]
        kept = "".join(file.lines[done : one.line - 1])
        done = max(done, one.line - 1)
        text = "".join(line + ending for line in one.lines)
        length += len(kept)
        last = file.lines[one.line - 2] if 2 <= one.line <= len(file.lines) + 1 else ending
        if one.line == len(file.lines) + 1 and not last.endswith(("\n", "\r")):  # its last line has no end: neither has ours
            text = ending + text.removesuffix(ending)
        pieces += [kept, text]
        ranges.append((length, length + len(text)))
        begins[order] = one.line + shift
        length += len(text)
        shift += len(one.lines)
    pieces.append("".join(file.lines[done:]))
    return "".join(pieces), ranges, begins


def _ending(file: File) -> str:
    first = next((line for line in file.lines if line.endswith(("\n", "\r"))), "\n")
    return first[len(first.rstrip("\r\n")) :]


def indentation(node: Node) -> str | None:
    """What stands before a statement in its line; None if another one does."""
    line = node.file.lines[node.line - 1]
    space = line[: len(line) - len(line.lstrip(" \t\f"))]
    if isinstance(node.syntax, ast.stmt) and node.line == node.syntax.lineno and node.syntax.col_offset != len(space):
        return None
    return space


def alone(node: Node) -> bool:
    """Whether a statement shares no line with a neighbour."""
    block = node.siblings
    after = block[node.index + 1] if node.index + 1 < len(block) else None
    return indentation(node) is not None and (after is None or after.line > node.end)


def line_of(spot: Spot) -> tuple[int, str] | None:
    """The line before which the lines of a place are put, and how they are indented; None if the place has no line of its own."""
    block = spot.siblings
    _to_the_edge(spot)
    before = block[spot.index - 1] if spot.index else None
    after = block[spot.index] if spot.index < len(block) else None
    indent = next((space for one in (before, after) if one and (space := indentation(_first_of_line(one))) is not None), None)
    if indent is None:
        return None
    if before is not None and (after is None or (spot.before is not None and after.line > before.end)):
        return before.end + 1, indent
    if after is not None and indentation(after) is not None:
        return after.line, indent
    return None


def _first_of_line(node: Node) -> Node:
    """The first statement of a block on the line that a statement begins on."""
    while node.index and node.siblings[node.index - 1].end == node.line:
        node = node.siblings[node.index - 1]
    return node


def _to_the_edge(spot: Spot) -> None:
    """Move a place inside a line of several statements in front of the line or behind it, over statements that only tell."""
    block, at = spot.siblings, spot.index
    for step in (1, -1):
        while 0 < at < len(block) and block[at - 1].end == block[at].line and tells(block[at if step == 1 else at - 1]):
            at += step
        if not 0 < at < len(block) or block[at - 1].end < block[at].line:
            spot.index = at
            return
        at = spot.index


def text_of(group: Sequence[Node], indent: str, renamed: Mapping[str, str]) -> list[str] | None:
    """The lines of statements that stand next to each other, indented anew and with names replaced; None if that cannot be done."""
    found: list[str] = []
    for node in group:
        lines = _text(node, indent, renamed)
        if lines is None:
            return None
        found += lines
    return found


def whole(node: Node, names: set[str]) -> list[str]:
    """The lines of a statement of the module; of an import, what is needed of it."""
    statement = node.syntax
    if isinstance(statement, ast.Import | ast.ImportFrom):
        wanted = [one for one in statement.names if set(bound_by(one)) & names]
        part = ast.Import(wanted) if isinstance(statement, ast.Import) else ast.ImportFrom(statement.module, wanted, statement.level)
        return [ast.unparse(part)]
    return text_of([node], "", {}) or ast.unparse(statement).splitlines()


def _text(node: Node, indent: str, renamed: Mapping[str, str]) -> list[str] | None:
    file = node.file
    statement = node.syntax
    before = indentation(node) or ""
    lines = [line.rstrip("\r\n") for line in file.lines[node.line - 1 : node.end]]
    if not isinstance(statement, ast.stmt):
        return None
    wanted = meaning(node, renamed)
    whole = [statement] if not renamed else []
    if alone(node):
        fixed = _inside_strings(statement)
        candidates = [lines] if whole else [_replace(node, lines, renamed)]
        for candidate in candidates:
            if candidate is not None:
                moved = [_indent(text, before, indent) if node.line + k not in fixed else text for k, text in enumerate(candidate)]
                if _means(moved, indent, wanted):
                    return moved
    printed = [indent + line for line in ast.unparse(statement if not renamed else _rename_tree(statement, renamed)).splitlines()]
    return printed if _means(printed, indent, wanted) else None


def _indent(text: str, before: str, indent: str) -> str:
    if not text.strip():
        return text
    if text.startswith(before):
        return indent + text[len(before) :]
    return indent + text.lstrip(" \t")  # a comment or a continued line that stands further left


def _inside_strings(statement: ast.stmt) -> set[int]:
    """Lines that begin inside a string: they are not indented anew."""
    found: set[int] = set()
    for node in ast.walk(statement):
        text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        if text and isinstance(node, ast.expr) and node.end_lineno is not None:
            found.update(range(node.lineno + 1, node.end_lineno + 1))
    return found


class _Renaming(ast.NodeTransformer):
    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._renamed.get(node.id, node.id), node.ctx), node)


def _rename_tree(statement: ast.stmt, renamed: Mapping[str, str]) -> ast.stmt:
    copy = parse(ast.unparse(statement)).body[0]
    changed = _Renaming(renamed).visit(copy)
    assert isinstance(changed, ast.stmt)
    return changed


def meaning(node: Node, renamed: Mapping[str, str]) -> str:
    """What a statement is with its names replaced, whatever its layout."""
    assert isinstance(node.syntax, ast.stmt)
    return ast.dump(_rename_tree(node.syntax, renamed) if renamed else node.syntax)


def _means(lines: list[str], indent: str, wanted: str) -> bool:
    """Whether lines are the statement that is wanted."""
    text = "\n".join(lines)
    try:
        block = parse(f"if 1:\n{text}\n" if indent else text + "\n").body
    except (SyntaxError, ValueError):
        return False
    body = block[0].body if indent and isinstance(block[0], ast.If) else block
    return len(body) == 1 and ast.dump(body[0]) == wanted


def _replace(node: Node, lines: list[str], renamed: Mapping[str, str]) -> list[str] | None:
    """The lines with names replaced in place, layout kept."""
    places: dict[int, list[tuple[int, str]]] = {}
    for one in ast.walk(node.syntax):
        if isinstance(one, ast.Name) and one.id in renamed:
            places.setdefault(one.lineno - node.line, []).append((one.col_offset, one.id))
    changed = list(lines)
    for row, found in places.items():
        if not 0 <= row < len(lines):
            return None
        raw = lines[row].encode("utf-8", "surrogatepass")
        for column, name in sorted(set(found), reverse=True):
            if raw[column : column + len(name.encode())] != name.encode():
                return _replace_words(lines, renamed)  # Python before 3.12 knows no columns inside an f-string
            raw = raw[:column] + renamed[name].encode() + raw[column + len(name.encode()) :]
        changed[row] = raw.decode("utf-8", "surrogatepass")
    return changed


def _replace_words(lines: list[str], renamed: Mapping[str, str]) -> list[str]:
    """Each word that is such a name replaced; whether that is right is looked at afterwards."""
    word = re.compile(r"(?<![\w.\"'])(" + "|".join(map(re.escape, renamed)) + r")(?!\w|\s*=[^=])")
    return [word.sub(lambda found: renamed[found[1]], line) for line in lines]
