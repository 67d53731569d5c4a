"""A disk of a few bytes at the place of a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A disk of that size instead of a new folder; afterwards the folder has what was on it."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield folder
    finally:
        kept = folder.with_name("kept")
        shutil.copytree(folder, kept)
        subprocess.run(["umount", str(folder)], check=True)
        shutil.copytree(kept, folder, dirs_exist_ok=True)


def fill(disk: Path) -> Path:
    """Use up every byte. Gives the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0
    return ballast
