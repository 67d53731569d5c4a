"""`rv.skip_block`: the same calls are right and wrong whether or not anything is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunsProgram

PROGRAM = """
import rearview as rv
from rearview.errors import UsageError

block = rv.skip_block("train")
done = []
for epoch in rv.loop("epoch", range(3)):
    for half in range(2):
        if block.step_into():
            done.append(epoch)
        block.end(done)
print(done)
for wrong in (block, rv.skip_block("other")):
    try:
        wrong.end(done)
    except UsageError as problem:
        print(problem)
"""


@pytest.mark.parametrize("mode", [{"REARVIEW": "off"}, {"REARVIEW_EVERY": "1"}], ids=["off", "recorded"])
def test_one_block_for_all_iterations_and_an_end_without_a_beginning(mode: dict[str, str], project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(PROGRAM)
    done = cli("run", "train.py", env=mode, check=True)
    said = "skip block '{}': call step_into() before the block and end(...) once after it"
    assert done.stdout.splitlines() == ["[0, 0, 1, 1, 2, 2]", said.format("train"), said.format("other")]
