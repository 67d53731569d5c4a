"""In a worker: a program of a GPU on a machine without one. What it sends to the device stays on the processor.

States are put back there (`state.devices`); calls of torch are seen by a mode of torch in the main thread. Values cannot be bit-exact.
Guarded, and never run beside a real device.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from rearview.state import devices

CPU = "cpu"


def use_cpu() -> None:
    """Keep everything on the processor, from here to the end of the process."""
    devices.instead = CPU
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return  # nothing of it was on a device
    _mode(torch).__enter__()
    _load_here(torch)
    for name in ("synchronize", "set_device", "reset_peak_memory_stats"):
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, _nothing())


def _nothing() -> Any:
    """In place of what a device would be asked to do. One for each: torch's compiler wants functions that are told apart."""

    def nothing(*_: object, **__: object) -> None:
        """There is no device."""

    return nothing


def _mode(torch: Any) -> Any:
    from torch.overrides import TorchFunctionMode

    unmoved = {torch.Tensor.cuda, torch.Tensor.pin_memory}
    to = torch.Tensor.to

    class OnProcessor(TorchFunctionMode):  # type: ignore[misc]
        """Sees every call of a function of torch, those that make tensors included."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func in unmoved:
                return args[0]
            if kwargs.get("device") is not None:
                kwargs["device"] = instead(torch, kwargs["device"])
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            if func is to and len(args) > 1 and isinstance(args[1], (str, int, torch.device)):
                args = (args[0], instead(torch, args[1]), *args[2:])
            return func(*args, **kwargs)

    return OnProcessor()


def instead(torch: Any, device: Any) -> Any:
    """The device that a program gets for the one it named; a number is that of a GPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device(CPU)
    return torch.device(CPU) if isinstance(device, (str, torch.device)) and devices.is_far(str(device)) else device


def _load_here(torch: Any) -> None:
    """`torch.load` puts everything on the processor, unless the program maps it itself by a function."""
    load = torch.load

    @functools.wraps(load)
    def loading(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        known = CPU if map_location is None else instead(torch, map_location)
        return load(f, known, *args, **kwargs)

    torch.load = loading
