"""Whether live objects have just the shape of a recorded state, for who puts it into objects of his own choice.

A program that is resumed has its whole state put back, so what does not fit can be made anew. Somebody who gives a model keeps his own
references to it: an optimizer, a view, a loop. There each tensor and array that is put into has to be of the recorded class, shape and
dtype, and each module has to have the recorded parts. Looks at what `restore` met while it paired; touches nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rearview.state import devices
from rearview.state.places import Places
from rearview.state.put.kind import ABSENT
from rearview.state.take.attributes import own_dict
from rearview.state.take.tensors import GRAD_AT, HISTORY, loaded
from rearview.state.tree import NONE, NOTHING, is_atom

if TYPE_CHECKING:
    from rearview.state.restore import Plan

_DTYPE_AT = {"nparray": (3, 4, 5), "npobjects": (2, 3, 4), "npmemmap": (4, 5, 6)}
"""Where the nodes of arrays have dtype, shape and strides."""
_FLAGS_AT = {"tensor": 3, "sparse": 2}
_TENSORS = ("tensor", "sparse", "quantized", "meta")
_PARTS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "submodule"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def misfits(plan: Plan, met: Sequence[tuple[int, Any]]) -> dict[int, str]:
    """Why live objects cannot take the state as they are: a sentence for each node. `met` are nodes with what is live at their places."""
    return _Strict(plan, met).reasons()


class _Strict:
    """One look at a plan."""

    def __init__(self, plan: Plan, met: Sequence[tuple[int, Any]]) -> None:
        self.plan = plan
        self.nodes = plan.nodes
        self.met = met
        torch = loaded()
        numpy = sys.modules.get("numpy")
        has_nn = torch is not None and hasattr(torch, "nn") and hasattr(torch, "optim")
        self.tensors: tuple[type[Any], ...] = () if torch is None else (torch.Tensor,)
        self.arrays: tuple[type[Any], ...] = () if numpy is None else (numpy.ndarray,)
        self.numbers: tuple[type[Any], ...] = _PLAIN if numpy is None else (*_PLAIN, numpy.generic)
        self.modules: tuple[type[Any], ...] = (torch.nn.Module,) if has_nn else ()
        self.optimizers: tuple[type[Any], ...] = (torch.optim.Optimizer,) if has_nn else ()
        self.late: tuple[type[Any], ...] = (torch.nn.parameter.UninitializedTensorMixin,) if has_nn else ()
        self.grads = {plan.nodes[number][1][GRAD_AT if plan.nodes[number][0] == "tensor" else 3]
                      for number, _ in met if plan.nodes[number][0] in _FLAGS_AT}  # fmt: skip

    def reasons(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for number, live in self.met:
            if number in found or number in self.grads:
                continue
            why = self._why(number, live)
            if why is not None:
                found[number] = f"{self._where(number)}: {why}"
        return found

    def _where(self, number: int) -> str:
        return self.places.of(number)

    @cached_property
    def parents(self) -> list[int]:
        """Which node leads to each: models go first, whose names for parameters people know, and not what optimizers call them."""
        parents, seen = [NONE] * len(self.nodes), set(range(NOTHING + 1))
        roots = [self.plan.tree.roots[key] for key in self.plan.keys]
        stack = sorted(roots, key=lambda root: self._is_model(root, self.modules))
        seen.update(stack)
        while stack:
            number = stack.pop()
            kind, payload = self.nodes[number]
            for child in () if is_atom(kind) else reversed(payload):
                if child not in seen:
                    seen.add(child)
                    parents[child] = number
                    stack.append(child)
        return parents

    @cached_property
    def places(self) -> Places:
        return Places(self.nodes, self.parents, self.plan.tree.roots)

    def _why(self, number: int, live: Any) -> str | None:
        kind = self.nodes[number][0]
        if kind in _TENSORS or kind in _DTYPE_AT or isinstance(live, (*self.tensors, *self.arrays)):
            return self._of_values(number, live)
        models = (*self.modules, *self.optimizers)
        if isinstance(live, models) or self._is_model(number, models):
            return self._of_model(number, live)
        return None

    # Tensors and arrays

    def _of_values(self, number: int, live: Any) -> str | None:
        kind, payload = self.nodes[number]
        if isinstance(live, self.numbers) or self._is_plain(number):
            return None  # an attribute that is set in time: None at first, or a number
        if self._is_computed(live) or (kind in _FLAGS_AT and self.plan.plain(payload[_FLAGS_AT[kind]]) & HISTORY):
            return None  # the value of a computation: nothing is put into those
        if isinstance(live, self.late) or kind == "lazy":
            return None if self._is_paired(number, live) else self._of_class(number, live)
        recorded, here = self._recorded_values(number), self._live_values(live)
        if recorded is None or here is None:
            return None if self._is_taken_back(number) else self._of_class(number, live)
        if recorded != here or not (self._is_paired(number, live) or self._has_class(number, live)):
            return None if kind in _DTYPE_AT and self._is_taken_back(number) else f"recorded as {recorded}, here {here}"
        if kind in _DTYPE_AT:
            strides = self.plan.plain(payload[_DTYPE_AT[kind][2]])
            if live.size and live.strides != strides and not self._is_taken_back(number):
                return f"recorded as {recorded} with strides {strides}, here with {live.strides}"
        return self._of_sharing(number, live)

    def _recorded_values(self, number: int) -> str | None:
        """What a node of a tensor or an array is, in words."""
        kind, payload = self.nodes[number]
        plain = self.plan.plain
        if kind in _DTYPE_AT:
            dtype, shape, _ = (plain(payload[at]) for at in _DTYPE_AT[kind])
            return _text(str(dtype), self._class_of(payload[0]) or "array", shape)
        if kind == "sparse":
            dtype = plain(self.nodes[self.nodes[payload[-1]][1][1]][1][0])
            return _text(dtype, f"{plain(payload[1])} {self._class_of(payload[0]) or 'tensor'}", plain(payload[6]))
        if kind not in _TENSORS:
            return None
        parts = [plain(part) for part in self.nodes[payload[1]][1]]
        device = devices.here(str(parts[1])).partition(":")[0]
        return _text(parts[0], self._class_of(payload[0]) or "tensor", tuple(parts[3 : 3 + parts[2]]), "" if device == "cpu" else device)

    def _live_values(self, live: Any) -> str | None:
        """The same of what is live."""
        if isinstance(live, self.arrays):
            return _text(str(live.dtype), "array" if type(live) in self.arrays else type(live).__name__, live.shape)
        if not isinstance(live, self.tensors):
            return None
        called = "tensor" if type(live) in self.tensors else type(live).__name__
        layout, dtype = (str(part).removeprefix("torch.") for part in (live.layout, live.dtype))
        if layout != "strided":
            return _text(dtype, f"{layout} {called}", live.shape)
        return _text(dtype, called, live.shape, "" if live.device.type == "cpu" else live.device.type)

    def _is_plain(self, number: int) -> bool:
        return self.plan.plain(number) is not ABSENT or self.nodes[number][0] in ("nothing", "npscalar", "value", "text", "bigint")

    def _is_computed(self, live: Any) -> bool:
        return isinstance(live, self.tensors) and live.grad_fn is not None

    def _is_taken_back(self, number: int) -> bool:
        """Whether a node is of what an object gives out and takes back by itself: arrays of a table, which may be longer."""
        return any(self.nodes[above][0] == "reduce" for above in self.places.above(number))

    # Models and optimizers

    def _is_model(self, number: int, kinds: tuple[type[Any], ...]) -> bool:
        kind, payload = self.nodes[number]
        named = self.plan.names.of(payload[0]) if kind == "obj" else None
        return isinstance(named, type) and issubclass(named, kinds)

    def _of_model(self, number: int, live: Any) -> str | None:
        if isinstance(live, self.numbers) or self._is_plain(number):
            return None
        if not self._is_paired(number, live):
            return self._of_sharing(number, live) if self._has_class(number, live) else self._of_class(number, live)
        return self._of_groups(number, live) if isinstance(live, self.optimizers) else self._of_parts(number, live)

    def _of_parts(self, number: int, live: Any) -> str | None:
        """Parameters, buffers and submodules that are only there, or only here."""
        recorded, here = self._entries(self.nodes[number][1][1]), own_dict(live) or {}
        gone, new = [], []
        for name, called in _PARTS.items():
            theirs = self._entries(recorded.get(name, NONE))
            before = {key for key, part in theirs.items() if self.nodes[part][0] not in ("none", "nothing")}
            now = {key for key, part in (here.get(name) or {}).items() if part is not None}
            gone += [f"the {called} {key!r}" for key in theirs if key in before - now]
            new += [f"the {called} {key!r}" for key in here.get(name) or {} if key in now - before]
        said = [f"recorded with {', '.join(gone)}, which is not here"] if gone else []
        said += [f"here with {', '.join(new)}, which is not recorded"] if new else []
        return ", ".join(said) or None

    def _of_groups(self, number: int, live: Any) -> str | None:
        """Groups over other parameters: a parameter that nothing else leads to would be made anew, or be left out."""
        recorded = self._entries(self.nodes[number][1][1]).get("param_groups", NONE)
        if recorded == NONE or self.nodes[recorded][0] != "list" or not isinstance(live.param_groups, list):
            return None
        for at, (group, theirs) in enumerate(zip(self.nodes[recorded][1][2:], live.param_groups, strict=False)):
            params = self._entries(group).get("params", NONE)
            wanted = self.nodes[params][1][2:] if params != NONE and self.nodes[params][0] == "list" else ()
            have = theirs["params"]
            if len(wanted) == len(have):
                continue
            if any(one not in self.plan.pairs for one in wanted) or any(id(one) not in self.plan.owner for one in have):
                counts = f"recorded with {len(wanted)} parameters, here with {len(have)}"
                return f"param_groups[{at}] {counts}: give the model that has them as well"
        return None

    def _entries(self, number: int) -> dict[Any, int]:
        """Plain keys of a dict, or names of attributes, to nodes."""
        if number == NONE:
            return {}
        kind, payload = self.nodes[number]
        first = {"attrs": 1, "dict": 2}.get(kind)
        if first is None:
            return {}
        return {self.plan.plain(key): value for key, value in zip(payload[first::2], payload[first + 1 :: 2], strict=True)}

    # Both

    def _is_paired(self, number: int, live: Any) -> bool:
        return self.plan.pairs.get(number, ABSENT) is live

    def _of_sharing(self, number: int, live: Any) -> str | None:
        """One object that was two, or two that were one: which of them others refer to would change."""
        pair, other = self.plan.pairs.get(number, live), self.plan.owner.get(id(live), number)
        if pair is not live:
            return "recorded as one object in several places, here they hold different ones"
        return None if other == number else f"here the same object as {self._where(other)}, recorded as another one"

    def _has_class(self, number: int, live: Any) -> bool:
        named = self.nodes[number][1][0]
        if named != NONE:
            return bool(type(live) is self.plan.names.of(named, type(live)))
        return type(live) in self.tensors if self.nodes[number][0] in _TENSORS else type(live) in self.arrays

    def _class_of(self, number: int) -> str | None:
        """The name of a recorded class; None for the plain one."""
        return None if number in (NONE, NOTHING) else str(self.nodes[self.nodes[number][1][1]][1]).rpartition(".")[2]

    def _of_class(self, number: int, live: Any) -> str:
        kind, payload = self.nodes[number]
        named = self._class_of(payload[0]) if kind in ("obj", "lazy", "getset", "reduce") else None
        recorded = self._recorded_values(number) or named or kind
        here = None if isinstance(live, self.late) else self._live_values(live)
        return f"recorded as {recorded}, here {here or type(live).__name__}"


def _text(dtype: str, kind: str, shape: Sequence[int], device: str = "") -> str:
    return f"{dtype} {kind} of shape {tuple(shape)}{f' on {device}' if device else ''}"
