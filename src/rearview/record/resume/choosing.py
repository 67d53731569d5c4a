"""Which run `rv.resume()` goes on with: the newest unfinished one of the same program, or of the same key. Pure but for `candidates`.

A finished run is not gone on with, and neither is anything older than it: the program begins anew. A run that is still alive is
passed over, whoever it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rearview.errors import Damaged
from rearview.model import RunId
from rearview.store import runs
from rearview.store.layout import Store

_JOBS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("slurm", ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"), ()),
    ("slurm", ("SLURM_JOB_ID",), ("SLURM_HET_JOB_ID",)),
    ("lsf", ("LSB_JOBID",), ("LSB_JOBINDEX",)),
    ("pbs", ("PBS_JOBID",), ()),
    ("sge", ("SGE_CLUSTER_NAME", "JOB_ID"), ("SGE_TASK_ID",)),
    ("aws-batch", ("AWS_BATCH_JOB_ID",), ("AWS_BATCH_JOB_ARRAY_INDEX",)),
    ("sagemaker", ("TRAINING_JOB_NAME",), ()),
    ("kubernetes", ("KUBERNETES_SERVICE_HOST", "JOB_NAME"), ("JOB_COMPLETION_INDEX",)),
)
"""Scheduler, variables that it sets, and those that say more: the same when it starts a job again, different between jobs."""


def job_key(environ: Mapping[str, str]) -> str | None:
    """The scheduler's job, the same when the job is started again; None outside of one.

    >>> job_key({"SLURM_JOB_ID": "812"}), job_key({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "3"})
    ('slurm:812', 'slurm:8:3')
    """
    for name, needed, more in _JOBS:
        if all(environ.get(variable) for variable in needed):
            told = [environ[variable] for variable in (*needed, *more) if environ.get(variable)]
            if name in ("sge", "kubernetes"):
                told = told[1:]  # the first only says which system it is
            return ":".join([name, *told])
    return None


@dataclass(frozen=True, slots=True)
class Program:
    """What makes two runs runs of the same thing."""

    filename: str
    """Of the script, as `run.json` has it."""
    argv: tuple[str, ...]
    """Without the script's own name, which may be written in several ways."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Values of `rv.arg` that were given."""
    cwd: str = "."
    module: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may be gone on with."""

    run: RunId
    began: str
    """An ISO time in UTC: greater is later."""
    program: Program
    key: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The run to go on with, or None; and why, for a person."""

    run: RunId | None
    why: str


def choose(candidates: Iterable[Candidate], program: Program, key: str | None, job: str | None, status: Callable[[RunId], str]) -> Choice:
    """Choose a run.

    `key` is what the caller named: it alone decides. Without one the program decides, within the scheduler's `job` if there
    is one. `status` is asked of as few runs as possible.
    """
    fitting = [one for one in candidates if _fits(one, program, key, job)]
    for one in sorted(fitting, key=lambda one: (one.began, one.run), reverse=True):
        how = status(one.run)
        if how == "running":
            continue
        if how == "finished":
            return Choice(None, f"run {one.run} finished")
        return Choice(one.run, f"run {one.run} was {how}" if how == "killed" else f"run {one.run} {how}")
    what = f"the key {key!r}" if key is not None else "this program" + (f" in job {job}" if job else "")
    alive = " but what is still running" if fitting else ""
    return Choice(None, f"there is no run of {what}{alive}")


def _fits(one: Candidate, program: Program, key: str | None, job: str | None) -> bool:
    if key is not None:
        return one.key == key
    return one.program == program and (job is None or one.key == job)


def program_of(facts: Mapping[str, Any]) -> Program:
    """The program that a `run.json` describes."""
    argv: Sequence[Any] = facts.get("argv") or ()
    given = facts.get("given")
    return Program(
        str(facts.get("filename") or ""), tuple(str(word) for word in argv[1:]), dict(given) if isinstance(given, dict) else {},
        str(facts.get("cwd") or "."), facts.get("module"),
    )  # fmt: skip


def candidates(store: Store) -> list[Candidate]:
    """Every run of a store that began in this way: by itself, as the first of its process."""
    found = []
    for run in runs.list_runs(store):
        try:
            facts = runs.read_run(store, run)
        except (Damaged, OSError):
            continue  # nothing says what it was
        if facts.get("place"):
            continue  # one of several runs of a program: starting it again begins with the first
        key = facts.get("key")
        found.append(Candidate(run, str(facts.get("tstamp") or ""), program_of(facts), key if isinstance(key, str) else None))
    return found
