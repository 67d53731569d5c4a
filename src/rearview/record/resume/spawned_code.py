"""Recorded source in processes that `multiprocessing` spawns: they import the program anew, and would find the files on disk.

What a spawned child gets from its parent is unpickled before it imports anything of the program; one thing in it, when it is made again in
the child, installs the recorded source there. A fork server imports the program before it hears from the parent: it is not reached.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rearview.model import VersionId
from rearview.record.resume.recorded_code import RecordedCode, show_source
from rearview.store.layout import Store

Told = tuple[str, str, str]
"""Store, version, project."""


class _Installing:
    """Installs the recorded source where it is unpickled."""

    def __init__(self, told: Told) -> None:
        self.told = told

    def __reduce__(self) -> tuple[Callable[..., object], Told]:
        return install_in_child, self.told


def pass_on(code: RecordedCode, store: Store) -> None:
    """Let children that are spawned from now on run the recorded source too."""
    from multiprocessing import spawn

    prepare: Callable[[str], dict[str, Any]] = spawn.get_preparation_data
    told = (str(store.root), str(code.version), str(code.project))

    def preparing(name: str) -> dict[str, Any]:
        return {**prepare(name), "rearview": _Installing(told)}

    spawn.get_preparation_data = preparing


def install_in_child(root: str, version: str, project: str) -> None:
    """In a spawned child, before it imports the program."""
    store = Store(Path(root))
    code = RecordedCode(store, VersionId(version), Path(project))
    code.install()
    pass_on(code, store)
    _serve_main(code)


def _serve_main(code: RecordedCode) -> None:
    """The main module is not imported but run from its path: give it the recorded bytes."""
    import runpy

    read: Callable[..., Any] = runpy._get_code_from_file  # type: ignore[attr-defined]

    def recorded(*args: str) -> Any:
        path = args[-1]  # until Python 3.11 the name to run it under stands before it
        source = code.script(path)
        if source is None:
            return read(*args)
        show_source(path, source)
        made = compile(source, path, "exec", dont_inherit=True)
        return made if len(args) == 1 else (made, path)

    runpy._get_code_from_file = recorded  # type: ignore[attr-defined]
