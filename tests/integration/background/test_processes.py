"""`rv.background` in real processes: flushed at every kind of exit, safe across forks, quiet under Ctrl-C, at rest when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunsProgram, environment

Python = Callable[..., subprocess.CompletedProcess[str]]

SLOW_FILE = """
import os, sys, threading, time
import rearview as rv

class Slow:
    def __init__(self, path):
        self.path, self.held = path, []
    def add(self, value):
        time.sleep(0.01)
        self.held.append(str(value))
    def flush(self):
        with open(self.path, "a") as file:
            file.write("".join(line + "\\n" for line in self.held))
        self.held.clear()

slow = rv.background(Slow("out.txt"))
"""


def lines(project: Path, name: str = "out.txt") -> list[str]:
    path = project / name
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise ValueError('as it happens')"])
def test_everything_is_made_before_the_program_ends(project: Path, python: Python, ending: str) -> None:
    done = python(SLOW_FILE + f"for k in range(30): slow.add(k)\n{ending}\n")
    assert lines(project) == [str(k) for k in range(30)]
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(ending, 1)


def test_also_under_rearview_run_and_beside_records(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(SLOW_FILE + "for k in rv.loop('epoch', range(20)):\n    slow.add(k)\n    rv.log('k', k)\n")
    done = cli("run", "train.py", check=True)
    assert "Traceback" not in done.stderr
    assert lines(project) == [str(k) for k in range(20)]
    assert cli("sql", "SELECT count(*) AS n FROM logs", "--csv").stdout.split() == ["n", "20"]


def test_a_function_too_and_an_error_at_the_exit_is_shown(project: Path, python: Python) -> None:
    done = python(
        "import rearview as rv\n"
        "save = rv.background(lambda path, text: open(path, 'w').write(text))\n"
        "save('a.txt', 'a')\nsave('no/such/folder', 'b')\nsave('c.txt', 'c')\n"
    )
    assert done.returncode == 0
    assert ((project / "a.txt").read_text(), (project / "c.txt").read_text()) == ("a", "c")
    assert "a background call of <lambda> failed" in done.stderr
    assert "FileNotFoundError" in done.stderr and "called at script.py:4" in done.stderr


def test_a_forked_child_has_an_empty_queue_and_works(project: Path, python: Python) -> None:
    """The parent's calls are made once, by the parent; the child's by the child; none twice and none lost."""
    program = (
        SLOW_FILE
        + """
for k in range(40): slow.add(f"parent {k}")
child = os.fork()
if child == 0:
    here = slow._rearview.queue
    assert here.pending == 0 and not [t for t in threading.enumerate() if t.name.startswith("rearview-background")]
    slow.path = "child.txt"
    slow.held = []
    for k in range(5): slow.add(f"child {k}")
    sys.exit(0)
slow.add("after")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )
    python(program, timeout=60, check=True)
    assert lines(project) == [f"parent {k}" for k in range(40)] + ["after"]
    assert lines(project, "child.txt") == [f"child {k}" for k in range(5)]


def test_a_child_that_uses_nothing_flushes_nothing(project: Path, python: Python) -> None:
    program = (
        SLOW_FILE
        + """
for k in range(10): slow.add(k)
slow.held
if os.fork() == 0:
    sys.exit(0)   # runs the exit functions, with the parent's lines in memory
os.wait()
"""
    )
    python(program, timeout=60, check=True)
    assert lines(project) == [str(k) for k in range(10)]


def test_a_fork_does_not_wait_for_a_long_call(project: Path, python: Python) -> None:
    program = """
import os, sys, threading, time
import rearview as rv
release = threading.Event()
long = rv.background(lambda: release.wait(60))
handle = long()
while long._rearview.queue.waiting_bytes and not long._rearview.queue._runner: time.sleep(0.001)
for _ in range(100):   # it waits a moment for it, once
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not handle.done()
release.set()
assert handle.result() is True
"""
    python(program, timeout=60, check=True)


def test_a_call_may_fork_itself(project: Path, python: Python) -> None:
    program = """
import os, sys
import rearview as rv
def forks(k):
    child = os.fork()
    if child == 0:
        os._exit(k)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
queued = rv.background(forks)
assert [handle.result() for handle in [queued(k) for k in range(5)]] == list(range(5))
"""
    python(program, timeout=60, check=True)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_makes_its_calls_before_it_ends(project: Path, python: Python, method: str) -> None:
    program = f"""
import multiprocessing, time
import rearview as rv

def note(path, text):
    time.sleep(0.01)
    with open(path, "a") as file:
        file.write(text + "\\n")

queued = rv.background(note)

def work(k):
    for i in range(5): queued(f"{{k}}.txt", str(i))

if __name__ == "__main__":
    queued("parent.txt", "first")
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=work, args=(k,)) for k in range(2)]
    for child in children: child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    queued("parent.txt", "last")
"""
    python(program, timeout=100, check=True)
    assert lines(project, "parent.txt") == ["first", "last"]
    for k in range(2):
        assert lines(project, f"{k}.txt") == [str(i) for i in range(5)]


