"""In a worker: a program that was no file. The executed cells of a notebook in order, in a fresh kernel; `python -c`; standard input.

What cells display goes nowhere, and what they would install is there already. Must not know units, but for where their probes are.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from rearview.errors import UsageError
from rearview.instrument import rewrite
from rearview.instrument.rewrite import Span
from rearview.record import lifecycle
from rearview.replay.question import cells
from rearview.replay.worker import becoming as worker
from rearview.replay.worker.replayer import Stage

_INSTALLING = ("pip", "conda", "mamba", "micromamba", "uv")
"""Magics that change the environment. It is that of the person who asks, and stays as it is."""
_OF_KERNELS = ("autosave", "clear", "cls", "connect_info", "edit", "less", "man", "more", "qtconsole", "subshell")
_INLINE = "module://matplotlib_inline.backend_inline"


def program(mode: str, code: Any, module: ModuleType) -> CodeType | Callable[[], None]:
    """The recorded text: its code, or what runs its cells in `__main__`. `code` is the recorded source."""
    stage = lifecycle.stage
    assert isinstance(stage, Stage)
    probes = worker.spans(stage.unit)
    if mode != "cells":
        path = f"{mode}.py"
        return _code_of(code.script(os.path.join(code.project, path)), path, probes.get(path, ()))
    texts = {}
    for path in sorted(code.blobs):
        if cells.number_of(path) is not None:
            texts[path] = code.script(os.path.join(code.project, path)).decode("utf-8", "surrogateescape")
    shell = _shell(module, Path(stage.unit.scratch) / "ipython")
    return lambda: _run_cells(shell, texts, probes, stage)


def _code_of(data: bytes, path: str, probes: Sequence[Span]) -> CodeType:
    linecache.cache[path] = (len(data), None, data.decode("utf-8", "replace").splitlines(keepends=True), path)
    assert isinstance(lifecycle.stage, Stage)
    return rewrite.compile_rewritten(data, path, probes, lifecycle.stage.deleted)


# -- cells ---------------------------------------------------------------------------------------------------------------


def _run_cells(shell: Any, texts: dict[str, str], probes: Mapping[str, Sequence[Span]], stage: Stage) -> None:
    """Cell after cell. One that fails is left there and the next one runs, as in the recorded session; unless a probe failed in it."""
    rewriting = _Rewriting(stage.deleted)
    shell.ast_transformers.append(rewriting)
    for path, text in texts.items():
        number = cells.number_of(path)
        assert number is not None
        shell.execution_count = number
        shell.compile.get_code_name = lambda *_, path=path: path
        rewriting.probes = probes.get(path, ())
        done = shell.run_cell(cells.as_python(text) or text, store_history=True)
        error = done.error_before_exec or done.error_in_exec
        if error is not None and stage.probe_failed:
            raise error


class _Rewriting(ast.NodeTransformer):
    """What IPython asks for the tree of each cell."""

    probes: Sequence[Span] = ()

    def __init__(self, deleted: set[str]) -> None:
        self._deleted = deleted

    def visit(self, tree: ast.AST) -> ast.AST:
        """The cell with its loops marked and its probes wrapped."""
        if not isinstance(tree, ast.Module):
            return tree
        self._deleted |= rewrite.deleted_names(tree)
        return rewrite.rewrite(tree, self.probes)


def _shell(module: ModuleType, folder: Path) -> Any:
    """A fresh shell of the kind that the run had."""
    try:
        from IPython.paths import get_ipython_dir
        from traitlets.config import Config
    except ImportError as problem:
        raise UsageError(f"the run executed cells, and IPython cannot be imported here ({problem}): install it again") from problem
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.ipython_dir = str(folder)
    settings.InteractiveShell.colors = "NoColor"
    before = os.environ.get("IPYTHONDIR")
    startup = Path(get_ipython_dir()) / "profile_default" / "startup"
    os.environ["IPYTHONDIR"] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shell = _fresh(settings, module)
    finally:
        if before is None:
            del os.environ["IPYTHONDIR"]
        else:
            os.environ["IPYTHONDIR"] = before
    _quiet(shell)
    _without_installing(shell)
    for file in sorted([*startup.glob("*.py"), *startup.glob("*.ipy")]):
        shell.safe_execfile_ipy(str(file)) if file.suffix == ".ipy" else shell.safe_execfile(str(file), shell.user_ns)
    return shell


def _fresh(settings: Any, module: ModuleType) -> Any:
    """A shell as kernels have it, without their sockets and threads; programs look at its name and settings to see where they are."""
    from IPython.core.interactiveshell import InteractiveShell

    stage = lifecycle.stage
    assert isinstance(stage, Stage)
    name = "ZMQInteractiveShell" if stage.how == "notebook" else "TerminalInteractiveShell"
    kind: Any = type(name, (InteractiveShell,), {"enable_gui": lambda *_, **__: None, "ask_exit": lambda _: None})
    if stage.how == "notebook":
        settings.IPKernelApp.quiet = True
        if find_spec("matplotlib_inline") is not None:
            os.environ.setdefault("MPLBACKEND", _INLINE)
    return kind.instance(config=settings, user_module=module, user_ns=module.__dict__)


def _quiet(shell: Any) -> None:
    """Nothing is displayed; values of cells are in `_` and `Out` as they were. What failed is printed as the program's own."""
    shell.display_formatter.format = lambda *_, **__: ({}, {})
    for part in ("write_output_prompt", "write_format_data", "finish_displayhook", "start_displayhook"):
        setattr(shell.displayhook, part, lambda *_, **__: None)
    shell.display_pub.publish = lambda *_, **__: None
    shell.showtraceback = _show
    shell.showsyntaxerror = _show


def _show(*_: object, **__: object) -> None:
    error = sys.exc_info()[1]
    if error is not None:
        trace = error.__traceback__
        while trace is not None and not _is_of_a_cell(trace):
            trace = trace.tb_next
        traceback.print_exception(error.with_traceback(trace or error.__traceback__))


def _is_of_a_cell(trace: TracebackType) -> bool:
    return cells.number_of(trace.tb_frame.f_code.co_filename) is not None


def _without_installing(shell: Any) -> None:
    """Cells that install packages do nothing; nor does what only a real kernel has."""
    known = shell.magics_manager.magics["line"]
    for name in (*_INSTALLING, *(one for one in _OF_KERNELS if one not in known)):
        shell.magics_manager.register_function(lambda _line: None, magic_kind="line", magic_name=name)
    run = shell.system

    def system(command: str) -> Any:
        words = command.split()
        first = [word for word in words if not word.startswith("-")][:3]
        if any(os.path.basename(word).startswith(_INSTALLING) for word in first) and "install" in words:
            return None
        return run(command)

    shell.system = system
