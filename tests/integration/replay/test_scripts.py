"""A project has several scripts: what becomes of one is nothing to the runs of another."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.conftest import SOURCE, environment
from tests.integration.replay.hindsight import Story

TRAIN = """
import rearview as rv
from model import step

total = 0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for k in rv.loop("step", range(2)):
            total = step(total, k)
        rv.log("total", total)
        rv.log("double", 2 * total)  #?
"""
MODEL = """
def step(total, k):
    return total + k
"""
OTHER = """
import rearview as rv

for k in rv.loop("k", range(3)):
    rv.log("square", k * k)
    rv.log("cube", k * k * k)  #?
"""


def _story(folder: Path) -> Story:
    story = Story(folder, {"train.py": TRAIN, "model.py": MODEL, "other.py": OTHER}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.cli("run", "--name", "other", "other.py")
    return story


def test_statements_of_one_script_are_not_asked_of_another(tmp_path: Path) -> None:
    story = _story(tmp_path)
    said = story.ask("cube").stdout
    assert "other.py, another script" in said and "(other)" in said
    assert len(story.rows(story.project, "cube")) == 3
    said = story.ask("double").stdout
    assert "train.py, another script" in said
    assert story.rows(story.project, "double") == story.truth("double")


def test_another_script_may_change_and_what_is_imported_makes_another_version(tmp_path: Path) -> None:
    story = _story(tmp_path)
    story.write(story.project, probed=True)
    (story.project / "other.py").write_text("print('something else')\n")
    story.cli("replay", "double", "--yes")
    assert story.rows(story.project, "double") == story.truth("double")
    (story.project / "model.py").write_text(MODEL.replace("+ k", "+ 2 * k"))
    (story.project / "train.py").write_text(TRAIN.replace("double", "twice"))
    story.cli("replay", "twice", "--yes")
    rows = story.rows(story.project, "twice")
    then = {(process, path, "double", ordinal): values for (process, path, _, ordinal), values in rows.items()}
    assert then == story.truth("double"), "the model as it was, not as it is now"


def test_a_package_that_a_pth_file_leads_to_is_the_recorded_one_and_without_its_interpreter_that_is_said(tmp_path: Path) -> None:
    """As editable installs have it: the folder is found by the interpreter itself, before anything of the program runs."""
    home, project = tmp_path / "env", tmp_path / "project"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "model.pth").write_text(f"{project / 'lib'}\n")
    (project / "lib" / "model").mkdir(parents=True)
    library, script = project / "lib" / "model" / "__init__.py", project / "train.py"
    library.write_text(MODEL)
    script.write_text("".join(line for line in TRAIN.splitlines(keepends=True) if "#?" not in line))
    search = {"PYTHONPATH": os.pathsep.join((str(SOURCE), sysconfig.get_paths()["purelib"])), "REARVIEW_DIR": str(project)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environ = environment({**search, "REARVIEW_EVERY": "1", "PYTHONHASHSEED": "0"})
        return subprocess.run(words, cwd=project, env=environ, capture_output=True, text=True, timeout=120)

    def python(*words: str) -> str:
        done = run(str(home / "bin" / "python"), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("train.py")
    library.write_text(MODEL.replace("+ k", "+ 100 * k"))
    script.write_text(TRAIN)
    assert "identical" in python("-m", "rearview", "replay", "double", "--yes")
    assert python("-m", "rearview", "sql", "select value_float from logs where value_name = 'double' order by path", "--csv").split() == [
        "value_float", "2.0", "4.0", "6.0",
    ]  # fmt: skip
    script.write_text(TRAIN.replace("double", "twice"))
    home.rename(tmp_path / "elsewhere")
    gone = run(sys.executable, "-m", "rearview", "replay", "twice", "--yes")
    assert gone.returncode == 2
    assert "interpreter" in gone.stderr and str(home) in gone.stderr, gone.stderr
