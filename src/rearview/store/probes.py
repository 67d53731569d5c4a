"""What was asked in hindsight: the statements, the source they stood in, and what is known of each version (`docs/formats/replays.md`).

One file a probe, written anew as a whole. Losing one loses no value: it makes a question that has to be asked again.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rearview.store import atomic
from rearview.store.layout import Store
from rearview.store.replays import decode, encode, moment

SCHEMA = "rearview.probe/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question, whoever asked it of whichever runs."""

    id: str
    created: str
    """UTC, ISO."""
    names: tuple[str, ...]
    statements: tuple[str, ...]
    """As they stand in the source."""
    source: str
    """The version that has them: the source as it was when they were asked."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Version -> why it cannot take them."""
    corrected: dict[str, list[Any]] = field(default_factory=dict)
    """Version -> file and line behind whose statement they stand, as somebody said."""

    @property
    def when(self) -> dt.datetime | None:
        """When it was asked first."""
        return moment(self.created)


def id_of(names: Iterable[str], statements: Iterable[str]) -> str:
    """The same for the same statements."""
    text = "\0".join([*sorted(names), "", *statements])
    return "q" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def write(store: Store, probe: Probe) -> None:
    """Remember a probe, or what is new about one."""
    facts = {"schema": SCHEMA, **asdict(probe)}
    store.probes.mkdir(exist_ok=True)
    atomic.publish(store.probes / f"{probe.id}.json", encode(facts), tmp=store.tmp)


def read(store: Store, ident: str) -> Probe | None:
    """One probe; None if there is none, or its bytes are not what was written."""
    try:
        facts = decode((store.probes / f"{ident}.json").read_bytes())
        if facts is None or facts.pop("schema") != SCHEMA:
            return None
        known = {one.name for one in fields(Probe)}
        given: dict[str, Any] = {key: value for key, value in facts.items() if key in known}
        given.update({key: tuple(given[key]) for key in ("names", "statements")})
        return Probe(**given)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def every(store: Store, damage: list[str] | None = None) -> list[Probe]:
    """All probes, oldest first; a damaged one is left out and told in `damage`."""
    found = []
    for path in sorted(store.probes.glob("q*.json")) if store.probes.is_dir() else []:
        probe = read(store, path.stem)
        if probe is not None:
            found.append(probe)
        elif damage is not None:
            damage.append(f"probes/{path.name} is damaged: ask its question again")
    return sorted(found, key=lambda one: (one.created, one.id))


def remove(store: Store, ident: str) -> None:
    """Forget a question; the values that it gave stay."""
    (store.probes / f"{ident}.json").unlink(missing_ok=True)
