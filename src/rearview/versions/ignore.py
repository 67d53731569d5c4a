"""Ignore patterns with git's meaning, for folders that are in no repository and for the include and exclude settings.

Pure: knows the pattern language, not the disk. Works on bytes as git does, so any file name will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CLASSES = {
    b"alpha": b"A-Za-z",
    b"digit": b"0-9",
    b"alnum": b"A-Za-z0-9",
    b"upper": b"A-Z",
    b"lower": b"a-z",
    b"xdigit": b"0-9A-Fa-f",
    b"space": rb"\s",
    b"blank": rb"\x20\t",
    b"punct": rb"!-/:-@\[-`{-~",
    b"cntrl": rb"\x00-\x1f\x7f",
}


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[bytes]
    folders_only: bool
    takes_back: bool
    """It began with `!`."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """The lines of one ignore file; the last one that matches decides."""

    patterns: tuple[_Pattern, ...]

    @classmethod
    def parse(cls, lines: Iterable[bytes]) -> Patterns:
        """Read patterns; a malformed one matches nothing, as in git."""
        found = [_parse(line) for line in lines]
        return cls(tuple(pattern for pattern in found if pattern is not None))

    def match(self, path: bytes, *, is_folder: bool) -> bool | None:
        """True: ignored; False: taken back; None: not mentioned. `path` is relative to the folder of the patterns."""
        for pattern in reversed(self.patterns):
            if (is_folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return not pattern.takes_back
        return None

    def covers(self, path: bytes) -> bool:
        """Whether a file, or a folder above it, is matched."""
        at = path.find(b"/")
        while at >= 0:
            if self.match(path[:at], is_folder=True):
                return True
            at = path.find(b"/", at + 1)
        return bool(self.match(path, is_folder=False))


def literal_folder(pattern: bytes) -> bytes:
    """The folder below which everything that a pattern can match lies; empty if it may be anywhere."""
    body = pattern.removeprefix(b"!").rstrip(b"/")
    if b"/" not in body:
        return b""
    plain = []
    for name in body.lstrip(b"/").split(b"/")[:-1]:
        if re.search(rb"[*?\[\\]", name):
            break
        plain.append(name)
    return b"/".join(plain)


def _parse(line: bytes) -> _Pattern | None:
    line = line.rstrip(b"\r\n")
    while line.endswith(b" ") and not line.endswith(b"\\ "):
        line = line[:-1]
    if not line or line.startswith(b"#"):
        return None
    takes_back = line.startswith(b"!")
    line = line.removeprefix(b"!")
    folders_only = line.endswith(b"/")
    line = line[:-1] if folders_only else line
    anchored = b"/" in line
    line = line.removeprefix(b"/")
    if not line:
        return None
    text = _translate(line)
    if text is None:
        return None
    try:
        regex = re.compile(text if anchored else rb"(?:.*/)?" + text, re.DOTALL)
    except re.error:
        return None  # e.g. a range in the wrong order
    return _Pattern(regex, folders_only, takes_back)


def _translate(glob: bytes) -> bytes | None:
    """A regular expression for a glob; None if the glob can match nothing."""
    out = []
    at = 0
    while at < len(glob):
        if stars := re.compile(rb"\*+").match(glob, at):
            out.append(_stars(glob, stars.start(), stars.end()))
            at = stars.end()
            if out[-1] == rb"(?:.*/)?":
                at += 1  # `**/` took its slash
            continue
        char = glob[at : at + 1]
        at += 1
        if char == b"?":
            out.append(rb"[^/]")
        elif char == b"[":
            found = _character_class(glob, at)
            if found is None:
                return None
            text, at = found
            out.append(text)
        elif char == b"\\":
            if at >= len(glob):
                return None
            out.append(re.escape(glob[at : at + 1]))
            at += 1
        else:
            out.append(re.escape(char))
    return b"".join(out)


def _stars(glob: bytes, start: int, end: int) -> bytes:
    """`*` stays within a name; two and more as a whole name cross folders."""
    opens = start == 0 or glob[start - 1 : start] == b"/"
    if end - start >= 2 and opens:
        if end == len(glob):
            return rb".+" if start else rb".*"
        if glob[end : end + 1] == b"/":
            return rb"(?:.*/)?"
    return rb"[^/]*"


def _character_class(glob: bytes, at: int) -> tuple[bytes, int] | None:
    """The class that begins behind a `[`, and where it ends; None if it does not end."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    start = at
    out = []
    while at < len(glob) and (glob[at : at + 1] != b"]" or at == start):
        named = re.compile(rb"\[:([a-z]+):\]").match(glob, at)
        if named:
            if named[1] not in _CLASSES:
                return None
            out.append(_CLASSES[named[1]])
            at = named.end()
            continue
        char = glob[at : at + 1]
        if char == b"\\":
            at += 1
            char = glob[at : at + 1]
            if not char:
                return None
            out.append(re.escape(char))
        elif char == b"-" and at > start and glob[at + 1 : at + 2] not in (b"]", b""):
            out.append(b"-")
        else:
            out.append(re.escape(char))
        at += 1
    if at >= len(glob):
        return None
    # A class never matches the slash between names, not even a negated one.
    return b"(?!/)[" + (b"^" if negated else b"") + b"".join(out) + b"]", at + 1
