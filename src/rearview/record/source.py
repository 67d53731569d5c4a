"""Which source this run executes: the script as it was read, project modules as they were imported, notebook cells.

Decides what goes into the version; `versions` puts it there.
"""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.record import firsts

EXTERNAL = "external"
"""Folder of a version for modules from outside the project (editable installs, PYTHONPATH)."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is being run."""

    how: str
    """`script`, `module`, `command`, `stdin`, `notebook` or `interactive`."""
    path: Path | None
    """The script's file, if there is one."""
    name: str
    """What to call it where there is no file."""
    module: str | None = None


def program() -> Program:
    """What this process runs."""
    shell = ipython()
    if shell is not None:
        if "ZMQ" in type(shell).__name__ or hasattr(shell, "kernel"):
            return Program("notebook", _notebook_path(shell), "notebook")
        return Program("interactive", None, "ipython")
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if file is not None and file == "<stdin>":
        return Program("stdin", None, "stdin")
    if firsts.module is not None and not isinstance(file, str):
        return Program("module", None, firsts.module, firsts.module)
    if spec is not None and isinstance(file, str):
        return Program("module", Path(os.path.abspath(file)), spec.name, spec.name.removesuffix(".__main__"))
    if isinstance(file, str) and os.path.exists(file):
        return Program("script", Path(firsts.script_path or os.path.abspath(file)), Path(file).name)
    if isinstance(file, str) and firsts.script_path:
        return Program("script", Path(firsts.script_path), Path(file).name)
    if len(sys.orig_argv) > 1 and "-c" in sys.orig_argv[1:]:
        return Program("command", None, "command")
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return Program("interactive", None, "python")
    return Program("stdin", None, "stdin")


def ipython() -> Any:
    """The running IPython shell, if there is one."""
    module = sys.modules.get("IPython")
    get = getattr(module, "get_ipython", None)
    return get() if get is not None else None


def _notebook_path(shell: Any) -> Path | None:
    for found in (os.environ.get("JPY_SESSION_NAME"), shell.user_ns.get("__vsc_ipynb_file__")):
        if isinstance(found, str) and found.endswith(".ipynb"):
            path = Path(found)
            return path if path.is_absolute() else Path(os.path.abspath(path.name))
    return None


def starting_folder() -> str:
    """Where the program was started, wherever it went since; a kernel knows for itself."""
    folder = getattr(ipython(), "starting_dir", None) or firsts.folder
    return folder if isinstance(folder, str) and os.path.isdir(folder) else os.getcwd()


def command_text() -> str | None:
    """The program given with `python -c`."""
    words = sys.orig_argv
    if "-c" in words[:-1]:
        return words[words.index("-c") + 1]
    return None


def stdin_text() -> bytes | None:
    """The program read from standard input, where that is a file or the launcher read it: what else came through a pipe is gone."""
    if firsts.piped is not None:
        return firsts.piped if len(firsts.piped) <= firsts.MAX_SOURCE else None
    try:
        size = os.fstat(0).st_size
        if stat.S_ISREG(os.fstat(0).st_mode) and size <= firsts.MAX_SOURCE:
            return os.pread(0, size, 0)  # without moving where the interpreter is
    except OSError:
        pass
    return None


def cells(shell: Any) -> dict[int, str]:
    """The executed cells in order, as they were at execution."""
    raw = shell.history_manager.input_hist_raw
    return {number: text for number, text in enumerate(raw) if number > 0 and text}


def coming_cell(shell: Any, text: str) -> int:
    """The number of the cell that is about to be executed, whether the history has it already or not."""
    raw = shell.history_manager.input_hist_raw
    return len(raw) - 1 if raw and raw[-1] == text else len(raw)


def cell_path(number: int) -> str:
    """Where a cell stands in a version."""
    return f"cells/{number:04d}.py"


def tree_path(project: Path, file: str) -> str:
    """Where a file stands in a version: relative to the project, or under `external/`."""
    real = os.path.realpath(file)
    for base, candidate in ((str(project), file), (os.path.realpath(project), file), (os.path.realpath(project), real)):
        if candidate.startswith(os.path.join(base, "")):
            return os.path.relpath(candidate, base)
    return f"{EXTERNAL}/{_package_relative(real)}"


def _package_relative(file: str) -> str:
    """`pkg/sub/mod.py` for a module of a package anywhere: up to the outermost folder with an `__init__.py`."""
    folder, name = os.path.split(file)
    parts = [name]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and folder != os.path.dirname(folder):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return "/".join(parts)


def loaded_sources(project: Path) -> dict[str, str]:
    """Tree path -> file of every loaded module that is the user's: not the interpreter's, not an installed package's."""
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or not file.endswith(".py") or firsts.of_the_interpreter(file):
            continue
        file = os.path.abspath(file)
        if not file.startswith(firsts.OURS):
            found[tree_path(project, file)] = file
    return found


def as_imported(project: Path, taken: dict[str, str], blob_id: Any) -> tuple[dict[str, bytes], list[str]]:
    """What the version lacks: modules that are not in it, or that were imported with other bytes than it holds.

    `taken` is tree path -> blob id, as the version has it. Returns the bytes to add, and a sentence for each difference.
    """
    missing: dict[str, bytes] = {}
    changed = []
    for path, file in loaded_sources(project).items():
        data = firsts.sources.get(file)
        if data is None:
            if path in taken:
                continue  # imported before rearview was: the snapshot is the nearest we have
            try:
                data = Path(file).read_bytes()
            except OSError:
                continue
        if path not in taken:
            missing[path] = data
        elif taken[path] != blob_id(data):
            missing[path] = data
            changed.append(path)
    return missing, changed
