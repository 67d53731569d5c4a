"""Who this process is in a run: its number, the rank a launcher gave it, the run it was started from."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rearview.errors import Damaged
from rearview.model import ProcessIdentity, ProcessNumber, RunId
from rearview.store import atomic, frames, processes, runs
from rearview.store.layout import Store

VARIABLE = "REARVIEW_RUN"
"""The one variable a run adds to the environment: `<run>/<process>/<launch>/<store>`. Children find their run by it."""


Moment = tuple[float, int]
"""The same moment by the wall clock (seconds) and by the monotonic one (nanoseconds)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The place a launcher (torchrun, Slurm, MPI) gave this process."""

    key: str
    """Equal in all ranks of one launch, different between launches."""
    rank: int
    world: int
    exact: bool
    """The key is of this launch alone. Otherwise a later launch may have it again: on the same port, in the same shell."""


def launch_of(environ: Mapping[str, str], parent: int) -> Launch | None:
    """The launch this process is a rank of, if the environment says so. `parent` is the process that launched it."""
    for system, rank, world, marks in (
        ("torchrun", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")),
        ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE")),
        ("mpi", "PMI_RANK", "PMI_SIZE", ("PMI_ID", "PMI_JOBID", "HYDI_CONTROL_FD")),
        ("slurm", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")),
    ):
        try:
            number, total = int(environ[rank]), int(environ.get(world, "0"))
        except (KeyError, ValueError):
            continue
        if total <= 1 or (system == "slurm" and "SLURM_STEP_ID" not in environ):
            continue  # a batch script has the variables of its job, but only what srun starts is a rank
        parts = [system, *(environ.get(mark, "") for mark in marks)]
        one_node = system != "slurm" and _one_node(environ, total)
        if one_node:
            # Ports and ids are reused from launch to launch; the launcher's own process is not.
            parts += [processes.host(), processes.boot_id(), str(parent), str(processes.start_ticks(parent) or 0)]
        key = hashlib.blake2b("|".join(parts).encode(), digest_size=8).hexdigest()
        return Launch(key, number, total, exact=one_node or system == "slurm")
    return None


def _one_node(environ: Mapping[str, str], world: int) -> bool:
    local = environ.get("LOCAL_WORLD_SIZE") or environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or environ.get("MPI_LOCALNRANKS")
    return local is not None and local == str(world)


_STILL_WARM_S = 5.0
_TICKS_S = 90.0


def may_join(store: Store, run: RunId, number: ProcessNumber, *, exact: bool) -> bool:
    """Whether a rank can take its place in a run: nobody has it, and the run is of this launch and not of an earlier one."""
    folder = store.run(run)
    if (folder / f"{number}-a1-0001.journal").exists():
        return False
    if not exact and (folder / "run.json").exists() and not _going_on(store, run):
        return False
    return atomic.claim(store.tmp / f"{run}-{number}.claim")


def _going_on(store: Store, run: RunId) -> bool:
    """Whether the process that began a run is alive; where that cannot be seen, whether somebody wrote of late."""
    try:
        who = runs.read_run(store, run)["process"]
        newest = max(entry.stat().st_mtime for entry in os.scandir(store.run(run)))
    except (OSError, Damaged, KeyError, ValueError):
        return False
    here = (who["host"], who["boot_id"]) == (processes.host(), processes.boot_id())
    alive = here and float(processes.start_ticks(who["pid"]) or 0) == who["started"]
    return alive or time.time() - newest < (_STILL_WARM_S if here else _TICKS_S)


@dataclass(frozen=True, slots=True)
class Inherited:
    """The run that the parent process was in."""

    run: RunId
    process: ProcessNumber
    launch: str
    store: Path


def inherited(environ: Mapping[str, str]) -> Inherited | None:
    """What the parent's run left in the environment."""
    fields = environ.get(VARIABLE, "").split("/", 3)
    if len(fields) != 4 or not fields[0].startswith("r"):
        return None
    return Inherited(RunId(fields[0]), ProcessNumber(fields[1]), fields[2], Path(fields[3]))


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes a journal part."""

    run: RunId
    writer: str
    attempt: int
    part: int
    process: ProcessIdentity
    rank: int | None = None
    world: int | None = None


def hello(who: Writer, wall: float) -> bytes:
    """The first frame of a part."""
    return frames.fact_body("hello", format=1, wall=wall, **asdict(who))


def mark(run: RunId, process: ProcessNumber, launch: str, store: Path) -> str:
    """The value of `REARVIEW_RUN` for the children of this process."""
    return f"{run}/{process}/{launch}/{store}"


def spawned_number(parent: ProcessNumber) -> ProcessNumber | None:
    """The number of this process if `multiprocessing` spawned it; None if it is no such child."""
    words = sys.orig_argv
    by_spawn = any("multiprocessing.spawn" in word or "multiprocessing.forkserver" in word for word in words)
    by_loky = any("loky" in word for word in words[1:4])
    if not (by_spawn or by_loky):
        return None
    module = sys.modules.get("multiprocessing.process")
    who = module.current_process() if module else None
    place = getattr(who, "_identity", ()) or place_in(getattr(who, "name", ""))
    return ProcessNumber(f"{parent}.s{'.s'.join(str(k) for k in place) if place else f'p{os.getpid()}'}")


_GIVEN_NAME = re.compile(r"(?:Spawn|ForkServer|Loky)(?:Process|PoolWorker)-(\d+(?::\d+)*)")


def place_in(name: str) -> tuple[int, ...]:
    """The place among its parent's children that `multiprocessing` names a process by: all it knows while it imports the script."""
    given = _GIVEN_NAME.fullmatch(name)
    return tuple(int(k) for k in given[1].split(":")) if given else ()
