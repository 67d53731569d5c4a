"""A user's tree, and processes shut in beside it: everything is looked at before and after."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rearview.replay.sandbox import entering as sandbox
from rearview.replay.sandbox import linux as sandbox_linux
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.sandbox.entering import Protection, Spec
from rearview.store.layout import Store, create

ORDINARY = 12345
"""A user that is nobody's."""


@dataclass
class Tree:
    """A project, a folder outside of it, and links between them."""

    base: Path
    project: Path
    outside: Path
    store: Store
    uid: int

    def spec(self, *written: Path, cwd: Path | None = None, unit: int = 0) -> Spec:
        scratch = self.store.tmp / "replay-test" / f"unit-{unit}"
        return Spec(self.project, scratch, cwd or self.project, tuple(str(path) for path in written), self.store.root)

    def seen(self) -> dict[str, Any]:
        """Everything that a person could notice about every file but the store's scratch."""
        found: dict[str, Any] = {}
        for folder, folders, files in os.walk(self.base):
            if Path(folder) == self.store.root:
                folders.remove("tmp")
            for name in (*folders, *files, "."):
                path = os.path.join(folder, name)
                facts = os.lstat(path)
                times = None if path.startswith(str(self.store.root)) else facts.st_mtime_ns
                found[path] = [facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink, facts.st_ino, times]
                if stat.S_ISREG(facts.st_mode):
                    found[path] += [facts.st_size, hashlib.sha256(Path(path).read_bytes()).hexdigest()]
                if stat.S_ISLNK(facts.st_mode):
                    found[path].append(os.readlink(path))
                else:
                    found[path].append({name: os.getxattr(path, name) for name in os.listxattr(path)})
        return found


@contextlib.contextmanager
def a_tree(uid: int) -> Iterator[Tree]:
    base = Path(tempfile.mkdtemp(prefix="rearview-sandbox-", dir="/tmp")).resolve()
    project, outside = base / "project", base / "outside"
    try:
        (project / "data" / "deep").mkdir(parents=True)
        outside.mkdir()
        store = create(project / ".rearview")
        (project / "train.py").write_text("print('hello')\n")
        (project / "data" / "points.csv").write_text("x,y\n" + "1,2\n" * 100)
        (project / "data" / "deep" / "model.bin").write_bytes(os.urandom(20_000))
        (project / "metrics.csv").write_text("epoch,loss\n0,1.0\n1,0.5\n")
        (outside / "shared.txt").write_text("shared\n")
        (project / "link.txt").symlink_to(outside / "shared.txt")
        (project / "elsewhere").symlink_to(outside)
        os.link(project / "data" / "points.csv", project / "hard.csv")
        (project / "closed.txt").write_text("read only\n")
        (project / "closed.txt").chmod(0o444)
        with contextlib.suppress(OSError):
            os.setxattr(project / "train.py", "user.note", b"kept")
        store.tmp.mkdir(exist_ok=True)
        base.chmod(0o755)
        for folder, folders, files in os.walk(base):
            for name in (*folders, *files, "."):
                os.lchown(os.path.join(folder, name), uid, uid)
        yield Tree(base, project, outside, store, uid)
    finally:
        sandbox_scratch.remove(base)


def shut_in(
    tree: Tree, spec: Spec, action: Callable[[Protection], object], *,
    killed: bool = False, without: str = "", first: Callable[[], object] | None = None,
) -> str:  # fmt: skip
    """Run something in a sandbox, in a process of its own. Gives what it returned, as text, or how it failed.

    `without` names what the system is to lack: `overlay`, or `overlay landlock`. `first` is done before, by the administrator.
    """
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _in_child(tree, spec, action, tell, without, first)
    os.close(tell)
    with open(hear) as answer:
        if killed:
            said = answer.readline()
            os.kill(child, signal.SIGKILL)
        else:
            said = answer.read()
    os.waitpid(child, 0)
    return said.strip()


def _in_child(
    tree: Tree, spec: Spec, action: Callable[[Protection], object], tell: int, without: str, first: Callable[[], object] | None
) -> None:
    try:
        if first is not None:
            first()
        if os.getuid() != tree.uid:
            os.setgroups([])
            os.setgid(tree.uid)
            os.setuid(tree.uid)
        os.environ["HOME"] = str(tree.base)
        tempfile.tempdir = None
        if "overlay" in without:
            sandbox_linux.own_mounts = _refused  # type: ignore[assignment]
        if "landlock" in without:
            sandbox_linux.landlock_abi = lambda: 0  # type: ignore[assignment]
        found = sandbox.enter(spec)
        if not without:
            assert found.kind == sandbox.OVERLAY, found
        with open(tell, "w") as answer:
            sys.stdout = answer
            result = action(found)
            answer.write(f"{result}\n")
    except BaseException as problem:
        traceback.print_exc()
        with contextlib.suppress(OSError), open(tell, "w") as answer:
            answer.write(f"{type(problem).__name__}: {problem}")
    finally:
        os._exit(0)


def _refused(*, user_namespace: bool) -> None:
    raise PermissionError(1, "not allowed here")


def users() -> list[Any]:
    """Whom the tests can be: themselves, and somebody ordinary if they are the administrator."""
    me = [pytest.param(os.getuid(), id="me")]
    return [*me, pytest.param(ORDINARY, id="ordinary")] if os.getuid() == 0 else me
