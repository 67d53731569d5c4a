"""Arguments: what was given on the command line, typed by the default that the script names.

Sources, in order: `rearview run --arg k=v` (handed over by the launcher), then FlorDB's `--kwargs k=v k=v` in argv, which
is read and never removed.
"""

from __future__ import annotations

import ast
import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rearview.errors import ArgError, UsageError
from rearview.record.say import say

_TRUE, _FALSE = ("true", "1", "yes", "on", "t", "y"), ("false", "0", "no", "off", "f", "n")


def parse_pairs(items: Sequence[str], where: str) -> dict[str, str]:
    """`["lr=0.1", "name=a=b"]` as a dict; a later one wins."""
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{where} takes NAME=VALUE, not {item!r}")
        pairs[name.strip()] = text
    return pairs


def from_argv(argv: Sequence[str]) -> dict[str, str]:
    """What stands behind `--kwargs`, up to the first word that is no NAME=VALUE."""
    pairs: dict[str, str] = {}
    inside = False
    for word in argv:
        if word == "--kwargs":
            inside = True
        elif inside and "=" in word and not word.startswith("-") and word.partition("=")[0].isidentifier():
            pairs.update(parse_pairs([word], "--kwargs"))
        else:
            inside = False
    return pairs


class Given:
    """The arguments given to this process, and which of them were asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)
        self.asked: set[str] = set()
        self._differed: set[str] = set()

    def value(self, name: str, default: Any) -> Any:
        """The value of an argument: what was given, as the type of the default, else the default."""
        self.asked.add(name)
        text = self.texts.get(name)
        return default if text is None else fit(name, text, default)

    def compare(self, name: str, first: Any, now: Any) -> None:
        """Say once that an argument has several defaults: each call gets its own, a run records one."""
        same = first is now or (type(first) is type(now) and repr(first) == repr(now))
        if not same and name not in self._differed:
            self._differed.add(name)
            say(f"argument {name!r} is asked for with several defaults: {first!r:.60} is recorded, this call gets {now!r:.60}")

    def unasked(self) -> list[str]:
        """A sentence for each name that was given and that nobody asked for."""
        sentences = []
        for name in self.texts:
            if name not in self.asked:
                close = difflib.get_close_matches(name, sorted(self.asked), n=1)
                hint = f"; did you mean {close[0]!r}?" if close else (f"; asked for: {', '.join(sorted(self.asked))}" if self.asked else "")
                sentences.append(f"argument {name!r} was given but nothing asked for it{hint}")
        return sentences


_given: Given | None = None


def given() -> Given:
    """The arguments of this process."""
    global _given  # noqa: PLW0603 (read from argv once: argv may be changed by the script later)
    if _given is None:
        _given = Given(from_argv(sys.argv[1:]))
    return _given


def hand_over(texts: Mapping[str, str]) -> None:
    """What the launcher was told with `--arg`; it goes before `--kwargs`."""
    global _given  # noqa: PLW0603
    _given = Given({**from_argv(sys.argv[1:]), **texts})


def join(texts: object) -> None:
    """What was given to the run that this process came to: a spawned child has its parent's argv, but no `--arg`."""
    if isinstance(texts, dict):
        hand_over({name: text for name, text in texts.items() if isinstance(name, str) and isinstance(text, str)})


def fit(name: str, text: str, default: Any) -> Any:
    """The text as the type of the default; `ArgError` if it does not fit.

    >>> fit("lr", "0.1", 1e-3)
    0.1
    >>> fit("layers", "64,32", [8])
    [64, 32]
    >>> fit("epochs", "many", 5)
    Traceback (most recent call last):
    ...
    rearview.errors.ArgError: argument 'epochs' is 'many', expected an integer like 5
    """
    if default is None:
        return _literal(text)
    if isinstance(default, bool):
        return _boolean(name, text, default)
    if isinstance(default, int):
        return _number(name, text, default, int, "an integer")
    if isinstance(default, float):
        return _number(name, text, default, float, "a number")
    if isinstance(default, str):
        return text
    if isinstance(default, (list, tuple)):
        items = _items(name, text, default)
        return items if isinstance(default, list) else tuple(items)
    raise ArgError(
        f"argument {name!r} has a default of type {type(default).__name__}, which cannot be given on a command line: "
        "use an int, float, bool, text, list or None"
    )


def _boolean(name: str, text: str, default: bool) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ArgError(f"argument {name!r} is {text!r}, expected true or false like {default!r}")


def _number(name: str, text: str, default: Any, kind: type, wanted: str) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        raise ArgError(f"argument {name!r} is {text!r}, expected {wanted} like {default!r}") from None


def _literal(text: str) -> Any:
    """Without a type to go by: a Python literal where it is one, else the text."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _items(name: str, text: str, default: Sequence[Any]) -> list[Any]:
    stripped = text.strip()
    if stripped[:1] in "[(" and stripped:
        try:
            parsed = json.loads(stripped)
        except (ValueError, RecursionError):
            parsed = _literal(stripped)
        if not isinstance(parsed, (list, tuple)):
            raise ArgError(f"argument {name!r} is {text!r}, expected a list like {list(default)!r}")
        words = [item if isinstance(item, str) else repr(item) for item in parsed]
    else:
        words = [word.strip() for word in stripped.split(",")] if stripped else []
    kinds = {type(item) for item in default}
    if len(kinds) != 1:
        return [_literal(word) for word in words]
    try:
        return [fit(name, word, default[0]) for word in words]
    except ArgError:
        raise ArgError(f"argument {name!r} is {text!r}, expected a list like {list(default)!r}") from None
