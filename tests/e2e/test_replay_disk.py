"""A replay on a full disk: it says so, loses nothing, and answers when there is room."""

from __future__ import annotations

from pathlib import Path

from rearview.store import layout
from tests.conftest import RunsProgram
from tests.small_disk import fill, mounted

PROGRAM = """
import rearview as rv
total = 0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(5)):
            total += step
        rv.log("total", total)
"""


def test_it_is_said_and_nothing_is_lost(project: Path, cli: RunsProgram) -> None:
    script = project / "train.py"
    with mounted(project / layout.FOLDER, "6M") as store:
        script.write_text(PROGRAM)
        cli("run", "train.py", env={"REARVIEW_EVERY": "1"}, check=True)
        script.write_text(PROGRAM + '        rv.log("double", 2 * total)\n')
        ballast = fill(store)
        done = cli("replay", "double", "--yes")
        assert done.returncode == 6
        assert "No space left on device; free space there" in done.stderr
        ballast.unlink()
        done = cli("replay", "double", "--yes", check=True)
        assert "4 values, identical" in done.stdout
        assert cli("check").returncode == 0
