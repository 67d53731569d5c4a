"""A file in pieces, one for each statement of its module: known again, by its text, in every version of the file that has it.

Versions of a file share most of their pieces, and most pieces are functions that have nothing to do with what is asked. Such a function
can be left out of a tree: its head stays, its body is nothing, and every line keeps its number. Who leaves one out has to know that
nothing depends on what is in it. Knows text and syntax. Must not know what is asked. Pure.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from rearview.instrument.calls import MODULE, children, parse, statements
from rearview.instrument.place_at import lines_of

_BEGIN = re.compile(r"^(?=[^\s#)\]}])(?!(?:else|elif|except|finally)\b)", re.MULTILINE)
"""Where a statement of a module may begin; where none does, what comes before it is no program by itself."""
_LONGEST = 100
"""Lines at the left edge inside one statement, such as a text of several lines, that are tried as its end."""
_LONE_RETURN = re.compile(r"\r(?!\n)")
_SAYING = {
    kind: tuple(name for name in ("id", "attr", "arg", "name", "value") if name in kind._fields)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each kind of syntax in which a word can be."""
_NOT_PLAIN = frozenset({
    ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await,
})  # fmt: skip
_REARVIEW = frozenset({"rv", "flor", MODULE, "__import__", "import_module"})


class Piece:
    """A statement of a module, with the comments below it. SyntaxError, ValueError, RecursionError if it is no program by itself."""

    def __init__(self, text: str) -> None:
        tree = parse(text)
        every = _nodes(tree.body)
        kinds = {type(one) for one in every}
        self.text = text
        self.lines = text.count("\n") + (not text.endswith("\n"))
        said = [getattr(one, name, None) for one in every for name in _SAYING[type(one)]]
        said += [one.asname for one in every if isinstance(one, ast.alias)]
        self.words = frozenset(one for one in said if isinstance(one, str) and one.isidentifier())
        """Names, attributes, and texts that could be one."""
        self.inventory = Counter([type(one).__name__ for one in every] + [repr(one) for one in said if not isinstance(one, ast.AST)])
        """How often each kind of node, name and constant is in it, without what means nothing."""
        self.imports = tuple(one for one in every if isinstance(one, ast.Import | ast.ImportFrom))
        self.defines = tuple(one.name for one in every if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
        """The functions and classes in it, however deep."""
        self.stores = any(_stores(one) for one in every if isinstance(one, ast.Attribute | ast.Subscript))
        """Whether it sets an attribute of something."""
        self.count = len(tree.body)
        """Of statements: one, unless they share a line."""
        self.statements = sum(not means_nothing(one) for one in statements(tree.body))
        """With all that are inside others, without what means nothing."""
        plain = len(self.defines) == 1 and kinds.isdisjoint(_NOT_PLAIN) and self.words.isdisjoint(_REARVIEW)
        self.outline = _outline(text, tree) if plain else None
        """Without what is in it, if it is a function of no more than steps of its own, which do not mention rearview."""


def _nodes(body: list[ast.stmt]) -> list[ast.AST]:
    """Everything in some statements, in the order of `ast.walk`, without what means nothing."""
    found: list[ast.AST] = [one for one in body if not means_nothing(one)]
    for node in found:
        found += [one for one in children(node) if not means_nothing(one)]
    return found


def _outline(text: str, tree: ast.Module) -> str | None:
    """A function without its body, its last line where it was."""
    function = tree.body[0]
    if len(tree.body) > 1 or not isinstance(function, ast.FunctionDef) or function.args.vararg:  # it may pass all on to another
        return None
    lines = lines_of(text)
    first, last = function.body[0].lineno, function.end_lineno or 0
    left = "".join([*lines[: first - 1], *["\n"] * (last - first), " pass", *["\n"] * (len(lines) - last + lines[-1].endswith("\n"))])
    try:
        found = parse(left).body
    except SyntaxError:
        return None  # its body begins in the line of its head
    one = found[0]
    whole = len(found) == 1 and isinstance(one, ast.FunctionDef) and len(one.body) == 1 and one.end_lineno == last
    return left if whole else None


def _stores(node: ast.Attribute | ast.Subscript) -> bool:
    target = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(target, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def means_nothing(statement: ast.AST) -> bool:
    """Whether a statement only fills a place: `pass`, a docstring, another bare constant."""
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


@lru_cache(maxsize=4096)
def _piece(text: str) -> Piece | None:
    try:
        return Piece(text)
    except SyntaxError:
        return None


@lru_cache(maxsize=256)  # of as many versions as are planned over, before and after placing: they are asked for again when all are placed
def pieces_of(text: str) -> tuple[Piece, ...]:
    """The pieces of a file, in order: together its text. SyntaxError, ValueError, RecursionError if it is no program."""
    text = text.removeprefix("\ufeff")
    begins = [found.start() for found in _BEGIN.finditer(text)][1:] if not _LONE_RETURN.search(text) else []
    pieces: list[Piece] = []
    done = tried = 0
    for end in [*begins, len(text)]:
        piece = _piece(text[done:end])
        tried += 1
        if piece is not None:
            pieces.append(piece)
            done, tried = end, 0
        elif tried > _LONGEST:
            break
    return tuple(pieces) if done == len(text) and pieces else (Piece(text),)


def without(pieces: tuple[Piece, ...], left_out: Callable[[Piece], bool], left: Callable[[Piece], str | None]) -> str:
    """A file without what is in some of its functions, with what is `left` of each of them."""
    return "".join((left(piece) or "") if piece.outline is not None and left_out(piece) else piece.text for piece in pieces)


def only_head(piece: Piece) -> str | None:
    """Of a function, its head."""
    return piece.outline


def only_name(piece: Piece) -> str:
    """Of a function, nothing but that its name is bound."""
    return f"{piece.defines[0]}: 0" + only_lines(piece)


def only_lines(piece: Piece) -> str:
    """Of a function, its lines, empty."""
    return "\n" * piece.text.count("\n")


def begins(pieces: tuple[Piece, ...]) -> list[int]:
    """The first line of each piece."""
    found, line = [], 1
    for piece in pieces:
        found.append(line)
        line += piece.lines
    return found
