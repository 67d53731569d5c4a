"""What real programs read, write and make, as their runs note it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rearview.record.resume import past
from rearview.record.resume.past import Past
from rearview.replay.inputs import compare
from rearview.replay.sandbox import files as sandbox_files
from rearview.store import layout, objects
from tests.integration.record.reading import the_run

Python = Callable[..., subprocess.CompletedProcess[str]]


def the_past(project: Path) -> Past:
    store = layout.open_store(project / layout.FOLDER)
    return past.look(store, the_run(project).run)  # type: ignore[arg-type]


def inputs_of(project: Path) -> dict[str, list[Any]]:
    return {row[0]: row for row in the_past(project).inputs}


def test_files_folders_and_what_the_run_makes(python: Python, project: Path) -> None:
    (project / "data").mkdir()
    for name in ("a.csv", "b.csv"):
        (project / "data" / name).write_text(name)
    python(
        """
import os, pathlib
import rearview as rv
for name in sorted(os.listdir("data")):
    open(os.path.join("data", name)).read()
os.makedirs("out/deep")
os.makedirs("out", exist_ok=True)
pathlib.Path("out/deep/log.txt").write_text("x")
list(pathlib.Path("out").iterdir())
rv.log("x", 1)
""",
        check=True,
    )
    found = the_past(project)
    rows = {row[0]: row for row in found.inputs}
    assert rows["data/a.csv"][5] == objects.key_of(b"a.csv") and rows["data/b.csv"][2] == 5
    assert {row[0]: row[1] for row in found.folders} == {"data": 2, "out": 0}
    assert found.made == ["out", "out/deep"]
    assert compare(found, project).changes == []
    (project / "data" / "c.csv").write_text("c")
    (change,) = compare(found, project).changes
    assert (change.path, change.what, change.compared_by) == ("data", "changed", "names")


def test_a_file_that_is_read_and_then_written_is_said_to_be_lost(python: Python, project: Path) -> None:
    for name in ("model.txt", "log.txt"):
        (project / name).write_text("of an earlier run")
    python(
        """
import rearview as rv
rv.log("x", len(open("model.txt").read()))
open("model.txt", "w").write("new")
open("log.txt", "w").write("new")
""",
        check=True,
    )
    found = the_past(project)
    store = layout.open_store(project / layout.FOLDER)
    (sentence,) = sandbox_files.lost(store, project, found, None)
    assert sentence.startswith("model.txt was there before the run (17 bytes) and the run wrote it anew")
    assert compare(found, project).changes == []


@pytest.mark.parametrize("pool", ["multiprocessing.get_context('fork').Pool(2)", "__import__('contextlib').nullcontext()"])
def test_what_forked_workers_read_reaches_the_run(python: Python, project: Path, pool: str) -> None:
    for k in range(20):
        (project / f"{k}.png").write_text(str(k))
    python(
        f"""
import multiprocessing
import rearview as rv

def read(k):
    with open(f"{{k}}.png") as file:
        return int(file.read())

rv.log("begun", 1)
with {pool} as workers:
    rv.log("sum", sum((workers.map if workers else lambda f, k: list(map(f, k)))(read, range(20))))
""",
        check=True,
    )
    rows = inputs_of(project)
    assert {f"{k}.png" for k in range(20)} <= set(rows)
    assert rows["3.png"][1:3] == ["r", 1]


@pytest.mark.torch
def test_what_the_workers_of_a_loader_read(python: Python, project: Path) -> None:
    for k in range(8):
        (project / f"{k}.txt").write_text(str(k))
    python(
        """
import torch
import rearview as rv

class Files(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, k):
        with open(f"{k}.txt") as file:
            return float(file.read())

rv.log("begun", 1)
for batch in rv.loop("step", torch.utils.data.DataLoader(Files(), batch_size=2, num_workers=2)):
    rv.log("sum", batch.sum())
""",
        check=True,
        env={"OMP_NUM_THREADS": "1"},
    )
    assert {f"{k}.txt" for k in range(8)} <= set(inputs_of(project))
    environment = the_past(project).environment
    assert environment["torch"]["threads"] == 1 and environment["torch"]["mkldnn"] is True


def test_a_program_that_closes_what_it_does_not_know(python: Python, project: Path) -> None:
    (project / "a.txt").write_text("a")
    python(
        """
import os
import rearview as rv
rv.log("x", 1)
child = os.fork()
if child == 0:
    os.closerange(3, 200)
    kept = [os.open("mine.txt", os.O_WRONLY | os.O_CREAT) for _ in range(20)]
    open("a.txt").read()
    os._exit(0)
os.waitpid(child, 0)
""",
        check=True,
    )
    assert (project / "mine.txt").read_bytes() == b""


def test_hashes_of_large_files_are_kept_for_the_next_run(python: Python, project: Path) -> None:
    (project / "big.bin").write_bytes(bytes(2 << 20))
    os.utime(project / "big.bin", (1_000_000_000, 1_000_000_000))
    text = "import time\nimport rearview as rv\nrv.log('x', open('big.bin', 'rb').read(1)[0])\ntime.sleep(2.2)\n"
    python(text, check=True)
    assert inputs_of(project)["big.bin"][5] == objects.key_of(bytes(2 << 20))
    assert (project / ".rearview" / "cache" / "inputs.json").is_file()
