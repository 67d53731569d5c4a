"""Ways to start a program, and places where it can be: each is recorded, and read again after a move."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rearview.store import layout
from rearview.versions import read as versions
from tests.conftest import environment
from tests.integration.record.reading import Read, read_all, the_run

Python = Callable[..., subprocess.CompletedProcess[str]]
ONE = "import rearview as rv\nrv.log('x', 1)\n"


def start(*words: str, cwd: Path | None = None, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment(env), input=stdin, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def source(project: Path, run: Read, path: str) -> str:
    return versions.source(layout.open_store(project / layout.FOLDER), run.version, path).decode()


def test_script_module_command_and_standard_input(project: Path) -> None:
    (project / "train.py").write_text(ONE)
    (project / "pkg").mkdir()
    (project / "pkg/__init__.py").write_text("")
    (project / "pkg/__main__.py").write_text(ONE)
    (project / "pkg/mod.py").write_text(ONE)
    start("train.py", "--its", "own")
    start("-m", "pkg.mod")
    start("-m", "pkg", "x")
    start("-c", ONE, "y")
    start("-", stdin=ONE)
    with open("train.py") as file:
        subprocess.run([sys.executable], stdin=file, env=environment(None), check=True, capture_output=True, timeout=60)
    script, module, package, command, pipe, redirected = read_all(project)
    assert [(run.json["how"], run.json["filename"], run.json["module"]) for run in read_all(project)] == [
        ("script", "train.py", None), ("module", "pkg/mod.py", "pkg.mod"), ("module", "pkg/__main__.py", "pkg"),
        ("command", "command", None), ("stdin", "stdin", None), ("stdin", "stdin", None),
    ]  # fmt: skip
    assert script.json["argv"] == ["train.py", "--its", "own"]
    assert package.json["argv"][1:] == ["x"]
    assert source(project, script, "train.py") == ONE
    assert source(project, module, "pkg/mod.py") == ONE
    assert source(project, command, "command.py") == ONE
    assert source(project, redirected, "stdin.py") == ONE
    assert all(run.values("x") == [1] and run.how == "finished" for run in (script, module, package, command, pipe, redirected))


LOOKS = """import os, sys
import rearview as rv
print(sys.argv, sys.orig_argv[-3:], sys.path[0] == "", "__file__" in globals(), __name__, repr(sys.stdin.read()))
w = 0
for n in rv.loop("step", range(3)):
    w += n
    rv.log("x", n)
