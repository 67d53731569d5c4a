"""Recording never changes the training: weights, output, exit code, random streams, and everything else a program can look at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import environment
from tests.integration.record.reading import read_all
from tests.integration.resume.training import Nursery

Python = Callable[..., subprocess.CompletedProcess[str]]

STUB = """
import contextlib, itertools
def log(name, value, *, volatile=False): return value
def arg(name, default=None): return default
def loop(name, iterable=None): return itertools.count() if iterable is None else iterable
def run(**_): return contextlib.nullcontext()
"""
"""A module of our name in which every call has its plain meaning."""

TAIL = """
import hashlib, random, sys
def digest(*things): return hashlib.sha256(repr(things).encode()).hexdigest()
print("python", digest(random.getstate()))
if "numpy" in sys.modules:
    import numpy; print("numpy", digest(*[x.tolist() if hasattr(x, "tolist") else x for x in numpy.random.get_state()]))
if "torch" in sys.modules:
    import torch; print("torch", digest(torch.get_rng_state().tolist()))
sys.exit(3)
"""

SCRIPTS = {
    "toy": """
import random
import rearview as rv
random.seed(rv.arg("seed", 7))
w = [random.random() for _ in range(50)]
for epoch in rv.loop("epoch", range(3)):
    for step in rv.loop("step", random.sample(range(100), 30)):
        k = random.randrange(50)
        w[k] = rv.log("w", w[k] * 0.9 + random.gauss(0, 1))
    rv.log("all", list(w))
    print(epoch, sum(w).hex())
for k in rv.loop("while"):
    if random.random() < 0.2: break
print(k, [x.hex() for x in w[:3]])
""",
    "numpy": """
import numpy as np, random
import rearview as rv
random.seed(1); np.random.seed(3); own = np.random.default_rng(5)
w = np.random.randn(20, 20)
for epoch in rv.loop("epoch", range(4)):
    with rv.run(name="inner"):
        for batch in rv.loop("batch", np.array_split(own.permutation(100), 10)):
            w = w - 0.01 * (w @ np.random.randn(20, 20)) + batch.mean() * 1e-3
            rv.log("norm", np.linalg.norm(w)); rv.log("w", w); rv.log("shape", w.shape)
    print(epoch, rv.log("last", w.sum()).hex())
import hashlib; print(hashlib.sha256(w.tobytes()).hexdigest(), own.bit_generator.state["state"]["state"])
""",
    "torch": """
import torch, hashlib, random
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import rearview as rv
if __name__ == "__main__":
    import numpy; random.seed(1); numpy.random.seed(1); torch.manual_seed(rv.arg("seed", 11)); torch.set_num_threads(1)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=1)
    for epoch in rv.loop("epoch", range(2)):
        for x, y in rv.loop("step", loader):
            loss = ((model(x) - y) ** 2).mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            rv.log("loss", loss); rv.log("item", loss.item())
        rv.log("weights", model[0].weight)
        print(epoch, loss.item().hex())
    print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
