"""Files that a program holds open and writes in its loop are, after a resume, what they are when nobody kills it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram

TRAIN = """
import glob, logging.handlers, os, time
import rearview as rv

{before}
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        {each}
        if os.environ.get("AT") == str(epoch):
            while len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) < epoch:
                time.sleep(0.01)
            os.kill(os.getpid(), 9)
"""

LINKED = (
    'os.symlink("real.txt", "link.txt") if not os.path.islink("link.txt") else None; f = open("link.txt", "w")',
    'f.write(f"{epoch}\\n")',
)

REWRITTEN = ('f = open("status.txt", "w")', 'f.seek(0); f.truncate(); f.write(f"{epoch} " * 9); f.flush()')
ROTATED = (
    'h = logging.handlers.RotatingFileHandler("train.log", maxBytes=40, backupCount=2)',
    '[h.emit(logging.LogRecord("a", 30, "a.py", 1, f"{epoch} line {n}", None, None)) for n in range(5)]',
)
IN_BYTES = ("pass", 'with open(b"log.txt", "a") as f: f.write(f"{epoch}\\n")')
BEHIND = (
    'later = rv.background(lambda text: (time.sleep(0.05), open("later.txt", "a").write(text)))',
    '[later(f"{epoch} {n}\\n") for n in range(5)]',
)
TEMPORARY = ('f = open(os.environ["TMPDIR"] + "/out.txt", "w")', LINKED[1])


@pytest.mark.parametrize(
    ("before", "each", "names"),
    [
        (*LINKED, ["real.txt"]),
        (*REWRITTEN, ["status.txt"]),
        (*ROTATED, ["train.log", "train.log.1", "train.log.2"]),
        (*IN_BYTES, ["log.txt"]),
        (*BEHIND, ["later.txt"]),
        (*TEMPORARY, ["../tmp-{}/out.txt"]),
    ],
    ids=["linked", "rewritten", "rotated", "in bytes", "in the background", "temporary"],
)
def test_a_file_goes_on(before: str, each: str, names: list[str], project: Path, cli: RunsProgram) -> None:
    whole = project.parent / "whole"
    whole.mkdir()
    temporary = {folder: str(project.parent / f"tmp-{folder.name}") for folder in (project, whole)}
    for folder, scratch in temporary.items():
        (folder / "train.py").write_text(TRAIN.format(before=before, each=each))
        Path(scratch).mkdir()
    cli("run", "train.py", cwd=whole, env={"REARVIEW": "off", "TMPDIR": temporary[whole]}, check=True)
    every = {"REARVIEW_EVERY": "1", "TMPDIR": temporary[project]}
    assert cli("run", "train.py", env={**every, "AT": "3"}).returncode == -9
    cli("resume", "--yes", env=every, check=True)
    mine, others = ([(folder / name.format(folder.name)).read_text() for name in names] for folder in (project, whole))
    assert mine == others


def test_files_of_an_earlier_attempt_stay(project: Path, cli: RunsProgram) -> None:
    """What the first attempt wrote, and the second had no reason to open, belongs to the checkpoints of the second too."""
    (project / "train.py").write_text(TRAIN.format(before="pass", each='print(epoch, file=open(f"{epoch}.txt", "w"))'))
    every = {"REARVIEW_EVERY": "1"}
    assert cli("run", "train.py", env={**every, "AT": "2"}).returncode == -9
    assert cli("resume", "--yes", env={**every, "AT": "4"}).returncode == -9
    told = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert {row["path"]: row["what"] for row in told["files"] if not row["path"].startswith("4")} == dict.fromkeys(
        ["0.txt", "1.txt", "2.txt", "3.txt"], "same"
    )
    assert not any(row["emptied"] for row in told["files"])
    cli("resume", "--yes", env=every, check=True)
    assert sorted(path.name for path in project.glob("*.txt")) == [f"{epoch}.txt" for epoch in range(5)]


def test_rows_of_a_run_that_begins_anew_are_there_once(project: Path, cli: RunsProgram) -> None:
    """It was killed ahead of its first checkpoint, and ahead of the second in which files are noted by the way."""
    (project / "rows.log").write_text("older\n")
    text = TRAIN.format(before='f = open("rows.log", "a"); f.write("begin\\n")', each='f.write(f"{epoch}\\n"); f.flush()')
    (project / "train.py").write_text(text)
    assert cli("run", "train.py", env={"AT": "0", "REARVIEW_EVERY": "1"}).returncode == -9
    assert (project / "rows.log").read_text() == "older\nbegin\n0\n"
    done = cli("resume", "--yes", check=True)
    assert "rows.log is cut back from 14 bytes to the 6" in done.stderr + done.stdout
    assert (project / "rows.log").read_text() == "older\nbegin\n0\n1\n2\n3\n4\n"