print(sys._getframe().f_code.co_filename)
"""


def test_a_program_that_comes_through_a_pipe_is_kept_by_the_launcher(project: Path) -> None:
    """It is the program that `python -` would run, and it can be read again."""
    plain = start("-", "--its", "own", stdin=LOOKS)
    assert "`rearview run -` keeps it" in plain.stderr
    launched = start("-m", "rearview", "run", "--name", "piped", "-", "--its", "own", stdin=LOOKS)
    assert launched.stdout == plain.stdout
    assert "pipe" not in launched.stderr
    run = read_all(project)[-1]
    assert (run.json["how"], run.json["name"], run.json["argv"]) == ("stdin", "piped", ["-", "--its", "own"])
    assert source(project, run, "stdin.py") == LOOKS
    assert run.values("x") == [0, 1, 2] and run.how == "finished"
    start("-m", "rearview", "replay", "--at", "stdin.py:7", "w * 10", "--as", "tens", "--run", run.run, "--yes")
    rows = start("-m", "rearview", "df", "tens", "--run", run.run, "--csv").stdout.splitlines()[1:]
    assert [row.split(",")[-2:] for row in rows] == [["0", "0"], ["1", "10"], ["2", "30"]]


@pytest.mark.parametrize("text", ["import rearview as rv\n1 / 0\n", "def ("])
def test_a_piped_program_that_fails_says_so_as_python_does(project: Path, text: str) -> None:
    plain, launched = (
        subprocess.run([sys.executable, *words], input=text, env=environment(None), capture_output=True, text=True, timeout=60)
        for words in (("-",), ("-m", "rearview", "run", "-"))
    )
    said = [[line for line in done.stderr.splitlines() if not line.startswith("rearview")] for done in (plain, launched)]
    assert said[0] == said[1] and said[0][-1].startswith(("ZeroDivisionError", "SyntaxError"))
    assert plain.returncode == launched.returncode == 1


def test_from_another_folder_with_odd_names_and_through_a_link(project: Path) -> None:
    odd = project / "my projekt ü☃" / "sub dir"
    odd.mkdir(parents=True)
    (odd.parent / "pyproject.toml").write_text("")
    (odd / "trän ing.py").write_text(ONE)
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link.py").symlink_to(odd / "trän ing.py")
    start(str(odd / "trän ing.py"), cwd=elsewhere)
    run = the_run(odd.parent)
    assert run.json["filename"] == "sub dir/trän ing.py"
    assert run.json["projid"] == "my projekt ü☃"
    assert source(odd.parent, run, "sub dir/trän ing.py") == ONE
    start("link.py", cwd=elsewhere)
    places = [path.parent.parent for path in project.rglob("store.json")]
    linked = [run for place in places for run in read_all(place) if run.run != the_run(odd.parent).run] if len(places) > 1 else []
    found = linked or read_all(odd.parent)[1:]
    assert [run.values("x") for run in found] == [[1]]
    assert ONE in [source(place, run, path) for place in places for run in read_all(place)
                   for path in versions.files(layout.open_store(place / layout.FOLDER), run.version)]  # fmt: skip


def test_a_name_that_is_no_text(project: Path) -> None:
    """A file name of bytes that are not UTF-8, and such an argument."""
    name = os.fsdecode(b"tr\xe4in.py")
    (project / name).write_text(ONE)
    start(name, os.fsdecode(b"\xff"))
    run = the_run(project)
    assert run.json["argv"] == [name, "\udcff"]
    assert run.values("x") == [1]


def test_which_project(project: Path) -> None:
    deep = project / "a/b/c"
    deep.mkdir(parents=True)
    (deep / "t.py").write_text(ONE)

    def where() -> str:
        before = set(project.parent.rglob("store.json"))
        start(str(deep / "t.py"), cwd=project.parent)
        (new,) = set(project.parent.rglob("store.json")) - before
        found = new.parent.parent
        shutil.rmtree(new.parent)
        return str(found.relative_to(project.parent))

    assert where() == "project/a/b/c"  # nothing anywhere: the script's folder
    (project.parent / ".git").mkdir()
    assert where() == "project/a/b/c", "a repository in the home folder does not make all of home a project"
    (project / "pyproject.toml").write_text("")
    assert where() == "project"
    (project / "a/.git").mkdir()
    assert where() == "project/a"  # a repository goes before a pyproject.toml
    (project / "a/b/pyproject.toml").write_text("")
    assert where() == "project/a"
    layout.create(project / ".rearview")
    start(str(deep / "t.py"), cwd=project.parent)
    assert len(read_all(project)) == 1  # a store goes before everything
    start(str(deep / "t.py"), REARVIEW_DIR=str(project / "chosen"))
    assert len(read_all(project / "chosen")) == 1
    start("-c", ONE, cwd=deep)
    assert len(read_all(project)) == 2  # without a script: from the current folder


def test_the_store_ignores_itself_and_is_named_once(project: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    (project / "t.py").write_text(ONE)
    first, second = start("t.py"), start("t.py")
    assert str(project / ".rearview") in first.stderr
    assert "recording to" not in second.stderr
    for done in (first, second):
        (line,) = [line for line in done.stderr.splitlines() if "finished" in line]
        assert "1 record of 1 name" in line
        assert "kB" in line
    assert not start("t.py", REARVIEW_QUIET="1").stderr
    status = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    assert status == "?? t.py\n"


def test_moved_and_copied(project: Path) -> None:
    (project / "t.py").write_text(ONE)
    start("t.py")
    copy = project.parent / "copy"
    shutil.copytree(project, copy)
    shutil.move(project, project.parent / "moved")
    project.mkdir()
    for place in (copy, project.parent / "moved"):
        run = the_run(place)
        assert source(place, run, "t.py") == ONE
        assert str(project) not in str(run.json["filename"]) + str(run.json["cwd"])
        start("t.py", cwd=place)
        assert len(read_all(place)) == 2


@pytest.mark.parametrize("before", ["no git", "no commit", "detached", "worktree"])
def test_repositories(project: Path, before: str) -> None:
    (project / "t.py").write_text(ONE)
    place = project

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True)

    if before != "no git":
        git("init", "-q")
    if before in ("detached", "worktree"):
        git("add", "t.py")
        git("commit", "-qm", "one")
        git("checkout", "-q", "--detach")
    if before == "worktree":
        place = project.parent / "tree"
        git("worktree", "add", "-q", str(place))
    start("t.py", cwd=place)
    run = the_run(place)
    assert source(place, run, "t.py") == ONE
    facts = run.json["git"]
    assert (facts is None) == (before == "no git")
    if before in ("detached", "worktree"):
        assert len(facts["head"]) == 40


def test_a_folder_that_cannot_be_written(project: Path) -> None:
    """A disk mounted for reading: permissions alone do not stop root, which tests may run as."""
    place, data = project / "place", project / "data"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        (place / "t.py").write_text(ONE)
        (place / "pyproject.toml").write_text("")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        done = start("t.py", cwd=place, XDG_DATA_HOME=str(data))
        (aside,) = [path.parent for path in data.rglob("store.json")]
        assert str(aside) in done.stderr
        assert done.stderr.count("instead") == 1
        assert [run.values("x") for run in read_all(aside.parent)] == [[1]]
        assert layout.locate(aside.parent).root == aside
        nowhere = start("t.py", cwd=place, XDG_DATA_HOME=str(place / "no"))
        assert nowhere.stderr.count("nothing is recorded") == 1
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_ipython(project: Path) -> None:
    pytest.importorskip("IPython")
    words = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--HistoryManager.enabled=False"]
    typed = "import rearview as rv\nrv.log('x', 1)\ny = 2\nrv.log('x', y)\nexit()\n"
    env = environment({"IPYTHONDIR": str(project / "ip")})
    done = subprocess.run(words, input=typed, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    run = the_run(project)
    assert (run.json["how"], run.values("x"), run.how) == ("interactive", [1, 2], "finished")
    assert [text for text in cells_of(project, run) if "log" in text] == ["rv.log('x', 1)", "rv.log('x', y)"]


def cells_of(project: Path, run: Read) -> list[str]:
    files = versions.files(layout.open_store(project / layout.FOLDER), run.version)
    return [source(project, run, path).rstrip("\n") for path in sorted(files) if path.startswith("cells/")]


def test_a_real_notebook(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for name, value in environment({"IPYTHONDIR": str(project / "ip"), "JUPYTER_RUNTIME_DIR": str(project / "rt")}).items():
        monkeypatch.setenv(name, value)
    cells = [
        "import rearview as rv\nimport os\nz = 1",
        "rv.log('implicit', 1)",
        "rv.run(name='a')\nrv.log('x', 1)",
        "rv.log('x', 2)",
        "with rv.run(name='b'):\n    rv.log('x', 3)",
        "rv.run(name='c')\nfor e in rv.loop('epoch', range(2)):\n    rv.log('x', 4 + e)",
        "raise ValueError('the cell fails, the run goes on')",
        "rv.log('x', 6)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    place = {"metadata": {"path": str(project)}}
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, resources=place, kernel_name="python3").execute()
    found = {run.json["name"]: run for run in read_all(project)}
    assert {name: run.values("x") for name, run in found.items()} == {None: [], "a": [1, 2], "b": [3], "c": [4, 5, 6]}
    assert found[None].values("implicit") == [1]
    assert {run.json["how"] for run in found.values()} == {"notebook"}
    assert [found[name].how for name in (None, "a", "b", "c")] == ["finished"] * 4
    assert cells_of(project, found["a"])[:4] == cells[:4]
    assert cells_of(project, found["c"]) == cells
