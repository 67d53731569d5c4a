"""The walk without git: what it skips, and that it stops."""

from __future__ import annotations

import os
from pathlib import Path

from rearview.versions import rules, walk
from rearview.versions.walk import Bounds


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def found(folder: Path, bounds: Bounds | None = None, **options: object) -> list[str]:
    return sorted(map(os.fsdecode, walk.find(os.fsencode(folder), rules.source_like, bounds or Bounds(), **options).paths))  # type: ignore[arg-type]


def test_skips_what_is_not_the_users_own(tmp_path: Path) -> None:
    make(
        tmp_path, "a.py", "pkg/b.py", "env1/pyvenv.cfg", "env1/lib/x.py", ".git/c.py", ".rearview/d.py", "node_modules/e.js", ".cache/f.py"
    )
    make(tmp_path, "pkg/__pycache__/g.py", "lib/site-packages/h.py", "conda/conda-meta/history", "conda/x.py", "data/big.csv")
    assert found(tmp_path) == ["a.py", "pkg/b.py"]


def test_honours_ignore_files_at_every_level(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "out/b.py", "pkg/c.py", "pkg/gen.py", "pkg/keep_gen.py", "other/gen.py")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "pkg" / ".gitignore").write_text("*gen.py\n!keep_gen.py\n")
    assert [path for path in found(tmp_path) if path.endswith(".py")] == ["a.py", "other/gen.py", "pkg/c.py", "pkg/keep_gen.py"]


def test_does_not_enter_linked_folders(tmp_path: Path) -> None:
    make(tmp_path, "project/a.py", "elsewhere/b.py")
    (tmp_path / "project" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "project" / "round").symlink_to(tmp_path / "project")
    assert found(tmp_path / "project") == ["a.py"]


def test_near_files_come_first_when_a_bound_is_hit(tmp_path: Path) -> None:
    make(tmp_path, "near.py", *(f"deep/d{k}/far.py" for k in range(50)))
    result = walk.find(os.fsencode(tmp_path), rules.source_like, Bounds(entries=10))
    assert result.paths[0] == b"near.py"
    assert len(result.paths) < 51
    assert any("the search for source stopped" in note for note in result.notes)


def test_a_folder_of_very_many_files_does_not_use_up_the_bound(tmp_path: Path) -> None:
    make(tmp_path, *(f"data/{k}.json" for k in range(60)), "src/a.py")
    result = walk.find(os.fsencode(tmp_path), rules.source_like, Bounds(folder_entries=20))
    assert b"src/a.py" in result.paths
    assert len(result.paths) == 21
    assert any("first 20" in note for note in result.notes)


def test_time_bound(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b/c.py")
    result = walk.find(os.fsencode(tmp_path), rules.source_like, Bounds(listing_s=-1.0))
    assert result.paths == [b"a.py"]
    assert result.notes


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert found(tmp_path / "nothing") == []


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff\xfe.py")).write_text("x")
    assert walk.find(os.fsencode(tmp_path), rules.source_like, Bounds()).paths == [b"\xff\xfe.py"]
