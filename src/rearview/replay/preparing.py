"""From a question about a run to what is needed to run it: history, plan, the program as it was started, what is not as it was.

Looks only: nothing of the user's is started or changed. The probed source is written into the store when the plan is carried out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview import config
from rearview.errors import Damaged, NotFound, UsageError
from rearview.model import RunId, VersionId
from rearview.plan import cost, scans
from rearview.plan.cost import Rates
from rearview.plan.scans import Need, Plan
from rearview.plan.timeline import ITERATION, OTHER, History
from rearview.record.resume import past
from rearview.record.resume.past import Past
from rearview.replay import environment as where
from rearview.replay import halfway, inputs, lost_files
from rearview.replay.journals import cut, history, logged
from rearview.replay.question import coverage, needs, notebooks
from rearview.replay.question.query import Ask, Question
from rearview.replay.running import again, interpreters
from rearview.replay.running.conductor import Task
from rearview.replay.running.pool import Program
from rearview.replay.sandbox.protection import Forecasts
from rearview.store import replays
from rearview.store.layout import Store
from rearview.versions import probed, read

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo

_NEWEST = 10
_REMEMBERED = 200
MEASURED, PREDICTED = "measured", "predicted_s"
"""In a published replay: what restores and digests took, and what the whole was predicted to take."""


@dataclass(slots=True)
class Prepared:
    """One run, ready to be replayed."""

    run: RunInfo
    question: Question | None
    """None: no statement is asked for, the run is to be proved."""
    store: Store
    project: Path
    known: Past
    history: History
    need: Need
    plan: Plan
    rates: Rates
    threads: int | None
    inputs: list[str] = field(default_factory=list)
    """Files that the run read and that are not as they were."""
    environment: list[str] = field(default_factory=list)
    """What may give other numbers, a sentence each."""
    inexact: list[str] = field(default_factory=list)
    """Why it cannot be bit-exact here, a sentence each: it is compared as close from the start."""
    variables: list[str] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Statements that cannot be answered from stored states, and what is done instead; damaged checkpoints."""
    reads: dict[str, frozenset[str]] = field(default_factory=dict)
    """Name -> the variables that its statements read."""
    workers: int = 1
    isolate: bool = False
    placed: str = ""
    """The statement is in no file (`--at`): it was put `before` or `after` one that is."""
    device: str | None = None
    environ: dict[str, str] = field(default_factory=dict)
    until: dict[str, Any] | None = None
    """The last record of a run that was killed."""
    cut_states: frozenset[str] = frozenset()
    """States in the iteration that was cut short: they are not used."""
    along: frozenset[str] = frozenset()
    """What added statements make before the main loop: it is watched whether it stays so."""

    def on(self, rung: str) -> Plan:
        """The plan on a rung of the ladder."""
        return scans.plan(self.history, self.need, self.workers, rung, self.rates)

    def climb(self, rung: str) -> Prepared:
        """The same on another rung."""
        return replace(self, plan=self.on(rung))

    def next_rung(self) -> Prepared | None:
        """The same on the next rung of the ladder: one on which nothing would be put back is the start itself."""
        if self.history.went_on:  # it did not begin where the others do
            return None
        later = [self.climb(rung) for rung in scans.RUNGS[scans.RUNGS.index(self.plan.rung) + 1 :]]
        deeper = any(one.part == OTHER and one.restorable for one in self.history.boundaries)
        return next((one for one in later if one.plan.rung == scans.START or one.plan.put_back or deeper), None)

    def with_histories(self) -> Prepared:
        """The same without the states that do not keep how a tensor of theirs was computed: what computes it is run."""
        without = replace(self, need=replace(self.need, lost=self.need.lost | {one.name for one in self.history.boundaries if one.pending}))
        return without.climb(self.plan.rung)

    def task(self) -> Task:
        """What the conductor runs. The probed source becomes a version here."""
        recorded = VersionId(str(self.known.version))
        statements = self.question.statements if self.question is not None else None
        files = notebooks.lacking(self.store, self.run.run, recorded) if self.run.how in notebooks.KINDS else {}
        files |= statements.files if statements is not None else {}
        version = probed.derive(self.store, recorded, files) if files else recorded
        probes = statements.probes(self.question.logs) if statements is not None and self.question is not None else ()
        probes = tuple({**probe, "along": sorted(self.along)} for probe in probes)
        if self.placed:
            probes = tuple({**probe, "placed": self.placed} for probe in probes)
        return Task(
            run=self.run.run, store=self.store, project=self.project, program=self._program(version), history=self.history,
            need=self.need, plan=self.plan, recorded_version=recorded, version=version, probes=probes, isolate=self.isolate,
            threads=self.threads, rates=self.rates, until=self.until, device=self.device,
            error=self.run.detail if self.run.status == "failed" and self.until is None else "",
        )  # fmt: skip

    def _program(self, version: VersionId) -> Program:
        facts = self.known.facts
        command = again.command_of(facts, later_too=True)
        given = facts.get("given")
        wishes: dict[str, object] = {
            "arg": given if isinstance(given, dict) else {}, "name": None, "tags": [], "notes": None, "store": str(self.store.root),
            "version": version, "project": str(self.project), "whole": True,
            **({"argv": facts.get("argv"), "orig_argv": facts.get("orig_argv")} if command.text else {}),
        }  # fmt: skip
        interpreter = [interpreter_of(self.known), *command.flags]
        return Program(
            command.target, command.is_module, command.arguments, interpreter, self.environ, folder_of(self.project, facts), wishes,
            command.text,
        )  # fmt: skip


