"""What belongs to the process and not to a variable: its folder, its environment, settings of libraries that change what code does.

Only what has changed since the loops began is taken: what the program sets before them it sets again. Libraries that the program did not
load are not asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rearview.state.tree import BESIDE

KEY = (BESIDE[1], "changed")
FORKS = (BESIDE[1], "forks")
"""How often the process has forked: its children are numbered by it."""
_GONE = "\0gone"
_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")

State = dict[str, Any]


def now() -> State:
    """The process as it is, as plain values."""
    taken: State = {"environ": {name: value for name, value in os.environ.items() if not name.startswith("REARVIEW")}}
    try:
        taken["cwd"] = os.getcwd()
    except OSError:  # it was removed
        taken["cwd"] = None
    for name, (read, _) in _SETTINGS.items():
        value = read()
        if value is not None:
            taken[name] = value
    return taken


def changed(first: State) -> State:
    """What is another thing than it was; a folder below the first one by the way to it."""
    current = now()
    found: State = {name: current[name] for name in _SETTINGS if name in current and current[name] != first.get(name, current[name])}
    before, after = first["environ"], current["environ"]
    environ = {name: after.get(name, _GONE) for name in [*before, *after] if before.get(name) != after.get(name)}
    if environ:
        found["environ"] = environ
    if current["cwd"] is not None and current["cwd"] != first["cwd"]:
        found["cwd"] = _way(first["cwd"], current["cwd"])
    return found


def _way(first: str | None, folder: str) -> str:
    return os.path.relpath(folder, first) if first is not None and folder.startswith(os.path.join(first, "")) else folder


def problem(first: State, wanted: State) -> str | None:
    """Why the process cannot be as it was, if it cannot."""
    folder = os.path.join(first["cwd"] or "", wanted.get("cwd") or first["cwd"] or os.curdir)
    return None if os.path.isdir(folder) else f"the program was in the folder {folder}, which is not there"


def put_back(first: State, wanted: State) -> None:
    """Let the process be as it was then: what had not changed is as at the beginning of the loops."""
    current = changed(first)
    changes: Mapping[str, str] = wanted.get("environ", {})
    for name in [*current.get("environ", {}), *changes]:
        value = changes.get(name, first["environ"].get(name, _GONE))
        if value == _GONE:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value
    if first["cwd"] is not None:
        folder = os.path.join(first["cwd"], wanted.get("cwd") or "")
        if os.path.normpath(now()["cwd"] or "") != os.path.normpath(folder):
            os.chdir(folder)
    for name, (read, write) in _SETTINGS.items():
        value = wanted.get(name, first.get(name))
        if value is not None and read() != value:
            write(value)


# -- settings of libraries -----------------------------------------------------------------------------------------------------


def _decimal() -> Any:
    module = sys.modules.get("decimal")
    return None if module is None else {name: getattr(module.getcontext(), name) for name in _DECIMAL}


def _set_decimal(value: Mapping[str, Any]) -> None:
    import decimal

    for name in _DECIMAL:
        setattr(decimal.getcontext(), name, value[name])


def _numpy() -> Any:
    module = sys.modules.get("numpy")
    return None if module is None or not hasattr(module, "geterr") else dict(module.geterr())


def _set_numpy(value: Mapping[str, Any]) -> None:
    sys.modules["numpy"].seterr(**value)


def _torch() -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype") or not hasattr(torch, "get_float32_matmul_precision"):
        return None
    return [
        str(torch.get_default_dtype()).removeprefix("torch."), bool(torch.are_deterministic_algorithms_enabled()),
        bool(torch.is_deterministic_algorithms_warn_only_enabled()), str(torch.get_float32_matmul_precision()),
        int(torch.get_num_threads()),
    ]  # fmt: skip


def _set_torch(value: list[Any]) -> None:
    torch: Any = sys.modules["torch"]
    dtype, deterministic, warn_only, precision, threads = value
    torch.set_default_dtype(getattr(torch, dtype))
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    torch.set_float32_matmul_precision(precision)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "recursion": (sys.getrecursionlimit, sys.setrecursionlimit),
    "decimal": (_decimal, _set_decimal),
    "numpy": (_numpy, _set_numpy),
    "torch": (_torch, _set_torch),
}
"""How each is read, as a plain value (None: the library is not there), and how it is set."""
