"""What changed between two versions: files and lines, as the unified diff of the two shows them."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from rearview.model import VersionId
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import read, snapshot
from rearview.versions.changes import Changes, changes


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return layout.create(tmp_path / ".rearview")


def taken(store: Store, files: dict[str, bytes]) -> VersionId:
    for old in store.project.rglob("*.py"):
        old.unlink()
    for path, data in files.items():
        (store.project / path).parent.mkdir(parents=True, exist_ok=True)
        (store.project / path).write_bytes(data)
    return snapshot.take(
        store, store.project, script=store.project / next(iter(files)), script_source=None, extra={}, limit_bytes=1 << 20
    ).version


def marked(diff: str) -> tuple[int, int]:
    lines = [line for line in diff.splitlines() if not line.startswith(("+++ ", "--- "))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def test_files_that_came_went_moved_and_changed(store: Store) -> None:
    one = taken(store, {"train.py": b"a\nb\nc\n", "pkg/gone.py": b"x\n", "pkg/same.py": b"y\n", "name.py": b"1\n2\n"})
    two = taken(store, {"train.py": b"a\nB\nc\nd", "pkg/same.py": b"y\n", "pkg/deep/new.py": b"n\nm\n", "name.py/inner.py": b"z\n"})
    (found, back, nothing) = changes(store, [(one, two), (two, one), (one, one)])
    assert found == Changes(("name.py", "name.py/inner.py", "pkg/deep/new.py", "pkg/gone.py", "train.py"), added=5, removed=4)
    assert (back.files, back.added, back.removed) == (found.files, 4, 5)
    assert nothing == Changes()
    assert marked(read.diff(store, one, two)) == (5, 4)


def test_lines_are_counted_as_the_diff_shows_them(store: Store) -> None:
    chance = random.Random(3)
    lines = [b"line %d\n" % chance.randrange(40) for _ in range(300)]
    seen = [taken(store, {"train.py": b"".join(lines)})]
    for turn in range(6):
        for _ in range(chance.randrange(1, 30)):
            at = chance.randrange(len(lines))
            lines[at : at + chance.randrange(3)] = [b"line %d\n" % chance.randrange(60)] * chance.randrange(3)
        lines.append(b"turn %d\n" % turn)
        seen.append(taken(store, {"train.py": b"".join(lines)}))
    pairs = list(itertools.pairwise(seen))
    found = changes(store, pairs)
    assert [(one.added, one.removed) for one in found] == [marked(read.diff(store, *pair)) for pair in pairs]
    assert all(one.files == ("train.py",) for one in found)


def test_a_mode_and_bytes_that_are_no_text_have_no_lines(store: Store) -> None:
    one = taken(store, {"train.py": b"a\n", "blob.py": b"\0\1\n"})
    (store.project / "train.py").chmod(0o755)
    two = taken(store, {"train.py": b"a\n", "blob.py": b"\0\1\n"})
    assert [one.added for one in changes(store, [(one, two)])] == [0]
    (found,) = changes(store, [(one, taken(store, {"blob.py": b"\0\2\n", "train.py": b"a\n"}))])
    assert (found.files[0], found.added, found.removed) == ("blob.py", 0, 0)


@pytest.mark.damages_store
def test_a_version_that_is_damaged_is_said_and_the_others_are_compared(store: Store) -> None:
    one, two, three = (taken(store, {"train.py": b"%d\n" % k}) for k in range(3))
    (store.code / "objects" / two[1:3] / two[3:]).unlink()
    broken, whole = changes(store, [(one, two), (one, three)])
    assert two[1:] in broken.problem and not broken.files
    assert whole == Changes(("train.py",), 1, 1)