def prepare(
    store: Store, project: Path, question: Question, ask: Ask, forecasts: Forecasts | None = None,
    replayed: Sequence[replays.Replay] | None = None,
) -> Prepared:  # fmt: skip
    """What answering a question takes. Everything that is answered already is left out. `replayed`: the newest replays, if known."""
    made = _base(store, project, question.run, ask, replayed)
    found = needs.of(question)
    need = found.need
    if ask.only is not None:
        need = replace(need, only=coverage.only(ask.only, made.history))
    made.question, made.reads, made.along = question, found.reads, found.along
    if ask.at is not None and not question.placed:
        made.placed = "before" if ask.at.before else "after"
    without, said = needs.lacking(found, made.history, question)
    files = lost_files.unusable(store, project, made.known, [log.text for log in question.logs], _last_state(made.history, need))
    made.notes += [*found.notes, *said, *([files.sentence] if files.sentence else [])]
    deeper = frozenset(one.name for one in made.history.boundaries if one.part == OTHER and one.name in without)
    need = replace(need, lacking=without, lost=files.names | made.cut_states | deeper | halfway.states(made.history))
    made.need = _own(coverage.left_over(need, made.history, coverage.answered(store, question).values()), made.history)
    made.plan = made.on(scans.START if ask.from_start or found.from_start else scans.RESUME)
    made.notes += halfway.why_from_before(made.plan, made.history)
    if not made.plan.is_empty:
        _equip(made, forecasts or Forecasts(store, project))
    elif not any(coverage.answered(store, question).values()):
        _refuse_beginning(made)
    return made


def _own(need: Need, timeline: History) -> Need:
    """A need without what a run that went on from another's state only did to come there: nothing of that is logged."""
    return replace(need, prefix_answered=True) if timeline.went_on else need


def _refuse_beginning(made: Prepared) -> None:
    """Of a run that went on from another's state, what only its program's beginning could answer."""
    if made.history.went_on:
        raise UsageError(
            f"run {made.run.run} went on from {made.history.went_on}, and this takes the program's beginning, or a state of it that is not "
            "kept: ask that run"
        )


def _last_state(timeline: History, need: Need) -> str | None:
    """The end of the last main loop, if it is kept and nothing behind it is asked for."""
    number = len(timeline.blocks) - 1
    if number < 0 or need.suffix or need.whole:
        return None
    found = timeline.boundary(ITERATION, number, timeline.blocks[number].iterations - 1)
    return found.name if found is not None else None


