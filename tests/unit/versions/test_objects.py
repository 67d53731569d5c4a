"""Git's encodings: ids that git is known to give, and what must be refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rearview.versions import objects
from rearview.versions.objects import EXECUTABLE, FILE, FOLDER, Entry

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the same in every git repository
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def folded(files: dict[bytes, Entry]) -> tuple[str, dict[str, bytes]]:
    kept: dict[str, bytes] = {}

    def keep(kind: str, data: bytes) -> str:
        id_ = objects.object_id(kind, data)
        kept[id_] = data
        return id_

    return objects.fold(files, keep), kept


def test_known_ids() -> None:
    assert objects.object_id("blob", b"") == EMPTY_BLOB
    assert folded({})[0] == EMPTY_TREE


def test_a_folder_sorts_as_if_its_name_ended_with_a_slash() -> None:
    data = objects.tree_data([(b"a", FOLDER, EMPTY_TREE), (b"a.py", FILE, EMPTY_BLOB), (b"a0", FILE, EMPTY_BLOB)])
    assert [name for name, _, _ in objects.parse_tree(data)] == [b"a.py", b"a", b"a0"]


names = st.binary(min_size=1, max_size=8).filter(lambda name: b"/" not in name and objects.safe_path(name))


@given(st.dictionaries(names, st.sampled_from([FILE, EXECUTABLE, FOLDER])))
def test_a_tree_reads_back(entries: dict[bytes, int]) -> None:
    rows = [(name, mode, EMPTY_BLOB) for name, mode in entries.items()]
    assert sorted(objects.parse_tree(objects.tree_data(rows))) == sorted(rows)


def test_every_folder_gets_a_tree() -> None:
    root, kept = folded({b"a/b/c.py": Entry(FILE, EMPTY_BLOB), b"a/d.py": Entry(EXECUTABLE, EMPTY_BLOB)})
    assert len(kept) == 3
    ((name, mode, below),) = objects.parse_tree(kept[root])
    assert (name, mode) == (b"a", FOLDER)
    assert [(name, mode) for name, mode, _ in objects.parse_tree(kept[below])] == [(b"b", FOLDER), (b"d.py", EXECUTABLE)]


@pytest.mark.parametrize(
    "path",
    [b"", b"/a", b"a/", b"a//b", b"../a", b"a/../b", b"./a", b".git/config", b"a/.GIT/x", b"git~1", b".git . ", b".git::$DATA", b"a\0b"]
    + [".g\u200cit/config".encode(), b"x\\.git", b".gitmodules"],
)
def test_paths_that_git_refuses(path: bytes) -> None:
    assert not objects.safe_path(path)


@pytest.mark.parametrize("path", [b"a.py", b".github/x.yml", b".gitignore", b"a b/\xff.py", "übung/größe.py".encode(), b"git.py", b"..a"])
def test_paths_that_git_accepts(path: bytes) -> None:
    assert objects.safe_path(path)


def test_a_tree_that_leads_out_is_no_tree() -> None:
    for name in (b"..", b"a/b", b".git", b""):
        with pytest.raises(ValueError):
            objects.parse_tree(b"100644 %s\0%s" % (name, bytes(20)))
    twice = b"100644 a\0" + bytes(20) + b"40000 a\0" + bytes(20)
    with pytest.raises(ValueError):
        objects.parse_tree(twice)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_tree_or_refused(data: bytes) -> None:
    try:
        entries = objects.parse_tree(data)
    except ValueError:
        return
    assert all(objects.safe_path(name) for name, _, _ in entries)


def test_a_commit_depends_on_its_tree_alone() -> None:
    assert objects.commit_data(EMPTY_TREE) == objects.commit_data(EMPTY_TREE)
    assert objects.parse_commit(objects.commit_data(EMPTY_TREE)) == EMPTY_TREE
    with pytest.raises(ValueError):
        objects.parse_commit(b"tree ../../etc\n")
