"""A resume puts back what belongs to no variable: what names stand for, names that are gone, the process, functions made in the loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rearview.state import frames
from tests.conftest import RunsProgram

OF_THE_RUN = ("run", "tstamp", "projid", "filename", "version")

HEAD = '''
import glob, os, random, time
from pathlib import Path
import rearview as rv
HERE = Path(__file__).resolve().parent
def die(epoch, at=3):
    """Die once three iterations are kept, if this is the execution that is to."""
    if epoch == at and os.environ.get("DIE"):
        patience = time.monotonic() + 20
        while len(list(HERE.glob(".rearview/runs/*/checkpoints/*-iteration.json"))) < at and time.monotonic() < patience:
            time.sleep(0.01)
        os._exit(3)
'''

NAMES = """
import json, decimal
def mine(a, b): return a * 100 + b
class A: k = 1
class B: k = 2
fn, own, cls, mod = max, None, A, os
x = 5
def f(): return 1
class Net:
    def step(self): return 1
def again(): return 1
def main():
    global fn, own, cls, mod, x, again, f
    f2, also = max, None
    (HERE / "sub").mkdir(exist_ok=True)
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(6)):
            if epoch == 1:
                fn, f2, own, cls, mod, also = min, mine, mine, B, json, f
                del x
                Net.step = lambda self: 2
                def again(): return 2
                os.chdir("sub")
                os.environ["NEW"] = "1"
                decimal.getcontext().prec = 7
            os.environ["COUNT"] = str(int(os.environ.get("COUNT", "0")) + 1)
            rv.log("fn", fn(3, 4)); rv.log("f2", f2(3, 4)); rv.log("own", own is mine); rv.log("cls", cls.k); rv.log("mod", mod.__name__)
            rv.log("x", "x" in globals()); rv.log("step", Net().step()); rv.log("again", again())
            rv.log("also", also is f); rv.log("new", os.environ.get("NEW")); rv.log("count", os.environ["COUNT"])
            rv.log("cwd", os.path.basename(os.getcwd())); rv.log("prec", decimal.getcontext().prec)
            die(epoch)
main()
"""

TOP = """
x = 5
def f(): return 1
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        if epoch == 1:
            del x
            g0 = f
            def f(): return 2
        def closure(): return epoch
        held = closure
        rv.log("x", "x" in globals()); rv.log("f", f()); rv.log("before", g0() if epoch else None); rv.log("c", closure())
        rv.log("same", held is closure)
        die(epoch)
"""

MADE_INSIDE = """
random.seed(1)
def make_model():
    state = {"w": 0.0}
    class Model:
        seen = 0
        def fit(self, x): state["w"] += x; Model.seen += 1; return state["w"]
    return Model()
m = make_model()
with rv.checkpointing(m=m):
    for epoch in rv.loop("epoch", range(6)):
        for step in rv.loop("step", range(3)): m.fit(random.random())
        rv.log("w", m.fit(0)); rv.log("seen", type(m).seen)
        die(epoch)
"""

CACHES = """
import functools
random.seed(1)
@functools.cache
def drawn(x): return x + random.random()
class Table:
    @functools.lru_cache(None)
    def row(self, k, scale): return k * scale + random.random()
table = Table()
@functools.lru_cache(maxsize=10)
def before(x): return x + random.random()
def main():
    before(1)
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(6)):
            rv.log("a", drawn(epoch % 2)); rv.log("b", table.row(epoch % 3, 2.0)); rv.log("c", before(1) + random.random())
            die(epoch)
main()
"""

AT_THE_TOP = """
import helper
numbers = (n * n for n in range(100))
pairs = ((a, b) for a in range(10) for b in range(a))
mapped = map(lambda n: n + 1, range(100))
def main():
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(6)):
            rv.log("n", next(numbers)); rv.log("p", str(next(pairs))); rv.log("h", next(helper.words)); rv.log("m", next(mapped))
            die(epoch)
main()
"""

LOCAL = """
def main():
    x = 5
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(6)):
            if epoch == 1:
                del x
            rv.log("x", "x" in locals())
            die(epoch)
main()
"""


def rows(cli: RunsProgram, run: str) -> list[dict[str, Any]]:
    """The table of a run, all its names, one row for each iteration."""
    found = json.loads(cli("sql", f"select * from wide where run = '{run}'", "--json", check=True).stdout)["rows"]
    by_epoch = sorted((row for row in found if row["epoch"] is not None), key=lambda row: int(row["epoch"]))
    return [{name: value for name, value in row.items() if name not in OF_THE_RUN} for row in by_epoch]


def newest(cli: RunsProgram) -> str:
    return str(json.loads(cli("runs", "--json", "--limit", "1", check=True).stdout)["runs"][0]["run"])


def both(project: Path, cli: RunsProgram, text: str) -> tuple[list[dict[str, Any]], str]:
    """A program left alone, and killed: the table of the first, the run of the second."""
    (project / "train.py").write_text(HEAD + text)
    (project / "helper.py").write_text("words = (word + '!' for word in 'a b c d e f g h'.split())\n")
    env = {"REARVIEW_EVERY": "1"}
    cli("run", "train.py", env=env, check=True)
    whole = rows(cli, newest(cli))
    assert len(whole) == 6
    assert cli("run", "train.py", env={**env, "DIE": "1"}).returncode == 3
    return whole, newest(cli)


PROGRAMS = {"in a function": NAMES, "at the top": TOP, "made inside": MADE_INSIDE, "caches": CACHES, "generators": AT_THE_TOP}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_names_and_the_process_go_on_as_they_were(project: Path, cli: RunsProgram, text: str) -> None:
    whole, run = both(project, cli, text)
    plan = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert plan["lacks"] == []
    done = cli("resume", "--yes", check=True)
    assert "may not go on exactly" not in done.stderr
    assert rows(cli, run) == whole


FORKING = """
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        if os.fork() == 0:
            rv.log("child", epoch)
            os._exit(0)
        os.wait()
        die(epoch)
