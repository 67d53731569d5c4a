"""The store's own bare repository `code.git`: objects written and read as files, without git.

Knows where loose objects and refs lie. Must not know the user's repository or which files are source. Objects come
first, the ref last: a version that has a ref is whole. Files appear through `store.atomic`; nothing is synced here,
because this runs on the training thread: what was written is in `written`, for the caller to sync in the background.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from types import TracebackType

from rearview.errors import Damaged
from rearview.store import atomic
from rearview.store.layout import Store
from rearview.versions import git, objects

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n[gc]\n\tauto = 0\n\tpruneExpire = never\n"
"""Objects of a snapshot that is just being taken have no ref yet: `git gc` must not prune them."""

_ATTRIBUTES = b"* -text -filter -ident -working-tree-encoding -export-subst -export-ignore\n"
"""Whoever checks a version out with git gets its bytes as they ran, whatever its own .gitattributes says."""

_LARGEST_OBJECT_BYTES = 1 << 30


class Repository:
    """The repository of one store. A context manager: reading may have started git."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.path = store.code
        self.written: list[Path] = []
        """Files that this object created."""
        self._reader: git.ObjectReader | None = None
        self._objects = os.path.join(self.path, "objects")

    def prepare(self) -> None:
        """Make the repository if there is none. HEAD comes last: with it, git takes the folder for a repository."""
        if (self.path / "HEAD").is_file():
            return
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "refs/versions"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        self._publish(self.path / "config", _CONFIG)
        self._publish(self.path / "info" / "attributes", _ATTRIBUTES)
        self._publish(self.path / "HEAD", b"ref: refs/heads/main\n")

    def _publish(self, path: Path, data: bytes, *, replace: bool = False) -> None:
        if atomic.publish(path, data, tmp=self.store.tmp, durable=False, replace=replace):
            self.written.append(path)

    def put(self, kind: str, data: bytes) -> str:
        """Keep an object and return its id. One that is there stays as it is."""
        id_ = objects.object_id(kind, data)
        path = os.path.join(self._objects, id_[:2], id_[2:])
        try:
            present = os.stat(path).st_size > 0
            torn = not present  # after a power loss a file can be there without its bytes
        except FileNotFoundError:
            present = torn = False
        if not present:
            packed = zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), 1)
            self._publish(Path(path), packed, replace=torn)
        return id_

    def anchor(self, commit: str, kind: str = "versions") -> None:
        """Keep a commit reachable, so that `git gc` in here loses nothing. Only those of kind "versions" are listed as versions."""
        path = self.path / "refs" / kind / commit
        if not os.path.exists(path):
            self._publish(path, commit.encode() + b"\n")
        elif not os.path.getsize(path):
            self._publish(path, commit.encode() + b"\n", replace=True)

    def get(self, id_: str, kind: str) -> bytes:
        """The bytes of an object, verified."""
        if not objects.is_id(id_):
            raise Damaged(f"{id_!r} is not the name of an object in {self.path}")
        found = self._loose(id_) or self._packed(id_)
        if found is None:
            raise Damaged(f"object {id_} is missing in {self.path}: restore it from a copy of the store")
        if found[0] != kind or objects.object_id(kind, found[1]) != id_:
            raise self._damaged(id_)
        return found[1]

    def _damaged(self, id_: str) -> Damaged:
        return Damaged(f"object {id_} in {self.path} is damaged: restore objects/{id_[:2]}/{id_[2:]} from a copy of the store")

    def _loose(self, id_: str) -> tuple[str, bytes] | None:
        try:
            packed = Path(self._objects, id_[:2], id_[2:]).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            reader = zlib.decompressobj()
            header, _, data = reader.decompress(packed, _LARGEST_OBJECT_BYTES).partition(b"\0")
            kind, size = header.split(b" ")
            if not reader.eof or int(size) != len(data):
                raise self._damaged(id_)
            return kind.decode("ascii"), data
        except (zlib.error, ValueError) as problem:
            raise self._damaged(id_) from problem

    def _packed(self, id_: str) -> tuple[str, bytes] | None:
        """Somebody ran `git gc` here: only git reads packs."""
        if not any((self.path / "objects" / "pack").glob("*.pack")):
            return None
        if self._reader is None:
            self._reader = git.ObjectReader(self.path)
        return self._reader.read(id_)

    def versions(self) -> set[str]:
        """The commits that have a ref."""
        found: set[str] = set()
        try:
            found.update(name for name in os.listdir(self.path / "refs" / "versions") if objects.is_id(name))
        except FileNotFoundError:
            pass  # no snapshot yet, or all refs are packed
        try:
            lines = (self.path / "packed-refs").read_text("ascii", "replace").splitlines()
        except FileNotFoundError:
            return found
        refs = (line.split(" ", 1) for line in lines if " refs/versions/" in line)
        return found | {commit for commit, _ in refs if objects.is_id(commit)}

    def entries(self, commit: str) -> dict[bytes, objects.Entry]:
        """Every file of a commit."""
        found: dict[bytes, objects.Entry] = {}
        try:
            pending = [(b"", objects.parse_commit(self.get(commit, "commit")))]
            while pending:
                folder, tree = pending.pop()
                for name, mode, id_ in objects.parse_tree(self.get(tree, "tree")):
                    if mode == objects.FOLDER:
                        pending.append((folder + name + b"/", id_))
                    elif mode in (objects.FILE, objects.EXECUTABLE, objects.LINK):
                        found[folder + name] = objects.Entry(mode, id_)
                    else:
                        raise ValueError(f"mode {mode:o}")
        except ValueError as problem:
            raise Damaged(f"version v{commit} in {self.path} is not as it was written ({problem}): restore it from a copy") from problem
        return dict(sorted(found.items()))

    def close(self) -> None:
        """End git, if reading started it."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
