"""Where everything in a store is, and how one is found, made and opened (`docs/formats/store.md`).

Paths inside a store are relative: a project can be moved or copied with it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from rearview.errors import Damaged, NewerFormat, NoStore, StoreError
from rearview.model import RunId
from rearview.store import atomic

FOLDER = ".rearview"
FORMAT = 1
"""The store format this rearview writes. Older ones are read as they are; newer ones are refused."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32: nothing to mistake when read aloud
_ID_LENGTH = 12


def derived_run_id(key: str) -> RunId:
    """The run id that every rank of one launch derives by itself."""
    number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
    return RunId("r" + "".join(_ALPHABET[(number >> (5 * k)) & 31] for k in range(_ID_LENGTH)))


@dataclass(frozen=True, slots=True)
class Store:
    """A `.rearview` folder."""

    root: Path

    @property
    def store_json(self) -> Path:
        return self.root / "store.json"

    @property
    def code(self) -> Path:
        """The bare git repository of source versions."""
        return self.root / "code.git"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    @property
    def segments(self) -> Path:
        """A cache: delete it and it is rebuilt."""
        return self.root / "segments"

    @property
    def probes(self) -> Path:
        """What was asked in hindsight."""
        return self.root / "probes"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def project(self) -> Path:
        return self.root.parent

    def run(self, run: RunId) -> Path:
        return self.runs / run


def find_project(start: Path, environ_dir: str | None, home: Path) -> tuple[Path, bool]:
    """The project that a folder belongs to, and whether it has a store already.

    `REARVIEW_DIR`, else upward the nearest `.rearview`, then `.git`, then `pyproject.toml`, not past home; else `start`.
    A `.git` or `pyproject.toml` in the home folder itself does not make all of home a project.
    """
    if environ_dir:
        chosen = Path(environ_dir).expanduser().absolute()
        chosen = chosen.parent if chosen.name == FOLDER else chosen
        return chosen, (chosen / FOLDER / "store.json").is_file()
    start = start.absolute()
    above = [start, *start.parents]
    if home in above:
        above = above[: above.index(home) + 1]
    for folder in above:
        if (folder / FOLDER / "store.json").is_file():
            return folder, True
    for mark in (".git", "pyproject.toml"):
        for folder in above:
            if folder != home and (folder / mark).exists():
                return folder, False
    return start, False


def fallback_root(project: Path, environ: dict[str, str] | os._Environ[str]) -> Path:
    """Where the store goes when the project folder cannot be written."""
    base = environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    digest = hashlib.blake2b(os.fsencode(project), digest_size=6).hexdigest()
    return Path(base) / "rearview" / f"{project.name or 'root'}-{digest}" / FOLDER


def create(root: Path) -> Store:
    """Make a store, or open the one that is there. Safe for any number of processes at once."""
    store = Store(root)
    if not store.store_json.is_file():
        root.mkdir(parents=True, exist_ok=True)
        store.runs.mkdir(exist_ok=True)
        atomic.publish(root / ".gitignore", b"*\n", tmp=store.tmp, replace=False)
        facts = {"format": FORMAT, "id": os.urandom(16).hex(), "made_by": "rearview"}
        atomic.publish(store.store_json, json.dumps(facts, indent=1).encode() + b"\n", tmp=store.tmp, replace=False)
    return open_store(root)


def open_store(root: Path) -> Store:
    """Open a store for reading; refuse what a later rearview wrote."""
    store = Store(root)
    try:
        facts = json.loads(store.store_json.read_bytes())
        version = facts["format"]
    except FileNotFoundError:
        raise NoStore(f"there is no store at {root}: record a run first, or set REARVIEW_DIR") from None
    except OSError as problem:
        raise StoreError(f"the store at {root} cannot be read: {problem.strerror}") from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise Damaged(f"{store.store_json} is damaged: restore it from a copy, or run `rearview check --repair`") from problem
    if not isinstance(version, int) or version > FORMAT:
        raise NewerFormat(
            f"the store at {root} has format {version}, this rearview reads up to {FORMAT}: upgrade with `pip install -U rearview-ml`"
        )
    return store


def locate(start: Path) -> Store:
    """The store that reading verbs use from a folder."""
    project, exists = find_project(start, os.environ.get("REARVIEW_DIR"), Path.home())
    if exists:
        return open_store(project / FOLDER)
    aside = fallback_root(project, os.environ)
    if (aside / "store.json").is_file():
        return open_store(aside)
    if os.environ.get("REARVIEW_DIR"):
        raise NoStore(f"there is no store in {project}, where REARVIEW_DIR points: record a run there first, or unset it")
    raise NoStore(
        f"no store in {start} or above: record a run first (`rearview run SCRIPT`), go to the project's folder, or set REARVIEW_DIR"
    )


def prepare(start: Path) -> tuple[Store, bool, bool]:
    """The store that a recording started from a script in `start` writes to: (store, is it new, is it elsewhere)."""
    project, exists = find_project(start, os.environ.get("REARVIEW_DIR"), Path.home())
    root = project / FOLDER
    if exists and os.access(root / "runs", os.W_OK):
        return open_store(root), False, False
    try:
        fresh = not (root / "store.json").is_file()
        store = create(root)
        if not os.access(store.runs, os.W_OK):
            raise PermissionError
        return store, fresh, False
    except OSError:
        aside = fallback_root(project, os.environ)
        fresh = not (aside / "store.json").is_file()
        return create(aside), fresh, True
