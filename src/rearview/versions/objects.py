"""The three kinds of git object as bytes: blob, tree, commit. Pure: values in, values out.

Knows git's encodings. Must not know files, the store or the user's repository. The commit of a tree is always the same
bytes (fixed author, fixed date, no parent), so one source state has one id, whoever takes it and however often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
FOLDER = 0o40000

_AUTHOR = b"rearview <rearview@localhost> 0 +0000"
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Code points that HFS+ drops from names: git refuses `.g\u200cit` as it refuses `.git`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a version."""

    mode: int
    """FILE, EXECUTABLE or LINK."""
    id: str
    """The blob's id, 40 hex digits."""


def object_id(kind: str, data: bytes, algorithm: str = "sha1") -> str:
    """The id git gives to bytes of a kind."""
    digest = hashlib.new(algorithm, b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def safe_path(path: bytes) -> bool:
    """Whether git accepts a path inside a tree: relative, without `..`, without anything that may mean `.git`."""
    return b"\0" not in path and all(_safe_name(name) for name in path.split(b"/"))


def _safe_name(name: bytes) -> bool:
    if name in (b"", b".", b".."):
        return False
    if b"g" not in name and b"G" not in name:
        return True
    for part in name.decode("utf-8", "replace").translate(_HFS_IGNORED).casefold().split("\\"):
        if part.split(":")[0].rstrip(" .") in (".git", "git~1", ".gitmodules", "gitmod~1"):
            return False  # `.gitmodules` means nothing here: a version has files, no submodules
    return True


def tree_data(entries: Iterable[tuple[bytes, int, str]]) -> bytes:
    """The bytes of a tree. Git sorts a folder as if its name ended with a slash."""
    ordered = sorted(entries, key=lambda entry: entry[0] + b"/" if entry[1] == FOLDER else entry[0])
    return b"".join(b"%o %s\0%s" % (mode, name, bytes.fromhex(id_)) for name, mode, id_ in ordered)


def parse_tree(data: bytes) -> list[tuple[bytes, int, str]]:
    """The (name, mode, id) of a tree. ValueError if these are not the bytes of one."""
    entries = []
    names: set[bytes] = set()
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        id_ = data[end + 1 : end + 21]
        name = data[space + 1 : end]
        if len(id_) != 20 or b"/" in name or not _safe_name(name) or name in names:
            raise ValueError(f"not an entry of a tree: {name!r}")
        names.add(name)
        entries.append((name, int(data[at:space], 8), id_.hex()))
        at = end + 21
    return entries


def commit_data(tree: str) -> bytes:
    """The bytes of the one commit that a tree has."""
    return b"tree %s\nauthor %s\ncommitter %s\n\nsource as it ran\n" % (tree.encode(), _AUTHOR, _AUTHOR)


def parse_commit(data: bytes) -> str:
    """The tree of a commit. ValueError if these are not the bytes of one."""
    first = data.split(b"\n", 1)[0]
    tree = first.removeprefix(b"tree ").decode("ascii", "replace")
    if not first.startswith(b"tree ") or not is_id(tree):
        raise ValueError("a commit without a tree")
    return tree


def is_id(text: str) -> bool:
    """Whether this is the name of an object: a name read from anywhere is data until it passed here."""
    return len(text) == 40 and not set(text) - set("0123456789abcdef")


def fold(files: Mapping[bytes, Entry], keep: Callable[[str, bytes], str]) -> str:
    """Give every folder's tree to `keep`, the deepest first, and return the id of the root's.

    No path may be another one's folder; the caller sees to that.
    """
    folders: dict[bytes, list[tuple[bytes, int, str]]] = {b"": []}
    for path, entry in files.items():
        folder, _, name = path.rpartition(b"/")
        folders.setdefault(folder, []).append((name, entry.mode, entry.id))
        while folder:
            folder = folder.rpartition(b"/")[0]
            folders.setdefault(folder, [])
    for folder in sorted(folders, key=lambda name: name.count(b"/"), reverse=True):
        if folder:
            above, _, name = folder.rpartition(b"/")
            folders[above].append((name, FOLDER, keep("tree", tree_data(folders[folder]))))
    return keep("tree", tree_data(folders[b""]))
