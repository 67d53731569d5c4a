"""Reading a document: its fenced blocks, what is to be done with each, and the commands of a console block. Pure.

Comments before a block direct it:
  <!-- file: train.py -->        the block is written to that file instead of run
  <!-- edit: train.py -->        the block, a diff, is done to that file: lines with a space stand there, once, those with + come, with - go
  <!-- exit: 3 -->               the last command of the block ends with that code
  <!-- not run: reason -->       the block is left out, and counted
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

RUNNABLE = ("console", "python", "toml", "sql", "json")
LOOPHOLES = ("sh", "bash", "shell", "zsh", "py", "pycon", "shell-session", "ini")
"""Other names for what would run under its proper one: a document that uses them escapes the tests."""

NOT_COMMANDS_OF_OURS = (
    (re.compile(r"^make\b"), "make is what runs this test"),
    (re.compile(r"^git clone\b"), "needs the network"),
    (re.compile(r"^(python3? -m )?pipx? (install|uninstall|download)\b|^uv "), "changes the environment the test runs in"),
    (re.compile(r"^python3? -m venv\b|^(source|\.) "), "changes the environment the test runs in"),
)

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^`]*)$")
_DIRECTION = re.compile(r"<!--\s*(?P<what>file|edit|exit|not run):\s*(?P<value>.*?)\s*-->")


@dataclass(frozen=True)
class Command:
    """One `$ ` line of a console block and the output shown below it."""

    text: str
    expected: str
    line: int

    @property
    def excluded(self) -> str | None:
        """Why it is not run, if it is not."""
        return next((reason for pattern, reason in NOT_COMMANDS_OF_OURS if pattern.search(self.text)), None)


@dataclass(frozen=True)
class Block:
    """One fenced block and what the comment before it says."""

    kind: str
    text: str
    line: int
    directions: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str | None:
        return self.directions.get("file")

    @property
    def edits(self) -> str | None:
        return self.directions.get("edit")

    def edited(self, text: str) -> str:
        """A file's text after the edit that the block shows."""
        lines = self.text.splitlines()
        before, after = ("".join(f"{line[1:]}\n" for line in lines if line[:1] not in sign) for sign in ("+", "-"))
        if text.count(before) != 1:
            raise ValueError(f"line {self.line}: the lines to be edited are {text.count(before)} times in {self.edits}:\n{text}")
        return text.replace(before, after)

    @property
    def exit_code(self) -> int:
        return int(self.directions.get("exit", "0"))

    @property
    def not_run(self) -> str | None:
        return self.directions.get("not run")

    def commands(self) -> list[Command]:
        """The commands of a console block; a line that ends in a backslash goes on in the next."""
        found: list[Command] = []
        lines = self.text.splitlines()
        number = 0
        while number < len(lines):
            start = number
            if not lines[number].startswith("$ "):
                raise ValueError(f"line {self.line + number + 1}: a console block begins with a `$ ` command")
            text = lines[number][2:]
            while text.endswith("\\") and number + 1 < len(lines):
                number += 1
                text = text + "\n" + lines[number].removeprefix("> ")
            number += 1
            output = []
            while number < len(lines) and not lines[number].startswith("$ "):
                output.append(lines[number])
                number += 1
            found.append(Command(text, "\n".join(output), self.line + start + 1))
        return found


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order."""
    blocks: list[Block] = []
    directions: dict[str, str] = {}
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence is None:
            for direction in _DIRECTION.finditer(line):
                directions[direction["what"]] = direction["value"]
            if line.strip() and not line.lstrip().startswith("<!--"):
                directions = {}  # a comment directs the block right behind it, not one further down
            number += 1
            continue
        start, indent = number, len(fence["indent"])
        number += 1
        body = []
        while number < len(lines) and lines[number].strip() != fence["ticks"]:
            body.append(lines[number][indent:] if lines[number][:indent].isspace() else lines[number])
            number += 1
        number += 1
        blocks.append(Block(fence["info"].strip().split(" ")[0], "\n".join(body), start + 1, directions))
        directions = {}
    return blocks


def headings_of(text: str) -> list[str]:
    """The headings, without the signs: `rearview runs`, not "## `rearview runs`"."""
    found, fenced = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif line.startswith("#") and not fenced:
            found.append(line.lstrip("#").replace("`", "").strip())
    return found


def documents(root: Path) -> list[Path]:
    """Every document whose commands have to work."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
