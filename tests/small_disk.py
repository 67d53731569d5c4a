"""A disk of a few bytes at the place of a folder."""

from __future__ import annotations

import contextlib
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
