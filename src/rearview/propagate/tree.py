"""A file as a tree of statements: what is compared when two versions of it are.

Each statement knows its place (owner, block, index), a key that is equal for equal text whatever its layout, and its words. Knows syntax
and layout. Must not know what is done with two trees. Pure.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rearview.instrument.calls import Calls, calls_of, first_line, last_line, parse, tree_of
from rearview.instrument.place_at import lines_of
from rearview.propagate.heads import count_words, handles_of, head_of
from rearview.propagate.hidden import Hidden, LeftOut
from rearview.propagate.lazily import lazily

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_QUOTED = 60
"""Characters of a statement that are quoted at most."""
_BLOCKS = ("body", "orelse", "finalbody")
_REARVIEW = re.compile(r"\b(?:rv|rearview|flor)\b")
VARIABLE = re.compile(r"(?<![\w.])[^\W\d]\w*")
_NO_PARTS = frozenset({"ctx", "op", "ops", "id", "attr", "arg", "type_comment", "conversion"})
_PARTS = {
    kind: tuple(one for one in kind._fields if one not in _NO_PARTS)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each kind of syntax in which others can be that have names in them."""
_SPACE = re.compile(r"\\\r?\n|\\\r|\s+")
_LAST_COMMA = re.compile(r",(?=[)\]}])")
_KINDS: dict[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "FunctionDef",
    ast.AsyncFor: "For",
    ast.AsyncWith: "With",
    ast.AnnAssign: "Assign",
    ast.TryStar: "Try",
}


class Node:
    """A statement, or the module itself, or one handler or case of a statement."""

    __slots__ = ("__dict__", "blocks", "field", "file", "index", "kind", "owner", "syntax")

    def __init__(self, syntax: ast.AST, file: File, owner: Node | None, field: str, index: int) -> None:
        self.syntax = syntax
        self.file = file
        self.owner = owner
        self.field = field
        self.index = index
        self.kind = _KINDS.get(type(syntax), type(syntax).__name__)
        self.blocks: dict[str, list[Node]] = {}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.line}>"

    @lazily
    def line(self) -> int:
        """Where it begins, decorators included."""
        return first_line(self.syntax) if isinstance(self.syntax, ast.stmt) else getattr(self.syntax, "lineno", 1)

    @lazily
    def end(self) -> int:
        """Its last line."""
        return last_line(self.syntax) if isinstance(self.syntax, ast.stmt) else getattr(self.syntax, "end_lineno", self.line)

    @property
    def quoted(self) -> str:
        """Where it stands and how it begins, for a sentence about it."""
        if self.owner is None:
            return "the module"
        text = self.file.lines[self.line - 1].strip()
        return f"line {self.line}, `{text if len(text) <= _QUOTED else text[: _QUOTED - 3] + '...'}`"

    @property
    def siblings(self) -> list[Node]:
        """The block that it is in."""
        return self.owner.blocks[self.field] if self.owner else [self]

    @lazily
    def nothing(self) -> bool:
        """Whether it only fills a place: `pass`, `...`, a docstring."""
        one = self.syntax
        return isinstance(one, ast.Pass) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))

    @lazily
    def left_out(self) -> bool:
        """Whether it is a function of which only the head is there."""
        hidden = self.file.hidden
        return hidden is not None and isinstance(self.syntax, ast.FunctionDef) and self.syntax.name in hidden.functions

    @lazily
    def scope(self) -> Node:
        """The function, class or module that it runs in."""
        one = self.owner
        while one is not None and one.owner is not None and not isinstance(one.syntax, Scope):
            one = one.owner
        return one or self

    @lazily
    def function(self) -> Node:
        """The function or module that it runs in: where its variables live."""
        one = self.scope
        return one.function if isinstance(one.syntax, ast.ClassDef) else one

    @lazily
    def qualified(self) -> tuple[str, ...]:
        """The names of the functions and classes around, and its own if it has one."""
        above = self.scope.qualified if self.owner else ()
        return (*above, self.syntax.name) if isinstance(self.syntax, Scope) else above

    def above(self) -> Iterator[Node]:
        """Its owner, the owner of that, and so on to the module."""
        one = self.owner
        while one is not None:
            yield one
            one = one.owner

    def below(self) -> Iterator[Node]:
        """Every statement inside it, in the order of the text."""
        for block in self.blocks.values():
            for one in block:
                yield one
                yield from one.below()

    # -- what it says ---------------------------------------------------------------------------------------------------------

    @lazily
    def head(self) -> str:
        """Its own text without what is in its blocks, whatever the layout."""
        return self.kind + ":" + "|".join(self.file.plain(one) for one in head_of(self.syntax))

    def blurred(self, unknown: frozenset[str]) -> str:
        """As `head`, with variables that only one of the versions has all alike."""
        return self.kind + ":" + "|".join(self.file.plain(one, unknown) for one in head_of(self.syntax))

    @lazily
    def key(self) -> int:
        """Equal for statements of equal text, all that is in them included."""
        inner = [(name, [one.key for one in block if not one.nothing]) for name, block in self.blocks.items()]
        return hash((self.head, repr(inner))) if self.blocks else hash(self.head)

    @lazily
    def words(self) -> Counter[str]:
        """What its own text mentions: names, attributes, constants, keywords."""
        found: Counter[str] = Counter()
        for head in head_of(self.syntax):
            count_words(head, found)
        return found

    @lazily
    def said(self) -> int:
        """How many words that are."""
        return sum(self.words.values())

    @lazily
    def handles(self) -> frozenset[str]:
        """What it is about: the names that it binds, the functions it calls first."""
        return frozenset(handles_of(self.syntax))

    @lazily
    def bag(self) -> frozenset[int]:
        """The keys of all statements inside it."""
        return frozenset(one.key if not one.blocks else hash(one.head) for one in self.below() if not one.nothing)

    @lazily
    def sayings(self) -> Counter[str]:
        """What the statements inside it mention besides variables: attributes, constants, keywords."""
        found: Counter[str] = Counter()
        for one in self.below():
            if not one.nothing:
                found.update({word: count for word, count in one.words.items() if not word.isidentifier()})
        return found

    @lazily
    def weight(self) -> int:
        """How much it says: the length of its text, all that is in it included."""
        return len(self.head) + sum(one.weight for block in self.blocks.values() for one in block)


