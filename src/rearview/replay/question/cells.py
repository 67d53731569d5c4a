"""Cells of notebooks and interactive sessions as Python: what IPython makes of their text, and where they stand in a version.

Knows no notebook file and runs nothing. Without IPython a cell with magics stays as it is: nothing can be added to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache, lru_cache

from rearview.record.source import cell_path

FOLDER = "cells/"
_PATH = re.compile(r"cells/(\d+)\.py")
_TIMED = re.compile(r"%%time[ \t]*(?=\n|$)")
_INERT = frozenset("bash sh script system sx html HTML javascript js latex markdown svg SVG writefile file perl ruby file_contents".split())
"""Cell magics whose text is no Python of the program."""


def number_of(path: str) -> int | None:
    """The number of the cell that a path of a version stands for.

    >>> number_of("cells/0003.py"), number_of("cells/notes.py")
    (3, None)
    """
    found = _PATH.fullmatch(path)
    return int(found[1]) if found and cell_path(int(found[1])) == path else None


@lru_cache(maxsize=10_000)
def as_python(text: str) -> str:
    """A cell as the Python that it runs, line by line; as it is, if nobody can tell.

    Leading empty lines go: IPython drops them, and positions count from there. `%%time` alone is taken off: its cell runs as any other.

    >>> as_python("\\n\\nx = 1")
    'x = 1'
    >>> as_python("%%time\\nx = 1")
    '# %%time\\nx = 1'
    """
    text = without_empty_lines(_TIMED.sub(lambda found: "# " + found[0], without_empty_lines(text), count=1))
    if parses(text):
        return text
    transform = _transform()
    if transform is None:
        return text
    try:
        made = transform(text)
    except (SyntaxError, ValueError):
        return "" if _is_several(text) else text
    if parses(made):
        return made if _is_plain(made) else text
    return "" if _is_several(text) else text  # a syntax error: nothing of it ran


def without_empty_lines(text: str) -> str:
    """A text from its first line with something in it."""
    return re.sub(r"\A(?:[ \t\f\r]*\n)+", "", text)


def parses(text: str) -> bool:
    """Whether a text is Python."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_several(text: str) -> bool:
    """More than one line: one line alone may be a command that IPython understands without a sign."""
    return len(text.strip().splitlines()) > 1 and not text.startswith("%%")


def _is_plain(made: str) -> bool:
    """Whether everything that the cell runs is seen in it."""
    for node in ast.walk(ast.parse(made)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            named = first.value if isinstance(first, ast.Constant) else None
            if node.func.attr == "run_cell_magic" and named not in _INERT:
                return False
            if node.func.attr == "run_line_magic" and named == "run":
                return False
    return True


@cache
def _transform() -> Callable[[str], str] | None:
    """What IPython does with a cell before it is parsed; None if it is not installed."""
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return None
    transform: Callable[[str], str] = TransformerManager().transform_cell
    return transform
