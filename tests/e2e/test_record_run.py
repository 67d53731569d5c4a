"""`rearview run`: the script cannot tell the difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import RunsProgram, environment
from tests.integration.record.reading import read_all, the_run

Python = Callable[..., subprocess.CompletedProcess[str]]


def both(project: Path, cli: RunsProgram, text: str, *args: str, stdin: str = "") -> list[subprocess.CompletedProcess[str]]:
    """The same script with plain python and with `rearview run`."""
    (project / "train.py").write_text(text)
    words = [sys.executable, "train.py", *args]
    plain = subprocess.run(words, env=environment({"REARVIEW": "off"}), input=stdin, capture_output=True, text=True, timeout=60)
    return [plain, cli("run", "train.py", *args, stdin=stdin)]


def own(said: str) -> str:
    """What the program said, without our lines."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("rearview: "))


LOOK = """
import os, pickle, sys, threading
sys.path = [p for p in sys.path if "rearview" not in p]
class Thing: pass
def main():
    print(sys.argv, sys.orig_argv[-10:], __name__, __file__, sys.path[0], __spec__, __package__, __doc__)
    print(sorted(globals()))
    print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing, sys.modules["__main__"].Thing is Thing)
    print(os.getcwd(), threading.active_count(), sys.stdin.read())
    print(__builtins__.__name__, __loader__.__class__.__name__, __cached__)
main()
"""


def test_the_script_sees_what_it_would_see_with_python(project: Path, cli: RunsProgram) -> None:
    words = ["--name", "its own", "--arg", "x", "--kwargs", "lr=1", "-m", "--", "--help"]
    plain, launched = both(project, cli, LOOK, *words, stdin="through")
    assert launched.stdout == plain.stdout
    assert (launched.returncode, own(launched.stderr)) == (plain.returncode, plain.stderr)
    assert the_run(project).json["argv"] == ["train.py", *words]


BROKEN = {
    "exception": "def f():\n    raise ValueError('x')\ndef g():\n    try:\n        f()\n    except ValueError:\n        1 / 0\ng()",
    "group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "syntax": "x = 1\nif x\n  pass",
    "indent": "x = 1\n  y = 2",
    "exit text": "import sys\nsys.exit('no data')",
    "hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__, file=sys.stderr)\nraise KeyError",
    "import": "import nothing_of_that_name",
    "warning": "import warnings\nwarnings.warn('careful')",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='worker')\nt.start(); t.join()",
    "interrupt": "raise KeyboardInterrupt",
    "atexit": "import atexit\natexit.register(lambda: print('bye'))\nraise SystemExit(5)",
    "encoding": "# -*- coding: latin-1 -*-\nprint('caf\xe9')",
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_a_broken_script_prints_is_the_same(project: Path, cli: RunsProgram, name: str) -> None:
    plain, launched = both(project, cli, BROKEN[name])
    assert own(launched.stderr) == plain.stderr
    assert (launched.stdout, launched.returncode) == (plain.stdout, plain.returncode)


def test_modules(project: Path, cli: RunsProgram) -> None:
    package = project / "pkg"
    package.mkdir()
    text = "import sys, rearview as rv\nrv.log('x', rv.arg('lr', 1))\nprint(sys.argv, __name__, __spec__.name, sys.path[0])"
    for name in ("__init__", "__main__", "train"):
        (package / f"{name}.py").write_text("" if name == "__init__" else text)
    for module in ("pkg", "pkg.train"):
        plain = subprocess.run(
            [sys.executable, "-m", module, "-x"], env=environment({"REARVIEW": "off"}), capture_output=True, text=True, timeout=60
        )  # fmt: skip
        launched = cli("run", "--arg", "lr=7", "-m", module, "-x", check=True)
        assert launched.stdout == plain.stdout
        run = read_all(project)[-1]
        assert (run.json["how"], run.json["module"], run.values("x")) == ("module", module, [7])
        assert run.json["filename"] == ("pkg/__main__.py" if module == "pkg" else "pkg/train.py")
    missing = cli("run", "-m", "pkg.nothing")
    plain = subprocess.run([sys.executable, "-m", "pkg.nothing"], env=environment(None), capture_output=True, text=True, timeout=60)
    assert (own(missing.stderr), missing.returncode) == (plain.stderr, plain.returncode)


