"""Damaged bytes behind an answer: which of them concern it, and that this is said.

A command that answers although bytes are damaged ends with 1, so that a program notices. Must not know how an answer
is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rearview.cli.shown import screen, text

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog

WHAT_TO_DO = "rearview: what was recorded there is missing above: `rearview check` reads everything and lists the damage"
OF_CHECKPOINTS = "rearview: a damaged checkpoint cannot be put back as it was: `rearview check` reads everything and lists the damage"


def concerning(catalog: Catalog, runs: Iterable[str] | None = None) -> list[str]:
    """What readers found damaged, a sentence each; with `runs`, in the folders of those."""
    found = catalog.damage()
    if runs is None or not found:
        return found
    folders = tuple(f"runs/{run}/" for run in runs)
    return [sentence for sentence in found if sentence.startswith(folders)]


def tell(sentences: Iterable[str], already_told: Iterable[str] = (), *, what_to_do: str = WHAT_TO_DO) -> None:
    """Say on standard error what is damaged, once, and what to do."""
    sentences = list(sentences)
    told = set(already_told)
    for sentence in sentences:
        if sentence not in told:
            screen.note(f"rearview: {text.escape(sentence)}")
    if sentences:
        screen.note(what_to_do)
