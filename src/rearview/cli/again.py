"""How a run was started, and how the same program is started again, for commands: it is told in `replay/again`."""

from __future__ import annotations

from rearview.replay.again import Command, command_of, environ_of, split, unknown_seed

__all__ = ["Command", "command_of", "environ_of", "split", "unknown_seed"]
