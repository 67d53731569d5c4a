"""Where a worker of a replay runs: it sees the user's files and can alter none of them.

`enter` is called at the very start of a worker, while it has one thread and before anything of the user's is imported. As much as
the system offers is taken, step by step: changes go to scratch (an overlay in a mount namespace of its own), what is not covered is
read-only, Landlock on top; else copies. What was reached is said (`Protection`); nothing here decides whether that is enough.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rearview.replay.sandbox import copies as sandbox_copies
from rearview.replay.sandbox import linux as sandbox_linux
from rearview.replay.sandbox import owners as sandbox_owners
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.sandbox.layers import Layers, below, outermost, real_paths

clean = sandbox_scratch.clean
OVERLAY, LANDLOCK, COPIES = "overlay", "landlock", "copies"
_NEVER = ("/dev", "/proc", "/sys")
_STAYS_WRITABLE = ("/dev", "/proc")
"""Devices, terminals, a process's own settings: nothing there is a file of the user's."""
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_OUT_OF_REACH = (errno.ENOENT, errno.EACCES, errno.EINVAL)
"""What cannot be made read-only for these reasons is hidden below another mount, or closed to this user: nobody writes there."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker needs to see, and where it may write."""

    project: Path
    scratch: Path
    """This worker's own folder, usually inside the project's store."""
    cwd: Path
    written: tuple[str, ...]
    """Absolute paths that the recorded run wrote."""
    store: Path


@dataclass(slots=True)
class Protection:
    """What keeps the user's files as they are."""

    kind: str
    """`overlay`, `landlock` or `copies`."""
    cwd: Path
    """Where the program runs."""
    work: Path | None = None
    """The folder that stands for the project, where that is not at its own path."""
    covered: list[str] = field(default_factory=list)
    """Folders in which the program can write as ever: what it writes goes to scratch."""
    protected: list[str] = field(default_factory=list)
    """Sentences: what cannot be altered, and why."""
    unprotected: list[str] = field(default_factory=list)
    """Sentences: what could be altered, or is not as the recorded run had it."""
    originals: dict[str, str] = field(default_factory=dict)
    """Covered folder -> where its files can be read as they are outside."""

    def original(self, path: str) -> str:
        """Where a file of the user's can be read as it is, whatever the program does to it."""
        path = _real(path)
        for folder, place in self.originals.items():
            if path == folder or path.startswith(os.path.join(folder, "")):
                return os.path.join(place, os.path.relpath(path, folder))
        return path

    def inside(self, path: str, project: Path) -> str:
        """Where the program finds a file of the recorded run. What is there already stays: scratch is usually in the project."""
        if self.work is None:
            return path
        real, top = _real(path), os.path.realpath(project)
        if not below(real, top) or below(real, os.path.realpath(self.work)):
            return path
        return os.path.normpath(os.path.join(self.work, os.path.relpath(real, top)))


def _real(path: str) -> str:
    """A path without links but for its last part, which may be one that is about to be replaced."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def enter(spec: Spec, *, dry: bool = False) -> Protection:
    """Shut this process in. Afterwards the current folder is the program's, whatever kind of protection there is.

    With `dry` no files are copied: the process only wants to know.
    """
    for name in ("layers", "tmp", "was"):
        (spec.scratch / name).mkdir(parents=True, exist_ok=True)
    sandbox_scratch.stay(spec.scratch)
    if sys.platform != "linux":
        return _copies(spec, dry, "this system can neither overlay folders nor forbid writing")
    try:
        user_namespace = _own_mounts()
    except OSError as problem:
        return _copies(spec, dry, _why(problem))
    try:
        protection = _overlay(spec, user_namespace=user_namespace)
        os.chdir(spec.cwd)  # by path: the folder there is another one now
    except OSError as problem:
        protection = _copies(spec, dry, _why(problem))
    if user_namespace:
        try:
            sandbox_linux.give_up_rights()
        except OSError as problem:
            protection.unprotected.append(f"the program has more rights over files than it had ({_why(problem)})")
    return protection


def _why(problem: OSError) -> str:
    return problem.strerror or str(problem)


def _own_mounts() -> bool:
    """Whether that took a user namespace. The administrator needs none, and would lose access to other people's files in one."""
    if os.geteuid() == 0:
        try:
            sandbox_linux.own_mounts(user_namespace=False)
            return False
        except OSError:
            pass  # an administrator without the rights of one, as in containers
    sandbox_linux.own_mounts(user_namespace=True)
    return True


# -- overlays ------------------------------------------------------------------------------------------------------------


def _overlay(spec: Spec, *, user_namespace: bool) -> Protection:
    """Overlays over what the program may write to, the rest read-only. An `OSError` if the project cannot be covered."""
    protection = Protection(OVERLAY, spec.cwd)
    scratch, store = (os.open(folder, os.O_PATH | os.O_CLOEXEC) for folder in (spec.scratch, spec.store))
    shared = user_namespace and sandbox_owners.is_foreign(os.path.realpath(spec.project))
    wanted = (str(spec.project), str(spec.cwd), *spec.written)
    layers = Layers(scratch, os.path.realpath(spec.scratch), wanted, user_namespace=user_namespace)
    try:
        for folders in roots(spec):
            _cover(folders, spec, layers, protection)
        if os.path.isdir(_SHARED_MEMORY):  # loader workers hand over batches there; people also keep data there
            _cover([_SHARED_MEMORY], spec, layers, protection)
        sandbox_linux.bind(store, os.path.realpath(spec.store), read_only=True)
    finally:
        sandbox_linux.bind(scratch, os.path.realpath(spec.scratch))  # in any case: a folder around it may be covered
        os.close(scratch)
        os.close(store)
    protection.originals = {root: os.path.join(spec.scratch, place) for root, place in layers.originals.items()}
    protection.protected.append("what the program writes goes to scratch: it sees all files as they are and alters none")
    if shared:
        protection.unprotected.append("files of other users or groups that the recorded run did not write cannot be changed by a replay")
    if layers.in_memory:
        protection.unprotected.append("this disk takes no overlay: what the program writes is held in memory and may fill it")
    _forbid_the_rest(spec, protection)
    return protection


