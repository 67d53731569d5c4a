"""Whether a program writes to the memory of tensors past torch's count of writes: through `.data`, or an array that shares the memory.

A tensor that was only looked at in that way has not changed. Told from the text of one file, by names, and generously: where it says yes
for nothing, more memory is compared. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

_WORTH_A_LOOK = re.compile(r"\.data\b|\bnumpy\(|\basarray\(|__array|dlpack|memoryview|_storage\(|data_ptr")
"""What stands in any text that comes by such memory."""
_OF_TENSORS = re.compile(r"torch|\.numpy\(|\.detach\(|dlpack|untyped_storage|data_ptr")
_GIVES = frozenset("numpy asarray __array__ from_dlpack untyped_storage storage memoryview data_ptr".split())
"""Functions and methods that give what shares the memory of what they are asked about."""
_VIEWS = frozenset(
    "T H mT data real imag flat view view_as reshape ravel flatten unflatten t transpose permute movedim swapaxes squeeze unsqueeze narrow "
    "select chunk split unbind expand diagonal detach cpu to contiguous numpy unfold as_strided requires_grad_ values items".split()
)
"""What leads from such memory to such memory."""
_WRITE = frozenset(
    "fill put itemset partition sort setfield byteswap copyto putmask place fill_diagonal put_along_axis memset memmove".split()
)
"""Methods and functions of NumPy's that write, and of ctypes; torch's end with `_`."""
_DEFINED = re.compile(r"\bdef\s+(\w+)")


def may_write(text: str) -> bool:
    """Whether a library's text has to do with tensors, and comes by their memory at all: soon told, of many and large ones.

    >>> may_write("import torch\nt.data[i] = v"), may_write("t.detach().numpy()[i] = v"), may_write("self.data[k] = v")
    (True, True, False)
    """
    return _OF_TENSORS.search(text) is not None and _WORTH_A_LOOK.search(text) is not None


def functions(text: str) -> set[str]:
    """What a text defines: what is given to one of these may be written to."""
    return set(_DEFINED.findall(text))


def writes(text: str, own: Collection[str] = ()) -> bool:
    """Whether something in a text may be such a write; `own`: functions of the program. What is no Python may do anything.

    >>> writes("net.weight.data[17] = row"), writes("p.data.clamp_(-c, c)"), writes("w = net.weight.detach().numpy()\\nw[0] -= 1")
    (True, True, True)
    >>> writes("net.weight.data = other"), writes("seen.append(x.numpy())"), writes("from torch.utils.data import DataLoader")
    (False, False, False)
    """
    if not _WORTH_A_LOOK.search(text):
        return False
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return True
    shared = _Shared(nodes, own)
    return any(shared.is_written(node) for node in nodes)


class _Shared:
    """The names under which a file has memory of tensors that torch does not count writes to. A name is one thing all over the file."""

    def __init__(self, nodes: list[ast.AST], own: Collection[str]) -> None:
        self._names: set[str] = set()
        self._own = own
        given = [pair for node in nodes for pair in _given(node)]
        known = -1
        while known < len(self._names):
            known = len(self._names)
            for target, value in given:
                if self._is(value):
                    self._names.update(_bound(target))

    def is_written(self, node: ast.AST) -> bool:
        """Whether a node of the file writes to it."""
        if isinstance(node, ast.AugAssign):
            return self._is(node.target)
        if isinstance(node, ast.Subscript):
            return isinstance(node.ctx, ast.Store) and self._is(node.value)
        return isinstance(node, ast.Call) and self._writes(node)

    def _writes(self, call: ast.Call) -> bool:
        """By a method of it, or a function that it is given to."""
        name = _name(call.func)
        changes = name in _WRITE or (name.endswith("_") and not name.endswith("__"))
        if changes and isinstance(call.func, ast.Attribute) and self._is(call.func.value):
            return True
        if (changes or name in self._own) and any(self._is(one) for one in call.args):
            return True
        return any(self._is(one.value) for one in call.keywords if one.arg == "out" or changes or name in self._own)

    def _is(self, node: ast.AST) -> bool:
        """Whether an expression is such memory, or holds it."""
        if isinstance(node, ast.Attribute):
            return node.attr == "data" or node.attr in self._names or (node.attr in _VIEWS and self._is(node.value))
        if isinstance(node, ast.Name):
            return node.id in self._names
        if isinstance(node, ast.Call):
            name = _name(node.func)
            return name in _GIVES or (name in _VIEWS and isinstance(node.func, ast.Attribute) and self._is(node.func.value))
        if isinstance(node, ast.Subscript):
            return self._is(node.value)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return any(self._is(one) for one in node.elts)
        if isinstance(node, ast.Dict):
            return any(self._is(one) for one in node.values)
        if isinstance(node, ast.DictComp):
            return self._is(node.value)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._is(node.elt)
        if isinstance(node, ast.IfExp):
            return self._is(node.body) or self._is(node.orelse)
        return isinstance(node, (ast.Starred, ast.NamedExpr)) and self._is(node.value)


def _given(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Names that get a value here, or are gone over."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        over = node.iter
        is_call = isinstance(over, ast.Call) and _name(over.func) in ("enumerate", "zip", "reversed", "list")
        for value in over.args if is_call and isinstance(over, ast.Call) else [over]:
            yield node.target, value
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _bound(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr != "data":
            yield node.attr


def _name(function: ast.AST) -> str:
    """What a function is called, without what it is looked up in."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
