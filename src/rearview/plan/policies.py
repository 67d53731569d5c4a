"""Retention policies as people write them: `everything`, `peak-and-end`, `every:5`, `newest:3`, `budget:10GB`, with commas between.

Knows the words and what they ask for, not the checkpoints. What a policy keeps is decided in `retention`. No files.

Several terms keep what any of them keeps; a budget keeps nothing by itself, it is a limit on what the others keep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rearview.errors import ConfigError

KNOWN = "everything, peak-and-end, every:N, newest:K, budget:SIZE"
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*(?:([kmgtp]?)(i?)b?)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@dataclass(frozen=True, slots=True)
class Peak:
    """Which checkpoint is the best: by the last value of a metric that was logged up to it."""

    best: str
    """`max` or `min`."""
    metric: str

    def __str__(self) -> str:
        return f"{self.best}:{self.metric}"


@dataclass(frozen=True, slots=True)
class Policy:
    """What to keep. With no term at all, everything."""

    everything: bool = False
    peak: Peak | None = None
    """Set: the best by it and the last are kept."""
    every: int = 0
    """Every n-th decision of a process, counted from its first; 0: not asked for."""
    newest: int = 0
    budget_bytes: int = 0
    """A limit for the store, 0: none."""

    @property
    def keeps_all(self) -> bool:
        """Whether nothing but a budget takes a checkpoint away."""
        return self.everything or not (self.peak or self.every or self.newest)

    @property
    def keepers(self) -> list[str]:
        """The terms that keep something."""
        terms = ["everything"] if self.keeps_all else []
        terms += [f"peak-and-end:{self.peak}"] if self.peak else []
        terms += [f"every:{self.every}"] if self.every else []
        return terms + ([f"newest:{self.newest}"] if self.newest else [])

    def __str__(self) -> str:
        return ", ".join(self.keepers + ([f"budget:{_size(self.budget_bytes)}"] if self.budget_bytes else []))


def parse(keep: str, peak: str = "", *, for_run: bool = False) -> Policy:
    """The policy of a text, with the setting `peak` beside it.

    >>> parse("peak-and-end, newest:3", peak="max:acc").newest
    3
    >>> str(parse("every:5, budget:10GB"))
    'every:5, budget:10GB'
    """
    found: dict[str, object] = {}
    for term in (piece.strip() for piece in keep.split(",")):
        word, _, rest = term.partition(":")
        word, rest = word.strip().lower().replace("_", "-"), rest.strip()
        if not term:
            continue
        if word == "everything" and not rest:
            found["everything"] = True
        elif word == "peak-and-end":
            found["peak"] = parse_peak(rest or peak, keep)
        elif word in ("every", "newest"):
            found[word] = _count(word, rest, keep)
        elif word == "budget":
            found["budget_bytes"] = parse_size(rest)
        else:
            raise ConfigError(f"{term!r} in keep={keep!r} is no retention policy: known are {KNOWN}")
    if for_run and "budget_bytes" in found:
        raise ConfigError(f"keep={keep!r}: a budget is for the whole store, not for one run; set `keep` in [tool.rearview]")
    return Policy(**found)  # type: ignore[arg-type]


def parse_peak(text: str, keep: str = "peak-and-end") -> Peak:
    """`max:acc` or `min:loss`."""
    best, colon, metric = text.partition(":")
    if not text.strip():
        raise ConfigError(f'keep={keep!r} needs to know what is best: set peak="max:acc" or "min:loss", or write peak-and-end:max:acc')
    if best.strip().lower() not in ("max", "min") or not colon or not metric.strip():
        raise ConfigError(f"peak is {text!r}, expected max:NAME or min:NAME, with the name of something that was logged")
    return Peak(best.strip().lower(), metric.strip())


def parse_size(text: str) -> int:
    """Bytes: `10GB`, `500 MB`, `1.5TB`, `4GiB`, `1000000`.

    >>> parse_size("1.5kB"), parse_size("2GiB")
    (1500, 2147483648)
    """
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * (1024 if found[3] else 1000) ** _POWERS[(found[2] or "").lower()]) if found else 0
    if size <= 0:
        raise ConfigError(f"{text!r} is no number of bytes above 0: write 10GB, 500MB or 4GiB")
    return size


def _size(size_bytes: int) -> str:
    """Bytes as people would write them, exactly."""
    for unit, power in (("TB", 4), ("GB", 3), ("MB", 2), ("kB", 1)):
        if size_bytes % 1000**power == 0:
            return f"{size_bytes // 1000**power}{unit}"
    return str(size_bytes)


def _count(word: str, text: str, keep: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise ConfigError(f"{word}:{text} in keep={keep!r} needs a whole number above 0, as in {word}:3")
    return int(text)