""",
}


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[str, int]:
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.returncode


@pytest.mark.parametrize("name", ["toy", "numpy"])
def test_training(project: Path, python: Python, name: str) -> None:
    """Without rearview, off, on, launched, and on a disk that fails with every write after the first."""
    text = SCRIPTS[name] + TAIL.replace("sys.exit(3)", "sys.exit(3) if __name__ == '__main__' else None")
    stub = project / "stub"
    stub.mkdir()
    (stub / "rearview.py").write_text(STUB)
    seeded = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    plain = outcome(python(text, env={**seeded, "PYTHONPATH": str(stub)}))
    assert plain[1] == 3
    assert outcome(python(text, env=seeded)) == plain
    assert read_all(project)
    shutil.rmtree(project / ".rearview")
    assert outcome(python(text, env={**seeded, "REARVIEW": "off"})) == plain
    assert not (project / ".rearview").exists()
    words = [sys.executable, "-m", "rearview", "run", "script.py"]
    assert outcome(subprocess.run(words, env=environment(seeded), capture_output=True, text=True, timeout=60)) == plain
    done = python(FAILING + text, env=seeded)
    assert outcome(done) == plain
    assert is_degraded(done)


@pytest.mark.torch
def test_training_of_torch(project: Path, nursery: Nursery) -> None:
    """Without rearview, on, and on a disk that fails."""
    text = SCRIPTS["torch"] + TAIL.replace("sys.exit(3)", "sys.exit(3) if __name__ == '__main__' else None")
    (project / "stub").mkdir()
    (project / "stub" / "rearview.py").write_text(STUB)

    def run(text: str, before: str = "") -> subprocess.CompletedProcess[str]:
        (project / "script.py").write_text(text)
        done = nursery.run(project, "script.py", env={"REARVIEW_QUIET": "0"}, before=before)
        return subprocess.CompletedProcess(["script.py"], done.code, done.stdout, done.stderr)

    plain = outcome(run(text, before=f"import sys; sys.path.insert(0, {str(project / 'stub')!r})"))
    assert plain[1] == 3 and not (project / ".rearview").exists()
    assert outcome(run(text)) == plain
    assert read_all(project)
    done = run(FAILING + text)
    assert outcome(done) == plain
    assert is_degraded(done)


def is_degraded(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether it says once for each run that it could not be written."""
    return done.stderr.count("degraded") == len([line for line in done.stderr.splitlines() if "could not be written" in line]) > 0


FAILING = """
import os, errno
import rearview.record.recorder as r
real = os.write
_seen = 0
def _write(fd, data):
    global _seen
    if ".journal" in os.readlink(f"/proc/self/fd/{fd}"):
        _seen += 1
        if _seen > 5: raise OSError(errno.ENOSPC, "No space left on device")
    return real(fd, data)
os.write = r._write = _write
"""

LOOK = """
import logging, os, signal, sys, threading, warnings
def look():
    mask = os.umask(0); os.umask(mask)
    return {
        "argv": list(sys.argv), "cwd": os.getcwd(), "umask": mask,
        "signals": {int(s): repr(signal.getsignal(s)) for s in signal.Signals},
        "logging": (repr(logging.root.handlers), logging.root.level, sorted(logging.root.manager.loggerDict)),
        "filters": list(map(repr, warnings.filters)), "showwarning": repr(warnings.showwarning),
        "hooks": (repr(sys.excepthook), repr(sys.unraisablehook), repr(threading.excepthook), repr(sys.displayhook)),
        "trace": (sys.gettrace(), sys.getprofile(), threading.gettrace()),
        "threads": sorted(t.name for t in threading.enumerate()),
        "files": sorted(os.listdir("/proc/self/fd")), "path": list(sys.path), "meta": list(map(repr, sys.meta_path)),
        "limit": (sys.getrecursionlimit(), sys.getswitchinterval()), "environ": dict(os.environ),
        "streams": (repr(sys.stdout), repr(sys.stderr)), "builtins": sorted(vars(__builtins__)), "children": threading.active_count(),
    }
"""


def test_everything_else_a_program_can_look_at(python: Python, project: Path) -> None:
    python(
        LOOK
        + """
before = look()
import rearview as rv
for k in range(3):
    with rv.run(name=str(k)):
        for step in rv.loop("step", range(3)):
            rv.log("x", step)
        during = look()
        assert set(during["environ"]) - set(before["environ"]) == {"REARVIEW_RUN"}
        for key in set(before) - {"environ", "threads", "children", "files"}:
            assert during[key] == before[key], (key, before[key], during[key])
        assert set(during["threads"]) <= {"MainThread", "rearview-keeper"}
    after = look()
    assert after == before, {key: (before[key], after[key]) for key in before if before[key] != after[key]}
assert not {"torch", "numpy", "pandas", "duckdb", "click", "rich"} & set(sys.modules)
""",
        check=True,
    )


