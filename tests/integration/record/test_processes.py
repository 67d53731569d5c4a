"""Children, workers, ranks and programs started by a program: who joins a run, who has one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.integration.record.reading import read_all, the_run

Python = Callable[..., subprocess.CompletedProcess[str]]

FORK = """
import os, sys
import rearview as rv
def fork(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_forked_children_join_with_their_numbers(python: Python, project: Path) -> None:
    python(
        FORK
        + """
rv.log("main", 1)
for epoch in rv.loop("epoch", "ab"):
    rv.log("main", epoch)
    def work():
        rv.log("child", epoch)
        rv.log("child", 0.5)
        fork(lambda: rv.log("grandchild", epoch))
        for step in rv.loop("step", range(2)):
            rv.log("child", float(step))
    fork(work)
    fork(lambda: None)
rv.log("main", 2)
""",
        check=True,
    )
    run = the_run(project)
    assert run.processes == {"0", "0.1", "0.1.1", "0.3", "0.3.1"}
    assert [(r.process, r.at, r.value, r.ordinal, r.called) for r in run.records if r.name == "child"] == [
        ("0.1", "epoch0", "a", 0, ("a",)), ("0.1", "epoch0", 0.5, 1, ("a",)),
        ("0.1", "epoch0/step0", 0.0, 0, ("a", 0)), ("0.1", "epoch0/step1", 1.0, 0, ("a", 1)),
        ("0.3", "epoch1", "b", 0, ("b",)), ("0.3", "epoch1", 0.5, 1, ("b",)),
        ("0.3", "epoch1/step0", 0.0, 0, ("b", 0)), ("0.3", "epoch1/step1", 1.0, 0, ("b", 1)),
    ]  # fmt: skip
    assert run.values("grandchild") == ["a", "b"]
    assert not list((project / ".rearview/runs").rglob("0.2-*")), "a child that records nothing leaves no file"
    assert run.how == "finished"


def test_a_forked_child_that_ends_normally_ends_only_itself(python: Python, project: Path) -> None:
    done = python(
        """
import os, sys
import rearview as rv
rv.log("main", 1)
pid = os.fork()
if pid == 0:
    rv.log("child", 1)
    sys.exit(0)
os.waitpid(pid, 0)
rv.log("main", 2)
""",
        check=True,
    )
    run = the_run(project)
    assert run.values("main") == [1, 2]
    assert run.values("child") == [1]
    assert [writer for writer, fact in run.facts if fact["fact"] == "end"] == ["0", "0.1"]
    assert done.stderr.count("finished") == 1


def test_a_fork_before_the_first_call_joins(python: Python, project: Path) -> None:
    python(FORK + 'fork(lambda: rv.log("x", "child"))\nrv.log("x", "parent")\nfork(lambda: rv.log("x", "later"))', check=True)
    run = the_run(project)
    assert [(r.process, r.value) for r in run.records] == [("0", "parent"), ("0.1", "child"), ("0.2", "later")]


def test_explicit_runs_in_forked_children_are_runs_of_their_own(python: Python, project: Path) -> None:
    python(
        FORK
        + """
def work(k):
    with rv.run(name=f"child{k}"):
        rv.log("x", k)
for k in range(3):
    fork(lambda: work(k))
with rv.run(name="parent"):
    rv.log("x", 3)
""",
        check=True,
    )
    assert sorted((run.json["name"], run.values("x")) for run in read_all(project)) == [
        ("child0", [0]), ("child1", [1]), ("child2", [2]), ("parent", [3]),
    ]  # fmt: skip


def test_explicit_runs_in_a_pool_name_their_parent(python: Python, project: Path) -> None:
    python(
        """
import multiprocessing as mp
import rearview as rv
def work(k):
    with rv.run(name=f"r{k}"):
        rv.log("x", k)
if __name__ == "__main__":
    rv.log("outer", 1)
    with mp.get_context("fork").Pool(2) as pool:
        pool.map(work, range(4), chunksize=1)
""",
        check=True,
    )
    found = {run.json["name"]: run for run in read_all(project)}
    assert {name: run.values("x") for name, run in found.items() if name} == {f"r{k}": [k] for k in range(4)}
    outer = found[None]
    for k in range(4):
        assert found[f"r{k}"].json["parent"]["run"] == outer.run


POOLS = """
import multiprocessing as mp, os, sys
from concurrent.futures import ProcessPoolExecutor
import rearview as rv

def work(k):
    for i in rv.loop("i", range(2)):
        rv.log("x", k * 10 + i)
    return rv.arg("lr", 0.1)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    if sys.argv[2] != "late":
        rv.log("main", rv.arg("lr", 0.1))
    if sys.argv[2] == "futures":
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            got = list(pool.map(work, range(4)))
    elif sys.argv[2] == "process":
        children = [context.Process(target=work, args=(k,)) for k in range(4)]
        for child in children: child.start()
        for child in children: child.join()
        got = [rv.arg("lr", 0.1)] * 4
    else:
        with context.Pool(2) as pool:
            got = pool.map(work, range(4), chunksize=1)
    print(got)
"""


WAYS = [("fork", "pool"), ("fork", "futures"), ("spawn", "futures"), ("spawn", "process"), ("forkserver", "pool")]


@pytest.mark.parametrize(("method", "way"), WAYS)
def test_multiprocessing_children_join(python: Python, project: Path, method: str, way: str) -> None:
    done = python(POOLS, method, way, "--kwargs", "lr=0.5", name="train.py", check=True)
    assert done.stdout == "[0.5, 0.5, 0.5, 0.5]\n"
    run = the_run(project)
    assert sorted(run.values("x")) == [0, 1, 10, 11, 20, 21, 30, 31]
    assert "0" not in {r.process for r in run.records if r.name == "x"}
    assert all(r.process.startswith("0.") for r in run.records if r.name == "x")
    assert all(r.path[0][0] == "i" for r in run.records if r.name == "x")
    assert done.stderr.count("rearview: run r") == 1


RECORDS_AT_IMPORT = """
import multiprocessing as mp, sys
import rearview as rv

rv.log("imported", 1)

def work(k):
    rv.log("x", k)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    if sys.argv[2] == "pool":
        with context.Pool(2) as pool:
            pool.map(work, range(4), chunksize=1)
            pool.close()
            pool.join()
    else:
        for k in range(2):
            child = context.Process(target=work, args=(k,))
            child.start()
            child.join()
"""


@pytest.mark.parametrize(("method", "way"), [("spawn", "process"), ("spawn", "pool"), ("forkserver", "process")])
def test_a_spawned_child_that_records_while_it_imports_has_its_number(python: Python, project: Path, method: str, way: str) -> None:
    python(RECORDS_AT_IMPORT, method, way, name="train.py", check=True)
    run = the_run(project)
    assert {r.process for r in run.records if r.name == "imported"} == {"0", "0.s1", "0.s2"}
    assert {r.process for r in run.records if r.name == "x"} <= {"0.s1", "0.s2"}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing_under_rearview_run(project: Path, python: Python, method: str) -> None:
    (project / "train.py").write_text(POOLS)
    words = ["run", "--arg", "lr=0.25", "train.py", method, "pool"]
    done = subprocess.run([sys.executable, "-m", "rearview", *words], env=environment(None), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.25, 0.25, 0.25, 0.25]\n"
    assert sorted(the_run(project).values("x")) == [0, 1, 10, 11, 20, 21, 30, 31]
    assert "nothing asked" not in done.stderr


def test_another_script_is_a_run_of_its_own_with_a_parent(python: Python, project: Path) -> None:
    (project / "inner.py").write_text('import rearview as rv\nrv.log("inner", 1)')
    python(
        """
import subprocess, sys
import rearview as rv
rv.log("outer", 1)
subprocess.run([sys.executable, "inner.py"], check=True)
subprocess.run([sys.executable, "-c", "import rearview as rv; rv.log('command', 1)"], check=True)
""",
        check=True,
    )
    outer, inner, command = read_all(project)
    assert (outer.json["parent"], inner.json["filename"], command.json["how"]) == (None, "inner.py", "command")
    assert inner.json["parent"] == command.json["parent"] == {"run": outer.run, "process": "0"}


@pytest.mark.torch
def test_loader_workers_join(python: Python, project: Path) -> None:
    python(
        """
import torch
from torch.utils.data import DataLoader, Dataset
import rearview as rv

class Data(Dataset):
    def __len__(self): return 8
    def __getitem__(self, k):
        rv.log("item", k)
        return k

if __name__ == "__main__":
    for persistent in (False, True):
        loader = DataLoader(Data(), batch_size=2, num_workers=2, persistent_workers=persistent)
        for epoch in rv.loop("epoch", range(2)):
            assert len(rv.loop("step", loader)) == 4
            for batch in rv.loop("step", loader):
                rv.log("batch", batch.sum().item())
    spawned = DataLoader(Data(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    list(spawned)
""",
        check=True,
        name="train.py",
    )
    run = the_run(project)
    assert sorted(run.values("item")) == sorted(list(range(8)) * 5)
    assert run.values("batch") == [1, 5, 9, 13] * 4
    assert "0" not in {r.process for r in run.records if r.name == "item"}


def test_the_variable_is_the_only_change_to_the_environment(python: Python, project: Path) -> None:
    done = python(
        """
import os
before = dict(os.environ)
import rearview as rv
with rv.run():
    rv.log("x", 1)
    print({k for k in set(os.environ) | set(before) if os.environ.get(k) != before.get(k)})
print(os.environ == before)
""",
        check=True,
    )
    assert done.stdout == "{'REARVIEW_RUN'}\nTrue\n"


def test_many_forks_while_a_thread_logs(python: Python, project: Path) -> None:
    python(
        """
import os, threading
import rearview as rv
stop = threading.Event()
def noise():
    k = 0
    while not stop.is_set():
        rv.log("noise", float(k)); k += 1
    rv.log("count", k)
thread = threading.Thread(target=noise); thread.start()
for k in range(20):
    pid = os.fork()
    if pid == 0:
        rv.log("child", k)
        os._exit(0)
    os.waitpid(pid, 0)
stop.set(); thread.join()
""",
        check=True,
    )
    run = the_run(project)
    assert run.values("child") == list(range(20)) or sorted(run.values("child")) == list(range(20))
    assert len(run.values("noise")) == run.values("count")[0]


def test_no_process_is_left_behind(python: Python, project: Path) -> None:
    done = python("import os, rearview as rv\nrv.log('x', 1)\nprint(os.getpid())", check=True)
    assert not os.path.exists(f"/proc/{done.stdout.strip()}")


@pytest.mark.parametrize("where", ["between the parts of a checkpoint", "in the nested loop"])
def test_a_child_that_goes_on_in_a_loop_with_checkpoints_takes_none(where: str, python: Python, project: Path) -> None:
    done = python(
        f"""
import array, os, time
import rearview as rv
large, small, pid = array.array("d", bytes(3_000_000)), array.array("d", bytes(80_000)), -1
def fork():
    global pid
    time.sleep(0.3)
    pid = os.fork()
with rv.checkpointing(large=large, small=small):
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(2)):
            large[0] += 1
            small[0] += 1
            if epoch == 2 and pid == -1 and {where!r} == "in the nested loop":
                fork()
        if epoch == 2 and pid == -1:
            fork()
        rv.log("sum", large[0] + small[0])
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""",
        check=True,
        env={"REARVIEW_EVERY": "1"},
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    run = the_run(project)
    assert run.processes == {"0", "0.1"}
    assert [r.value for r in run.records if r.name == "sum" and r.process == "0"] == [4.0, 8.0, 12.0, 16.0]
    assert [r.value for r in run.records if r.name == "sum" and r.process == "0.1"][-1] == 16.0
    taken = [path.name for path in (project / ".rearview/runs").rglob("*-iteration.json")]
    assert len(taken) == 4 and all(name.startswith("0-") for name in taken)
