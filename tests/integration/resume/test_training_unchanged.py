"""With checkpoints at every step the training is what it is without rearview: weights, output, exit code, random streams, children."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.resume.training import INSIDE, WAITING, Done, Nursery, points, project_in

pytestmark = pytest.mark.torch

SMALL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""
"""A file cannot grow beyond this: the write fails, as on a full disk."""


def both(nursery: Nursery, project: Path, program: str, *args: str, before: str = WAITING) -> tuple[Done, Done]:
    """The program without rearview, and with checkpoints at every step."""
    off = nursery.run(project_in(project, "off"), program, *args, env={"REARVIEW": "off"})
    on = nursery.run(project_in(project, "on"), program, *args, env=INSIDE, before=before)
    return off, on


@pytest.mark.parametrize("program", ["cnn.py", "rnn.py", "transformer.py", "mixed.py"])
def test_weights_output_and_streams(program: str, nursery: Nursery, project: Path) -> None:
    off, on = both(nursery, project, program, *(["2", "persistent", "3"] if program == "mixed.py" else []))
    assert on.digest == off.digest
    assert on.lines == off.lines
    assert len(points(project / "on")) > 10


@pytest.mark.parametrize("how", ["exits", "raises"])
def test_exit_code(how: str, nursery: Nursery, project: Path) -> None:
    off, on = both(nursery, project, "leaves.py", "0", "none", "3", how)
    assert on.code == off.code == {"exits": 3, "raises": 1}[how]
    assert on.lines == off.lines
    assert ("ArithmeticError" in on.stderr) == ("ArithmeticError" in off.stderr) == (how == "raises")


@pytest.mark.parametrize("size", [1 << 12, 1 << 14])
def test_on_a_full_disk(size: int, nursery: Nursery, project: Path) -> None:
    off, on = both(nursery, project, "cnn.py", before=WAITING + SMALL_DISK.format(size=size))
    assert on.digest == off.digest
    assert on.lines == off.lines
    said = [line for line in on.stderr.splitlines() if line.startswith("rearview: ")]
    stopped = [line for line in said if "no more checkpoints" in line or ("checkpoint" in line and "taken" in line)]
    assert len(stopped) == 1, said
    assert "fault" not in on.stderr


def test_forks_children_handlers_and_threads(nursery: Nursery, project: Path) -> None:
    off, on = both(nursery, project, "forks.py", before="")
    assert on.digest == off.digest
    assert on.lines == off.lines
    assert on.lines[12:15] == ["15 children, all of them the program's own", "handlers as they were: True", "threads: ['MainThread']"]
    assert len(points(project / "on")) >= 3
