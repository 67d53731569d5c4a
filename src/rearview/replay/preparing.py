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
from rearview.errors import UsageError
from rearview.model import VersionId
from rearview.plan import cost, scans
from rearview.plan.cost import Rates
from rearview.plan.scans import Need, Plan
from rearview.plan.timeline import History
from rearview.record import environment, past
from rearview.record.past import Past
from rearview.replay import again, history, needs, pool, query
from rearview.replay.conductor import Task
from rearview.replay.pool import Program
from rearview.replay.query import Ask, Question
from rearview.store import replays
from rearview.store.layout import Store
from rearview.versions import probed

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo

_ASK = (
    "import json, platform, importlib.metadata as m\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except Exception: return None\n"
    "print(json.dumps({'python': platform.python_version(), 'packages': {n: v(n) for n in %r}}))"
)
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
    environ: dict[str, str] = field(default_factory=dict)

    def on(self, rung: str) -> Plan:
        """The plan on a rung of the ladder."""
        return scans.plan(self.history, self.need, self.workers, rung, self.rates)

    def climb(self, rung: str) -> Prepared:
        """The same on another rung."""
        return replace(self, plan=self.on(rung))

    def task(self) -> Task:
        """What the conductor runs. The probed source becomes a version here."""
        recorded = VersionId(str(self.known.version))
        statements = self.question.statements if self.question is not None else None
        version = probed.derive(self.store, recorded, statements.files) if statements is not None else recorded
        probes = statements.probes(self.question.logs) if statements is not None and self.question is not None else ()
        return Task(
            run=self.run.run, store=self.store, project=self.project, program=self._program(version), history=self.history,
            need=self.need, plan=self.plan, recorded_version=recorded, version=version, probes=probes, isolate=self.isolate,
            threads=self.threads, rates=self.rates,
        )  # fmt: skip

    def _program(self, version: VersionId) -> Program:
        facts = self.known.facts
        command = again.command_of(facts, later_too=True)
        given = facts.get("given")
        wishes: dict[str, object] = {
            "arg": given if isinstance(given, dict) else {}, "name": None, "tags": [], "notes": None, "store": str(self.store.root),
            "version": version, "project": str(self.project), "whole": True,
        }  # fmt: skip
        interpreter = [interpreter_of(self.known), *command.flags]
        return Program(
            command.target, command.is_module, command.arguments, interpreter, self.environ, folder_of(self.project, facts), wishes
        )


def prepare(store: Store, project: Path, question: Question, ask: Ask) -> Prepared:
    """What answering a question takes. Everything that is answered already is left out."""
    made = _base(store, project, question.run, ask)
    found = needs.of(question, store, project)
    need = found.need
    if ask.only is not None:
        need = replace(need, only=query.only(ask.only, made.history))
    made.question, made.reads = question, found.reads
    lacking, notes = needs.lacking(store, question.run.run, found)
    made.notes += notes
    covers = query.answered(store, question)
    open_need = query.left_over(replace(need, lacking=lacking), made.history, covers.values())
    made.need = open_need
    made.plan = made.on(scans.START if ask.from_start else scans.RESUME)
    return made


def prepare_proof(store: Store, project: Path, run: RunInfo, ask: Ask) -> Prepared:
    """What replaying a run to itself takes: everything that it did, from its checkpoints or from the start."""
    made = _base(store, project, run, ask)
    made.need = Need(whole=True, only=query.only(ask.only, made.history) if ask.only is not None else None)
    made.plan = made.on(scans.START if ask.from_start else scans.RESUME)
    return made


def _base(store: Store, project: Path, run: RunInfo, ask: Ask) -> Prepared:
    known = past.look(store, run.run)
    facts = known.facts
    if known.version is None:
        raise UsageError(f"run {run.run} has no recorded source, and so cannot be replayed")
    again.command_of(facts, later_too=True)
    _refuse_ranks(run, facts)
    folder_of(project, facts)
    damaged: list[str] = []
    timeline = history.read(store, run.run, run.status, damaged)
    environ, said = again.environ_of(facts, os.environ, config.load(project, {}))
    threads = _threads(timeline, known)
    workers = ask.workers or capacity(timeline, threads)
    rates = _rates(store, run, timeline)
    _share_cores(environ, threads, workers, said)
    return Prepared(
        run, None, store, project, known, timeline, Need(), Plan(scans.RESUME), rates, threads,
        inputs=past.changed_inputs(known, project), environment=differences(known, environ), variables=said, notes=damaged,
        workers=workers, isolate=ask.isolate, environ=environ,
    )  # fmt: skip


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


def differences(known: Past, environ: Mapping[str, str]) -> list[str]:
    """What may give other numbers. The versions of packages are those of the interpreter that will run."""
    now, then = environment.at_start(environ), known.environment
    wanted = [name for name in environment.ESSENTIAL if name in (then.get("packages") or {})]
    interpreter = interpreter_of(known)
    answer = pool.ask(interpreter, _ASK % (wanted,), environ) if wanted or interpreter != sys.executable else {}
    if isinstance(answer, dict):
        now |= answer
    return environment.differences(then, now)


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


def _threads(timeline: History, known: Past) -> int | None:
    """The recorded thread count: it changes bits."""
    if timeline.threads is not None:
        return timeline.threads
    text = (known.environment.get("variables") or {}).get("OMP_NUM_THREADS")
    return int(text) if isinstance(text, str) and text.isdigit() and int(text) > 0 else None


def _share_cores(environ: dict[str, str], threads: int | None, workers: int, said: list[str]) -> None:
    """Threads that wait for each other must not spin when there are more of them than cores: that costs 6 to 55 times."""
    if threads is None:
        return
    if "OMP_NUM_THREADS" not in environ and threads != cores():
        environ["OMP_NUM_THREADS"] = str(threads)
        said.append(f"OMP_NUM_THREADS={threads}, as many threads as it had")
    if threads * workers > cores() and "OMP_WAIT_POLICY" not in environ:
        environ["OMP_WAIT_POLICY"] = "passive"
        said.append(f"OMP_WAIT_POLICY=passive: {threads * workers} threads share {cores()} cores")


def _rates(store: Store, run: RunInfo, timeline: History) -> Rates:
    """What earlier replays of the run took."""
    facts: list[tuple[str, int, float]] = []
    ratios: list[float] = []
    for one in replays.list_of(store, run.run):
        rows = one.more.get(MEASURED)
        facts += [(str(kind), int(size), float(seconds)) for kind, size, seconds in rows or ()]
        predicted = one.more.get(PREDICTED)
        if isinstance(predicted, (int, float)) and predicted > 0 and one.seconds > 0:
            ratios.append(one.seconds / predicted)
    if not facts and timeline.boundaries:
        facts = history.restores(store, run.run)
    return cost.learn(facts, ratios[-20:])


def others_first(found: Sequence[Prepared]) -> list[Prepared]:
    """Those with something to run."""
    return [one for one in found if not one.plan.is_empty]
