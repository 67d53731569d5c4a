"""What cannot be learned later, kept in memory from the moment rearview is imported. Writes nothing, starts nothing.

The first state of Python's random stream, the folder, the forks, the source of the script as it was read, the files opened and the
source of modules imported from then on. (NumPy's and torch's first states can be told later from their seeds.)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType
from typing import Any, NamedTuple

from rearview import session
from rearview.record.files import written

MAX_OPENED = 20_000
MAX_SOURCE = 4 << 20
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Where rearview's own code is."""

opened: dict[str, str] = {}
"""Absolute path -> `r` or `w`, as it was opened first, in order, without the interpreter's own files."""

listed: dict[str, None] = {}
"""Absolute path of each folder whose names were asked for."""

tell: Callable[[str], None] | None = None
"""In a forked child: says to the parent which file is read."""

sources: dict[str, bytes] = {}
"""Absolute path of a module's source -> its bytes when it was imported."""

python_random: Any = None
"""`random.getstate()` before anybody drew, as far as rearview was imported in time."""

folder: str | None = None
"""Where the process was when rearview was imported: a program may go elsewhere before its run begins."""

script_path: str | None = None
script_source: bytes | None = None
piped: bytes | None = None
"""The program, where the launcher read it from standard input."""

reserved = os.urandom(8)
"""Becomes the id of the first run, so that children forked before it begins find it."""

launcher: int | None = None
"""The process that started this one, where that is not its parent: `rearview run` stands between."""

module: str | None = None
"""The module that `rearview run -m` was asked for."""

forks = 0
"""Forks of this process since it began."""

programs = 0
"""Other programs that were started since."""

fork_path: tuple[int, ...] = ()
"""Which fork of which fork this process is, below the process that was started."""

_unseen: set[int] = set()
_prefixes: tuple[str, ...] = ()


def look() -> None:
    """Take the first look. Called once, by the import."""
    global python_random, folder, script_path, script_source, _prefixes  # noqa: PLW0603
    import random

    python_random = random.getstate()
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        folder = None
    # Not the prefixes themselves: a project may well live in /usr/src.
    libraries = {os.path.join(root, lib) for root in (sys.prefix, sys.base_prefix) for lib in ("lib", "lib64", "local/lib")}
    _prefixes = (*(os.path.join(root, "") for root in (*libraries, os.path.dirname(os.__file__))), "/proc/", "/dev/", "/sys/")
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if isinstance(path, str):
        script_path = os.path.abspath(path)
        script_source = read(script_path)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
    sys.addaudithook(_hook)


class OnFork(NamedTuple):
    """What recording does around a fork; each is called with `session.lock` held."""

    before: Callable[[], None]
    in_parent: Callable[[], None]
    in_child: Callable[[], None]


on_fork: OnFork | None = None
"""Set once recording is loaded, at a time when no fork is under way."""

_forking: OnFork | None = None


def _before_fork() -> None:
    global forks, _forking  # noqa: PLW0603
    session.lock.acquire()  # before any lock of a recorder, as whoever begins or ends a run does
    forks += 1
    _forking = on_fork
    if _forking is not None:
        _forking.before()


def _after_fork_in_parent() -> None:
    if _forking is not None:
        _forking.in_parent()
    session.lock.release()


def _after_fork_in_child() -> None:
    global forks, fork_path  # noqa: PLW0603
    fork_path = (*fork_path, forks)
    forks = 0
    if _forking is not None:
        _forking.in_child()
    session.lock.release()


def take_script(path: str, source: bytes) -> None:
    """The launcher knows the script before it runs."""
    global script_path, script_source
    script_path, script_source = path, source


def read(path: str) -> bytes | None:
    """The bytes of a source file, unless it is too large or gone."""
    try:
        if os.path.getsize(path) > MAX_SOURCE:
            return None
        with unseen(), open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Sees every file that Python code opens, renames or deletes. Must be quick and must not raise."""
    global programs  # noqa: PLW0603
    if event != "open":
        if event in _OTHERS and not (_unseen and get_ident() in _unseen):
            try:
                if event in _LISTING:
                    if args[0] not in listed:
                        _note_listing(args[0])
                elif event == _STARTING:
                    programs += 1
                else:
                    written.happened(event, args)
                    if event == "os.mkdir":
                        written.made_by(sys._getframe(1).f_code.co_filename, args[0])
            except (OSError, ValueError, TypeError, RuntimeError, IndexError):
                pass  # an observer never gets in the way
        return
    if _unseen and get_ident() in _unseen:
        return
    path = args[0]
    if type(path) is int or (type(path) is str and path.startswith(_prefixes)):  # a descriptor
        return
    try:
        _note(path, args[1], args[2])
    except (OSError, ValueError, TypeError, RuntimeError):
        pass  # an observer never gets in the way


def _note(path: Any, mode: object, flags: object) -> None:
    path = os.path.abspath(os.fsdecode(path))  # bytes, as TensorBoard has them; a path object, as `io.FileIO` is given one
    if path.startswith(_prefixes):
        return
    if path.endswith((".py", ".pyc")) and _by_import():
        with unseen():
            _note_source(path)
        return
    writing = written.mode_of(mode, flags)
    if writing is not None:
        written.opened(path, writing)
        if writing == "x":
            written.made_by(sys._getframe(2).f_code.co_filename, path)
    elif path in written.files:
        written.read(path)
        if tell is not None and fork_path:
            tell(path)
    if path not in opened and len(opened) < MAX_OPENED:
        opened[path] = "r" if writing is None else "w"
        if tell is not None and fork_path and writing is None:
            tell(path)


_IMPORTING = tuple(os.path.join(*parts) for parts in (("importlib", "metadata", "__init__.py"), ("importlib_metadata", "__init__.py")))
_IMPORTING += (f"{os.sep}pkgutil.py",)
"""Who looks through every folder of `sys.path` for packages."""
_LISTING = frozenset(("os.listdir", "os.scandir"))
_STARTING = "subprocess.Popen"
_OTHERS = _LISTING | written.EVENTS | {_STARTING}


def _note_listing(path: object) -> None:
    """The names in a folder are asked for: by the program, not by the import system or by whoever removes a tree."""
    path = os.path.abspath("." if path is None else os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike, type(None))) else ""
    if not path or path in listed or len(listed) >= MAX_OPENED or path.startswith(_prefixes):
        return
    frame = sys._getframe(2)
    file = frame.f_code.co_filename
    if not file.startswith("<frozen importlib") and not file.endswith(_IMPORTING) and frame.f_code.co_name != "_rmtree_unsafe":
        listed[path] = None


def _note_source(path: str) -> None:
    if path.endswith(".pyc"):
        if os.sep + "__pycache__" + os.sep not in path:
            return
        folder, name = os.path.split(path)
        path = os.path.join(os.path.dirname(folder), name.split(".")[0] + ".py")
    source = read(path)
    if source is not None:
        sources[path] = source


def _by_import() -> bool:
    """Whether the file is being opened by the import system, not by a program that reads source as data."""
    frame: FrameType | None = sys._getframe(3)
    return frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")


@contextmanager
def unseen() -> Iterator[None]:
    """What this thread opens now is rearview's own doing."""
    me = get_ident()
    if me in _unseen:
        yield
        return
    _unseen.add(me)
    try:
        yield
    finally:
        _unseen.discard(me)


def of_the_interpreter(path: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    return path.startswith(_prefixes) or "site-packages" in path or "dist-packages" in path
