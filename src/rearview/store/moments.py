"""Dates and times as text, and back: exactly, or not at all.

Knows how Python writes and reads ISO dates, and what a time zone needs to come back. A zone of the time zone database
keeps its name; any other keeps its offset. Knows nothing of tags and bytes.
"""

from __future__ import annotations

import datetime as dt
import re

_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,3}", re.ASCII)


def plain(value: dt.date | dt.time | dt.timedelta) -> dt.date | dt.time | dt.timedelta:
    """The same date as the standard type: subclasses print, compare and count in their own ways."""
    if type(value) in (dt.date, dt.datetime, dt.time, dt.timedelta):
        return value
    if isinstance(value, dt.timedelta):
        return dt.timedelta(value.days, value.seconds, value.microseconds)
    if isinstance(value, dt.datetime):
        clock = (value.hour, value.minute, value.second, value.microsecond)
        return dt.datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)
    if isinstance(value, dt.time):
        return dt.time(value.hour, value.minute, value.second, value.microsecond, tzinfo=value.tzinfo, fold=value.fold)
    return dt.date(value.year, value.month, value.day)


def zone_key(value: dt.date | dt.time) -> str:
    """The name of a time zone that can be found again by its name, else nothing: the offset is in the text."""
    import zoneinfo

    zone = getattr(value, "tzinfo", None)
    key = zone.key if isinstance(zone, zoneinfo.ZoneInfo) else None
    return key if isinstance(key, str) and find_zone(key) is not None else ""


def find_zone(key: str) -> dt.tzinfo | None:
    """The zone of a name, if this machine knows it. Only plain names are looked up: a name may come from a file."""
    import zoneinfo

    if not _ZONE.fullmatch(key):
        return None
    try:
        return zoneinfo.ZoneInfo(key)
    except (LookupError, ValueError, OSError, ImportError):
        return None


def comes_back(value: dt.datetime | dt.time, written: str, zone: str) -> bool:
    """Whether text and zone give the same time again: not every offset that Python writes is one it reads."""
    try:
        back = read(written, zone, value.fold, is_datetime=isinstance(value, dt.datetime))
    except (ValueError, TypeError):
        return False
    same_zone = (back.tzinfo is None) == (value.tzinfo is None)
    same_clock = back.replace(tzinfo=None) == value.replace(tzinfo=None)
    return same_zone and same_clock and back.utcoffset() == value.utcoffset() and back.fold == value.fold


def read(written: str, zone: str, fold: int, *, is_datetime: bool) -> dt.datetime | dt.time:
    """The time of a text; `ValueError` if it is not one."""
    kind: type[dt.datetime] | type[dt.time] = dt.datetime if is_datetime else dt.time
    value = kind.fromisoformat(written).replace(fold=fold)
    if value.isoformat() != written:
        raise ValueError("a date in another form")
    if not zone:
        return value
    found = find_zone(zone)
    offset = value.utcoffset()
    if found is not None:
        named = value.replace(tzinfo=found)
        if named.utcoffset() == offset:
            return named
    if offset is None:
        raise ValueError(f"time zone {zone!r} is not known on this machine (`pip install tzdata`)")
    # Another machine may not know the zone, or know other rules for it: the instant stays, the name is all that is left.
    return value.replace(tzinfo=dt.timezone(offset, zone))
