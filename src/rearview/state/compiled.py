"""What torch's compiler puts into the modules whose functions it compiles: its own code under names of its own, no state of the program.

A process that goes on compiles again. Walked, they led to everything that the compiler knows, and no other process has their names.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from typing import Any

_NOTHING: frozenset[str] = frozenset()
_LEFT_BEHIND = re.compile(r"__(builtins_dict__|compiled_fn|resume_at|gen_rand_values|warnings_warn_wrapper|comprehension)_")
OWN = "attributes"
"""What the program set on a compiled function, among what it remembers."""
_OF_THE_COMPILER = frozenset(("__wrapped__", "_isolate_recompiles_id", "aot_compile", "get_compiler_config"))


def names(namespace: Mapping[str, Any]) -> frozenset[str]:
    """The names in a module's namespace that are the compiler's.

    It notes them, to remove them with the code they belong to; not those of an attempt that came to nothing, which stay behind.
    """
    manager = getattr(sys.modules.get("torch._dynamo.utils"), "CleanupManager", None)
    if manager is None or not manager.count:
        return _NOTHING
    noted = [hook for hooks in list(manager.instance.values.values()) for hook in hooks]
    left = (name for name in list(namespace) if type(name) is str and name.startswith("__") and _LEFT_BEHIND.match(name))
    return frozenset((*(hook.name for hook in noted if hook.scope is namespace), *left))


def original(function: Any) -> Any:
    """What a compiled function was compiled from; None if it is none. (Who wraps a compiled function has its attributes, too.)"""
    held = getattr(function, "__dict__", None)
    if type(held) is not dict or held.get("_torchdynamo_wrapper_id", id(function)) != id(function):
        return None
    return held.get("_torchdynamo_orig_callable")


def attributes(function: Any) -> dict[str, Any]:
    """The attributes that the program gave a compiled function."""
    return {name: value for name, value in vars(function).items() if name not in _OF_THE_COMPILER and not name.startswith("_torchdynamo")}


def maker(function: Any) -> Any:
    """A call that compiles the original of a compiled function again, as it was compiled; None if torch does not tell how that was."""
    context = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)).get("self")
    settings: Any = getattr(context, "cell_contents", None)
    backend = getattr(settings, "callback", None)
    if backend is None:
        return None
    while (inner := getattr(backend, "_torchdynamo_orig_backend", None)) is not None:
        backend = inner
    told = {"fullgraph": settings.fullgraph, "dynamic": settings._dynamic} if hasattr(settings, "_dynamic") else {}
    return functools.partial(sys.modules["torch"].compile, original(function), backend=backend, **told)