def prepare_proof(store: Store, project: Path, run: RunInfo, ask: Ask) -> Prepared:
    """What replaying a run to itself takes: everything that it did, from its checkpoints or from the start."""
    made = _base(store, project, run, ask)
    files = lost_files.unusable(store, project, made.known)
    made.notes += [files.sentence] if files.sentence else []
    only = coverage.only(ask.only, made.history) if ask.only is not None else None
    lost = files.names | made.cut_states | halfway.states(made.history)
    made.need = _own(Need(whole=True, proof=True, only=only, lost=lost), made.history)
    made.plan = made.on(scans.START if ask.from_start else scans.RESUME)
    made.notes += halfway.why_from_before(made.plan, made.history)
    if made.plan.is_empty:
        _refuse_beginning(made)
    _equip(made, Forecasts(store, project))
    return made


def _base(store: Store, project: Path, run: RunInfo, ask: Ask, replayed: Sequence[replays.Replay] | None = None) -> Prepared:
    known = past.look(store, run.run)
    facts = known.facts
    if known.version is None:
        raise UsageError(f"run {run.run} has no recorded source, and so cannot be replayed")
    _refuse_without_text(store, run, known.version, again.command_of(facts, later_too=True).text)
    _refuse_ranks(run, facts)
    folder_of(project, facts)
    damaged: list[str] = []
    interrupted = run.status == "failed" and run.detail == KeyboardInterrupt.__name__  # nobody does that a second time
    timeline = history.read(store, run.run, "killed" if interrupted else run.status, damaged)
    if run.how in notebooks.KINDS:
        timeline = notebooks.as_replayed(store, timeline, run.run, damaged)
    timeline, known_to = cut.find(store, timeline, run.run, mains_of(timeline))
    threads = where.threads_of(known.environment)
    return Prepared(
        run, None, store, project, known, timeline, Need(), Plan(scans.RESUME), _rates(store, run, timeline, replayed), threads,
        notes=damaged, workers=ask.workers or capacity(timeline, threads), isolate=ask.isolate, device=ask.device,
        until=known_to.until if known_to is not None else None, cut_states=known_to.inside if known_to is not None else frozenset(),
    )  # fmt: skip


def mains_of(timeline: History) -> dict[int, str]:
    """Main block -> its place, as records are matched by it."""
    return {
        number: logged.place_of([*(list(one) for one in block.path), [block.name, block.occurrence, 0]])
        for number, block in enumerate(timeline.blocks)
    }


def _equip(made: Prepared, forecasts: Forecasts) -> None:
    """Something will run: in which environment, with which inputs, protected by what. An answer that is there needs none of it."""
    known, project, store = made.known, made.project, made.store
    made.environ, said = again.environ_of(known.facts, os.environ, config.load(project, {}))
    shared = where.threads_for(known.environment, made.plan.workers, cores())
    said += [f"{name}={value}" for name, value in shared.items() if made.threads is not None and made.environ.get(name) != value]
    made.environ |= shared
    made.variables = said
    differ = where.differences(known.environment, _here(known, made.environ))
    made.environment, made.inexact = [one.sentence for one in differ], [one.sentence for one in differ if not one.exact]
    if made.device is not None and (then := where.devices_of(known.environment)):
        made.inexact.insert(0, f"the run used {', '.join(then)} and is replayed on the processor")
    elif where.lacks_gpu(known.environment):
        raise UsageError(
            f"run {made.run.run} used {', '.join(where.devices_of(known.environment))}, and this machine has no GPU: add --device cpu, "
            "and its values are compared as close"
        )
    kept = forecasts.of(folder_of(project, known.facts), written(project, known))
    made.protected, made.unprotected = kept.protected, kept.unprotected
    sources = read.files(store, VersionId(str(known.version)))
    made.inputs = [one.sentence for one in inputs.changes(known, project, sources)]


def written(project: Path, known: Past) -> list[str]:
    """The absolute paths that the run wrote."""
    return [os.path.join(os.path.abspath(project), str(row[0])) for row in known.opened]


