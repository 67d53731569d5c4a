"""Projects on disks of all kinds: with other disks in them, on overlays, in memory, behind links."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rearview.replay.sandbox import entering as sandbox
from rearview.replay.sandbox import linux as sandbox_linux
from rearview.replay.sandbox.entering import Protection, Spec
from tests.integration.replay_sandbox.shut_in import Tree, a_tree, shut_in, users

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="takes the administrator to mount")


@pytest.fixture(params=users())
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    with a_tree(request.param) as made:
        yield made


def disk_at(place: Path, tree: Tree) -> None:
    """Mount something of its own, seen by this process alone, with a file in it."""
    sandbox_linux.own_mounts(user_namespace=False)
    sandbox_linux.mount("disk", str(place), "tmpfs")
    os.chown(place, tree.uid, tree.uid)
    (place / "on_disk.txt").write_text("as it is")
    os.chown(place / "on_disk.txt", tree.uid, tree.uid)


def write_and_compare(found: Protection, path: Path) -> str:
    """What the program sees before and after it writes, and what is really there."""
    before = path.read_text()
    try:
        path.write_text("written")
        after = path.read_text()
    except OSError:
        after = "refused"
    return f"{before}, {after}, {Path(found.original(str(path))).read_text()}"


def test_another_disk_in_the_project(tree: Tree) -> None:
    place = tree.project / "data"

    def work(found: Protection) -> str:
        return found.kind + ": " + write_and_compare(found, place / "on_disk.txt")

    said = shut_in(tree, tree.spec(), work, without="nothing", first=lambda: disk_at(place, tree))
    if tree.uid == 0:
        assert said == "overlay: as it is, written, as it is"
    else:  # the kernel lets nobody else cover a disk that somebody mounted
        assert said == "landlock: as it is, refused, as it is"


def test_another_disk_at_home_does_not_matter(tree: Tree) -> None:
    def work(found: Protection) -> str:
        assert found.kind == sandbox.OVERLAY
        return write_and_compare(found, Path("train.py").absolute())

    said = shut_in(tree, tree.spec(), work, first=lambda: disk_at(tree.outside, tree))
    assert said == "print('hello')\n, written, print('hello')"


def test_a_project_that_is_a_disk_of_its_own(tree: Tree) -> None:
    place = tree.outside

    def prepare() -> None:
        disk_at(place, tree)
        (place / "scratch" / "replay-x").mkdir(parents=True)
        for path in (place / "scratch", place / "scratch" / "replay-x"):
            os.chown(path, tree.uid, tree.uid)

    spec = Spec(place, place / "scratch" / "replay-x" / "unit-0", place, (), place / "scratch")
    said = shut_in(tree, spec, lambda found: write_and_compare(found, place / "on_disk.txt"), first=prepare)
    assert said == "as it is, written, as it is"


def test_a_project_on_an_overlay_as_in_a_container(tree: Tree) -> None:
    layers = tree.outside / "layers"

    def prepare() -> None:
        layers.mkdir()
        disk_at(layers, tree)
        for name in ("upper", "work"):
            (layers / name).mkdir()
            os.chown(layers / name, tree.uid, tree.uid)
        lower, upper, work = (os.open(one, os.O_PATH) for one in (tree.project, layers / "upper", layers / "work"))
        sandbox_linux.mount_overlay(lower, upper, work, str(tree.project), user_namespace=False)
        for fd in (lower, upper, work):
            os.close(fd)

    def work(found: Protection) -> str:
        sentences = [one for one in found.unprotected if "in memory" in one]
        return f"{found.kind} {len(sentences)} " + write_and_compare(found, found.cwd / "metrics.csv").replace("\n", " ")

    said = shut_in(tree, tree.spec(), work, without="nothing", first=prepare)
    kind = said.split()[0]
    assert kind in (sandbox.OVERLAY, sandbox.LANDLOCK)
    assert ", written, epoch,loss" in said
    assert said.startswith("overlay 1") or tree.uid != 0


def test_a_project_behind_a_link(tree: Tree) -> None:
    link = tree.base / "link"
    link.symlink_to(tree.project)
    before = tree.seen()
    spec = Spec(link, link / ".rearview" / "tmp" / "replay-x" / "unit-0", link / "data", (), link / ".rearview")

    def work(found: Protection) -> str:
        assert found.cwd == link / "data"
        Path("points.csv").write_text("gone")
        return write_and_compare(found, link / "train.py")

    assert shut_in(tree, spec, work) == "print('hello')\n, written, print('hello')"
    assert tree.seen() == before


def test_a_path_with_signs(tree: Tree) -> None:
    odd = tree.base / "a, b:c \\ 'd' ü"
    tree.project.rename(odd)
    before = tree.base.stat().st_mtime_ns
    spec = Spec(odd, odd / ".rearview" / "tmp" / "replay-x" / "unit-0", odd, (), odd / ".rearview")
    assert shut_in(tree, spec, lambda found: write_and_compare(found, odd / "train.py")) == "print('hello')\n, written, print('hello')"
    assert tree.base.stat().st_mtime_ns == before and (odd / "train.py").read_text() == "print('hello')\n"


def test_a_store_outside_of_the_project(tree: Tree) -> None:
    away = tree.outside / "store"
    tree.store.root.rename(away)
    spec = Spec(tree.project, away / "tmp" / "replay-x" / "unit-0", tree.project, (), away)

    def work(found: Protection) -> str:
        (spec.scratch / "journal").write_text("kept")
        return write_and_compare(found, tree.project / "train.py")

    assert shut_in(tree, spec, work) == "print('hello')\n, written, print('hello')"
    assert (spec.scratch / "journal").read_text() == "kept"


def test_a_project_that_cannot_be_covered_with_a_store_in_a_folder_that_can(tree: Tree) -> None:
    away = tree.outside / "store"
    tree.store.root.rename(away)
    spec = Spec(tree.project, away / "tmp" / "replay-x" / "unit-0", tree.project, (str(tree.outside / "f"),), away)

    def refuse_the_project() -> None:
        mount = sandbox_linux.mount_overlay

        def refusing(lower: int, upper: int, work: int, target: str, *, user_namespace: bool) -> None:
            if tree.outside != Path(target):
                raise OSError(22, "not this one")
            mount(lower, upper, work, target, user_namespace=user_namespace)

        sandbox_linux.mount_overlay = refusing
        sandbox.roots = lambda spec: [[str(tree.outside)], [str(tree.project), str(tree.project)]]  # type: ignore[assignment]

    def work(found: Protection) -> str:
        assert found.kind == sandbox.LANDLOCK
        (spec.scratch / "journal").write_text("kept")
        return write_and_compare(found, Path("train.py"))

    before = (tree.project / "train.py").read_text()
    assert shut_in(tree, spec, work, without="nothing", first=refuse_the_project).endswith("written, written")
    assert (spec.scratch / "journal").read_text() == "kept" and (tree.project / "train.py").read_text() == before