def test_ctrl_c_while_the_exit_waits_gives_up_with_a_line(project: Path) -> None:
    script = project / "script.py"
    script.write_text(
        "import atexit, rearview as rv, sys, time\n"
        "queued = rv.background(lambda k: time.sleep(0.2))\n"
        "for k in range(500): queued(k)\n"
        "atexit.register(print, 'at the exit', flush=True)\n"  # registered last: runs first
    )
    with subprocess.Popen([sys.executable, str(script)], cwd=project, env=environment(None), stdout=-1, stderr=-1, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "at the exit\n"
        time.sleep(1.0)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
    assert "rearview: interrupted at the exit: " in said
    assert "background calls of <lambda> were not made" in said
    assert "Traceback" not in said


def test_no_thread_of_ours_is_left_when_it_rests(project: Path, python: Python) -> None:
    program = (
        SLOW_FILE
        + """
from rearview.record.background import wrapping as background
for k in range(20): slow.add(k)
background.rest_all()
assert [t.name for t in threading.enumerate() if t.name.startswith("rearview-background")] == []
until = time.monotonic() + 30   # a thread that Python has joined is about to leave the system too
while sys.platform == "linux" and len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < until: time.sleep(0.01)
assert sys.platform != "linux" or len(os.listdir("/proc/self/task")) == 1
"""
    )
    python(program, timeout=60, check=True)
    assert lines(project) == [str(k) for k in range(20)]


def test_wrapping_loads_no_framework_and_starts_nothing(project: Path, python: Python) -> None:
    program = """
import sys, threading
import rearview as rv
proxy = rv.background([])
assert threading.active_count() == 1
proxy.append(1)
assert list(proxy) == [1]
assert not {"torch", "numpy", "tensorboard"} & set(sys.modules), sorted(sys.modules)
"""
    python(program, timeout=60, check=True)
    assert not os.path.exists(project / ".rearview")


@pytest.mark.torch
def test_a_summary_writer_that_nobody_closes(project: Path, python: Python, torch_python: Python) -> None:
    pytest.importorskip("tensorboard")
    program = """
import torch, rearview as rv
from torch.utils.tensorboard import SummaryWriter
torch.set_num_threads(1)
writer = rv.background(SummaryWriter("logs"))
values = torch.zeros(1000)
for step in range(50):
    values += 1
    writer.add_histogram("x", values, step)
"""
    torch_python(program)
    check = """
import sys, warnings
warnings.simplefilter("ignore")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator("logs", size_guidance={"histograms": 0}).Reload().Histograms("x")
assert [(e.step, e.histogram_value.min, e.histogram_value.max) for e in found] == [(s, s + 1.0, s + 1.0) for s in range(50)]
"""
    python(check, name="check.py", timeout=100, check=True, env={"OMP_NUM_THREADS": "1"})


@pytest.mark.torch
def test_tensors_arrive_as_they_were(torch_python: Python) -> None:
    program = """
import threading, torch, rearview as rv
from rearview.record.background.wrapping import stats
torch.set_num_threads(1)
gate = threading.Event()
seen = []
def look(*args): gate.wait(30); seen.append(args)
queued = rv.background(look)
net = torch.nn.Linear(3, 3)
state = {"net": net.state_dict(), "step": 1, "more": [torch.ones(2, requires_grad=True) * 2]}
sparse, turned, narrow = torch.eye(3).to_sparse(), torch.arange(6.).view(2, 3).t(), torch.ones(2, dtype=torch.bfloat16)
before = {name: value.clone() for name, value in net.state_dict().items()}
queued(state, net, sparse, turned, narrow, torch.Size([1]), torch.float32)
with torch.no_grad():
    for p in net.parameters(): p.add_(1)
    turned.zero_(); narrow.zero_()
gate.set()
queued.flush()
state_then, net_then, sparse_then, turned_then, narrow_then, size, dtype = seen[0]
assert all(torch.equal(state_then["net"][name], before[name]) for name in before)
assert all(torch.equal(net_then.state_dict()[name], before[name]) for name in before) and type(net_then) is torch.nn.Linear
assert state_then["more"][0].tolist() == [2, 2] and not state_then["more"][0].requires_grad
assert sparse_then.to_dense().tolist() == torch.eye(3).tolist()
assert turned_then.tolist() == [[0, 3], [1, 4], [2, 5]] and turned_then.stride() == (1, 3)
assert narrow_then.tolist() == [1, 1] and narrow_then.dtype is torch.bfloat16
assert (size, dtype) == (torch.Size([1]), torch.float32)
assert stats(queued).direct == 0
"""
    torch_python(program)


@pytest.mark.torch
def test_training_and_random_streams_are_untouched(torch_python: Python) -> None:
    """The same weights, bit for bit, with a writer in the background, with one that is not, and with none."""
    pytest.importorskip("tensorboard")
    program = """
import sys, hashlib, torch, rearview as rv
from torch.utils.tensorboard import SummaryWriter
torch.set_num_threads(1)

def trained(kind):
    torch.manual_seed(0)
    writer = SummaryWriter("logs/" + kind) if kind != "none" else None
    if kind == "behind": writer = rv.background(writer)
    net = torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.Dropout(), torch.nn.Linear(50, 1))
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(15):
        optimizer.zero_grad()
        net(torch.randn(64, 50)).square().mean().backward()
        for name, p in net.named_parameters():
            if writer: writer.add_histogram(name, p, step); writer.add_histogram("g/" + name, p.grad, step)
        optimizer.step()
    if writer: writer.close()
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest(), torch.rand(1).item()

print(*{trained(kind) for kind in ("none", "plain", "behind")}, sep="\\n")
"""
    assert len(torch_python(program).stdout.splitlines()) == 1
