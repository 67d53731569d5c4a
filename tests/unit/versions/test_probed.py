"""A recorded version with statements added is a commit of its own, and no version of the user's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rearview.errors import UsageError, VersionError
from rearview.model import VersionId
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import objects, probed, read, snapshot
from rearview.versions.repository import Repository


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "train.py").write_bytes(b"print(1)\n")
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_bytes(b"A = 1\n")
    return layout.create(tmp_path / ".rearview")


@pytest.fixture
def version(store: Store) -> VersionId:
    return snapshot.take(store, store.project, script=store.project / "train.py", script_source=None, extra={}, limit_bytes=1 << 20).version


def test_the_changed_files_are_in_it_and_the_others_as_they_were(store: Store, version: VersionId) -> None:
    new = probed.derive(store, version, {"train.py": b"print(2)\n", "pkg/b.py": b"B = 2\n"})
    before, after = read.files(store, version), read.files(store, new)
    assert {path for path in after if after[path] != before.get(path)} == {"train.py", "pkg/b.py"}
    assert read.source(store, new, "train.py") == b"print(2)\n"
    assert read.source(store, version, "train.py") == b"print(1)\n"
    assert read.verify(store, new) == []


def test_the_same_question_gives_the_same_version(store: Store, version: VersionId) -> None:
    one = probed.derive(store, version, {"train.py": b"print(2)\n", "pkg/a.py": b"A = 2\n"})
    assert probed.derive(store, version, {"pkg/a.py": b"A = 2\n", "train.py": b"print(2)\n"}) == one
    assert probed.derive(store, version, {"train.py": b"print(1)\n"}) == version
    assert probed.derive(store, version, {}) == version


def test_it_is_not_listed_and_not_found_by_its_beginning(store: Store, version: VersionId) -> None:
    new = probed.derive(store, version, {"train.py": b"print(2)\n"})
    assert read.versions(store) == [version]
    assert read.resolve(store, version[:6]) == version
    with pytest.raises(LookupError):
        read.resolve(store, new)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_knows_its_parent_and_keeps_it(store: Store, version: VersionId) -> None:
    new = probed.derive(store, version, {"train.py": b"print(2)\n"})
    git = ["git", "-C", str(store.code)]
    parent = subprocess.run([*git, "rev-parse", f"{new[1:]}^"], capture_output=True, text=True, check=True).stdout.strip()
    assert parent == version[1:]
    subprocess.run([*git, "-c", "gc.pruneExpire=now", "gc", "--quiet", "--prune=now"], check=True)
    assert subprocess.run([*git, "fsck", "--strict"], capture_output=True, text=True, check=True).stdout == ""
    assert read.source(store, new, "train.py") == b"print(2)\n"
    assert read.versions(store) == [version]


def test_modes_stay(store: Store, version: VersionId) -> None:
    new = probed.derive(store, version, {"run.sh": b"#!/bin/sh\necho\n", "train.py": b""})
    with Repository(store) as repository:
        assert repository.entries(new[1:])[b"run.sh"].mode == objects.EXECUTABLE


@pytest.mark.parametrize("path", ["../out.py", "/abs.py", ".git/hooks/x", "train.py/x.py", "pkg", ""])
def test_paths_that_a_version_cannot_have(store: Store, version: VersionId, path: str) -> None:
    with pytest.raises(VersionError):
        probed.derive(store, version, {path: b""})


def test_only_whole_ids(store: Store, version: VersionId) -> None:
    with pytest.raises(UsageError):
        probed.derive(store, VersionId(version[:10]), {})
