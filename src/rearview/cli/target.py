"""The file that a command is told to write: may it be written, and how a failure names it.

An existing file is overwritten only if it is empty or of the kind that is written: a slip such as `--parquet train.py`
must not cost anybody a file. Must not know what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rearview.errors import UsageError

_BEGINNINGS = {
    ".parquet": (b"PAR1",),
    ".png": (b"\x89PNG",),
    ".svg": (b"<?xml", b"<svg", b"<!doctype svg"),
    ".html": (b"<!doctype html", b"<html"),
    ".pt": (b"PK\x03\x04",),
    ".pth": (b"PK\x03\x04",),
    ".npz": (b"PK\x03\x04",),
}
_NAMES = {
    ".parquet": "a Parquet file", ".png": "a PNG picture", ".svg": "an SVG picture", ".html": "an HTML page", ".pt": "a PyTorch file",
    ".pth": "a PyTorch file", ".npz": "a NumPy archive", ".safetensors": "a safetensors file",
}  # fmt: skip


def check(path: Path, kind: str) -> None:
    """Refuse a path that cannot be written, or holds something else; before any work is done for it."""
    if not path.parent.is_dir():
        raise UsageError(f"{path} cannot be written, there is no folder {path.parent}: make it first, or name another file")
    if not path.exists():
        return
    if not path.is_file():
        raise UsageError(f"{path} is no ordinary file: name another file")
    with path.open("rb") as file:
        begins = file.read(64)
    if begins and not _is_of(kind, begins):
        raise UsageError(f"{path} is there and is not {_NAMES[kind]}, so it is not overwritten: name another file, or remove it first")


def _is_of(kind: str, begins: bytes) -> bool:
    if kind == ".safetensors":
        return begins[8:9] == b"{"  # behind the length of its header
    return begins.lstrip().lower().startswith(tuple(mark.lower() for mark in _BEGINNINGS[kind]))


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Writing inside: a failure names the file asked for, not one that stood in for it."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None:
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