def test_usage(project: Path, cli: RunsProgram) -> None:
    for words, part in (
        (["run", "nothing.py"], "nothing.py"), (["run"], "needs a script"), (["run", "--arg", "lr", "x.py"], "NAME=VALUE"),
        (["run", "-m"], "module"), (["run", str(project)], "no script"),
    ):  # fmt: skip
        (project / "x.py").write_text("")
        done = cli(*words)
        assert done.returncode == 2
        assert part in done.stderr
        assert "Traceback" not in done.stderr


def test_wishes_and_a_script_that_never_calls_us(project: Path, cli: RunsProgram) -> None:
    (project / "plain.py").write_text("print('hi')")
    cli("run", "--name", "n", "--tag", "a", "--tag", "b", "--notes", "why", "--arg", "lr=0.1", "plain.py", check=True)
    run = the_run(project)
    assert (run.json["name"], run.json["tags"], run.json["notes"]) == ("n", ["a", "b"], "why")
    assert run.json["environment"]["variables"]["PYTHONHASHSEED"].isdigit()
    assert (run.how, run.records) == ("finished", [])


def test_unknown_settings_are_said_before_the_script_runs(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text("print('ran')")
    done = cli("run", "train.py", env={"REARVIEW_SNYC": "always"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "REARVIEW_SYNC" in done.stderr
    assert "Traceback" not in done.stderr


def test_off_means_off(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text("import rearview as rv\nprint(rv.arg('lr', 0.1), list(rv.loop('x', [1])), rv.log('y', 2))")
    done = cli("run", "--arg", "lr=0.5", "train.py", env={"REARVIEW": "off"}, check=True)
    assert (done.stdout, done.stderr) == ("0.5 [1] 2\n", "")
    assert not (project / ".rearview").exists()
    (project / "pyproject.toml").write_text("[tool.rearview]\nrecord = false\n")
    done = cli("run", "--arg", "lr=0.5", "train.py", check=True)
    assert (done.stdout, done.stderr) == ("0.5 [1] 2\n", "")
    assert not (project / ".rearview").exists()


def start(project: Path, text: str, **more: object) -> subprocess.Popen[str]:
    (project / "train.py").write_text(text)
    words = [sys.executable, "-m", "rearview", "run", "train.py"]
    return subprocess.Popen(words, env=environment(None), stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload,no-any-return]


def test_a_kill_of_the_supervisor_ends_the_script(project: Path) -> None:
    child = start(project, "import os, time\nimport rearview as rv\nrv.log('x', 1)\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    with child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        child.kill()
        assert child.stdout.read() == ""  # ends when the script has
    for _ in range(100):
        if not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the script goes on without its supervisor")
    assert the_run(project).values("x") == [1]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_ignored_signals_stay_ignored(project: Path, number: int) -> None:
    """`nohup rearview run train.py`: the script, too, is to ignore it."""
    text = f"import os, signal, sys\nprint(signal.getsignal({number}).name, flush=True)\nsys.stdin.read()\nprint('on')"
    child = start(project, text, stdin=subprocess.PIPE, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "SIG_IGN\n"
        child.send_signal(number)
        time.sleep(0.1)
        child.stdin.close()
        assert child.stdout.read() == "on\n"
    assert child.returncode == 0


def test_open_files_are_passed_on(project: Path, cli: RunsProgram) -> None:
    """`rearview run train.py <(command)` gives the script a number of an open file."""
    (project / "data.txt").write_text("from the shell")
    (project / "train.py").write_text("import os, sys\nprint(open(sys.argv[1]).read(), sorted(os.listdir('/proc/self/fd')))")
    words = f"{sys.executable} -m rearview run train.py /dev/fd/7 7<data.txt"
    done = subprocess.run(["bash", "-c", words], env=environment(None), capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("from the shell")
    assert done.stdout.count("'") // 2 <= 6, "no file of ours is left open in the script"


def test_a_module_of_another_project_is_seen_to_die(project: Path, cli: RunsProgram) -> None:
    """The store is the module's, not that of the folder one stands in: the supervisor finds it all the same."""
    other = project.parent / "other"
    (other / "tool").mkdir(parents=True)
    (other / "pyproject.toml").write_text("")
    (other / "tool/__init__.py").write_text("")
    (other / "tool/train.py").write_text("import os, rearview as rv\nrv.log('x', 1)\nos.kill(os.getpid(), 9)")
    path = os.pathsep.join([environment(None)["PYTHONPATH"], str(other)])
    done = cli("run", "-m", "tool.train", env={"PYTHONPATH": path})
    assert done.returncode in (-9, 137)
    assert the_run(other).fact("exit")[0]["signal"] == "SIGKILL"


def test_safe_path(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text("import sys, json\nprint(json.dumps(sys.path))")
    env = {"PYTHONSAFEPATH": "1"}
    plain = subprocess.run([sys.executable, "train.py"], env=environment(env), capture_output=True, text=True, timeout=60)
    assert json.loads(cli("run", "train.py", env=env, check=True).stdout) == json.loads(plain.stdout)


def test_the_script_is_taken_before_it_runs(project: Path, cli: RunsProgram) -> None:
    from rearview.store import layout
    from rearview.versions import read as versions

    text = "open(__file__, 'a').write('# edited')\nimport rearview as rv\nrv.log('x', 1)\n"
    (project / "train.py").write_text(text)
    cli("run", "train.py", check=True)
    run = the_run(project)
    assert versions.source(layout.open_store(project / ".rearview"), run.version, "train.py").decode() == text


def test_arguments_of_every_kind(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(
        """
import sys, rearview as rv
print([rv.arg(*a) for a in (("n", 1), ("lr", 0.1), ("fast", False), ("who", "a"), ("sizes", [1.0]), ("any", None), ("unset", 5))])
for epoch in rv.loop("epoch", range(2)):
    assert rv.arg("n", 1) == 7
print(sys.argv[1:])
"""
    )
    pairs = ["n=7", "lr=1e-2", "fast=yes", "who=me=you", "sizes=0.5,2", "any=[1]", "larning=3"]
    expected = "[7, 0.01, True, 'me=you', [0.5, 2.0], [1], 5]\n"
    given = cli("run", *[word for pair in pairs for word in ("--arg", pair)], "train.py", "--own", check=True)
    assert given.stdout == expected + "['--own']\n"
    by_kwargs = cli("run", "train.py", "--kwargs", *pairs, check=True)
    assert by_kwargs.stdout == expected + f"{['--kwargs', *pairs]}\n"
    both = cli("run", "--arg", "n=7", "train.py", "--kwargs", "n=8", "lr=2", check=True)
    assert both.stdout.startswith("[7, 2.0, False"), "--arg goes before --kwargs"
    for done in (given, by_kwargs):
        assert done.stderr.count("argument 'larning' was given but nothing asked for it") == 1
    run = read_all(project)[0]
    assert len(run.values("n")) == 1
    assert run.fact("unasked") == [{"fact": "unasked", "names": ["larning"]}]
    assert run.json["given"]["sizes"] == "0.5,2"
    wrong = cli("run", "--arg", "n=many", "train.py")
    assert wrong.returncode == 1
    assert wrong.stderr.splitlines()[-2].endswith("argument 'n' is 'many', expected an integer like 1")
    assert read_all(project)[-1].fact("end")[0]["exception"].endswith("ArgError")