IMPORT = """
import sys, os
heavy = {"torch", "numpy", "pandas", "duckdb", "click", "rich", "polars", "pyarrow", "matplotlib", "PIL", "IPython"}
class Watched(list):
    def _touched(self, *a): raise AssertionError("argv was read")
    __getitem__ = __iter__ = __len__ = __contains__ = _touched
made = []
def audit(event, args):
    if event == "open" and args[0] is not None:
        by_flags = isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if by_flags or (isinstance(args[1], str) and set(args[1]) & set("wax+")): made.append(args)
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "subprocess.Popen", "os.fork", "_thread.start_new_thread",
                   "os.posix_spawn", "socket.connect", "os.putenv", "os.chdir"):
        made.append((event, args))
sys.dont_write_bytecode = True
sys.addaudithook(audit)
argv, sys.argv = sys.argv, Watched(sys.argv)
import threading
import rearview as rv
assert not made, made
assert threading.active_count() == 1
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert "subprocess" not in sys.modules
sys.argv = argv
"""


def test_import_writes_nothing_starts_nothing_and_reads_no_argv(python: Python, project: Path) -> None:
    python(IMPORT, check=True)
    assert [path.name for path in project.iterdir()] == ["script.py"]


def test_reading_never_begins_a_run(python: Python, project: Path) -> None:
    done = python(
        """
import os
import rearview as rv
for look in (rv.runs, lambda: rv.sql("SELECT 1"), lambda: rv.dataframe("x", as_="rows")):
    try:
        print(look())
    except rv.RearviewError as problem:
        print(type(problem).__name__)
print(os.path.exists(".rearview"), "REARVIEW_RUN" in os.environ)
""",
        check=True,
    )
    assert done.stdout == "NoStore\nNoStore\nNoStore\nFalse False\n"
    assert not done.stderr


def test_reading_while_recording(python: Python, project: Path) -> None:
    done = python(
        """
import os, rearview as rv
rv.log("x", 1)
os.chdir("/")
print([run.records for run in rv.runs()])
rv.log("x", 2)
print(rv.dataframe("x", as_="rows")[-1]["x"])
""",
        check=True,
    )
    assert done.stdout == "[1]\n2\n"
    (run,) = read_all(project)
    assert run.values("x") == [1, 2]


def test_log_at_odd_times(python: Python, project: Path) -> None:
    """In exit handlers, in destructors at the end, in daemon threads that outlive the program, from a closed stderr."""
    python(
        """
import atexit
atexit.register(lambda: rv.log("registered before us: too late", 1))
import sys, threading, time
import rearview as rv
atexit.register(lambda: rv.log("at exit", 1))
class Last:
    def __del__(self): rv.log("del", 1)
def forever():
    while True: rv.log("daemon", 1.0)
threading.Thread(target=forever, daemon=True).start()
thing = Last(); del thing
kept = Last()
rv.log("x", 1)
sys.stderr.close()
rv.log("unstorable", object())
""",
        check=True,
    )
    (run,) = read_all(project)
    assert not run.damage
    assert (run.values("at exit"), run.values("del"), run.values("x"), run.how) == ([1], [1], [1], "finished")


def test_log_returns_the_value_and_takes_text_names_only(python: Python, project: Path) -> None:
    done = python(
        """
import rearview as rv
thing = object()
print(rv.log("x", 5), rv.log("y", thing) is thing, rv.log("v", 1.5, volatile=True))
class Name(str): pass
rv.log(Name("sub"), 1); rv.log(Name("sub"), 2.0)
for bad in (lambda: rv.log(3, 1), lambda: rv.arg(None), lambda: rv.loop(b"x", []), lambda: rv.log(3, 1.0)):
    try: bad()
    except TypeError as problem: print(problem)
""",
        check=True,
    )
    assert done.stdout.splitlines()[0] == "5 True 1.5"
    assert len(done.stdout.splitlines()) == 5
    assert "rv.loop takes a name as text first, not bytes" in done.stdout
    (run,) = read_all(project)
    assert run.values("sub") == [1, 2.0]


def test_one_line_at_the_end_and_the_size_it_says(python: Python, project: Path) -> None:
    done = python("import rearview as rv\nfor k in range(2000): rv.log('x', float(k))\nrv.log('y', 1)", check=True)
    (line,) = [line for line in done.stderr.splitlines() if "finished" in line]
    assert "2,001 records of 2 names" in line
    size = sum(path.stat().st_size for path in (project / ".rearview/runs").rglob("*") if path.is_file())
    assert f"{size / 1000:.1f} kB" in line
    assert os.path.isdir(project / ".rearview")