class File:
    """One version of a file. SyntaxError, ValueError, RecursionError if it is no program."""

    def __init__(self, text: str, outline: str | None = None, hidden: Hidden | None = None) -> None:
        """`outline`: the text without what is in functions that were left out, which are `hidden`."""
        self.mark = "\ufeff" if text.startswith("\ufeff") else ""
        self.text = text.removeprefix(self.mark)
        self.hidden, self.outline = hidden, outline
        self.tree = parse(self.text) if outline is None else tree_of(outline)
        self.lines = lines_of(self.text)
        self._ascii = self.text.isascii()
        self.module = Node(self.tree, self, None, "", 0)
        self.nodes: list[Node] = []
        """Every statement, in the order of the text; a handler or case counts as one."""
        self._fill(self.module)

    def _fill(self, node: Node) -> None:
        if node.left_out:
            node.blocks["body"] = []
            return
        chain = self._chain(node)
        if chain:
            self._block(node, "body", node.syntax.body)  # type: ignore[attr-defined]
            self._block(node, "elif", chain)
            last = chain[-1].orelse
            if last:
                self._block(node, "orelse", last)
            return
        for name in _BLOCKS:
            block = getattr(node.syntax, name, None)
            if node.field == "elif" and name == "orelse":
                continue  # it is the whole chain's
            if isinstance(block, list) and (block or name == "body"):
                self._block(node, name, block)
        for name in ("handlers", "cases"):
            parts = getattr(node.syntax, name, None)
            if parts:
                self._block(node, name, parts)

    def _chain(self, node: Node) -> list[ast.If]:
        """The `elif`s of an `if`: parts of one statement, not each in the one before."""
        found: list[ast.If] = []
        one = node.syntax
        while isinstance(one, ast.If) and node.field != "elif" and len(one.orelse) == 1:
            inner = one.orelse[0]
            if not isinstance(inner, ast.If) or not self.segment(inner).startswith("elif"):
                break
            found.append(inner)
            one = inner
        return found

    def _block(self, owner: Node, name: str, block: Sequence[ast.AST]) -> None:
        nodes = owner.blocks[name] = []
        for index, one in enumerate(block):
            node = Node(one, self, owner, name, index)
            nodes.append(node)
            self.nodes.append(node)
            self._fill(node)

    def plain(self, node: ast.AST, unknown: frozenset[str] = frozenset()) -> str:
        """The text of a node without its layout: white space, kind of quotes, last commas. Unknown variables are all alike."""
        located = hasattr(node, "end_lineno") and getattr(node, "lineno", None) is not None
        text = self.segment(node) if located else ast.unparse(node)
        if unknown:
            text = VARIABLE.sub(lambda found: "?" if found[0] in unknown else found[0], text)
        return _LAST_COMMA.sub("", _SPACE.sub("", text).replace("'", '"'))

    def segment(self, node: ast.AST) -> str:
        """The text of a node."""
        first, begin, last, end = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        lines = self.lines[first - 1 : last]
        if not self._ascii:
            return self._segment_of_bytes(lines, begin, end)
        if first == last:
            return lines[0][begin:end]
        return "".join([lines[0][begin:], *lines[1:-1], lines[-1][:end]])

    @staticmethod
    def _segment_of_bytes(lines: list[str], begin: int, end: int) -> str:
        """Columns are counted in the bytes of UTF-8."""
        raw = [line.encode("utf-8", "surrogatepass") for line in lines]
        raw[-1] = raw[-1][:end]
        raw[0] = raw[0][begin:]
        return b"".join(raw).decode("utf-8", "surrogatepass")

    @lazily
    def names(self) -> frozenset[str]:
        """The variables that it mentions."""
        return self._mentioned[0] if self.hidden is None else self.hidden.names

    @lazily
    def globals(self) -> frozenset[str]:
        """What its functions declare to be the module's."""
        return self._mentioned[1] if self.hidden is None else self.hidden.globals

    @lazily
    def imports_all(self) -> bool:
        """Whether names may come from `import *`."""
        return self._mentioned[2] if self.hidden is None else self.hidden.imports_all

    @lazily
    def mentions_rearview(self) -> bool:
        """Whether it may call rearview at all."""
        return _REARVIEW.search(self.text) is not None

    @lazily
    def calls(self) -> Calls:
        """How it calls rearview."""
        found = calls_of(self.text if self.outline is None else self.outline)
        self.need(found.modules, found.functions)
        return found

    def need(self, *words: Iterable[str]) -> None:
        """LeftOut if functions that were left out mention one of some words."""
        if self.hidden is not None and any(not self.hidden.words.isdisjoint(some) for some in words):
            raise LeftOut

    def need_all(self) -> None:
        """LeftOut if functions were left out."""
        if self.hidden is not None:
            raise LeftOut

    @lazily
    def _mentioned(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """In one walk, which is what takes long."""
        names: set[str] = set()
        shared: set[str] = set()
        everything = False
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is ast.Name:
                names.add(node.id)  # type: ignore[attr-defined]
                continue
            if kind is ast.Global:
                shared.update(node.names)  # type: ignore[attr-defined]
            elif kind is ast.ImportFrom:
                everything = everything or node.names[0].name == "*"  # type: ignore[attr-defined]
            for field in _PARTS[kind]:
                value = getattr(node, field, None)
                if type(value) is list:
                    pending += [one for one in value if isinstance(one, ast.AST)]
                elif isinstance(value, ast.AST):
                    pending.append(value)
        return frozenset(names), frozenset(shared), everything

    def blank_before(self, line: int) -> bool:
        """Whether a blank line, or the file's beginning, stands above the comments above a line."""
        at = line - 2
        while at >= 0 and self.lines[at].lstrip().startswith("#"):
            at -= 1
        return at < 0 or not self.lines[at].strip()
