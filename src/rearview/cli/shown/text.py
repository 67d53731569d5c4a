"""User-made text and numbers as a person reads them in a terminal. Pure: values in, text out.

Everything that came from outside (names, values, argv, exception text) passes `escape` before it is shown: control
characters, terminal sequences and characters that reorder or hide text become visible escapes. Must not know
colours, tables or where the text goes.
"""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Callable, Iterable

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"  # needed by scripts and emoji, and they only join: they neither reorder nor hide
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls (C0, DEL, C1), formats (bidi, tags), surrogates, line separators

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
ELLIPSIS = "…"
_MANY_MARKS = 4
"""Marks that may stack on one character; more would run into the lines above and below."""


def _must_escape(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _JOINERS


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape(text: str) -> str:
    """Text that is safe on one line of a terminal.

    >>> escape("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb\\\\nc'
    """
    if text.isascii() and text.isprintable():
        return text
    shown = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        shown.append(_escaped(char) if _must_escape(char) or marks > _MANY_MARKS else char)
    return "".join(shown)


def escape_lines(text: str) -> list[str]:
    """Text of several lines, each safe; a tab becomes spaces."""
    return [escape(line.expandtabs(4)) for line in text.split("\n")]


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char in _JOINERS or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width(text: str) -> int:
    """How many columns escaped text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _take(chars: Iterable[str], columns: int) -> list[str]:
    taken: list[str] = []
    used = 0
    for char in chars:
        used += _char_width(char)
        if used > columns:
            break
        taken.append(char)
    return taken


def shorten(text: str, columns: int, keep: str = "start") -> str:
    """Escaped text cut to fit; `keep` says what stays: the `start`, the `end`, or whole `words` from the start.

    >>> shorten("a/long/path/train.py", 10, keep="end"), shorten("lr=0.01 batch=32 x=1", 18, keep="words")
    ('…/train.py', 'lr=0.01 batch=32 …')
    """
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    if keep == "end":
        return ELLIPSIS + "".join(reversed(_take(reversed(text), columns - 1)))
    start = "".join(_take(text, columns - 1))
    if keep == "words" and start.rfind(" ") > columns * 2 // 3:  # unless that would waste much of the room
        return start[: start.rindex(" ") + 1] + ELLIPSIS
    return start + ELLIPSIS


def pad(text: str, columns: int, align: str = "left") -> str:
    """Escaped text filled with spaces to a width."""
    fill = " " * max(0, columns - width(text))
    return fill + text if align == "right" else text + fill


def number(value: float, digits: int = 6) -> str:
    """A float in about six significant digits, for people; `--json` and `--csv` are exact.

    >>> number(0.123456789), number(float("-inf")), number(2.0)
    ('0.123457', '-inf', '2.0')
    """
    if not math.isfinite(value):
        return str(value)
    shown = f"{value:.{digits}g}"
    return shown if any(mark in shown for mark in ".e") else f"{shown}.0"


def integer(value: int) -> str:
    """An int, whole up to 20 digits, then by its ends and length."""
    if abs(value) < 10**20:
        return str(value)
    digits = int(abs(value).bit_length() * 0.30103) + 1
    if digits > 4000:  # Python itself refuses to print more by default
        return f"an int of about {digits} digits"
    shown = str(value)
    return f"{shown[:6]}{ELLIPSIS}{shown[-4:]} ({len(shown.lstrip('-'))} digits)"


def value(thing: object, digits: int = 6) -> str:
    """Any logged value in a few characters, escaped."""
    return escape(number(thing, digits) if isinstance(thing, float) else _value(thing, 0))


def _value(thing: object, depth: int) -> str:
    if thing is None:
        return "None" if depth else ""
    if isinstance(thing, bool):
        return str(thing)
    if isinstance(thing, int):
        return integer(thing)
    if isinstance(thing, float):
        return number(thing)
    if isinstance(thing, str):
        return repr(thing) if depth else thing
    if isinstance(thing, bytes):
        return f"{len(thing)} bytes" if len(thing) > 16 else repr(thing)
    if isinstance(thing, (list, tuple, dict)):
        return _container(thing, depth)
    if isinstance(thing, dt.datetime):
        return moment(thing) if thing.tzinfo else thing.isoformat(" ")
    if isinstance(thing, (dt.date, dt.time)):
        return thing.isoformat()
    return str(thing)


def _container(thing: list[object] | tuple[object, ...] | dict[object, object], depth: int) -> str:
    if depth > 3:
        return ELLIPSIS
    shown = 8
    if isinstance(thing, dict):
        parts = [f"{_value(key, depth + 1)}: {_value(item, depth + 1)}" for key, item in list(thing.items())[:shown]]
        left, right = "{", "}"
    else:
        parts = [_value(item, depth + 1) for item in thing[:shown]]
        left, right = ("[", "]") if isinstance(thing, list) else ("(", ",)" if len(thing) == 1 else ")")
    if len(thing) > shown:
        parts.append(f"{ELLIPSIS} {len(thing)} in all")
    return f"{left}{', '.join(parts)}{right}"


def pairs(values: dict[str, object], columns: int | None = None, each: int = 24, digits: int = 6) -> str:
    """`lr=0.01 batch=32`: names and values, escaped; with `columns`, as many whole pairs as fit."""
    texts = {name: "None" if item is None else value(item, digits) for name, item in values.items()}
    shown = " ".join(f"{escape(name)}={shorten(item, each)}" for name, item in texts.items())
    return shown if columns is None else shorten(shown, columns, keep="words")


def size(count: int) -> str:
    """Bytes for people: `512 B`, `1.2 kB`, `3.4 GB` (powers of 1000)."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(amount) < 999.5 or unit == "TB":
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number_of:,} {noun if number_of == 1 else plural or noun + 's'}"


def duration(seconds: float | None) -> str:
    """`0.42s`, `12.3s`, `4m05s`, `3h07m`, `2d04h`; empty if not known."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    if seconds < 9.995:
        return f"{seconds:.2f}s"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def local(time: dt.datetime) -> dt.datetime:
    """The same moment in the local zone."""
    return time.astimezone()


UNKNOWN = "unknown"
"""A moment that was lost with damaged bytes."""


def moment(time: dt.datetime | None) -> str:
    """A moment in full, local time: `2026-11-15 21:55:03 +0100`."""
    if time is None:
        return UNKNOWN
    return local(time).strftime("%Y-%m-%d %H:%M:%S %z")


def when(time: dt.datetime | None, now: dt.datetime) -> str:
    """A moment at a glance, local time, at most 12 columns: `21:55:03`, `Nov 15 21:55`, `2025-11-15`."""
    if time is None:
        return UNKNOWN
    time, now = local(time), local(now)
    if time.date() == now.date():
        return time.strftime("%H:%M:%S")
    # Month names are ours: strftime's depend on the locale.
    month = 3 * time.month - 3
    return f"{_MONTHS[month : month + 3]} {time.day:2d} {time:%H:%M}" if time.year == now.year else time.strftime("%Y-%m-%d")


def short_ids(ids: Iterable[str], at_least: int = 7) -> Callable[[str], str]:
    """A function that shortens ids to the shortest common length (seven or more) that keeps them apart."""
    everything = set(ids)
    longest = max(map(len, everything), default=at_least)
    length = next((n for n in range(at_least, longest) if len({one[:n] for one in everything}) == len(everything)), longest)
    return lambda one: one[:length]
