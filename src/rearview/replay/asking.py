"""Asking in hindsight, whoever asks: what a question comes to, and carrying it out rung by rung. `rv.replay` is here.

A rung that costs more than what was agreed to is offered, never started unasked.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview import config
from rearview.errors import NotFound, RearviewError, UsageError
from rearview.model import VersionId
from rearview.plan.scans import Plan
from rearview.record import explicit
from rearview.replay import answering, preparing
from rearview.replay.answering import Answer, Show
from rearview.replay.preparing import Prepared
from rearview.replay.question import coverage, notebooks, probing, query
from rearview.replay.question.query import Ask, Other, Question
from rearview.replay.question.sources import At, Now
from rearview.replay.running import together, units
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.sandbox.protection import Forecasts
from rearview.store import layout, probes
from rearview.store.layout import Store
from rearview.store.probes import Probe

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog

Offer = Callable[[Answer, Plan], bool]
"""Asked before a rung that costs more than what was agreed to."""
_NODES = 20_000
"""Objects between two looks for rubbish while planning: about the syntax tree of one file of 1,000 lines."""


@dataclass(slots=True)
class Prospect:
    """What a question comes to."""

    to_run: list[Prepared] = field(default_factory=list)
    answered: list[Question] = field(default_factory=list)
    """Everything that is asked of these runs is in the store."""
    others: list[Other] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    workers: int = 1
    """How many may run at once, over all runs."""
    unsure: list[Prepared] = field(default_factory=list)
    """Runs of versions in which the place of a statement is not certain: they are run if somebody says so."""
    now: Now | None = None
    """The source in which the statements stand."""
    probe: Probe | None = None
    """The question, if it was asked before."""
    parts: list[Prospect] = field(default_factory=list)
    """Of several questions that were asked before, what each comes to."""

    @property
    def unanswered(self) -> list[Other]:
        """Runs whose version cannot take the statement, or takes it at a place that nobody agreed to."""
        left = [Other(one.run.run, UNSURE, str(one.run.version)) for one in self.unsure]
        return [*(one for one in self.others if one.version is not None), *left]

    @property
    def names(self) -> list[str]:
        """What is asked for, by the statements."""
        return list(dict.fromkeys(name for one in (*self.answered, *_questions(self.to_run)) for name in one.names))


UNSURE = "its place there is not certain: `--show` shows it, `--unsure` takes it"


def _questions(prepared: Sequence[Prepared]) -> list[Question]:
    return [one.question for one in prepared if one.question is not None]


def project_of(store: Store) -> Path:
    """The folder that the store is for: beside it, unless that could not be written."""
    project, exists = layout.find_project(Path.cwd(), os.environ.get("REARVIEW_DIR"), Path.home())
    return store.project if exists or store.root == project / layout.FOLDER else project


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Python looks for cycles that nobody holds after every 700 new objects. Planning makes trees of hundreds of thousands, all in use:
    looking as often takes a seventh of its time and finds nothing."""
    before = gc.get_threshold()
    if before[0]:  # 0: somebody turned it off
        gc.set_threshold(max(before[0], _NODES), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@seldom_collected()
def look(catalog: Catalog, ask: Ask) -> Prospect:
    """What answering takes. Nothing is run or written; scratch of replays that were killed is cleaned away."""
    store = catalog.store
    if units.IN_REPLAY in os.environ:
        raise UsageError(f"this is part of a replay ({units.IN_REPLAY} is set), in which nothing is replayed")
    sandbox_scratch.clean(store)
    project = project_of(store)
    found = query.find(catalog, project, ask, config.load(project))
    prospect = Prospect(others=found.others, unknown=found.unknown, now=found.now, probe=ask.probe)
    forecasts, replayed = Forecasts(store, project), preparing.newest(store)
    for question in found.questions:
        try:
            prepared = preparing.prepare(store, project, question, ask, forecasts, replayed)
        except UsageError as problem:
            if len(found.questions) == 1:
                raise
            prospect.others.append(Other(question.run.run, str(problem)))
            continue
        known = prepared.plan.is_empty and any(coverage.answered(store, question).values())
        if prepared.plan.is_empty and (known or not prepared.plan.left_out):
            prospect.answered.append(question)
        elif question.certain or ask.unsure:
            prospect.to_run.append(prepared)
        else:
            prospect.unsure.append(prepared)
    return _shared_out(prospect, ask)


def _shared_out(prospect: Prospect, ask: Ask) -> Prospect:
    """Where there are runs enough to keep all workers busy, a run is not shared among several: each share has to begin somewhere."""
    every = [*prospect.to_run, *prospect.unsure]
    prospect.workers = ask.workers or min((one.workers for one in every), default=1)
    if len(every) >= 2 * prospect.workers > 2:
        prospect.to_run = [_alone(one) for one in prospect.to_run]
        prospect.unsure = [_alone(one) for one in prospect.unsure]
    return prospect


def _alone(prepared: Prepared) -> Prepared:
    one = replace(prepared, workers=1)
    return replace(one, plan=one.on(prepared.plan.rung)) if not prepared.plan.is_empty else one


def remember(prospect: Prospect) -> None:
    """Keep the question: `rearview probes` lists it, and it can be asked of runs that come later."""
    for part in prospect.parts:
        remember(part)
    every = [*_questions(prospect.to_run), *prospect.answered, *_questions(prospect.unsure)]
    cannot = {str(one.version): one.why for one in prospect.others if one.version is not None}
    taken = [str(one.run.version) for one in every]
    now = prospect.now
    if now is None:
        return
    if prospect.probe is not None:
        probing.update(now, prospect.probe, cannot, taken)
    elif every:
        names = tuple(dict.fromkeys(name for one in every for name in one.names))
        prospect.probe = probing.remember(now, names, VersionId(taken[0]), cannot, taken, _cells(now, every))


def learn(prospect: Prospect, answers: Sequence[Answer]) -> None:
    """Keep which versions could not be run again, and why."""
    for part in prospect.parts:
        learn(part, answers)
    if prospect.now is None or prospect.probe is None:
        return
    mine = [one for one in answers if one.prepared.question is not None and set(one.prepared.question.names) & set(prospect.probe.names)]
    cannot = {str(one.prepared.run.version): why for one in mine if (why := one.unanswered) is not None and not one.interrupted}
    taken = [str(one.prepared.run.version) for one in mine if one.unanswered is None]
    known = probes.read(prospect.now.store, prospect.probe.id)
    if known is not None and (cannot or taken):
        probing.update(prospect.now, known, cannot, taken)


def _cells(now: Now, every: Sequence[Question]) -> list[str]:
    """The cells of the notebook that the question stands in, if it is about one."""
    for one in every:
        notebook = query.notebook_of(one.run)
        if notebook is not None:
            return now.cells_of(notebook, notebooks.executed(now.store, notebook.run, VersionId(str(one.run.version))))
    return []


def missing(catalog: Catalog, ask: Ask) -> Prospect:
    """What is left of the questions that were asked before: of those for some names, or of all."""
    prospect = Prospect()
    for probe in probes.every(catalog.store):
        if ask.names and not set(ask.names) & set(probe.names):
            continue
        try:
            one = look(catalog, replace(ask, names=probe.names, probe=probe))
        except NotFound:  # no run is asked at all
            continue
        prospect.parts.append(one)
        prospect.to_run += one.to_run
        prospect.answered += one.answered
        prospect.unsure += one.unsure
        prospect.others += [other for other in one.others if other.version is not None]
    return _shared_out(prospect, ask)


def climb(prepared: Prepared, offer: Offer, show: Show | None = None) -> Answer:
    """Carry a plan out; where its proof fails, the next rung of the ladder, as long as that is agreed to."""
    return higher(answering.carry_out(prepared, show), offer, show)


def higher(answer: Answer, offer: Offer, show: Show | None = None) -> Answer:
    """The next rungs of the ladder after an answer whose proof failed, as long as they are agreed to."""
    agreed_s = answer.prepared.plan.seconds.high
    while (following := answering.following(answer)) is not None:
        plan = following.plan
        if plan.is_empty or (plan.seconds.expected > agreed_s and not offer(answer, plan)):
            break
        agreed_s = max(agreed_s, plan.seconds.high)
        better = answering.carry_out(following, show)
        better.seconds += answer.seconds  # whoever waits has waited for all of them
        if better.interrupted:
            return better
        answer = better
    return answer


# -- rv.replay -----------------------------------------------------------------------------------------------------------------


def replay(
    *names: str, where: str | None = None, run: str | None = None, only: str | None = None, at: str | None = None,
    expression: str | None = None, before: bool = False, workers: int | None = None, from_start: bool = False, isolate: bool = False,
    device: str | None = None, unsure: bool = False, missing_only: bool = False, store: Store | None = None,
) -> list[str]:  # fmt: skip
    """Fill the columns of names, or of every virtual one, and give those names. Calling it is the agreement to its plan.

    `at="train.py:42", expression="norm(net)"` with one name asks without editing. What went wrong is said on standard error.
    """
    from rearview.catalog.catalog import Catalog

    if units.IN_REPLAY in os.environ:
        return list(names)  # a program that asks is replayed itself: its answers are there
    explicit.end_in_notebook()
    here = store or layout.locate(Path.cwd())
    ask = Ask(
        names=() if at is not None else names, run=run, where=where, only=only, at=_placed(at, expression, names, before),
        workers=workers, from_start=from_start, isolate=isolate, device=device, unsure=unsure,
    )  # fmt: skip
    with Catalog(here, timeout_s=config.load(here.project)["query_timeout"]) as catalog:
        prospect = look(catalog, ask) if not missing_only else missing(catalog, ask)
    remember(prospect)
    answers: list[Answer] = []
    for first in together.carry_out(prospect.to_run, prospect.workers):
        answers.append(answer := higher(first, lambda *_: False))
        for sentence in complaints(answer):
            sys.stderr.write(f"rearview: {sentence}\n")
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.failed and len(prospect.to_run) == 1:
            raise StatementFailed(answer.failed[0])
    learn(prospect, answers)
    for one in prospect.unanswered:
        sys.stderr.write(f"rearview: run {one.run} (version {str(one.version)[:8]}) is not answered: {one.why}\n")
    return list(names) or prospect.names


def _placed(at: str | None, expression: str | None, names: Sequence[str], before: bool) -> At | None:
    if at is None and expression is None:
        return None
    if at is None or expression is None or len(names) != 1:
        raise UsageError('a statement that is in no file needs all of it: rv.replay("grad_norm", at="train.py:42", expression="norm(net)")')
    file, line = place(at)
    return At(file, line, expression, names[0], before)


def place(text: str) -> tuple[str, int]:
    """FILE:LINE.

    >>> place("src/train.py:42")
    ('src/train.py', 42)
    """
    file, _, line = text.rpartition(":")
    if not file or not line.isdigit() or int(line) < 1:
        raise UsageError(f"{text!r} is no place in a file: write FILE:LINE, such as train.py:42")
    return file, int(line)


class StatementFailed(RearviewError):
    """An added statement raised in the replay. `traceback` is the program's own."""

    exit_code = 4

    def __init__(self, fact: dict[str, Any]) -> None:
        self.traceback = str(fact.get("traceback") or "")
        where = f"{fact.get('file')}, line {fact.get('line')}"
        what = f"raised {fact.get('error') or 'an exception'}"
        super().__init__(f"the statement at {where} {what}: correct it and ask again\n{self.traceback}")


def complaints(answer: Answer) -> list[str]:
    """What the person who asked must know besides the values: a sentence each."""
    run, judged = answer.prepared.run.run, answer.judgement
    said = [f"run {run}: {one}" for one in (*answer.lost, *answer.notes)]
    said += [f"run {run}: {StatementFailed(one)}" for one in answer.failed]
    if judged.verdict == "divergent":
        first = judged.first_difference
        if first is not None:
            said.append(
                f"run {run}: the replay diverged at {first.path or 'the beginning'}: {first.name} was {first.recorded}, is {first.replayed}"
            )
        said += [f"run {run}: {why}" for why in judged.why]
    elif judged.verdict not in ("identical", "volatile"):
        said += [f"run {run}: {judged.verdict}: {why}" for why in judged.why]
    return said
