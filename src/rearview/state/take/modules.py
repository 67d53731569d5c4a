"""Torch modules, optimizers and other classes of torch that are their attributes, whatever they say about being pickled.

Hooks are left alone: they are functions of the program that belong to the live objects (`hooks` names those that loops changed).
`state_dict` is never called.
"""

from __future__ import annotations

import sys
from typing import Any

from rearview.state.take import histories, hooks
from rearview.state.take.attributes import attributes, plain_layout, take_attrs
from rearview.state.take.tensors import loaded
from rearview.state.take.walk import Taker, Uncapturable, Walk
from rearview.state.tree import Node

MODULE_HOOKS = (
    "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl", "_forward_hooks", "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_is_full_backward_hook",
    "_load_state_dict_post_hooks", "_load_state_dict_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks", "_initialize_hook",
    "_load_hook",
)  # fmt: skip
OPTIMIZER_HOOKS = (
    "_optimizer_load_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
    "_optimizer_state_dict_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_step_pre_hooks",
)  # fmt: skip
OPTIMIZERS = "optimizers"
"""What a walk remembers their nodes under."""
COMPILED = (
    *MODULE_HOOKS, "dynamo_ctx", "forward", "compiler_config", "get_compiler_config", "_isolate_recompiles_id",
    "_torchdynamo_orig_callable", "_torchdynamo_wrapper_id",
)  # fmt: skip
"""The last is the module's own `id()`."""

_TAKE_MODULE = take_attrs(MODULE_HOOKS)
_TAKE_COMPILED = take_attrs(COMPILED)
_TAKE_OPTIMIZER = take_attrs(OPTIMIZER_HOOKS)


def take_module(walk: Walk, value: Any) -> Node:
    """A module: parameters, buffers, submodules, flags and plain attributes."""
    hooks.note(walk, value)
    histories.note_computed(walk.cache, value)
    return ("obj", (walk.slot(type(value)), *attributes(walk, value, _TAKE_MODULE)))


def take_compiled(walk: Walk, value: Any) -> Node:
    """A compiled module: what it wraps; the compiled code is made again by whoever needs it."""
    return ("obj", (walk.slot(type(value)), *attributes(walk, value, _TAKE_COMPILED)))


def take_optimizer(walk: Walk, value: Any) -> Node:
    """An optimizer: its groups, and what it keeps for each parameter."""
    hooks.note(walk, value)
    walk.cache[OPTIMIZERS] = walk.cache.get(OPTIMIZERS, frozenset()) | {walk.at}
    return ("obj", (walk.slot(type(value)), *attributes(walk, value, _TAKE_OPTIMIZER)))


def take_plain(walk: Walk, value: Any) -> Node:
    """An object of torch's own classes, or derived from one: GradScaler says it cannot be pickled in mid-iteration, and can."""
    return ("obj", (walk.slot(type(value)), *attributes(walk, value)))


def take_script(_walk: Walk, _value: Any) -> Node:
    """A scripted module lives in C++."""
    raise Uncapturable("a scripted module: its state is not in Python objects")


def kinds() -> tuple[type, ...]:
    """Models and optimizers."""
    torch = loaded()
    if torch is None or not hasattr(torch, "nn") or not hasattr(torch, "optim"):
        return ()
    return (torch.nn.Module, torch.optim.Optimizer)


def takers() -> dict[type, Taker]:
    """Who takes exactly these types."""
    return {}


def decide(kind: type) -> Taker | None:
    """Who takes a class of torch, or one derived from it."""
    torch = loaded()
    if torch is None or not hasattr(torch, "nn"):
        return None
    if issubclass(kind, torch.nn.Module):
        if issubclass(kind, torch.jit.ScriptModule):
            return take_script
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        compiled = dynamo is not None and issubclass(kind, dynamo.OptimizedModule)
        return take_compiled if compiled else take_module
    if issubclass(kind, torch.optim.Optimizer):
        return take_optimizer
    if _torch_says(kind) and plain_layout(kind):
        return take_plain
    return None


def _torch_says(kind: type) -> bool:
    """Whether the `__getstate__` or `__reduce_ex__` of a class is one that torch wrote."""
    for base in kind.__mro__:
        names = vars(base).keys() & {"__getstate__", "__reduce_ex__", "__reduce__", "__setstate__"}
        if names and base is not object:
            return base.__module__.startswith("torch.")
    return False
