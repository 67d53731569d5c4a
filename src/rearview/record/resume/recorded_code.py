"""The recorded source runs, also where files were edited or deleted since: modules and the script come from the version's bytes.

Installed in the launcher's child before anything of the user's is imported, and only if something differs. `__file__`, tracebacks,
`inspect.getsource` and warnings are those of the original files; no compiled cache of an edited file is used or written.
Must not know why a run is started again.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import tokenize
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from rearview.model import VersionId
from rearview.record import firsts, source
from rearview.store.layout import Store
from rearview.versions import read, snapshot
from rearview.versions.snapshot import Snapshot

_NOT_FILES = ("command.py", "stdin.py", "cells/")
"""Paths of a version that stand for what was no file."""


def recorded(store: Store, version: VersionId) -> Snapshot:
    """A version that was taken long ago, as one that was taken now."""
    return Snapshot(version, read.files(store, version), None, [], [])


def _place(project: Path, path: str) -> str | None:
    """Where a file of a version lies; None for what comes from elsewhere, or was no file."""
    if path.startswith((source.EXTERNAL + "/", *_NOT_FILES)):
        return None
    return os.path.join(os.path.abspath(project), path)


def differences(store: Store, version: VersionId, project: Path) -> list[str]:
    """The files of a version that are not on disk as they were then: edited or deleted, code or not."""
    return [path for path, blob in read.files(store, version).items() if _differs(_place(project, path), blob)]


def _with_links(store: Store, version: VersionId, paths: list[str]) -> list[str]:
    """The same, and the links to them: a module may be imported by the name of a link."""
    led = read.links(store, version) if paths else {}
    return list(dict.fromkeys([*paths, *(link for link, file in led.items() if file in paths)]))


def _differs(file: str | None, blob: str) -> bool:
    if file is None:
        return False
    try:
        with firsts.unseen():
            data = os.fsencode(os.readlink(file)) if os.path.islink(file) else Path(file).read_bytes()
    except OSError:
        return True
    return snapshot.blob_id(data) != blob


rewriting: Callable[[bytes, str], CodeType] | None = None
"""How a replay compiles the program; every module of it then comes from the version."""


class RecordedLoader(SourceFileLoader):
    """Loads a module from given bytes as if its file held them."""

    def __init__(self, fullname: str, path: str, data: bytes) -> None:
        super().__init__(fullname, path)
        self._data = data

    def get_data(self, path: str) -> bytes:
        """The recorded source; nothing else, above all no compiled cache."""
        if path != self.path:
            raise FileNotFoundError(path)
        return self._data

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        """Compile it; a replay rewrites it first."""
        if rewriting is not None:
            return rewriting(bytes(data), os.fspath(path))
        return compile(data, path, "exec", dont_inherit=True, optimize=_optimize)

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Unknown: a cache is then neither read nor written."""
        raise FileNotFoundError(path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the recorded source; what was loaded is noted with its bytes, as for any module."""
        show_source(self.path, self._data)
        firsts.sources[self.path] = self._data
        super().exec_module(module)


def show_source(path: str, data: bytes) -> None:
    """Let tracebacks and `inspect` show these lines for a file, whatever it holds now."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return  # importing it says what is wrong
    lines = text.splitlines(keepends=True)
    linecache.cache[path] = (len(text), None, lines, path)  # without a time: it is not compared with the file


def _real(file: str) -> str:
    """A file by the real name of its folder: a project may be reached through a link."""
    folder, name = os.path.split(file)
    return os.path.join(os.path.realpath(folder), name)


class _Folder(FileFinder):
    """A folder as it was: recorded modules first, then what else lies in it."""

    code: RecordedCode

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module that the folder had."""
        tail = os.path.join(self.path, fullname.rpartition(".")[2])
        package = os.path.join(tail, "__init__.py")
        if _real(package) in self.code.files:
            return self.code.spec(fullname, package, [tail])
        if _real(tail + ".py") in self.code.files and not self.code.has(package):
            return self.code.spec(fullname, tail + ".py", None)
        found = super().find_spec(fullname, target)
        if found is None and os.path.join(os.path.realpath(tail), "") in self.code.folders:
            found = ModuleSpec(fullname, None, is_package=True)  # a package without __init__, whose folder was deleted
            found.submodule_search_locations = [tail]
        return found


class RecordedCode(MetaPathFinder):
    """The source of a version, in the place of the files on disk."""

    def __init__(self, store: Store, version: VersionId, project: Path) -> None:
        self.project = project
        self.version = version
        self.blobs = read.files(store, version)
        self._store = store
        self.files: dict[str, bytes] = {}
        """Real path -> bytes, of modules that differ from what is on disk."""
        self.folders: set[str] = set()
        """The folders that they are in or below, each with a slash at its end."""
        self.others: list[str] = []
        """Files of the version that differ and are no Python: they are left as they are."""
        for path in _with_links(store, version, differences(store, version, project)) if rewriting is None else self.blobs:
            if path.endswith(".py") and _place(project, path) is not None:
                self.files[_real(str(_place(project, path)))] = read.source(store, version, path)
            else:
                self.others.append(path)
        self.external = {path: blob for path, blob in self.blobs.items() if path.startswith(source.EXTERNAL + "/")}

    def script(self, path: str) -> bytes | None:
        """The recorded bytes of the script, wherever it lies; None if the version does not have it."""
        tree = source.tree_path(self.project, path)
        name = tree if tree in self.blobs else f"{source.EXTERNAL}/{os.path.basename(path)}"
        return read.source(self._store, self.version, name) if name in self.blobs else None

    def has(self, file: str) -> bool:
        """Whether the version has a file."""
        return source.tree_path(self.project, file) in self.blobs

    @property
    def is_needed(self) -> bool:
        """Whether anything differs. What lies outside the project is compared when it is imported."""
        return bool(self.files or self.external)

    def install(self) -> None:
        """Serve the recorded source from now on."""
        root = os.path.join(os.path.realpath(self.project), "")
        for file in self.files:
            while (folder := os.path.join(os.path.dirname(file), "")).startswith(root):
                self.folders.add(folder)
                file = os.path.dirname(file)
        finder = type("_FolderOfVersion", (_Folder,), {"code": self})

        def hook(path: str) -> Any:
            if os.path.join(os.path.realpath(path or os.getcwd()), "") not in self.folders:
                raise ImportError(f"nothing of the recorded version is in {path}")
            return finder(path or os.getcwd(), *_LOADERS)

        sys.path_hooks.insert(0, hook)
        sys.path_importer_cache.clear()
        sys.meta_path.insert(0, self)

    def spec(self, fullname: str, file: str, locations: list[str] | None) -> ModuleSpec | None:
        """A module that comes from the version."""
        loader = RecordedLoader(fullname, file, self.files[_real(file)])
        return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=locations)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What the other finders find, loaded from the version where that has other bytes. Editable installs come this way."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return self._recorded(fullname, spec)
        return self._deleted(fullname)

    def _recorded(self, fullname: str, spec: ModuleSpec) -> ModuleSpec:
        file = spec.origin
        if not isinstance(file, str) or not file.endswith(".py") or isinstance(spec.loader, RecordedLoader):
            return spec
        file = os.path.abspath(file)
        if _real(file) not in self.files and self.external and not firsts.of_the_interpreter(file):
            tree = source.tree_path(self.project, file)
            if tree in self.external and _differs(file, self.external[tree]):
                self.files[_real(file)] = read.source(self._store, self.version, tree)
        if _real(file) in self.files and type(spec.loader) is SourceFileLoader:
            spec.loader = RecordedLoader(fullname, file, self.files[_real(file)])
            spec.cached = None
        return spec

    def _deleted(self, fullname: str) -> ModuleSpec | None:
        """A module from outside the project that is gone: only its name in the version is known."""
        for name, is_package in ((f"{fullname.replace('.', '/')}/__init__.py", True), (f"{fullname.replace('.', '/')}.py", False)):
            tree = f"{source.EXTERNAL}/{name}"
            if tree in self.external:
                file = os.path.join(os.path.abspath(self.project), tree)
                self.files[_real(file)] = read.source(self._store, self.version, tree)
                return self.spec(fullname, file, [os.path.dirname(file)] if is_package else None)
        return None


_LOADERS: tuple[tuple[Any, list[str]], ...] = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
"""Those of an ordinary folder."""


def deviations(version: Mapping[str, str], project: Path) -> list[tuple[str, str]]:
    """Afterwards: the modules that were loaded with other bytes than the version has, or are not in it, and which of the two."""
    found = []
    for path, file in source.loaded_sources(project).items():
        data = firsts.sources.get(file)
        if data is None:
            continue  # imported before anybody looked
        if path not in version:
            found.append((path, "was imported and is not in the recorded version"))
        elif snapshot.blob_id(data) != version[path]:
            found.append((path, "was imported with other source than the recorded version has"))
    return found
