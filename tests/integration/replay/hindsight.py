"""Record, add the statement, replay, compare with a run that had it from the start: one helper for all tests of replay.

A program is text in which the statements of hindsight end with `#?`: the recorded program does not have those lines.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rearview.catalog.catalog import Catalog
from rearview.replay import asking
from rearview.replay.question.query import Ask
from rearview.replay.running import pool
from rearview.store import layout
from tests.conftest import environment, plain, warm
from tests.forked import ADDRESS, Forking, Nursery, takes
from tests.integration.record.reading import read_all

MARK = "#?"
PLAIN = (type(None), bool, int, float, str)

Rows = dict[tuple[Any, ...], list[Any]]
"""(process, path as people see it, name, ordinal) -> values: two iterations may be called alike."""


def recorded_text(text: str) -> str:
    """The program as it was before anybody asked."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(MARK))


@dataclass
class Story:
    """One program in a project of its own, and the same program with all statements in another."""

    folder: Path
    files: Mapping[str, str]
    """Path -> text, with marks."""
    script: str = "train.py"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = True
    nursery: Nursery | None = field(default_factory=plain)
    """Forks the program, and the workers of commands; None starts them."""

    def __post_init__(self) -> None:
        for name, text in (("then", False), ("truth", True)):
            self.write(self.folder / name, probed=text)

    @property
    def project(self) -> Path:
        """Where it was recorded."""
        return self.folder / "then"

    def write(self, project: Path, *, probed: bool) -> None:
        """Write the program, with or without the statements."""
        for path, text in self.files.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text if probed else recorded_text(text), encoding="utf-8")

    def record(self, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it as it was."""
        return self._script(self.project, check=check)

    def truth(self, *names: str) -> Rows:
        """What the statements would have logged."""
        truth = self.folder / "truth"
        if self.fresh:
            self._script(truth, check=True)
            self.fresh = False
        records = [record for run in read_all(truth) for record in run.records if record.name in names]
        if not all(isinstance(record.value, PLAIN) for record in records):
            return self.rows(truth, *names)  # what is shown of them is told by the table alone
        rows: Rows = {}
        for record in records:
            rows.setdefault((record.process, record.words, record.name, record.ordinal), []).append(_told(record.value))
        return {key: sorted(values, key=repr) for key, values in rows.items()}

    def ask(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Add the statements, and replay."""
        self.write(self.project, probed=True)
        done = self.cli("replay", *words, "--yes", check=False)
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def fill(self, *names: str, **options: Any) -> None:
        """The same without the command: quicker."""
        self.write(self.project, probed=True)
        with contextlib.chdir(self.project), self.forking():
            asking.replay(*names, store=layout.open_store(self.project / ".rearview"), **options)

    def climb(self, name: str) -> None:
        """Replay, and agree to every rung."""
        self.write(self.project, probed=True)
        with contextlib.chdir(self.project), Catalog(layout.open_store(self.project / ".rearview"), timeout_s=60) as catalog:
            [prepared] = asking.look(catalog, Ask(names=(name,))).to_run
        with self.forking():
            answer = asking.climb(prepared, lambda *_: True)
        assert answer.judgement.verdict == "identical" and not answer.failed

    def rows(self, project: Path, *names: str) -> Rows:
        """What the table has of some names, bit for bit."""
        listed = ", ".join(f"'{name}'" for name in names)
        columns = "process, path, value_name, ordinal, value_type, value_float, value_int, coalesce(value_text, value::text) as shown"
        rows: Rows = {}
        with Catalog(layout.open_store(project / ".rearview"), timeout_s=60) as catalog:
            found = catalog.sql(f"select {columns} from logs where value_name in ({listed})").dicts()
        for row in found:
            key = (row["process"], str(row["path"]), row["value_name"], row["ordinal"])
            rows.setdefault(key, []).append(_bits(row))
        return {key: sorted(values, key=repr) for key, values in rows.items()}

    def cli(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command in the recorded project."""
        return self.run(self.project, ["-m", "rearview", *words], check=check)

    @contextlib.contextmanager
    def forking(self) -> Iterator[None]:
        """Workers of a replay in this process are forked."""
        with pytest.MonkeyPatch.context() as patch:
            if self.nursery is not None:
                patch.setattr(pool, "subprocess", Forking(self.nursery.address))
            yield

    def _script(self, project: Path, *, check: bool) -> subprocess.CompletedProcess[str]:
        return self.run(project, [self.script, *self.args], check=check)

    def run(self, project: Path, words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        """Python with some words in a folder."""
        environ = {**environment(None), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "REARVIEW_QUIET": "1", **self.env}
        if words[:2] == ["-m", "rearview"] and hasattr(os, "fork"):
            address = {} if self.nursery is None else {ADDRESS: self.nursery.address}
            done = warm().run(words[2:], project, {**environ, **address}, None, 300)
        elif self.nursery is None or words[0].startswith("-") or not takes(environ):
            done = subprocess.run([sys.executable, *words], cwd=project, env=environ, capture_output=True, text=True, timeout=300)
        else:
            done = self.nursery.execute(words, environ, project)
        if check:
            assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def _bits(row: Mapping[str, Any]) -> Any:
    value = row["value_float"]
    if isinstance(value, float):
        return row["value_type"], struct.pack("<d", value).hex(), row["value_int"], None
    return row["value_type"], value, row["value_int"], row["shown"]


def _told(value: Any) -> Any:
    """The same of a value that a journal holds."""
    kind = "none" if value is None else "text" if isinstance(value, str) else type(value).__name__
    if kind in ("int", "float"):
        return kind, struct.pack("<d", value).hex(), value if kind == "int" and -(2**63) <= value < 2**63 else None, None
    return kind, None, None, value if kind in ("none", "text") else str(value).lower()


def tree_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything of the user's in a folder: content, mode, time."""
    found: dict[str, tuple[Any, ...]] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".rearview"]
        for name in files:
            path = Path(root, name)
            facts = path.lstat()
            found[str(path.relative_to(folder))] = (path.read_bytes(), facts.st_mode, facts.st_mtime_ns)
    return found
