"""What stands for a history that was not kept: the tensor is a value, and whatever would go through how it was computed raises.

A backward pass that comes to such a tensor raises by itself. One that is asked for some inputs would go around it and give nothing
for what its history led to: torch's engine is asked through here as soon as there is one such tensor. In a statement added in hindsight
(`strict`) no input is believed to be unconnected, and the tensor's text, which names its history, is refused as well.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

SENTENCE = "HistoryNotKept: this tensor was put back from a checkpoint, which does not keep how it was computed"

strict = 0
"""How many statements added in hindsight are under way."""
refused: RuntimeError | None = None
"""What was raised last in one of them, whether or not it went on: it was answered otherwise than in the run."""

_put_back: dict[int, weakref.ref[Any]] = {}
"""By identity: tensors that were put back, which a history may have led to."""


def remember(tensor: Any) -> None:
    """A tensor was put back."""
    mine = id(tensor)

    def forget(gone: weakref.ref[Any]) -> None:
        if _put_back.get(mine) is gone:
            del _put_back[mine]

    _put_back[mine] = weakref.ref(tensor, forget)


def with_history(plain: Any) -> Any:
    """A tensor that requires a gradient and is no leaf; itself if its kind of numbers has no gradients."""
    if not (plain.is_floating_point() or plain.is_complex()):
        return plain
    torch = sys.modules["torch"]
    _watch()
    with torch.enable_grad():
        return _cut().apply(torch.empty((), requires_grad=True), [plain])


@functools.cache
def _cut() -> Any:
    """What stands for the history itself."""
    function: Any = sys.modules["torch"].autograd.Function

    class HistoryNotKept(function):  # type: ignore[misc]
        """Gives a tensor out, and raises on the way back."""

        @staticmethod
        def forward(ctx: Any, anchor: Any, value: Sequence[Any]) -> Any:
            return value[0]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise _refusal()

    return HistoryNotKept


def _refusal() -> RuntimeError:
    global refused  # noqa: PLW0603
    error = RuntimeError(SENTENCE)
    if strict:
        refused = error
    return error


def _is_cut(node: Any) -> bool:
    return type(node) is _cut()._backward_cls


@functools.cache
def _watch() -> None:
    """From now on torch's engine and its texts are asked through here; once."""
    torch = sys.modules["torch"]
    variable = torch.autograd.Variable
    engine: Any = type(variable._execution_engine)

    class Engine(engine):  # type: ignore[misc]
        """The same engine."""

        def run_backward(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = kwargs.get("inputs", args[3] if len(args) > 3 else ())
            if leads_astray(outputs, inputs):
                raise _refusal()
            return super().run_backward(outputs, *args, **kwargs)

    variable._execution_engine = Engine()
    texts = torch._tensor_str
    written = texts._str

    @functools.wraps(written)
    def text(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if strict and _is_cut(tensor.grad_fn):
            raise _refusal()
        return written(tensor, *args, **kwargs)

    texts._str = text


def leads_astray(outputs: Iterable[Any], inputs: Iterable[Any]) -> bool:
    """Whether a pass from outputs to some inputs could miss what a history that was not kept led to. Without inputs it would raise."""
    inputs = tuple(inputs)
    asked = [_node(one) for one in inputs if strict or _is_put_back(one)]
    if inputs and not asked:
        return False
    if not inputs and not strict:
        return False
    cut = _cuts([_node(one) for one in outputs])
    return any(not asked or any(node is not one for node in asked) for one in cut)


def _node(tensor: Any) -> Any:
    """Where a tensor, or an edge, is in the graph; None for a leaf."""
    return tensor[0] if isinstance(tensor, tuple) else tensor.grad_fn


def _is_put_back(tensor: Any) -> bool:
    if isinstance(tensor, tuple):
        return True  # an edge says nothing of its tensor
    known = _put_back.get(id(tensor))
    return known is not None and known() is tensor


def _cuts(nodes: list[Any]) -> list[Any]:
    """The histories that were not kept, in the graph from some nodes on."""
    seen: set[Any] = set()
    found = []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _is_cut(node):
            found.append(node)
        else:
            nodes.extend(following for following, _ in node.next_functions)
    return found
