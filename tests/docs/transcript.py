"""Comparing what a command printed with what a document shows. Lenient where runs differ, strict elsewhere. Pure."""

from __future__ import annotations

import re

_DIGITS = r"[0-9a-hjkmnp-tv-z]"
_NORMAL = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(rf"\br{_DIGITS}{{6,12}}\b(?<!\brunning)(?<!\brecords)(?<!\brecorded)"), "RUN"),
    (re.compile(r"\bv[0-9a-f]{6,40}\b"), "VERSION"),
    (re.compile(r"\bp([0-9a-f]{16}|[0-9a-f]{6})\b"), "REPLAY"),
    (re.compile(r"\b[0-9a-f]{40}\b|\bxxh3-[0-9a-f]{32}\b"), "HASH"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d([.,]\d+)?)?)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\b\d{1,2}:\d\d(:\d\d(\.\d+)?)?\b"), "TIME"),
    (re.compile(r"\bjust now\b|\b\d+ ?(s|seconds?|min|minutes?|h|hours?) ago\b"), "TIME"),
    (re.compile(r"(?<![\w.])\d+(\.\d+)? ?(ns|us|µs|ms|s|sec|seconds?|min|minutes?|h|m \d+ ?s)\b"), "DURATION"),
    (re.compile(r"(?<![\w.])[\d,]+(\.\d+)? ?([kKMG]i?B|B|bytes)\b"), "SIZE"),
    (re.compile(r"[─━╌═-]{3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
)
_ANYTHING = re.compile(r"\.\.\.|…")


def normal(text: str, places: dict[str, str]) -> str:
    """Ids, times, durations, sizes and places replaced by words; columns and blank lines closed up."""
    for place, word in places.items():
        text = text.replace(place, word)
    for pattern, word in _NORMAL:
        text = pattern.sub(word, text)
    return "\n".join(line for line in (line.strip() for line in text.splitlines()) if line)


def agrees(expected: str, printed: str, places: dict[str, str] | None = None) -> bool:
    """Whether a document tells the truth about an output. `...` stands for anything, also for many lines."""
    if not expected.strip():
        return True
    parts = _ANYTHING.split(normal(expected, places or {}))
    pattern = r".*".join(r"\s*".join(re.escape(piece) for piece in re.split(r"\s+", part)) for part in parts)
    return re.fullmatch(pattern, normal(printed, places or {}), re.DOTALL) is not None
