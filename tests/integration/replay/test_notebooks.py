"""Notebooks: real kernels execute cells, statements are added to the notebook file, and the cells are replayed in order in a fresh one."""

from __future__ import annotations

import json
import subprocess
import sys
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
        more = {"IPYTHONDIR": str(scratch / "ip"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "REARVIEW_QUIET": "1", "REARVIEW_EVERY": "1"}
        self.manager, self.client = manager.start_new_kernel(kernel_name="python3", cwd=str(project), env=environment(more))
        self.count = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    def kill(self) -> None:
        """As when memory runs out."""
        self.manager.shutdown_kernel(now=True)

    def execute(self, text: str, *, interrupt_when: Path | None = None) -> dict[str, Any]:
        """Execute a cell; what the kernel replied."""
        self.count += 1
        sent = self.client.execute(text, store_history=True)
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
    "%matplotlib inline\nimport random\n\nimport numpy as np\nimport rearview as rv\nrandom.seed(3)\n",
    "def norm(values):\n    return sum(v * v for v in values) ** 0.5\n\ndef step(w, x):\n    rv.log('x', x) #?\n    return w + 0.1 * x\n",
    "w, history = 0.5, []\ntwice = lambda v: 2 * v\nrv.log('w0', norm([w])) #?\n",
    "1 / 0\n",
    "\n\n%%time\nwith rv.checkpointing():\n    for epoch in rv.loop('epoch', range(4)):\n        rv.log('before', w) #?\n"
    "        for i in rv.loop('step', range(3)):\n            w = step(w, twice(random.random()))\n        rv.log('n', len(history)) #?\n"
    "        history.append(w)\n        rv.log('w', w)\n",
    "def double(v): #?\n    return 2 * v #?\n",
    "rv.log('doubled', double(w)) #?\n",
    "this is no Python\n(",
    "names = !echo a\nimport asyncio\nawait asyncio.sleep(0)\nrv.log('final', sum(history))\nrv.log('last', w) #?\nw",
    "_ + 1\n",
]


def test_a_run_over_several_cells(tmp_path: Path) -> None:
    story = Story(tmp_path, {})
    record(story, SEVERAL_CELLS, range(len(SEVERAL_CELLS)))
    proof = story.cli("verify", "--yes")
    assert "identical" in proof.stdout
    counts = [1, 2, 3, 4, 5, None, None, 6, 7, 8]
    save(story.project, SEVERAL_CELLS, counts)
    before = tree_of(story.project)
    outer = story.cli("replay", "n", "--yes")
    assert "identical" in outer.stdout
    story.cli("replay", "--yes")
    assert tree_of(story.project) == before
    names = ("x", "w0", "before", "n", "doubled", "last", "w", "final")
    truth = story.rows(tmp_path / "truth", *names)
    assert len(truth) == 12 + 1 + 4 + 4 + 1 + 1 + 4 + 1
    assert story.rows(story.project, *names) == truth
