"""Each thing that a checkpoint holds is needed: a resume that leaves it out does not give what the uninterrupted run gave."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from rearview.record.resume.restore_points import RestorePoint
from tests.integration.resume.training import EACH, INSIDE, WAITING, Done, Nursery, go_on_from, points, project_in

pytestmark = pytest.mark.torch

DROPPING = Path(__file__).with_name("dropping.py").read_text()


def names() -> list[str]:
    """The keys of WITHOUT: they are not imported, for this process needs no torch."""
    tree = ast.parse(DROPPING)
    table = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "WITHOUT")
    assert isinstance(table, ast.Dict)
    return [ast.literal_eval(key) for key in table.keys if key is not None]


@dataclass
class Recorded:
    """A run of the program, and a checkpoint in the middle of its last epoch."""

    project: Path
    whole: Done
    point: RestorePoint

    def resumed(self, nursery: Nursery, before: str = "") -> Done:
        return nursery.run(self.project, "everything.py", env={**EACH, **go_on_from(self.project, self.point)}, before=before)


@pytest.fixture(scope="module")
def recorded(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    project = project_in(tmp_path_factory.mktemp("home"), "project")
    whole = nursery.run(project, "everything.py", env=INSIDE, before=WAITING)
    assert whole.code == 0, whole.stderr
    (point,) = [point for point in points(project) if point.place == "epoch=2, after step#2"]
    assert not point.lacks
    return Recorded(project, whole, point)


def test_nothing_left_out(recorded: Recorded, nursery: Nursery) -> None:
    done = recorded.resumed(nursery)
    assert done.code == 0, done.stderr
    assert done.lines == recorded.whole.lines[15:], "the lines after the third step of the last epoch, and the state at the end"


@pytest.mark.parametrize("name", names())
def test_left_out(name: str, recorded: Recorded, nursery: Nursery) -> None:
    done = recorded.resumed(nursery, f"{DROPPING}\nWITHOUT[{name!r}]()\n")
    if done.code == 0:
        assert done.lines, "the program began again"
        assert done.lines[-5:] != recorded.whole.lines[-5:], f"{name} was left out, and nobody noticed"
    else:
        assert "AssertionError" not in done.stderr, done.stderr
