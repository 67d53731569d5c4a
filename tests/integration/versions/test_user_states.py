"""What a snapshot takes and notes in each state a user's repository can be in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rearview.store import layout
from rearview.versions import git as starter
from rearview.versions import read, snapshot
from rearview.versions.snapshot import Snapshot
from rearview.versions.walk import Bounds
from tests.integration.versions.repositories import committed, diverge, fresh, git, write


def take(folder: Path, **options: object) -> Snapshot:
    store = layout.create(folder / ".rearview")
    given_options: dict[str, object] = {"script": None, "script_source": None, "extra": {}, "limit_bytes": 1 << 20, **options}
    return snapshot.take(store, folder, **given_options)  # type: ignore[arg-type]


def dirty(folder: Path) -> object:
    facts = take(folder).git
    assert facts is not None
    return facts["dirty"]


def test_tracked_text_of_any_name_and_new_source_but_nothing_ignored(project: Path) -> None:
    committed(project, "train.py", "notes.txt", "vocab", "data.csv", ".env", ".github/w.yml", "site-packages/own.py")
    write(project / ".gitignore", "ignored.py\n")
    for name in (
        "ignored.py",
        "new.py",
        "new.txt",
        "new.csv",
        "env2/pyvenv.cfg",
        "env2/lib/x.py",
        "lib/site-packages/y.py",
        ".hidden/z.py",
    ):
        write(project / name, "1")
    taken = take(project)
    assert set(taken.files) == {".gitignore", "train.py", "notes.txt", "vocab", ".github/w.yml", "site-packages/own.py", "new.py"}
    assert any(".env" in note for note in taken.notes)
    with_more = take(project, include=["ignored.py", "*.csv"], exclude=["vocab"])
    git(project, "add", "-A")
    git(project, "commit", "-qm", "all")
    assert (take(project, include=["ignored.py"]).git or {})["dirty"] is False, "what is ignored is not new"
    assert set(with_more.files) == (set(taken.files) - {"vocab"}) | {"ignored.py", "data.csv", "new.csv"}


def test_before_the_first_commit(project: Path) -> None:
    fresh(project)
    assert take(project).git == {"head": None, "branch": "main", "dirty": False}
    write(project / "train.py", "1")
    assert take(project).git == {"head": None, "branch": "main", "dirty": True}
    git(project, "add", "train.py")
    taken = take(project)
    assert (taken.git or {})["dirty"] is True
    assert list(taken.files) == ["train.py"]


def test_detached(project: Path) -> None:
    committed(project)
    git(project, "checkout", "-q", "--detach")
    assert take(project).git == {"head": git(project, "rev-parse", "HEAD"), "branch": None, "dirty": False}


@pytest.mark.parametrize("how", ["merge", "rebase", "cherry-pick"])
def test_in_a_conflict_the_working_file_is_taken(project: Path, how: str) -> None:
    committed(project)
    diverge(project, "train.py")
    git(project, how, "main", check=False)
    taken = take(project)
    assert (taken.git or {})["dirty"] is True
    assert (taken.git or {})["branch"] == (None if how == "rebase" else "side")
    store = layout.open_store(project / ".rearview")
    assert read.source(store, taken.version, "train.py") == (project / "train.py").read_bytes()
    assert b"<<<<<<<" in read.source(store, taken.version, "train.py")


def test_dirty(project: Path) -> None:
    committed(project, "train.py", "data.csv", "big.bin", "keep.py")
    assert dirty(project) is False
    write(project / "train.py", "# other\n")
    assert dirty(project) is True
    git(project, "add", "train.py")
    assert dirty(project) is True, "staged"
    git(project, "commit", "-qm", "second")
    assert dirty(project) is False
    (project / "keep.py").unlink()
    assert dirty(project) is True, "deleted"
    git(project, "checkout", "keep.py")
    write(project / "new.py", "1")
    assert dirty(project) is True, "new source"
    (project / "new.py").unlink()
    write(project / "output.txt", "1")
    assert dirty(project) is False, "a new file that is no source"
    write(project / "data.csv", "# projecu\n")
    assert dirty(project) is True, "tracked data of the same size, though no version has it"
    git(project, "checkout", "data.csv")
    os.utime(project / "data.csv")
    assert dirty(project) is False, "only its time changed"
    git(project, "add", "-N", "output.txt")
    assert dirty(project) is True, "intended to be added"


def test_line_ends_and_filters_do_not_make_an_unchanged_file_dirty(project: Path) -> None:
    committed(project, ".gitattributes")
    write(project / ".gitattributes", "*.md text eol=crlf\n*.txt filter=upper\n")
    git(project, "config", "filter.upper.clean", "tr a-z A-Z")
    git(project, "config", "filter.upper.smudge", "tr A-Z a-z")
    (project / "a.md").write_bytes(b"a\r\nb\r\n")
    write(project / "a.txt", "lower")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    time.sleep(0.02)
    write(project / "later.txt", "x")  # so that the index is younger than the files
    git(project, "add", "later.txt")
    git(project, "commit", "-qm", "y")
    (project / "later.txt").unlink()
    git(project, "rm", "-q", "later.txt")
    git(project, "commit", "-qm", "z")
    assert git(project, "status", "--porcelain") == ""
    assert dirty(project) is False
    write(project / "a.txt", "LOWER")
    assert dirty(project) is False, "these are the bytes in the index"
    write(project / "a.txt", "other")
    assert dirty(project) is True


def test_submodules(project: Path, tmp_path: Path) -> None:
    library = committed(tmp_path / "library", "lib.py", "words.txt")
    committed(project)
    git(project, "submodule", "--quiet", "add", str(library), "libs/sub")
    git(project, "commit", "-qm", "sub")
    taken = take(project)
    assert {"train.py", "libs/sub/lib.py", "libs/sub/words.txt"} == set(taken.files)
    assert (taken.git or {})["dirty"] is False
    write(project / "libs/sub/lib.py", "edited")
    assert dirty(project) is True
    git(project / "libs/sub", "commit", "-qam", "inside")
    assert dirty(project) is True, "the submodule is at another commit"
    inside = take(project / "libs" / "sub")
    assert set(inside.files) == {"lib.py", "words.txt"}
    assert (inside.git or {})["head"] == git(project / "libs/sub", "rev-parse", "HEAD")
    git(project, "submodule", "--quiet", "deinit", "-f", "libs/sub")
    assert set(take(project).files) == {"train.py"}


def test_a_repository_that_merely_lies_inside(project: Path) -> None:
    committed(project)
    committed(project / "clone", "lib.py", "words.txt")
    write(project / "clone" / "new.py", "1")
    assert set(take(project).files) == {"train.py", "clone/lib.py", "clone/new.py"}


def test_worktrees_and_subfolders(project: Path, tmp_path: Path) -> None:
    committed(project, "train.py", "sub/a.py")
    git(project, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    taken = take(tmp_path / "tree")
    assert set(taken.files) == {"train.py", "sub/a.py"}
    assert (taken.git or {})["branch"] == "other"
    assert set(take(project / "sub").files) == {"a.py"}
    write(project / "train.py", "edited")
    assert dirty(project / "sub") is False, "what changed is outside the project"


def test_a_sparse_checkout_is_not_dirty(project: Path) -> None:
    committed(project, "train.py", "far/a.py", "near/b.py")
    git(project, "sparse-checkout", "set", "near")
    taken = take(project)
    assert set(taken.files) == {"train.py", "near/b.py"}
    assert (taken.git or {})["dirty"] is False


def test_a_project_that_its_repository_ignores(project: Path) -> None:
    fresh(project)
    write(project / ".gitignore", "*\n")
    write(project / "work" / "train.py", "1")
    write(project / "work" / "out" / "x.py", "1")
    write(project / "work" / ".gitignore", "out/\n")
    assert set(take(project / "work").files) == {".gitignore", "train.py"}


def test_without_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(project, "train.py", "notes.txt")
    with_git = take(project)
    monkeypatch.setenv("PATH", str(project))
    taken = take(project)
    assert taken.git is None
    assert set(taken.files) == {"train.py"}
    assert set(with_git.files) == {"train.py", "notes.txt"}
    assert any("git is not installed" in note for note in taken.notes)


def test_a_broken_repository_does_not_stop_a_run(project: Path) -> None:
    write(project / "train.py", "1")
    write(project / ".git", "gitdir: /nowhere\n")
    taken = take(project)
    assert set(taken.files) == {"train.py"}
    assert taken.git is None
    assert taken.notes
    (project / ".git").unlink()
    committed(project)
    (project / ".git" / "index").write_bytes(b"nonsense")
    assert set(take(project).files) == {"train.py"}


def test_a_tracked_file_behind_a_linked_folder_is_not_taken(project: Path, tmp_path: Path) -> None:
    committed(project, "train.py", "pkg/a.py")
    shutil.rmtree(project / "pkg")
    write(tmp_path / "elsewhere" / "a.py", "not ours")
    (project / "pkg").symlink_to(tmp_path / "elsewhere")
    taken = take(project)
    assert set(taken.files) == {"train.py"}
    assert (taken.git or {})["dirty"] is True


def test_when_git_takes_too_long_the_walk_finds_new_files(project: Path) -> None:
    committed(project)
    write(project / "new.py", "1")
    taken = take(project, bounds=Bounds(listing_s=0.0))
    assert set(taken.files) >= {"train.py", "new.py"}


def test_nothing_of_the_users_environment_leads_git_elsewhere(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(project)
    other = committed(tmp_path / "other", "other.py")
    for name, value in (
        ("GIT_DIR", other / ".git"),
        ("GIT_WORK_TREE", other),
        ("GIT_INDEX_FILE", other / ".git/index"),
        ("GIT_PREFIX", "x/"),
    ):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert set(take(project).files) == {"train.py"}
    assert not {name for name in starter.environment() if name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT")}


def test_a_program_that_ignores_the_end_of_its_children(project: Path) -> None:
    committed(project)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert dirty(project) is False
        write(project / "train.py", "edited")
        git_add = ["git", "add", "train.py"]
        subprocess.run(git_add, cwd=project, check=False)
        assert dirty(project) is True
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_somebody_else_as_in_a_container(project: Path) -> None:
    committed(project)
    layout.create(project / ".rearview")
    for where, folders, files in os.walk(project):
        for name in [".", *folders, *files]:
            os.lchown(os.path.join(where, name), 12345, 12345)
    assert (take(project).git or {}).get("branch") == "main"


def test_a_moved_project_keeps_its_versions(project: Path, tmp_path: Path) -> None:
    committed(project)
    version = take(project).version
    shutil.copytree(project, tmp_path / "moved", symlinks=True)
    assert take(tmp_path / "moved").version == version
    store = layout.open_store(tmp_path / "moved" / ".rearview")
    assert read.source(store, version, "train.py") == (project / "train.py").read_bytes()