def _refuse_without_text(store: Store, run: RunInfo, version: VersionId, text: str) -> None:
    """What was no file can be run again if its text was recorded."""
    if text == "cells" and not notebooks.executed(store, run.run, version):
        raise UsageError(f"run {run.run} was an interactive session, whose lines are not recorded: use IPython, a notebook or a script")
    if text in ("command", "stdin") and f"{text}.py" not in read.files(store, version):
        raise UsageError(f"run {run.run} came through a pipe, and its source is not recorded: put it into a file")


def _refuse_ranks(run: RunInfo, facts: Mapping[str, Any]) -> None:
    launch = facts.get("launch")
    world = launch.get("world") if isinstance(launch, dict) else None
    if isinstance(world, int) and world > 1:
        raise UsageError(f"run {run.run} had {world} ranks, and only runs of one process are replayed: `rearview export` gives its states")


def folder_of(project: Path, facts: Mapping[str, Any]) -> Path:
    """Where the run was started."""
    folder = project / str(facts.get("cwd") or ".")
    if not folder.is_dir():
        raise UsageError(f"run {facts.get('run')} was started in {folder}, which is gone: make the folder again")
    return folder


def interpreter_of(known: Past) -> str:
    """The interpreter that the run had."""
    recorded = str(known.environment.get("executable") or "")
    if recorded and os.access(recorded, os.X_OK):
        return recorded
    raise UsageError(
        f"the interpreter of run {known.run} is gone ({recorded or 'it was not recorded'}): install it there again, with its libraries"
    )


def _here(known: Past, environ: Mapping[str, str]) -> dict[str, Any]:
    """Where it will run. The versions of packages are those of the interpreter that runs them."""
    interpreter = interpreter_of(known)
    if os.path.realpath(interpreter) == os.path.realpath(sys.executable) and interpreter == sys.executable:
        return where.here(known.environment, environ)
    wanted = list(known.environment.get("packages") or ())
    told = interpreters.ask(interpreter, wanted, environ)
    packages = {name: version for name, version in (told.get("packages") or {}).items() if version is not None}
    now = where.here(known.environment, environ, packages)
    return {**now, "packages": packages, **({"python": told["python"]} if "python" in told else {})}


# -- how many workers --------------------------------------------------------------------------------------------------------


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def capacity(timeline: History, threads: int | None) -> int:
    """As many workers as memory and cores allow, each with the threads that the run had."""
    by_cores = max(1, cores() // max(1, threads or 1))
    free = _free_bytes()
    if timeline.memory_bytes and free:
        return max(1, min(by_cores, int(free * 0.8) // timeline.memory_bytes))
    return by_cores


def _free_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _rates(store: Store, run: RunInfo, timeline: History, replayed: Sequence[replays.Replay] | None) -> Rates:
    """What earlier replays of the run took; before there are any, those of other runs: what a worker needs is much the same."""
    mine = replays.list_of(store, run.run)
    facts = [fact for one in mine for fact in _measured(one)]
    ratios = []
    for one in mine:
        predicted = one.more.get(PREDICTED)
        if isinstance(predicted, (int, float)) and predicted > 0 and one.seconds > 0:
            ratios.append(one.seconds / predicted)
    if not facts:
        others = replayed if replayed is not None else newest(store)
        facts = [fact for one in others for fact in _measured(one) if fact[0] != "pace"]
    if not any(kind == "restore" for kind, _, _ in facts) and timeline.boundaries:
        facts += history.restores(store, run.run)
    return cost.learn(facts, ratios[-20:])


def _measured(one: replays.Replay) -> list[tuple[str, int, float]]:
    return [(str(kind), int(size), float(seconds)) for kind, size, seconds in one.more.get(MEASURED) or ()]


def remembered(store: Store) -> frozenset[str]:
    """The names that replays of any run found to be volatile."""
    return frozenset(name for one in newest(store, _REMEMBERED) for name in one.volatile)


def newest(store: Store, most: int = _NEWEST) -> list[replays.Replay]:
    """The newest replays of any run."""
    folders = sorted(replays.folders(store), key=lambda folder: folder.stat().st_mtime, reverse=True)[:most]
    found = []
    for folder in folders:
        try:
            found.append(replays.read(store, RunId(folder.parent.parent.name), folder.name))
        except (Damaged, NotFound):
            continue
    return found
