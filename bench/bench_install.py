"""How large the core install is: the files of rearview and of everything its core needs, as installed here."""

from __future__ import annotations

import re
from importlib import metadata

from bench import harness


def needed(name: str, seen: set[str]) -> set[str]:
    """A distribution and, recursively, what it needs without any extra."""
    if name in seen:
        return seen
    seen.add(name)
    for line in metadata.requires(name) or ():
        requirement, _, marker = line.partition(";")
        word = re.match(r"[A-Za-z0-9._-]+", requirement)
        if word is not None and "extra" not in marker:
            try:
                metadata.distribution(word.group())
            except metadata.PackageNotFoundError:
                continue  # for another platform or Python
            needed(word.group().lower(), seen)
    return seen


def size_mb(name: str) -> float:
    """The bytes of a distribution's files, compiled ones left out."""
    files = metadata.files(name) or ()
    return sum(path.stat().st_size for file in files if (path := file.locate()).is_file() and path.suffix != ".pyc") / 1e6  # type: ignore[union-attr]


if __name__ == "__main__":
    sizes = {name: size_mb(name) for name in sorted(needed("rearview-ml", set()))}
    harness.report(
        "install",
        {"core_mb": harness.rounded(sum(sizes.values())), "parts_mb": {name: harness.rounded(size) for name, size in sizes.items()}},
        limits={"core_mb": 100},
    )
