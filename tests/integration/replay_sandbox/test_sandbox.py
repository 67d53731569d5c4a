"""Whatever a program does in a sandbox, the user's files stay as they are, byte for byte."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rearview.replay.sandbox import entering as sandbox
from rearview.replay.sandbox import linux as sandbox_linux
from rearview.replay.sandbox import protection
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.sandbox.entering import Protection
from tests.integration.replay_sandbox.shut_in import Tree, a_tree, shut_in, users

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


@pytest.fixture(params=users())
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    with a_tree(request.param) as made:
        kind = shut_in(made, made.spec(unit=9), lambda found: found.kind, without="nothing")
        if kind in (sandbox.LANDLOCK, sandbox.COPIES):
            pytest.skip("this machine has no overlays for this user")
        assert kind == sandbox.OVERLAY
        yield made


# -- what programs do -----------------------------------------------------------------------------------------------------


def overwrite(project: Path, outside: Path) -> None:
    Path("metrics.csv").write_text("gone")
    (project / "train.py").write_text("gone")
    (outside / "shared.txt").write_text("gone")
    assert Path("metrics.csv").read_text() == (outside / "shared.txt").read_text() == "gone"


def append_and_truncate(project: Path, outside: Path) -> None:
    with open("metrics.csv", "a") as file:
        file.write("2,0.25\n")
    os.truncate(project / "data" / "points.csv", 3)
    assert Path("metrics.csv").read_text().endswith("2,0.25\n") and (project / "data" / "points.csv").stat().st_size == 3


def replace_and_rename(project: Path, outside: Path) -> None:
    Path("new").write_text("new")
    os.replace("new", "metrics.csv")
    os.rename(outside / "shared.txt", outside / "moved.txt")
    assert Path("metrics.csv").read_text() == "new" and (outside / "moved.txt").exists() and not (outside / "shared.txt").exists()


def remove_everything(project: Path, outside: Path) -> None:
    shutil.rmtree(project / "data")
    os.unlink(project / "train.py")
    shutil.rmtree(outside)
    assert not (project / "data").exists() and not outside.exists()


def remove_and_make_again(project: Path, outside: Path) -> None:
    shutil.rmtree("data")
    os.makedirs("data/deep")
    assert os.listdir("data") == ["deep"] and os.listdir("data/deep") == []
    Path("data/points.csv").write_text("1")


def modes_and_times(project: Path, outside: Path) -> None:
    os.chmod("train.py", 0o600)
    os.utime("metrics.csv", (1, 1))
    os.chmod(outside, 0o700)
    os.setxattr("metrics.csv", "user.mine", b"1")
    assert os.stat("metrics.csv").st_mtime == 1


def through_links(project: Path, outside: Path) -> None:
    Path("link.txt").write_text("through the link")
    Path("elsewhere/new.txt").write_text("through the folder")
    assert (outside / "shared.txt").read_text() == "through the link" and (outside / "new.txt").exists()
    os.unlink("link.txt")


def hard_links(project: Path, outside: Path) -> None:
    Path("hard.csv").write_text("one of two names")
    os.link("train.py", "another.py")
    Path("another.py").write_text("the other name")


def memory_map(project: Path, outside: Path) -> None:
    with open("data/deep/model.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:4] = b"gone"
        view.flush()
    assert Path("data/deep/model.bin").read_bytes()[:4] == b"gone"


def native_code(project: Path, outside: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.open(os.fsencode(project / "metrics.csv"), os.O_WRONLY | os.O_TRUNC)
    assert fd >= 0 and libc.write(fd, b"native", 6) == 6
    assert libc.unlink(os.fsencode(outside / "shared.txt")) == 0


def subprocesses(project: Path, outside: Path) -> None:
    subprocess.run(["/bin/sh", "-c", f"rm -rf data; echo gone > metrics.csv; rm -rf {outside}/*; mv train.py x.py"], check=True)
    assert not (project / "data").exists() and (project / "x.py").exists()


def database(project: Path, outside: Path) -> None:
    for place in (project / "runs.db", outside / "runs.db"):
        with sqlite3.connect(place) as connection:
            connection.execute("create table t (x)")
            connection.execute("insert into t values (1)")
        connection.close()
        assert place.exists()


def temporary_files(project: Path, outside: Path) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"x")
    assert os.path.exists(file.name)
    Path("/dev/shm/rearview-test-of-the-sandbox").write_text("x")
    Path.home().joinpath("cache.txt").write_text("x")


ACTIONS = [
    overwrite, append_and_truncate, replace_and_rename, remove_everything, remove_and_make_again, modes_and_times, through_links,
    hard_links, memory_map, native_code, subprocesses, database, temporary_files,
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_the_tree_is_identical_afterwards(tree: Tree, action: Callable[[Path, Path], None]) -> None:
    before = tree.seen()
    assert shut_in(tree, tree.spec(tree.outside / "shared.txt"), lambda found: action(tree.project, tree.outside)) == "None"
    assert tree.seen() == before
    assert not os.path.exists("/dev/shm/rearview-test-of-the-sandbox")


def test_the_program_sees_its_files_where_they_are(tree: Tree) -> None:
    def look(found: Protection) -> object:
        assert found.cwd == tree.project / "data" and found.unprotected == []
        return os.getcwd(), Path("points.csv").read_text() == (tree.project / "hard.csv").read_text(), os.getuid() == tree.uid

    assert shut_in(tree, tree.spec(cwd=tree.project / "data"), look) == str((str(tree.project / "data"), True, True))


def test_what_was_not_covered_cannot_be_altered(tree: Tree) -> None:
    def attempt(found: Protection) -> list[str]:
        refused = []
        for act in (
            lambda: Path("/etc/rearview").write_text("x"),
            lambda: os.chmod("/etc/passwd", 0o644),
            lambda: os.utime("/usr"),
            lambda: os.mkdir("/rearview"),
            lambda: (tree.store.root / "store.json").write_text("x"),
            lambda: (tree.store.root / "store.json").unlink(),
            lambda: os.rename(tree.store.root / "store.json", "store.json"),
        ):
            try:
                act()
            except OSError:
                refused.append("refused")
        return refused

    before = tree.seen()
    assert shut_in(tree, tree.spec(), attempt) == str(["refused"] * 7)
    assert tree.seen() == before


def test_scratch_is_on_the_disk_and_the_store_can_be_read(tree: Tree) -> None:
    spec = tree.spec()

    def write(found: Protection) -> bool:
        (spec.scratch / "store").mkdir()
        (spec.scratch / "store" / "journal").write_text("kept")
        return (spec.store / "store.json").is_file()

    assert shut_in(tree, spec, write) == "True"
    assert (spec.scratch / "store" / "journal").read_text() == "kept"


def test_originals_can_be_read_whatever_the_program_does(tree: Tree) -> None:
    def look(found: Protection) -> str:
        Path("metrics.csv").write_text("gone")
        return Path(found.original(str(tree.project / "metrics.csv"))).read_text()[:5]

    assert shut_in(tree, tree.spec(), look) == "epoch"


def test_permissions_are_those_of_the_user(tree: Tree) -> None:
    def write(found: Protection) -> str:
        try:
            Path("closed.txt").write_text("opened")
        except PermissionError:
            return "refused"
        return "written"

    assert shut_in(tree, tree.spec(), write) == ("written" if tree.uid == 0 else "refused")


def test_a_killed_worker_leaves_only_scratch_and_the_next_command_removes_it(tree: Tree) -> None:
    before = tree.seen()
    spec = tree.spec()

    def work(found: Protection) -> None:
        shutil.rmtree("data")
        Path("metrics.csv").write_text("gone")
        print("ready", flush=True)
        assert sandbox_scratch.clean(tree.store) == [], "it is alive"
        time.sleep(60)

    assert shut_in(tree, spec, work, killed=True) == "ready"
    assert tree.seen() == before
    assert spec.scratch.is_dir()
    assert sandbox.clean(tree.store) == [tree.store.tmp / "replay-test"]
    assert not spec.scratch.exists() and sandbox.clean(tree.store) == []
    assert tree.seen() == before


def test_the_sandbox_holds_for_children_and_cannot_be_undone(tree: Tree) -> None:
    def attempt(found: Protection) -> object:
        code = subprocess.run(["/bin/umount", str(tree.base)], capture_output=True).returncode
        code2 = subprocess.run(["/bin/mount", "-o", "remount,rw", "/"], capture_output=True).returncode
        child = subprocess.run(["/bin/sh", "-c", "echo x > /usr/rearview"], capture_output=True).returncode
        return 0 not in (code, code2, child)

    assert shut_in(tree, tree.spec(), attempt) == "True"


@pytest.mark.torch
def test_torch_writes_past_every_hook_and_is_held(tree: Tree) -> None:
    torch = pytest.importorskip("torch")
    before = tree.seen()

    def save(found: Protection) -> object:
        torch.save({"w": torch.ones(1000)}, str(tree.project / "data" / "deep" / "model.bin"))
        torch.save({"w": torch.ones(10)}, str(tree.outside / "best.pt"))
        return torch.load(tree.outside / "best.pt")["w"].sum().item(), os.listdir(tree.outside) == ["best.pt", "shared.txt"]

    assert shut_in(tree, tree.spec(tree.outside / "best.pt"), save).startswith("(10.0")
    assert tree.seen() == before


# -- with less than everything --------------------------------------------------------------------------------------------


def test_files_of_a_group_can_be_written(tree: Tree) -> None:
    if os.getuid() != 0 or tree.uid == 0:
        pytest.skip("takes the administrator to make them")
    for path in (tree.project, tree.project / "data", tree.project / "data" / "points.csv", tree.outside):
        os.chown(path, 0, tree.uid)
        os.chmod(path, 0o770)  # noqa: S103
    before = tree.seen()

    def write(found: Protection) -> str:
        Path("data/points.csv").write_text("mine")
        Path("data/new.csv").write_text("mine")
        Path("metrics.csv").write_text("mine")
        (tree.outside / "new").write_text("mine")
        return Path("data/points.csv").read_text() + str(len(found.unprotected))

    assert shut_in(tree, tree.spec(tree.project / "data" / "points.csv", tree.outside / "new"), write) == "mine1"
    assert tree.seen() == before


@pytest.mark.parametrize("without", ["overlay", "overlay landlock"])
def test_copies_where_nothing_better_is_there(tree: Tree, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "landlock" not in without and sandbox_linux.landlock_abi() < 2:
        pytest.skip("no Landlock")
    before = tree.seen()

    def work(found: Protection) -> object:
        assert os.getcwd() == str(found.cwd) and found.work is not None
        inside = found.inside(str(tree.project / "train.py"), tree.project)
        assert inside == str(found.work / "train.py") == found.inside(inside, tree.project)
        assert found.inside(str(tree.outside / "x"), tree.project) == str(tree.outside / "x")
        for action in (append_and_truncate if "landlock" in without else overwrite_here, through_hard_links_and_maps):
            action(Path.cwd(), tree.outside)
        return found.kind, len(found.unprotected)

    kind = sandbox.COPIES if "landlock" in without else sandbox.LANDLOCK
    assert shut_in(tree, tree.spec(), work, without=without).startswith(f"('{kind}', 2")
    assert tree.seen() == before


def overwrite_here(project: Path, outside: Path) -> None:
    Path("metrics.csv").write_text("gone")
    Path("link.txt").write_text("gone")
    for forbidden in (outside / "shared.txt", Path("elsewhere") / "new"):
        with pytest.raises(PermissionError):
            forbidden.write_text("gone")


def through_hard_links_and_maps(project: Path, outside: Path) -> None:
    Path("hard.csv").write_text("one of two names")
    memory_map(project, outside)
    shutil.rmtree("data")


def test_the_forecast_says_what_the_worker_will_say(tree: Tree) -> None:
    before = tree.seen()
    if tree.uid == os.getuid():
        found = protection.forecast(tree.store, tree.project, tree.project)
        assert found.kind == sandbox.OVERLAY and found.protected and not found.unprotected
        assert protection.sentences(found) == found.protected
    assert tree.seen() == before and not [one for one in os.listdir(tree.store.tmp) if "forecast" in one]
