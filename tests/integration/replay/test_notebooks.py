"""Notebooks: real kernels execute cells, statements are added to the notebook file, and the cells are replayed in order in a fresh one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import environment
from tests.integration.replay.hindsight import Story, recorded_text, tree_of

manager = pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")


class Session:
    """A kernel in a folder, as a person uses it."""

    def __init__(self, project: Path, scratch: Path) -> None:
        project.mkdir(parents=True, exist_ok=True)
        more = {"IPYTHONDIR": str(scratch / "ip"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "REARVIEW_EVERY": "1"}
        self.manager, self.client = manager.start_new_kernel(kernel_name="python3", cwd=str(project), env=environment(more))
        self.count = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    def kill(self) -> None:
        """As when memory runs out."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def execute(self, text: str, *, interrupt_when: Path | None = None) -> dict[str, Any]:
        """Execute a cell; what the kernel replied."""
        self.count += 1
        sent = self.client.execute(text, store_history=True, stop_on_error=False)
        if interrupt_when is not None:
            while not interrupt_when.exists():
                time.sleep(0.01)
            self.manager.interrupt_kernel()
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == sent:
                return dict(reply["content"])


def save(project: Path, cells: Sequence[str], counts: Sequence[int | None] = (), name: str = "train.ipynb") -> None:
    """A notebook file."""
    listed = [
        {"cell_type": "code", "source": text.splitlines(keepends=True), "metadata": {}, "outputs": [],
         "execution_count": counts[k] if k < len(counts) else None}
        for k, text in enumerate(cells)
    ]  # fmt: skip
    listed.insert(0, {"cell_type": "markdown", "source": ["# What we try\n"], "metadata": {}})
    content = {"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (project / name).write_text(json.dumps(content), encoding="utf-8")


def record(story: Story, cells: Sequence[str], order: Sequence[int]) -> None:
    """Execute cells without the statements in one project, and with them in the other."""
    for project, plain in ((story.folder / "then", True), (story.folder / "truth", False)):
        counts: dict[int, int] = {}
        texts = [recorded_text(text) if plain else text for text in cells]
        with Session(project, story.folder) as session:
            for number in order:
                if texts[number].strip():
                    session.execute(texts[number])
                    counts[number] = session.count
        save(project, texts, [counts.get(k) for k in range(len(cells))])


SEVERAL_CELLS = [
    """%matplotlib inline
import random

import numpy as np
import rearview as rv
random.seed(3)
""",
    """def norm(values):
    return sum(v * v for v in values) ** 0.5

def step(w, x):
    rv.log("x", x) #?
    return w + 0.1 * x
""",
    """w, history = 0.5, []
twice = lambda v: 2 * v
rv.log("w0", norm([w])) #?
""",
    "1 / 0\n",
    """

%%time
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        rv.log("before", w) #?
        for i in rv.loop("step", range(3)):
            w = step(w, twice(random.random()))
        rv.log("n", len(history)) #?
        history.append(w)
        rv.log("w", w)
""",
    """def double(v): #?
    return 2 * v #?
""",
    'rv.log("doubled", double(w)) #?\n',
    "this is no Python\n(",
    """names = !echo a
import asyncio
await asyncio.sleep(0)
rv.log("final", sum(history))
rv.log("last", w) #?
w""",
    "_ + 1\n",
]


def test_a_run_over_several_cells(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    record(story, SEVERAL_CELLS, range(len(SEVERAL_CELLS)))
    proof = story.cli("verify", "--yes")
    assert "identical" in proof.stdout
    save(story.project, SEVERAL_CELLS, [1, 2, 3, 4, 5, None, None, 6, 7, 8])
    before = tree_of(story.project)
    outer = story.cli("replay", "n", "--yes")
    assert "identical" in outer.stdout
    story.cli("replay", "--yes")
    assert tree_of(story.project) == before
    names = ("x", "w0", "before", "n", "doubled", "last", "w", "final")
    truth = story.rows(tmp_path / "truth", *names)
    assert len(truth) == 12 + 1 + 4 + 4 + 1 + 1 + 4 + 1
    assert story.rows(story.project, *names) == truth


SEVERAL_RUNS = [
    "import random\nimport rearview as rv\nseen = []\n",
    "def noise(n):\n    return [random.random() for _ in range(n)]\n",
    "random.seed(len(seen))\nlr = 0.1 * (1 + len(seen))\n",
    """rv.log("outside", lr) #?
""",
    """with rv.run(name=f"run {len(seen)}"):
    w = 0.0
    rv.log("lr", lr) #?
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            for x in rv.loop("step", noise(2)):
                w += lr * x
            rv.log("w", w)
            rv.log("negative", -w) #?
seen.append(w)
""",
]


def test_several_runs_in_one_kernel_and_cells_executed_again(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    record(story, SEVERAL_RUNS, [0, 1, 2, 4, 2, 4])
    save(story.project, SEVERAL_RUNS, [1, 2, 5, None, 6])
    done = story.cli("replay", "--yes")
    assert done.stdout.count(" identical") == 2
    names = ("lr", "negative", "w")
    truth = story.rows(tmp_path / "truth", *names)
    assert {len(values) for values in truth.values()} == {2} and len(truth) == 1 + 3 + 3
    assert story.rows(story.project, *names, "outside") == truth


TRAINING = [
    "import random, time\nimport rearview as rv\nw = 0.0\nrandom.seed(1)\n",
    """with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for i in rv.loop("step", range(3)):
            w += random.random()
        rv.log("w", w)
        rv.log("negative", -w) #?
        if epoch == HERE:
            open("here", "w").close()
            time.sleep(60)
""",
    'rv.log("final", w)\nrv.log("doubled", 2 * w) #?\n',
]


def test_asked_inside_the_kernel(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    cells = [recorded_text(text) for text in TRAINING]
    with Session(story.project, tmp_path) as session:
        session.execute("HERE = -1")
        for text in cells:
            assert session.execute(text)["status"] == "ok"
        save(story.project, [TRAINING[0], TRAINING[1], cells[2]], [2, 3, 4])
        answer = 'found = rv.replay("negative", as_="rows")\nassert len(found) == 4 and all(row["negative"] < 0 for row in found), found'
        assert session.execute(answer)["status"] == "ok"
        session.execute(TRAINING[2])  # a cell that was executed again with a statement, and is in no file
        told = session.execute('found = rv.replay("doubled", as_="rows")\nassert found[-1]["doubled"] == 2 * w, found')
        assert told["status"] == "ok", told
    states = story.cli("sql", "select count(*) as n from runs", "--json")
    assert json.loads(states.stdout)["rows"] == [{"n": 2}]  # asking ended the first


def test_a_cell_that_was_interrupted(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    cells = [recorded_text(text) for text in TRAINING]
    with Session(story.project, tmp_path) as session:
        session.execute("HERE = 2")
        session.execute(cells[0])
        assert session.execute(cells[1], interrupt_when=story.project / "here")["ename"] == "KeyboardInterrupt"
        session.execute(cells[2])
    (story.project / "here").unlink()
    save(story.project, TRAINING, [2, 3, 4])
    done = story.cli("replay", "--yes", check=False)
    assert done.returncode in (0, 1) and "was interrupted" in done.stdout
    assert {path for _, path, *_ in story.rows(story.project, "negative")} - {"epoch=2"} == {"epoch=0", "epoch=1"}
    assert story.rows(story.project, "doubled") == {}


def test_a_kernel_that_was_killed(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    cells = [recorded_text(text) for text in TRAINING]
    session = Session(story.project, tmp_path)
    for text in ("HERE = -1", *cells):
        session.execute(text)
    session.execute("time.sleep(1.5)")
    session.kill()
    failing = TRAINING[1].replace("-w", "-w if epoch < 2 else missing")
    save(story.project, [cells[0], failing, cells[2]])
    done = story.ask("negative", code=4)
    assert "cells/0003.py, line 6" in done.stdout + done.stderr and "name 'missing' is not defined" in done.stdout + done.stderr
    save(story.project, TRAINING)
    story.ask("negative")
    assert len(story.rows(story.project, "negative")) == 4
