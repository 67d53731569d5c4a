"""Several runs in one process: nested, one after the other, in threads and tasks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.integration.record.reading import read_all

Python = Callable[..., subprocess.CompletedProcess[str]]


def test_sweeps_nested_runs_and_the_loops_around_them(python: Python, project: Path) -> None:
    python(
        """
import rearview as rv
for fold in rv.loop("fold", "abc"):
    rv.log("before", fold)
    with rv.run(name=f"inner-{fold}", tags=["t"], notes="n"):
        for step in rv.loop("step", range(2)):
            rv.log("loss", float(step))
            with rv.run(name="innermost"):
                rv.log("deep", step)
            rv.log("again", step)
    rv.log("after", fold)
rv.log("end", 1)
""",
        check=True,
    )
    outer, *rest = read_all(project)
    assert [(r.name, r.at, r.ordinal) for r in outer.records] == [
        *[(name, f"fold{k}", 0) for k in range(3) for name in ("before", "after")],
        ("end", "", 0),
    ]
    inner = [run for run in rest if run.json["name"] != "innermost"]
    assert [run.json["name"] for run in inner] == ["inner-a", "inner-b", "inner-c"]
    for run in inner:
        assert [(r.name, r.at) for r in run.records] == [("loss", "step0"), ("again", "step0"), ("loss", "step1"), ("again", "step1")]
        assert (run.json["tags"], run.json["notes"], run.json["parent"]["run"]) == (["t"], "n", outer.run)
    assert [run.values("deep") for run in rest if run.json["name"] == "innermost"] == [[0], [1]] * 3
    assert sorted(run.json["place"] for run in [outer, *rest]) == list(range(10))


def test_runs_without_with_inside_an_outer_loop(python: Python, project: Path) -> None:
    """Each `rv.run` ends the one before; the outer loop goes on while an inner run is open."""
    python(
        """
import rearview as rv
rv.log("first", 1)
for fold in rv.loop("fold", "abc"):
    rv.run(name=fold)
    for step in rv.loop("step", range(2)):
        rv.log("x", step)
""",
        check=True,
    )
    outer, *inner = read_all(project)
    assert [run.json["name"] for run in inner] == ["a", "b", "c"]
    assert [[r.at for r in run.records] for run in inner] == [["step0", "step1"]] * 3
    assert outer.leaves == [("fold", 3, "exhausted")]


def test_an_exception_ends_a_run_as_failed_and_goes_on(python: Python, project: Path) -> None:
    python(
        """
import rearview as rv
for k in range(3):
    try:
        with rv.run(name=str(k)) as run:
            assert run.id.startswith("r")
            rv.log("x", k)
            if k == 1:
                raise KeyError("lost")
    except KeyError:
        pass
""",
        check=True,
    )
    found = read_all(project)
    assert [run.how for run in found] == ["finished", "failed", "finished"]
    (end,) = found[1].fact("end")
    assert end["exception"] == "KeyError"
    assert "lost" in end["message"]
    assert 'raise KeyError("lost")' in end["traceback"]


def test_threads_and_tasks_with_runs_of_their_own(python: Python, project: Path) -> None:
    python(
        """
import asyncio, threading
import rearview as rv

def train(name, barrier):
    with rv.run(name=name):
        barrier.wait()
        for step in rv.loop("step", range(50)):
            rv.log("x", f"{name}{step}")
            rv.log("f", float(step))
        helper = threading.Thread(target=lambda: None)
        barrier.wait()
        rv.arg("lr", 0.1)
    barrier.wait()

rv.log("main", 1)
barrier = threading.Barrier(2)
threads = [threading.Thread(target=train, args=(name, barrier)) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
rv.log("main", 2)

async def task(name):
    with rv.run(name=name):
        for step in rv.loop("step", range(3)):
            await asyncio.sleep(0)
            rv.log("x", f"{name}{step}")

async def both():
    await asyncio.gather(task("c"), task("d"))

asyncio.run(both())
rv.log("main", 3)
with rv.run(name="e"):
    thread = threading.Thread(target=lambda: rv.log("x", "from a thread"))
    thread.start(); thread.join()
""",
        check=True,
    )
    found = {run.json["name"]: run for run in read_all(project)}
    for name in "ab":
        assert found[name].values("x") == [f"{name}{k}" for k in range(50)]
        assert found[name].values("f") == [float(k) for k in range(50)]
        assert found[name].values("lr") == [0.1]
        assert found[name].how == "finished"
    for name in "cd":
        assert found[name].values("x") == [f"{name}{k}" for k in range(3)]
        assert found[name].at("x") == ["step0", "step1", "step2"]
    assert found[None].values("main") == [1, 2, 3]
    assert found["e"].values("x") == ["from a thread"]
