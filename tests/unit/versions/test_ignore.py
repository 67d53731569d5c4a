"""Ignore patterns: the forms people use. `tests/integration/versions/test_ignore_as_git.py` holds them against git."""

from __future__ import annotations

import pytest

from rearview.versions.ignore import Patterns, literal_folder


def ignored(lines: str, path: str, *, is_folder: bool = False) -> bool | None:
    return Patterns.parse(lines.encode().split(b"\n")).match(path.encode(), is_folder=is_folder)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.log", "a/b.log", True),
        ("*.log", "b.logs", None),
        ("/top.py", "top.py", True),
        ("/top.py", "a/top.py", None),
        ("a/b.py", "a/b.py", True),
        ("a/b.py", "x/a/b.py", None),
        ("**/b.py", "x/a/b.py", True),
        ("**/b.py", "b.py", True),
        ("a/**", "a/x/y", True),
        ("a/**", "a", None),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a*c", "abc", True),
        ("x/a*c", "x/ab/c", None),
        ("a?c", "abc", True),
        ("[ab].py", "a.py", True),
        ("[!ab].py", "a.py", None),
        ("[a-c].py", "b.py", True),
        ("[", "[", None),
        ("# note", "# note", None),
        (r"\# note", "# note", True),
        (r"\!x", "!x", True),
        ("x   ", "x", True),
        ("x\\ ", "x ", True),
        ("", "x", None),
        ("/", "x", None),
        ("*.py\n!keep.py", "keep.py", False),
        ("!keep.py\n*.py", "keep.py", True),
    ],
)
def test_forms(pattern: str, path: str, expected: bool | None) -> None:
    assert ignored(pattern, path) is expected


def test_a_slash_at_the_end_means_folders() -> None:
    assert ignored("build/", "build", is_folder=True) is True
    assert ignored("build/", "build") is None


def test_what_is_below_a_covered_folder_is_covered() -> None:
    patterns = Patterns.parse([b"third_party/", b"*.ipynb"])
    assert patterns.covers(b"third_party/a/b.py")
    assert patterns.covers(b"x/third_party/b.py")
    assert patterns.covers(b"a.ipynb")
    assert not patterns.covers(b"third_party.py")


@pytest.mark.parametrize(
    ("pattern", "folder"), [("a/b/*.csv", "a/b"), ("*.csv", ""), ("/x.csv", ""), ("a/*/b/c", "a"), ("a/b/", "a"), ("a/**", "a")]
)
def test_where_a_pattern_can_match(pattern: str, folder: str) -> None:
    assert literal_folder(pattern.encode()) == folder.encode()
