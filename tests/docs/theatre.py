"""Playing a document: one fresh project, its blocks one after the other, as a reader would do them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import plain, warm
from tests.docs import documents, transcript
from tests.forked import ADDRESS, takes
from tests.integration.resume.training import with_torch

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"


_WORD = r"""(?:[\w./:,=@%+-]|(?<=\w)~|"[^"$`\\!]*"|'[^']*')+"""
_SIMPLE = re.compile(rf"(?:[A-Z_]+=[\w./:-]* +)*(?:rearview|python)(?: +{_WORD})* *")


def simple(text: str) -> tuple[dict[str, str], list[str]] | None:
    """Variables and words of a line that is one command of ours, with nothing in it that a shell does more with than to split it."""
    if not _SIMPLE.fullmatch(text):
        return None
    words = shlex.split(text)
    first = next(number for number, word in enumerate(words) if "=" not in word)
    return dict(word.split("=", 1) for word in words[:first]), words[first:]


class Play:
    """The state a reader's terminal keeps between commands: the folder, the variables, the files."""

    def __init__(self, home: Path, *, cold: bool = True) -> None:
        self.home = home
        self.cold = cold
        self.project = home / "project"
        self.cwd = self.project
        self.done: Counter[str] = Counter()
        self.excluded: list[str] = []
        programs = home / "bin"
        for folder in (self.project, programs):
            folder.mkdir(parents=True)
        for name, line in {"python": "", "python3": "", "rearview": "-m rearview "}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {line}"$@"\n')
            program.chmod(0o755)
        foreign = ("REARVIEW", "XDG_", "GIT_", "PYTEST_", "PYTHON", "VIRTUAL_ENV")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environ |= {
            "HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "reader",
            "GIT_AUTHOR_EMAIL": "reader@example.org",
            "GIT_COMMITTER_NAME": "reader",
            "GIT_COMMITTER_EMAIL": "reader@example.org",
        }

    def perform(self, block: documents.Block) -> None:
        """Do what a block says."""
        if block.not_run is not None:
            assert block.not_run, f"line {block.line}: say why the block is not run"
            self.excluded.append(block.not_run)
        elif block.file is not None:
            path = self.cwd / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text + "\n", encoding="utf-8")
            self.done["files"] += 1
        elif block.edits is not None:
            path = self.cwd / block.edits
            path.write_text(block.edited(path.read_text(encoding="utf-8")), encoding="utf-8")
            self.done["edits"] += 1
        elif block.kind in documents.RUNNABLE:
            getattr(self, block.kind)(block)
            self.done[f"{block.kind} blocks"] += 1
        else:
            assert block.kind != "diff", f"line {block.line}: say which file the diff edits"
            assert block.kind not in documents.LOOPHOLES, f"line {block.line}: `{block.kind}` is not run; use `console` or `python`"

    def console(self, block: documents.Block) -> None:
        commands = block.commands()
        for command in commands:
            if command.excluded:
                self.excluded.append(command.excluded)
                continue
            code, printed = self.shell(command.text)
            told = f"line {command.line}: $ {command.text}\nended with {code} and printed:\n{printed}"
            assert code == (block.exit_code if command is commands[-1] else 0), told
            agrees = transcript.agrees(command.expected, printed, {str(self.home): "HOME"})
            assert agrees, f"{told}\nbut the document shows:\n{command.expected}"
            self.done["commands"] += 1

    def shell(self, text: str) -> tuple[int, str]:
        """Run one line as a terminal would: what it does to folder and variables holds for the next one."""
        words = None if self.cold else simple(text)
        answer = None if words is None else self.forked({**self.environ, **words[0]}, *words[1])
        if answer is None:
            return self.started(text)
        return answer.returncode if answer.returncode >= 0 else 128 - answer.returncode, answer.stdout

    def forked(self, environ: Mapping[str, str], program: str, *words: str) -> subprocess.CompletedProcess[str] | None:
        """A command or a script in a child of a process that has imported what it imports; None if it has to be started."""
        nursery = plain()
        if nursery is None or not takes(environ):
            return None
        if program == "rearview":
            return warm().run(words, self.cwd, {**environ, ADDRESS: nursery.address}, None, 300, joined=True)
        if not words or not (self.cwd / words[0]).is_file():
            return None
        if "import torch" in (self.cwd / words[0]).read_text(encoding="utf-8"):
            nursery = with_torch()
        return nursery.execute(words, environ, self.cwd, joined=True)

    def started(self, text: str) -> tuple[int, str]:
        """The same with a shell."""
        after = self.home / "after"
        line = f'{text}\ncode=$?; {{ pwd; env -0; }} > "{after}"; exit $code'
        answer = subprocess.run(
            ["bash", "-c", line],
            cwd=self.cwd,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
        )
        if after.exists():
            where, _, variables = after.read_text().partition("\n")
            self.cwd = Path(where)
            entries = [entry.split("=", 1) for entry in variables.split("\0") if "=" in entry]
            self.environ = {name: value for name, value in entries if name not in ("_", "SHLVL")}
            after.unlink()
        return answer.returncode, answer.stdout

    def python(self, block: documents.Block) -> None:
        script = self.cwd / f"snippet_{block.line}.py"
        script.write_text(block.text + "\n", encoding="utf-8")
        code, printed = self.shell(f"python {script.name}")
        assert code == block.exit_code, f"line {block.line}: the snippet ended with {code}:\n{printed}"

    def sql(self, block: documents.Block) -> None:
        (self.home / "query.sql").write_text(block.text)
        code, printed = self.shell('rearview sql "$(cat ~/query.sql)"')
        assert code == block.exit_code, f"line {block.line}: the query ended with {code}:\n{printed}"

    def toml(self, block: documents.Block) -> None:
        table = tomllib.loads(block.text)
        if "rearview" in table.get("tool", {}):
            place = self.home / f"settings_{block.line}"
            place.mkdir()
            (place / "pyproject.toml").write_text(block.text)
            code, printed = self.shell(f"(cd {place} && rearview config)")
            assert code == block.exit_code, f"line {block.line}: rearview config ended with {code}:\n{printed}"

    def json(self, block: documents.Block) -> None:
        if "..." not in block.text:
            json.loads(block.text)
