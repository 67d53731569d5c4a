"""The store's repository is one that git itself accepts, reads and packs, and any number of processes write to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rearview.errors import Damaged
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import read, snapshot
from rearview.versions.snapshot import Snapshot
from tests.conftest import environment
from tests.integration.versions.repositories import committed, git, write
from tests.laws import examples

ODD = [
    "a.py",
    "a b.py",
    "größe.py",
    os.fsdecode(b"no-text-\xff.py"),
    "new\nline.py",
    "a/x.py",
    "a.d/x.py",
    "a0/x.py",
    '"quoted".py',
    "-dash.py",
]


@pytest.fixture
def store(project: Path) -> Store:
    return layout.create(project / ".rearview")


def take(store: Store, **options: object) -> Snapshot:
    given_options: dict[str, object] = {"script": None, "script_source": None, "extra": {}, "limit_bytes": 1 << 20, **options}
    return snapshot.take(store, store.project, **given_options)  # type: ignore[arg-type]


def test_git_accepts_it(store: Store) -> None:
    for name in ODD:
        write(store.project / name, name)
    (store.project / "run.sh").write_text("#!/bin/sh\n")
    (store.project / "run.sh").chmod(0o755)
    (store.project / "link.py").symlink_to("a.py")
    first = take(store)
    write(store.project / "a.py", "changed")
    second = take(store)
    assert "error" not in git(store.code, "fsck", "--strict", "--no-dangling", "--full")
    assert sorted(git(store.code, "log", "--all", "--format=v%H").split()) == sorted([first.version, second.version])
    listed = git(store.code, "ls-tree", "-rz", first.version[1:]).rstrip("\0").split("\0")
    seen = {line.split("\t", 1)[1]: tuple(line.split("\t")[0].split()) for line in listed}
    assert {path: id_ for path, (_, _, id_) in seen.items()} == first.files
    assert {path: int(mode, 8) for path, (mode, _, _) in seen.items() if mode != "100644"} == first.modes


def test_the_tree_is_the_one_git_would_write(store: Store) -> None:
    committed(store.project, *ODD)
    taken = take(store)
    assert git(store.code, "rev-parse", taken.version[1:] + "^{tree}") == git(store.project, "rev-parse", "HEAD^{tree}")
    assert taken.git == {"head": git(store.project, "rev-parse", "HEAD"), "branch": "main", "dirty": False}


def test_everything_is_read_after_git_gc(store: Store, tmp_path: Path) -> None:
    versions = []
    for k in range(5):
        write(store.project / "pkg" / "a.py", f"x = {k}\n" * 50)
        write(store.project / f"b{k}.py", "y")
        versions.append(take(store).version)
    sources = [read.source(store, version, "pkg/a.py") for version in versions]
    git(store.code, "gc", "-q", "--prune=now")
    assert not list((store.code / "refs" / "versions").glob("*"))
    assert read.versions(store) == sorted(versions)
    assert [read.source(store, version, "pkg/a.py") for version in versions] == sources
    assert all(read.verify(store, version) == [] for version in versions)
    assert len(read.export(store, versions[-1], None, tmp_path / "copy")) == 6
    assert take(store).version == versions[-1]
    write(store.project / "new.py", "z")
    assert read.verify(store, take(store).version) == []
    assert "error" not in git(store.code, "fsck", "--strict", "--full")


@pytest.mark.damages_store
def test_a_damaged_pack_is_said(store: Store) -> None:
    write(store.project / "a.py", "x" * 1000)
    version = take(store).version
    git(store.code, "gc", "-q", "--prune=now")
    (pack,) = (store.code / "objects" / "pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 0xFF
    pack.write_bytes(data)
    assert read.verify(store, version)
    with pytest.raises(Damaged):
        read.source(store, version, "a.py")


def test_whoever_checks_a_version_out_gets_the_bytes_that_ran(store: Store, tmp_path: Path) -> None:
    write(store.project / ".gitattributes", "*.py text eol=crlf ident export-ignore filter=trap\n")
    write(store.project / "a.py", "# $Id$\nx = 1\n")
    git(store.code.parent, "config", "--global", "filter.trap.smudge", "sed s/x/y/")
    version = take(store).version
    git(store.code, "worktree", "add", "-q", "--detach", str(tmp_path / "out"), version[1:])
    assert (tmp_path / "out" / "a.py").read_bytes() == b"# $Id$\nx = 1\n"


TAKING = """
import sys
from pathlib import Path
from rearview.store import layout
from rearview.versions import snapshot
project = Path(sys.argv[1])
sys.stdin.read(1)
store = layout.create(project / ".rearview")
for k in range(5):
    taken = snapshot.take(store, project, script=None, script_source=None, extra={"cells/1.py": b"%d" % k}, limit_bytes=1 << 20)
    print(taken.version)
"""


def test_many_processes_at_once_agree(project: Path) -> None:
    for k in range(40):
        write(project / f"pkg{k % 4}" / f"m{k}.py", str(k))
    command = [sys.executable, "-c", TAKING, str(project)]
    processes = [
        subprocess.Popen(command, env=environment(None), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    results = [process.communicate(timeout=60) for process in processes]
    assert all(process.returncode == 0 for process in processes), results
    assert len({out for out, _ in results}) == 1
    store = layout.open_store(project / ".rearview")
    assert read.versions(store) == sorted(results[0][0].split())
    assert all(read.verify(store, version) == [] for version in read.versions(store))
    assert "error" not in git(store.code, "fsck", "--strict", "--full")


lines = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"\xff", b"def f():", b"-", b"+x", b"\\ No"]), max_size=30)
texts = st.builds(lambda body, end: b"\n".join(body) + (b"\n" if end and body else b""), lines, st.booleans())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=texts, after=texts)
def test_a_diff_applied_gives_the_other_version(store: Store, before: bytes, after: bytes) -> None:
    before, after = before.replace(b"\xff", b"y"), after.replace(b"\xff", b"y")  # shown escaped: for reading, not for applying
    folder = store.project / "applied"
    folder.mkdir(exist_ok=True)
    one = take(store, extra={"f.py": before}, exclude=["*"])
    two = take(store, extra={"f.py": after}, exclude=["*"])
    text = read.diff(store, one.version, two.version)
    assert (text == "") == (before == after)
    (folder / "f.py").write_bytes(before)
    if text:
        done = subprocess.run(
            ["git", "apply", "--unsafe-paths", "--directory", str(folder), "--whitespace=nowarn", "--unidiff-zero", "-"],
            cwd="/", input=text.encode(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stderr, text)
    assert (folder / "f.py").read_bytes() == after


def test_a_diff_names_what_came_went_and_changed(store: Store) -> None:
    for name in ("same.py", "gone.py", "changed.py"):
        write(store.project / name, "1\n2\n3\n")
    write(store.project / "run.sh", "x\n")
    one = take(store, extra={"bin.dat": b"\0a"})
    (store.project / "gone.py").unlink()
    write(store.project / "come.py", "hello")
    write(store.project / "changed.py", "1\nother\n3\n")
    (store.project / "run.sh").chmod(0o755)
    two = take(store, extra={"bin.dat": b"\0b"})
    text = read.diff(store, one.version, two.version)
    assert "same.py" not in text
    assert "--- a/gone.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n" in text
    assert "--- /dev/null\n+++ b/come.py\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n" in text
    assert "@@ -1,3 +1,3 @@\n 1\n-2\n+other\n 3\n" in text
    assert "Binary files a/bin.dat and b/bin.dat differ" in text
    assert "old mode 100644\nnew mode 100755\n" in text
