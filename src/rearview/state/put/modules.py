"""Objects of torch that have to be made anew, or get another class: hooks are recorded of what loops changed only, so that a new module or
optimizer begins without any."""

from __future__ import annotations

from collections import OrderedDict
from types import BuiltinFunctionType
from typing import Any

from rearview.state.take.attributes import DICT_OF
from rearview.state.take.modules import OPTIMIZER_HOOKS
from rearview.state.take.tensors import loaded


def begin(kind: Any) -> Any:
    """An object of a class that is its attributes, before it has any."""
    fresh = _maker(kind)(kind)
    torch = loaded()
    if torch is not None and hasattr(torch, "nn") and issubclass(kind, torch.nn.Module):
        torch.nn.Module.__init__(fresh)
    return fresh


def _maker(kind: Any) -> Any:
    """What makes an object of a class without any of its own code: that of the nearest base written in C (`io` has such bases)."""
    made_by = (DICT_OF(base).get("__new__") for base in kind.__mro__)
    return next((maker for maker in made_by if isinstance(maker, BuiltinFunctionType)), object.__new__)


def becomes(kind: Any, recorded: Any) -> bool:
    """Whether a lazy module turns into the recorded class at its first call, or was made from it."""
    one, other = getattr(kind, "cls_to_become", None), getattr(recorded, "cls_to_become", None)
    return (one is not None and one is recorded) or (other is not None and other is kind)


def takes_class(live: Any, kind: Any) -> bool:
    """Whether a module or an optimizer can get another class, as Python sees it: asked of a new object, the live one is not touched."""
    torch = loaded()
    if torch is None or not isinstance(kind, type):
        return False
    if not any(isinstance(live, base) and issubclass(kind, base) for base in (torch.nn.Module, torch.optim.Optimizer)):
        return False
    try:
        object.__setattr__(begin(type(live)), "__class__", kind)
    except TypeError:
        return False
    return True


def become(live: Any, kind: Any) -> None:
    """Another class for a module or an optimizer: what torch does when a lazy module learns its shapes, or the reverse, or the program."""
    if hasattr(live, "_initialize_hook"):
        live._initialize_hook.remove()
        live._load_hook.remove()
        del live._initialize_hook, live._load_hook
    object.__setattr__(live, "__class__", kind)  # past whatever the class does when an attribute is set
    if hasattr(kind, "_infer_parameters"):
        live._load_hook = live._register_load_state_dict_pre_hook(live._lazy_load_hook)
        live._initialize_hook = live.register_forward_pre_hook(live._infer_parameters, with_kwargs=True)


def complete(made: Any) -> None:
    """What torch expects of an optimizer and is not part of its state."""
    torch = loaded()
    if torch is not None and hasattr(torch, "optim") and isinstance(made, torch.optim.Optimizer):
        for name in OPTIMIZER_HOOKS:
            vars(made).setdefault(name, OrderedDict())
        made._patch_step_function()
