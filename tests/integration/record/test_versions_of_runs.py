"""The version is what ran: scripts edited under a run, modules imported late or from elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from rearview.store import layout
from rearview.versions import read as versions
from tests.conftest import environment
from tests.integration.record.reading import Read, the_run

Python = Callable[..., subprocess.CompletedProcess[str]]


def files(project: Path, run: Read) -> dict[str, str]:
    store = layout.open_store(project / layout.FOLDER)
    return {path: versions.source(store, run.version, path).decode() for path in versions.files(store, run.version)}


def test_a_script_edited_between_its_start_and_the_first_call(python: Python, project: Path) -> None:
    text = "import rearview as rv\nopen(__file__, 'w').write('# gone')\nrv.log('x', 1)\n"
    done = python(text, check=True)
    assert files(project, the_run(project))["script.py"] == text
    assert "script.py was changed" in done.stderr


def test_a_module_started_with_m_and_edited_before_the_first_call(project: Path) -> None:
    import sys

    text = "import rearview as rv\nopen(__file__, 'w').write('# gone')\nrv.log('x', 1)\n"
    (project / "mod.py").write_text(text)
    subprocess.run([sys.executable, "-m", "mod"], env=environment(None), check=True, capture_output=True, timeout=60)
    assert files(project, the_run(project))["mod.py"] == text


def test_modules_imported_late_and_edited_meanwhile(python: Python, project: Path) -> None:
    (project / "early.py").write_text("E = 1\n")
    (project / "late.py").write_text("L = 1\n")
    (project / "same.py").write_text("S = 1\n")
    (project / "never.py").write_text("N = 1\n")
    done = python(
        """
import early
import rearview as rv
rv.log("x", 1)
open("early.py", "w").write("E = 2\\n")
open("late.py", "w").write("L = 22\\n")
open("never.py", "w").write("N = 2\\n")
open("fresh.py", "w").write("F = 1\\n")
import late, same, fresh
open("late.py", "w").write("L = 333\\n")
rv.log("L", late.L)
""",
        check=True,
    )
    run = the_run(project)
    found = files(project, run)
    assert found["early.py"] == "E = 1\n"
    assert found["late.py"] == "L = 22\n", "what was imported, not what lay there before or after"
    assert found["never.py"] == "N = 1\n"
    assert found["fresh.py"] == "F = 1\n"
    assert done.stderr.count("late.py was edited") == 1
    reasons = {fact["path"]: fact["why"] for fact in run.fact("source")}
    assert set(reasons) == {"late.py", "fresh.py"}
    assert run.json["version"] != run.version
    store = layout.open_store(project / layout.FOLDER)
    assert versions.source(store, run.json["version"], "late.py") == b"L = 1\n", "the first version stays as it was"


def test_an_editable_install_outside_the_project(python: Python, project: Path) -> None:
    """A .pth file, as `pip install -e` leaves it, and a folder named by PYTHONPATH."""
    outside = project.parent / "lib" / "src"
    (outside / "mylib").mkdir(parents=True)
    (outside / "mylib/__init__.py").write_text("from mylib import inner\n")
    (outside / "mylib/inner.py").write_text("V = 1\n")
    site = project.parent / "site"
    site.mkdir()
    (site / "mylib.pth").write_text(f"{outside}\n")
    python(f"import site\nsite.addsitedir({str(site)!r})\nimport rearview as rv\nrv.log('x', 1)\nimport mylib\nrv.log('x', 2)", check=True)
    found = files(project, the_run(project))
    assert found["external/mylib/inner.py"] == "V = 1\n"
    assert found["external/mylib/__init__.py"] == "from mylib import inner\n"


def test_compiled_modules_without_source(python: Python, project: Path) -> None:
    import py_compile

    (project / "bare.py").write_text("B = 1\n")
    py_compile.compile(str(project / "bare.py"), str(project / "bare.pyc"))
    (project / "bare.py").unlink()
    python("import rearview as rv\nrv.log('x', 1)\nimport bare\nrv.log('x', bare.B)", check=True)
    assert the_run(project).values("x") == [1, 1]


def test_late_modules_of_long_runs_are_kept_before_the_end(python: Python, project: Path) -> None:
    """A program that is killed has them too: they are looked for once a second."""
    (project / "late.py").write_text("L = 1\n")
    python(
        """
import os, time
import rearview as rv
rv.log("x", 1)
open("late.py", "w").write("L = 22\\n")
import late
time.sleep(2.5)
rv.log("x", 2)
os.kill(os.getpid(), 9)
"""
    )
    run = the_run(project)
    assert run.how is None
    assert files(project, run)["late.py"] == "L = 22\n"


def test_a_version_that_cannot_be_kept_up_does_not_stop_the_recording(python: Python, project: Path) -> None:
    """The disk fills up while the program runs: neither the thread nor the end of the run may fall over it."""
    (project / "late.py").write_text("L = 1\n")
    done = python(
        """
import time, rearview as rv
from rearview.versions import snapshot
from rearview.errors import VersionError
with rv.run(name="a"):
    rv.log("x", 1)
    def full(*_, **__): raise VersionError("the source could not be kept: No space left on device")
    snapshot.amend = full
    open("fresh.py", "w").write("F = 1\\n")
    import fresh
    time.sleep(1.5)
    rv.log("x", 2)
print("on")
""",
        check=True,
    )
    assert done.stdout == "on\n"
    assert "Traceback" not in done.stderr
    assert done.stderr.count("No space left") in (1, 2)
    run = the_run(project)
    assert (run.values("x"), run.how) == ([1, 2], "finished")


def test_files_opened_and_first_states_of_random_streams(python: Python, project: Path) -> None:
    (project / "data.csv").write_text("1,2")
    python(
        """
import random
import rearview as rv
state = random.getstate()
open("data.csv").read(); open("out.txt", "w").write("x")
random.random()
rv.log("state", list(map(list, [state[1]])))
""",
        check=True,
    )
    run = the_run(project)
    seen = {entry[0]: entry[1] for fact in run.fact("inputs") for entry in fact["files"]}
    assert seen["data.csv"] == "r"
    assert seen["out.txt"] == "w"
    assert not [path for path in seen if ".rearview" in path]
    (streams,) = run.fact("streams")
    assert list(streams["python"][1]) == run.values("state")[0][0]
    assert os.path.basename(str(project)) == run.json["projid"]
