"""Whose a module is: the user's, or installed."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig


@functools.cache
def installed() -> tuple[str, ...]:
    """The folders that libraries are in."""
    return tuple({os.path.realpath(path) + os.sep for path in sysconfig.get_paths().values()})


def is_the_users(module: str) -> bool:
    """Whether a loaded module was written by whoever runs the program; one that came from no file was."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        return module == "__main__"
    file = getattr(sys.modules.get(module), "__file__", None)
    return not isinstance(file, str) or not _is_installed(file)


@functools.lru_cache(maxsize=10_000)
def _is_installed(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or os.path.realpath(file).startswith(installed())
