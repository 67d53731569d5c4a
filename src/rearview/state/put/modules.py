"""Objects of torch that have to be made anew: hooks are never recorded, so a new module or optimizer begins without any."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from rearview.state.take.modules import OPTIMIZER_HOOKS
from rearview.state.take.tensors import loaded


def begin(kind: Any) -> Any:
    """An object of a class that is its attributes, before it has any."""
    fresh = object.__new__(kind)
    torch = loaded()
    if torch is not None and hasattr(torch, "nn") and issubclass(kind, torch.nn.Module):
        torch.nn.Module.__init__(fresh)
    return fresh


def complete(made: Any) -> None:
    """What torch expects of an optimizer and is not part of its state."""
    torch = loaded()
    if torch is not None and hasattr(torch, "optim") and isinstance(made, torch.optim.Optimizer):
        for name in OPTIMIZER_HOOKS:
            vars(made).setdefault(name, OrderedDict())
        made._patch_step_function()
