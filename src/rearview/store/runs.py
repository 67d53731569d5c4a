"""The runs of a store as they lie on disk: `run.json`, written once, and the journals beside it."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

from rearview.errors import Damaged
from rearview.model import RunId
from rearview.store import atomic
from rearview.store.layout import Store

RUN_SCHEMA = "rearview.run/1"
_CHECKSUM = "checksum"
_HEX = re.compile(r"[0-9a-f]{8}")


def write_run(store: Store, run: RunId, facts: dict[str, Any]) -> bool:
    """Write `run.json` once. False if another rank of the launch was first."""
    known = json.loads(_text({"schema": RUN_SCHEMA, "run": run, **facts}))  # as a reader will see it: keys are text
    data = _text({**known, _CHECKSUM: _checksum(known)}).encode()
    return atomic.publish(store.run(run) / "run.json", data + b"\n", tmp=store.tmp, replace=False)


def read_run(store: Store, run: RunId) -> dict[str, Any]:
    """The facts of `run.json`, verified. One without a checksum, as the first stores have it, is taken as it is."""
    path = store.run(run) / "run.json"
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise Damaged(f"{path} is damaged: restore it from a copy; its journals are still readable") from problem
    if not isinstance(facts, dict) or facts.get("run") != run:
        raise Damaged(f"{path} is damaged: it does not describe run {run}")
    last = next(reversed(facts))
    if last != _CHECKSUM and not _HEX.fullmatch(str(facts[last])):  # a checksum under another word: flipped bytes in the word
        return facts
    if facts.pop(last) != _checksum(facts) or last != _CHECKSUM:
        raise Damaged(f"{path} is damaged: its checksum does not fit; restore it from a copy, its journals are still readable")
    return facts


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=1)


def _checksum(facts: dict[str, Any]) -> str:
    """CRC-32 of the facts as they are written without it, eight hexadecimal digits."""
    return f"{zlib.crc32(_text(facts).encode()):08x}"


def list_runs(store: Store) -> list[RunId]:
    """Every run that has begun, in no particular order. A folder without `run.json` has not."""
    try:
        entries = list(os.scandir(store.runs))
    except FileNotFoundError:
        return []
    return [RunId(e.name) for e in entries if e.name.startswith("r") and os.path.exists(os.path.join(e.path, "run.json"))]


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder, for people."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else size_of(Path(entry.path))
        except FileNotFoundError:
            continue  # removed while we looked
    return total