def _cover(folders: list[str], spec: Spec, layers: Layers, protection: Protection) -> None:
    """Cover the first folder, or else the others, which are the parts of it that matter."""
    try:
        protection.covered += layers.cover(folders[0], memory=folders[0] == _SHARED_MEMORY)
    except OSError as problem:
        parts = outermost(folders[1:])
        for part in parts:  # of a home folder with other disks in it, say
            try:
                protection.covered += layers.cover(part)
            except OSError:
                if below(os.path.realpath(spec.project), part):
                    raise
                protection.unprotected.append(f"{part} cannot be overlaid: what the program writes there is refused")
        if not parts and folders[0] == _folder(tempfile.gettempdir()):
            _own_temporary_folder(spec)
        elif not parts and folders[0] == _SHARED_MEMORY:
            protection.unprotected.append(f"files in {_SHARED_MEMORY} could be altered ({_why(problem)})")


def _own_temporary_folder(spec: Spec) -> None:
    os.environ["TMPDIR"] = str(spec.scratch / "tmp")
    tempfile.tempdir = None


def roots(spec: Spec) -> list[list[str]]:
    """The folders to cover, none inside another: each with the parts of it that must be covered in any case. The project's is first."""
    written = {path if os.path.dirname(path) == "/" else os.path.dirname(path) for path in real_paths(spec.written)}
    must = [one for one in map(_folder, (str(spec.project), str(spec.cwd), *sorted(written))) if _can_be_covered(one)]
    home = os.path.expanduser("~")
    may = [_folder(path) for path in (home, tempfile.gettempdir(), "/tmp", "/var/tmp") if os.path.isabs(path)]  # noqa: S108
    project = os.path.realpath(spec.project)
    wide = sorted(outermost([*must, *(one for one in may if _can_be_covered(one))]), key=lambda root: not below(project, root))
    return [[root, *dict.fromkeys(one for one in must if below(one, root))] for root in wide]


def _folder(path: str) -> str:
    """The folder that is there, of a path that may not be: links followed, because writing follows them."""
    place = os.path.realpath(path)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def _can_be_covered(folder: str) -> bool:
    return folder != "/" and not any(below(folder, one) for one in _NEVER)


def _forbid_the_rest(spec: Spec, protection: Protection) -> None:
    """Everything that is not covered: read-only, and writing forbidden by Landlock."""
    scratch = os.path.realpath(spec.scratch)
    read_only = _make_read_only([*protection.covered, scratch])
    try:
        sandbox_linux.may_write_only([*protection.covered, scratch, _SHARED_MEMORY], _STAYS_WRITABLE)
    except OSError as problem:
        if not read_only:
            protection.unprotected.append(f"files outside of {', '.join(protection.covered)} could be altered ({_why(problem)})")
            return
    if not read_only:
        protection.unprotected.append("modes and times of files outside of the covered folders could be altered, not their content")
    protection.protected.append("nothing can be written, made or removed anywhere else")


def _make_read_only(writable: list[str]) -> bool:
    """Whether everything mounted could be made read-only, but for what is covered."""
    done = True
    for place in dict.fromkeys(sandbox_linux.mount_points()):
        if place in writable or any(below(place, one) for one in _STAYS_WRITABLE):
            continue
        try:
            sandbox_linux.make_read_only(place)
        except OSError as problem:
            done = done and problem.errno in _OUT_OF_REACH and place != "/"
    return done


# -- without overlays ----------------------------------------------------------------------------------------------------


def _copies(spec: Spec, dry: bool, why: str) -> Protection:
    """A private work folder with copies of the project's files; writing elsewhere forbidden where Landlock is there."""
    work = spec.scratch / "work"
    layout = sandbox_copies.survey(spec.project, spec.store, spec.written, clones=sandbox_copies.can_clone(spec.scratch))
    if not dry:
        sandbox_copies.make(spec.project, work, layout)
    cwd = work / os.path.relpath(os.path.realpath(spec.cwd), os.path.realpath(spec.project)) if _is_in(spec.cwd, spec.project) else work
    cwd.mkdir(parents=True, exist_ok=True)
    _own_temporary_folder(spec)
    forbidden = _forbid_by_landlock(spec)
    os.chdir(cwd)
    protection = Protection(LANDLOCK if forbidden else COPIES, cwd, work)
    protection.protected.append(f"the program runs in a folder with copies of the project's files (no overlay: {why})")
    if forbidden:
        protection.protected.append("nothing can be written, made or removed anywhere else")
        protection.unprotected.append(f"by absolute path, modes and times of files, and files in {_SHARED_MEMORY}, could be altered")
        protection.unprotected.append("what the program writes by absolute path or beside its source is refused")
    else:
        protection.unprotected.append("what the program writes by absolute path or beside its source is really written")
        real = [*layout.links, *layout.tools]
        if real:
            protection.unprotected.append(f"{len(real)} files and folders are links to the real ones: {', '.join(real[:5])}")
    return protection


def _forbid_by_landlock(spec: Spec) -> bool:
    if sys.platform != "linux":
        return False
    try:
        sandbox_linux.may_write_only([os.path.realpath(spec.scratch), _SHARED_MEMORY], _STAYS_WRITABLE)
    except OSError:
        return False
    return True


def _is_in(path: Path, folder: Path) -> bool:
    return below(os.path.realpath(path), os.path.realpath(folder))
