"""Which run `rv.resume()` goes on with."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rearview.errors import Damaged, UsageError
from rearview.model import RunId
from rearview.record.resume import handshake, past
from rearview.record.resume.choosing import Candidate, Program, candidates, choose, job_key
from rearview.store import processes
from rearview.testing.stores import StoreBuilder

HERE = Program("train.py", ("--lr", "1"), {"seed": "3"})


def candidate(number: int, program: Program = HERE, key: str | None = None) -> Candidate:
    return Candidate(RunId(f"r{number}"), f"2026-01-{number:02d}", program, key)


def chosen(runs: list[Candidate], status: dict[str, str], key: str | None = None, job: str | None = None) -> str | None:
    return choose(runs, HERE, key, job, lambda run: status[run]).run


def test_the_newest_unfinished_run() -> None:
    runs = [candidate(1), candidate(3), candidate(2)]
    assert chosen(runs, {"r1": "killed", "r2": "killed", "r3": "killed"}) == "r3"
    assert chosen(runs, {"r1": "killed", "r2": "killed", "r3": "failed"}) == "r3"


def test_anew_after_a_finished_one() -> None:
    assert chosen([candidate(1), candidate(2)], {"r1": "killed", "r2": "finished"}) is None
    assert chosen([candidate(1), candidate(2)], {"r1": "finished", "r2": "killed"}) == "r2"


def test_never_one_that_is_alive() -> None:
    assert chosen([candidate(1), candidate(2)], {"r1": "killed", "r2": "running"}) == "r1"
    assert chosen([candidate(1), candidate(2)], {"r1": "finished", "r2": "running"}) is None
    assert "still running" in choose([candidate(1)], HERE, None, None, lambda _: "running").why


@pytest.mark.parametrize(
    "other",
    [
        Program("eval.py", HERE.argv, HERE.given),
        Program("train.py", ("--lr", "2"), HERE.given),
        Program("train.py", HERE.argv, {}),
        Program("train.py", HERE.argv, HERE.given, cwd="elsewhere"),
        Program("train.py", HERE.argv, HERE.given, module="train"),
    ],
)
def test_another_program_is_not_the_same(other: Program) -> None:
    assert chosen([candidate(1, other)], {"r1": "killed"}) is None
    assert chosen([candidate(1), candidate(2, other)], {"r1": "killed", "r2": "killed"}) == "r1"


def test_a_key_alone_decides() -> None:
    other = Program("renamed.py", ())
    assert chosen([candidate(1, other, key="mine"), candidate(2)], {"r1": "killed", "r2": "killed"}, key="mine") == "r1"
    assert chosen([candidate(1, key="theirs")], {"r1": "killed"}, key="mine") is None


def test_within_a_job_only_its_own_runs_count() -> None:
    runs = [candidate(1, key="slurm:1"), candidate(2, key="slurm:2"), candidate(3)]
    status = dict.fromkeys(("r1", "r2", "r3"), "killed")
    assert chosen(runs, status, job="slurm:1") == "r1"
    assert chosen(runs, status, job="slurm:9") is None
    assert chosen([candidate(1, Program("other.py", ()), key="slurm:1")], status, job="slurm:1") is None


def test_only_as_many_runs_are_looked_at_as_needed() -> None:
    asked: list[str] = []
    choose([candidate(k) for k in range(1, 10)], HERE, None, None, lambda run: asked.append(run) or "killed")  # type: ignore[func-returns-value]
    assert asked == ["r9"]


def test_jobs() -> None:
    assert job_key({}) is None
    assert job_key({"JOB_ID": "3"}) is None, "too common a name without its system"
    assert job_key({"SGE_CLUSTER_NAME": "c", "JOB_ID": "3", "SGE_TASK_ID": "2"}) == "sge:3:2"
    assert job_key({"LSB_JOBID": "4"}) == "lsf:4"
    assert job_key({"PBS_JOBID": "5.host"}) == "pbs:5.host"
    assert job_key({"SLURM_JOB_ID": "6", "SLURM_RESTART_COUNT": "1"}) == job_key({"SLURM_JOB_ID": "6"})
    assert job_key({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_NAME": "train-a", "JOB_COMPLETION_INDEX": "0"}) == "kubernetes:train-a:0"


# -- what the store says -------------------------------------------------------------------------------------------------


def test_how_runs_of_a_store_stand(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    finished = builder.run(key="k")
    finished.process().end()
    failed = builder.run()
    failed.process().end("failed")
    killed = builder.run()
    killed.process().stop()
    me = processes.identity()
    who = {"host": me.host, "boot_id": me.boot_id, "pid": me.pid, "started": me.started}
    alive = builder.run()
    alive.process(process=who).stop()
    builder.run(place=1).process().stop()
    status = {run.run: past.status_of(builder.store, run.run)[0] for run in builder.runs}
    assert list(status.values())[:4] == ["finished", "failed", "killed", "running"]
    found = candidates(builder.store)
    assert {one.run for one in found} == {finished.run, failed.run, killed.run, alive.run}, "not the second run of a process"
    assert {one.key for one in found} == {"k", None}


def test_the_last_attempt_counts(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    run.process().end("failed")
    run.process(attempt=2).stop()
    assert past.status_of(builder.store, run.run)[:2] == ("killed", 2)
    run.process(attempt=3).end()
    assert past.status_of(builder.store, run.run)[:2] == ("finished", 3)


def test_all_ranks_of_the_last_attempt_count(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    run.process("0").end()
    run.process("1").stop()
    run.process("0.1").stop()  # a worker that was killed with it
    assert past.status_of(builder.store, run.run)[0] == "killed"


def test_what_a_run_opened_and_which_source_it_ran(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    run = builder.run()
    process = run.process()
    process.fact("outputs", files=[["log.csv", "w", None]], removed=["out"])
    process.fact("version", version="v" + "1" * 40, why="imported late")
    process.fact("tick", wall=run.begun.timestamp() + 30, at=0)
    process.stop()
    found = past.look(builder.store, run.run)
    assert (found.opened, found.removed, found.version) == ([["log.csv", "w", None, "0"]], ["out"], "v" + "1" * 40)
    assert found.heard_wall == run.begun.timestamp() + 30


# -- attempts --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path)
    builder.run().process().stop()
    return builder


def test_two_resumes_at_once_exclude_each_other(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    assert handshake.claim(builder.store, run, None).attempt == 2
    with pytest.raises(UsageError, match="being resumed already"):
        handshake.claim(builder.store, run, None)


def test_an_attempt_of_somebody_who_died_is_passed_over(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    handshake.claim(builder.store, run, None)
    mark = next(builder.store.tmp.glob("*.attempt"))
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "started": 1.0}))
    assert handshake.claim(builder.store, run, None).attempt == 3


def test_a_rank_that_comes_late_joins_the_attempt_that_is_under_way(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    first = handshake.claim(builder.store, run, "launch-1")
    builder.runs[0].process(attempt=first.attempt)  # it has begun to write
    late, other = (handshake.joined(builder.store, run, launch) for launch in ("launch-1", "launch-2"))
    assert late is not None and (late.attempt, late.aside, late.first) == (first.attempt, first.aside, False) and other is None
    assert handshake.claim(builder.store, run, "launch-1") == late


def test_ranks_of_one_launch_share_an_attempt_and_its_agreement(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    first = handshake.claim(builder.store, run, "launch-1")
    second = handshake.claim(builder.store, run, "launch-1")
    assert (first.first, second.first, first.attempt, second.attempt) == (True, False, 2, 2)
    shake = handshake.Handshake(builder.store.root, run, 2, {"0": "a", "1": "b"}, first.aside, [{"path": "x"}], {"place": "after epoch=3"})
    handshake.write(builder.store, shake)
    assert handshake.follow(builder.store, second) == shake


def test_the_variable_is_for_one_process(builder: StoreBuilder) -> None:
    turn = handshake.claim(builder.store, builder.runs[0].run, None)
    files = [{"path": f"file-{k}"} for k in range(10_000)]
    shake = handshake.Handshake(builder.store.root, builder.runs[0].run, 2, {"0": "name"}, turn.aside, files)
    handshake.write(builder.store, shake)
    environ = {handshake.VARIABLE: shake.text()}
    assert len(environ[handshake.VARIABLE]) < 1000
    assert handshake.take(environ) == shake
    assert environ == {}
    assert handshake.take(environ) is None


def test_a_damaged_agreement_is_refused(builder: StoreBuilder) -> None:
    with pytest.raises(UsageError, match="unset it"):
        handshake.take({handshake.VARIABLE: "yes please"})
    turn = handshake.claim(builder.store, builder.runs[0].run, None)
    turn.aside.mkdir(parents=True)
    (turn.aside / handshake.FILE).write_text("{")
    with pytest.raises(Damaged):
        handshake.read(builder.store, turn.aside)


def test_a_new_run_takes_no_attempt(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    assert handshake.claim(builder.store, run, None, new_run=True).attempt == 0
    assert handshake.claim(builder.store, run, None).attempt == 2


def test_a_claim_from_another_host_is_believed_for_a_while(builder: StoreBuilder) -> None:
    run = builder.runs[0].run
    handshake.claim(builder.store, run, None)
    mark = next(builder.store.tmp.glob("*.attempt"))
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "host": "elsewhere"}))
    with pytest.raises(UsageError, match="elsewhere"):
        handshake.claim(builder.store, run, None)
    os.utime(mark, (time.time() - 1000, time.time() - 1000))
    assert handshake.claim(builder.store, run, None).attempt == 3
