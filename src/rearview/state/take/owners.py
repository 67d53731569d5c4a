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


def real_path(file: str) -> str:
    """Where a file is, links followed. Of the thousands that a program loads most share a folder: each folder is followed once."""
    if os.path.islink(file):
        return os.path.realpath(file)
    folder, name = os.path.split(file)
    return os.path.join(real_folder(folder), name)


@functools.lru_cache(maxsize=10_000)
def real_folder(folder: str) -> str:
    """Where a folder is, links followed."""
    return os.path.realpath(folder)


@functools.lru_cache(maxsize=10_000)
def _is_installed(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or real_path(file).startswith(installed())