"""


def test_children_are_numbered_on(project: Path, cli: RunsProgram) -> None:
    _, run = both(project, cli, FORKING)
    cli("resume", "--yes", check=True)
    found = json.loads(cli("sql", f"select process, path from logs where run = '{run}' order by all", "--json", check=True).stdout)["rows"]
    assert [tuple(row.values()) for row in found] == [(f"0.{k + 1}", f"epoch={k}") for k in range(6)]


def test_a_deleted_variable_of_a_function(project: Path, cli: RunsProgram) -> None:
    whole, run = both(project, cli, LOCAL)
    lacks = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)["lacks"]
    assert bool(lacks) == (not frames.CAN_UNBIND)
    done = cli("resume", "--yes", check=True)
    assert (rows(cli, run) == whole) == frames.CAN_UNBIND
    assert ("x was deleted, and stays" in done.stderr) == (not frames.CAN_UNBIND)


def test_edited_code_keeps_what_its_names_say(project: Path, cli: RunsProgram) -> None:
    """What a name stands for is the edited code's; the process is as it was."""
    _, run = both(project, cli, NAMES)
    edited = (HEAD + NAMES).replace("fn, own, cls, mod = max, None, A, os", "fn, own, cls, mod = abs, None, A, os")
    (project / "train.py").write_text(edited.replace("fn(3, 4)", "fn.__name__"))
    done = cli("resume", run, "--yes", "--current-code", check=True)
    found = rows(cli, newest(cli))[-1]
    assert (found["fn"], found["cls"], found["cwd"], found["new"]) == ("abs", 1, "sub", "1")
    assert "fn stood for builtins:min, and stays builtins:abs" in done.stderr
    assert "cls stood for __main__:B, and stays __main__:A" in done.stderr
    assert (found["step"], found["again"]) == (1, 1)
    assert "Net.step was made after the loops began, and is left as the code has it now" in done.stderr


def test_what_cannot_be_made_again_is_named_before(project: Path, cli: RunsProgram) -> None:
    text = TOP.replace("        die(epoch)", "        class Made: pass\n        exec('def other(): return 1')\n        die(epoch)")
    _, run = both(project, cli, text)
    lacks = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)["lacks"]
    assert [one.split(" ")[0] for one in lacks] == ["Made", "other"]
    done = cli("resume", run, "--yes", check=True)
    assert "Made was made after the loops began" in done.stderr


def test_by_itself(python: RunsProgram, cli: RunsProgram) -> None:
    """`rv.resume()` puts back the same."""
    text = HEAD.replace("import rearview as rv", "import rearview as rv\nrv.resume(key='k')") + TOP
    env = {"REARVIEW_EVERY": "1"}
    assert python(text, env={**env, "DIE": "1"}).returncode == 3
    python(text, env=env, check=True)
    run = newest(cli)
    assert [(row["x"], row["f"], row["before"]) for row in rows(cli, run)] == [(True, 1, None), *[(False, 2, 1)] * 5]


def test_a_cache_that_cannot_be_filled_again_is_named_before(project: Path, cli: RunsProgram) -> None:
    both(project, cli, CACHES.replace("before(1) + random.random()", "before(epoch) + random.random()").replace("(None)", "(9)"))
    lacks = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)["lacks"]
    assert [one.split(" ")[0] for one in lacks] == ["Table.row", "before"]


TWO_BLOCKS = """
import os, random
import rearview as rv

random.seed(0)
total = 0.0

def f(x):
    return x + 1

with rv.checkpointing():
    for epoch in rv.loop("before", range(3)):
        total = f(total) + random.random()
        if epoch == 1:
            def f(x):
                return x * 2 + 0.5

class Between:
    more = 3

with rv.checkpointing():
    for epoch in rv.loop("after", range(4)):
        total = f(total) + random.random() + Between.more
        if epoch == 2 and os.environ.get("DIE"):
            os._exit(9)
print(total)
"""


def test_a_function_made_in_loops_whose_states_are_gone(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TWO_BLOCKS)
    expected = cli("run", "train.py", check=True).stdout
    assert cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"}).returncode == 9
    gone = [path for path in (project / ".rearview").rglob("*-iteration.json") if json.loads(path.read_text())["path"][0][0] == "before"]
    assert gone
    for path in gone:
        path.unlink()
    assert cli("resume", "--yes", check=True).stdout == expected


OF_TEXT = """
def main():
    scale, offset, total = lambda x: x, eval("lambda x: x + 1"), 0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(5)):
            if epoch == 2:
                scale = eval("lambda x: x * 10")
            total += offset(scale(epoch))
            die(epoch)
    print(total)
main()
"""


def test_a_function_made_of_text_is_refused_and_an_older_state_named(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    (project / "train.py").write_text(HEAD + OF_TEXT)
    expected = cli("run", "train.py", env={"REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True).stdout
    killed = cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"})
    assert killed.returncode == 3
    named = "checkpoints of this run are partial: scale (function) is not in them: a function made of text while the loop ran"
    assert killed.stderr.count(named) == 1 and "offset" not in killed.stderr
    refused = cli("resume", "--yes")
    assert refused.returncode != 0 and "the function <lambda> of __main__ is not in the code that runs now" in refused.stderr
    assert "takes an older state next" in refused.stderr and "--at PLACE`" in refused.stderr
    assert cli("resume", "--yes", "--at", "epoch=1", check=True).stdout == expected
