"""How a run was started, and how the same program is started again: command line, interpreter, variables, settings. Pure.

Knows `run.json`; starts nothing and looks at no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview import config
from rearview.errors import UsageError
from rearview.record import environment

_TAKING = "XW"
"""Options of the interpreter that take a value."""
_CHILDREN = ("from multiprocessing.spawn import ", "from multiprocessing.forkserver import ")
"""How the text begins that `multiprocessing` starts a child with."""
_PLACES = ("VIRTUAL_ENV", "CONDA_DEFAULT_ENV")
"""Variables that say where packages come from, which the interpreter does by itself."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program as it was started."""

    flags: list[str]
    """Of the interpreter."""
    target: str
    is_module: bool
    arguments: list[str]
    text: str = field(default="", repr=False)
    """For what was no file: `cells`, `command` or `stdin`."""


def command_of(facts: Mapping[str, Any], *, later_too: bool = False) -> Command:
    """The command line of a run; `UsageError` if it was no program that can be started again.

    `later_too`: for a replay, which also begins with the first of several runs of a process, and with the first cell of a notebook.
    """
    run, how = facts.get("run"), str(facts.get("how"))
    kinds = {"notebook": "a notebook", "interactive": "an interactive session", "command": "a `python -c`", "stdin": "read from a pipe"}
    if how in kinds and not later_too:
        raise UsageError(f"run {run} was {kinds[how]}, which cannot be started again: `rv.checkpoint({str(run)[:7]!r})` gives its states")
    if how in kinds:
        words = [str(word) for word in facts.get("orig_argv") or ()]
        own = split(words) or split([*words, "-"])  # what comes through a pipe is not named
        return Command(own.flags if own else [], "", False, [], how if how in ("command", "stdin") else "cells")
    if facts.get("place") and not later_too:
        raise UsageError(
            f"run {run} was one of several runs of its process, and starting that again begins with the first: "
            "use rv.checkpoint to take its state into a new run"
        )
    words = [str(word) for word in facts.get("orig_argv") or ()]
    found = split(words)
    if found is None:
        raise UsageError(f"run {run} does not say how it was started: its `orig_argv` is {words!r}")
    if _is_child(found):
        raise UsageError(
            f"run {run} was a child process of a program (`multiprocessing` started it), which cannot be started again by itself: start "
            f"the program again, or take its states (`rv.checkpoint({str(run)[:7]!r})`)"
        )
    return found


def _is_child(command: Command) -> bool:
    """Whether `multiprocessing`, or joblib's loky, started it: it waits for what its parent sends."""
    if command.is_module:
        return "loky.backend" in command.target
    return command.text == "command" and command.target.startswith(_CHILDREN)


def why_not(facts: Mapping[str, Any]) -> str:
    """Why a run's program cannot be started again, as a sentence; nothing if it can."""
    try:
        command_of(facts)
    except UsageError as problem:
        return str(problem)
    return ""


def split(words: Sequence[str]) -> Command | None:
    """An interpreter's command line in its parts.

    >>> split(["python", "-X", "dev", "-Wignore", "-u", "train.py", "-m", "2"])
    Command(flags=['-X', 'dev', '-Wignore', '-u'], target='train.py', is_module=False, arguments=['-m', '2'])
    >>> split(["python", "-um", "pkg.train", "--lr", "1"])
    Command(flags=['-u'], target='pkg.train', is_module=True, arguments=['--lr', '1'])
    >>> split(["python", "-uc", "import train", "-v"]).flags
    ['-u']
    """
    flags: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return Command(flags, word, False, list(words[at + 1 :]))
        at += 1
        if word.startswith("--"):
            flags.append(word)
            if word == "--check-hash-based-pycs":
                flags.append(words[at])
                at += 1
            continue
        for place, letter in enumerate(word[1:], 1):
            rest = word[place + 1 :]
            if letter in "mc":
                flags += [word[:place]] if place > 1 else []
                target, behind = (rest, at) if rest else (words[at] if at < len(words) else "", at + 1)
                return Command(flags, target, letter == "m", list(words[behind:]), "" if letter == "m" else "command") if target else None
            if letter in _TAKING:
                flags += [word] if rest else [word, words[at]] if at < len(words) else []
                at += not rest
                break
        else:
            flags.append(word)
    return None


def environ_of(facts: Mapping[str, Any], now: Mapping[str, str], settings_now: config.Settings) -> tuple[dict[str, str], list[str]]:
    """The environment of the program when it is started again, and a sentence for each variable that is set or unset for it.

    What changes numbers is as it was; a setting of ours that somebody gives now (a REARVIEW variable, `--set`) is theirs.
    """
    recorded = (facts.get("environment") or {}).get("variables") or {}
    environ, said = dict(now), []
    for name in environment.VARIABLES:
        if name in _PLACES or recorded.get(name) == now.get(name):
            continue
        if name in recorded:
            environ[name] = str(recorded[name])
            if name != "PYTHONHASHSEED" or name in now:
                said.append(f"{name}={recorded[name]}, as it was" + (f" (not {now[name]})" if name in now else ""))
        elif name != "PYTHONHASHSEED":
            environ.pop(name)
            said.append(f"{name} is unset, as it was (not {now[name]})")
    for name, value in (facts.get("settings") or {}).items():
        setting = config.BY_NAME.get(name)
        if setting is None or name == "record" or setting.env in now:
            continue
        value = tuple(value) if isinstance(value, list) else value
        if value != settings_now.values[name] and (text := _text(value)) is not None:
            environ[setting.env] = text
            said.append(f"setting {name}={text}, as it was")
    return environ, said


def _text(value: object) -> str | None:
    """A setting as a variable has it; None if that cannot be written."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(value) if not any("," in item for item in value) else None
    return str(value)


def unknown_seed(facts: Mapping[str, Any]) -> str | None:
    """A sentence if the run's hash seed cannot be had again."""
    then = facts.get("environment") or {}
    random_hashes = (then.get("flags") or {}).get("hash_randomization", 1)
    if random_hashes and (then.get("variables") or {}).get("PYTHONHASHSEED", "random") in ("random", ""):
        return "the run's hash seed is not known: its sets of text may be in another order (`rearview run` chooses and records a seed)"
    return None
