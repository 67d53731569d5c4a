"""The walk without git finds what git would list as new, for any ignore file."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rearview.versions import walk
from rearview.versions.walk import Bounds
from tests.integration.versions.repositories import git, write
from tests.laws import examples

PATHS = ["a", "b.py", "ab.log", "x/a", "x/b.py", "x/y/a", "x/y/c.log", "y/x/a", "d]e", "sp ace/a", "ü/b.py", "!n", "#h", "z\\q"]
PIECES = [
    "a",
    "b",
    "*",
    "**",
    "?",
    "/",
    "x",
    "y",
    ".py",
    ".log",
    "[ab]",
    "[!a]",
    "[^b]",
    "[a-c]",
    "[",
    "]",
    "!",
    "#",
    "\\",
    " ",
    "ü",
    "[[:alpha:]]",
    "***",
]
patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([[], ["***/a"]])
@example([["x/***"], ["a"]])
@example([["*", "!x/", "!b.py"], []])
@example([["/x/**", "!/x/y/"], ["a"]])
@example([["**/a", "x/**/c.log", "d[]]e", "z\\\\q", "sp ace/"], []])
@given(st.lists(st.lists(patterns, max_size=4), min_size=2, max_size=2))
def test_as_git(project: Path, ignore_files: list[list[str]]) -> None:
    folder = Path(tempfile.mkdtemp(dir=project))
    for path in PATHS:
        write(folder / path, "1")
    write(folder / ".gitignore", "\n".join(ignore_files[0]) + "\n")
    write(folder / "x" / ".gitignore", "\n".join(ignore_files[1]) + "\n")
    walked = walk.find(os.fsencode(folder), lambda path: True, Bounds()).paths
    git(folder, "init", "-q", ".")
    listed = git(folder, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    shutil.rmtree(folder)
    assert sorted(map(os.fsdecode, walked)) == sorted(path for path in listed if path)
