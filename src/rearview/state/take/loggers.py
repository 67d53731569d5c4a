"""Loggers: found by their names, with what was set on them. Their handlers and filters stay as the code before the loop made them."""

from __future__ import annotations

import logging
from typing import Any

from rearview.state.take.owners import is_the_users
from rearview.state.take.walk import Walk
from rearview.state.tree import Node

_OF_THE_LAUNCH = ("name", "parent", "handlers", "filters", "manager", "_cache")


def take_logger(walk: Walk, value: Any) -> Node:
    """A logger: its level, whether it is on, and what the program set on it."""
    function, args = value.__reduce_ex__(4)[:2]
    state = {name: held for name, held in vars(value).items() if name not in _OF_THE_LAUNCH}
    walk.keep.append((args, state))
    for at, handler in enumerate(value.handlers):
        if is_the_users(type(handler).__module__):  # those of libraries write, and remember nothing
            walk.differs(
                value, "a handler of the program's own, which is not kept: it is as the code before the loop makes it", f".handlers[{at}]"
            )
    return ("reduce", walk.slots((type(value), function, args, state, None, None, set_back)))


def set_back(logger: logging.Logger, state: dict[str, Any]) -> None:
    """Set a logger to what it was. For states that are put back."""
    for name in [*vars(logger)]:
        if name not in state and name not in _OF_THE_LAUNCH:
            delattr(logger, name)
    for name, value in state.items():
        if name == "level":
            logger.setLevel(value)  # what it remembers of it is forgotten
        else:
            setattr(logger, name, value)
