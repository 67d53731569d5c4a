"""Carrying plans out while a person watches: a line a second on a terminal, quiet otherwise, and each result as it comes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rearview.cli.shown import replay_page, screen, text
from rearview.replay import asking
from rearview.replay.answering import Answer, Show
from rearview.replay.asking import Offer
from rearview.replay.preparing import Prepared
from rearview.replay.running import together
from rearview.replay.running.progress import Shown


def all_of(runnable: Sequence[Prepared], workers: int, offer: Offer, quiet: bool, view: screen.Screen) -> tuple[list[Answer], bool]:
    """Replay runs side by side, as many workers at once as may; whether it was interrupted. What is finished by then is kept."""
    answers: list[Answer] = []
    for first in together.carry_out(runnable, workers, _shower()):
        answer = asking.higher(first, offer, _shower())
        _clear()
        answers.append(answer)
        for line in replay_page.failures(answer):
            screen.note(line)
        if not quiet and (answer.rows or not answer.failed):
            screen.write(replay_page.result(answer, view))
        if not answer.complete and answer.output and not answer.failed and not answer.interrupted:
            screen.note("what the program printed last:")
            for line in text.escape_lines(answer.output):
                screen.note(f"  {line}")
        if answer.interrupted:
            screen.note("rearview: interrupted; what was finished is kept, and the same command goes on")
            return answers, True
    return answers, False


def _shower() -> Show | None:
    if not sys.stderr.isatty():
        return None

    def show(shown: Shown) -> None:
        done = f"{shown.iterations} of {shown.of} iterations, " if shown.of else ""
        left = max(0.0, shown.expected_s - shown.elapsed_s)
        running = text.count(shown.workers, "worker")
        line = f"{done}{running}, {text.duration(shown.elapsed_s)}, about {text.duration(left)} left"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    return show


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
