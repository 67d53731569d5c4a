"""rearview: log it after the fact. `import rearview as rv`, then `rv.log`, `rv.arg`, `rv.loop`, and look with `rv.dataframe`."""

import sys as _sys

if _sys.platform == "win32":
    raise ImportError("rearview does not run on Windows: use it in WSL, where it is complete")

import atexit as _atexit
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

import rearview.replay as _replay  # noqa: F401 (loaded first: once it is, importing from it does not bind its name over that of the function)
from rearview.api import arg, background, checkpoint, checkpointing, dataframe, log, loop, replay, resume, run, runs, skip_block, sql
from rearview.errors import RearviewError

if _TYPE_CHECKING:
    from rearview.record.checkpoints.cadence import AdaptivePeriod

__version__ = "0.1.0"
__all__ = [
    "AdaptivePeriod", "RearviewError", "__version__", "arg", "background", "checkpoint", "checkpointing", "dataframe", "log", "loop",
    "replay", "resume", "run", "runs", "skip_block", "sql",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """`AdaptivePeriod` is loaded when it is asked for: the import stays light."""
    if name == "AdaptivePeriod":
        from rearview.record.checkpoints.cadence import AdaptivePeriod

        return AdaptivePeriod
    raise AttributeError(f"module 'rearview' has no attribute {name!r}")


def _look() -> None:
    """Keep in memory what cannot be learned later; end open runs when the process ends."""
    from rearview import config

    if config.recording_is_off(_os.environ):
        return
    from rearview.record import firsts

    firsts.look()

    def end() -> None:
        lifecycle = _sys.modules.get("rearview.record.lifecycle")
        if lifecycle is not None:
            lifecycle.at_exit()

    _atexit.register(end)


_look()
