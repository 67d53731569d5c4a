"""States inside a long nested loop: stretches begin and end there, and the values are those of a run that had the statements."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from rearview.catalog.catalog import Catalog
from rearview.cli.shown import replay_page
from rearview.errors import RearviewError
from rearview.plan import partition, scans
from rearview.plan.partition import Partition, Piece, Share
from rearview.plan.timeline import INSIDE, ITERATION
from rearview.replay import answering, preparing
from rearview.replay.answering import Answer
from rearview.replay.question.query import Ask
from rearview.replay.running import pool
from rearview.replay.running.units import Unit
from rearview.store import layout
from tests.integration.replay.hindsight import Story
from tests.integration.resume.training import Nursery

ENV = {"REARVIEW_EVERY": "1", "REARVIEW_RISK": "1e-9"}
KEEPS = """
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.materialize import Materializer
Materializer.busy = property(lambda self: not self.wait())
Keeping.inside_due = lambda self, period, running_s, node: node.name == "step" and node.iteration in (2, 4)
"""
"""Code that a program begins with: states are kept behind these steps, each whenever it is due."""

PLAIN = f"""
import random
import rearview as rv
{KEEPS}
random.seed(5)
weights = [0.0]
rv.log("head", weights[0] + 1)  #?
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(3)):
        total = 0.0
        rv.log("early", weights[0] + random.getstate()[1][5])  #?
        for step in rv.loop("step", range(8)):
            weights[0] += random.random()
            total += weights[0]
            rv.log("loss", weights[0])
            rv.log("inner", total * 3)  #?
            if step == 6 and epoch == 1:
                break
        rv.log("outer", total / 7)  #?
        for item in rv.loop("val", range(2)):
            total += item
            rv.log("deep", total)  #?
        rv.log("early", step)  #?
rv.log("final", weights[0])
rv.log("tail", weights[0] * 2)  #?
"""


class Replays:
    """What was planned, and what came of it."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    @property
    def starts(self) -> list[str | None]:
        """The parts of the states that stretches began with."""
        plan = self.answers[0].prepared.plan
        return [one.start.part if one.start is not None else None for one in plan.stretches]

    @property
    def stops(self) -> int:
        return sum(one.stop is not None for one in self.answers[0].prepared.plan.stretches)

    def are_identical(self) -> bool:
        """Whether the first rung answered, with every boundary on the way compared."""
        return [(one.judgement.verdict, one.prepared.plan.rung, one.lost, one.notes) for one in self.answers] == [
            ("identical", scans.RESUME, [], [])
        ]


def _each(rows: Sequence[Sequence[Piece]], workers: int) -> Partition:
    """A share of its own for everything that can begin one."""
    shares = []
    for number, row in enumerate(rows):
        begins = [at for at, piece in enumerate(row) if at == 0 or piece.begin_s is not None]
        shares += [Share(number, first, last - 1, 1.0) for first, last in zip(begins, [*begins[1:], len(row)], strict=True)]
    return Partition(tuple(shares), workers, 1.0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Replays:
    """Every place where a stretch can begin is taken."""
    found, carry_out = Replays(), answering.carry_out
    monkeypatch.setattr(partition, "partition", _each)

    def carry(*args: object, **options: object) -> Answer:
        found.answers.append(carry_out(*args, **options))  # type: ignore[arg-type]
        return found.answers[-1]

    monkeypatch.setattr(answering, "carry_out", carry)
    return found


def _story(folder: Path, text: str, **env: str) -> Story:
    story = Story(folder, {"train.py": text}, env={**ENV, **env})
    story.record()
    return story


def _is_true(story: Story, *names: str) -> bool:
    truth = story.truth(*names)
    assert truth
    return story.rows(story.project, *names) == truth


def test_an_epoch_is_shared_by_stretches_that_begin_inside(tmp_path: Path, seen: Replays) -> None:
    names = ("head", "early", "inner", "outer", "deep", "tail")
    story = _story(tmp_path, PLAIN)
    story.fill(*names, workers=2)
    assert seen.starts == [None, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE, ITERATION]
    assert seen.stops == 6
    prepared = seen.answers[0].prepared
    starts = replay_page.starts_in_words(prepared)
    assert starts.startswith("the program's beginning, and the states after epoch=0/step#2, epoch=0/step#4, epoch=0, epoch=1/step#2, ")
    assert replay_page.runs_in_words(prepared) == "3 iterations, shared by 9 stretches that begin or end inside"
    assert seen.are_identical()
    assert seen.answers[0].comparison.states >= 6 + 3 + 3, "also where one stretch ends and the next begins"
    assert _is_true(story, *names)


def test_what_a_statement_carries_from_step_to_step_is_run_in_one_go(tmp_path: Path, seen: Replays) -> None:
    text = PLAIN.replace("        total = 0.0\n", "        total = 0.0\n        most = []  #?\n")
    text = text.replace("            total += weights[0]\n", "            total += weights[0]\n            most.append(total)  #?\n")
    text = text.replace('rv.log("outer", total / 7)', 'rv.log("outer", sum(most) / 7)')
    story = _story(tmp_path, text)
    story.fill("outer", workers=2)
    assert seen.starts == [None, ITERATION, ITERATION]
    assert seen.are_identical()
    assert _is_true(story, "outer")


def test_behind_a_block_whose_end_is_not_kept_only_its_last_part_is_run(tmp_path: Path, seen: Replays) -> None:
    story = _story(tmp_path, PLAIN, REARVIEW_EVERY="2")
    story.fill("outer", "deep", only="epoch=0")
    assert seen.starts == [INSIDE] and seen.stops == 0
    assert seen.are_identical()
    truth = {key: value for key, value in story.truth("outer", "deep").items() if key[1].startswith("epoch=0")}
    assert len(truth) == 3 and story.rows(story.project, "outer", "deep") == truth


def test_a_state_that_cannot_be_gone_on_from_exactly_is_not_used(tmp_path: Path, seen: Replays) -> None:
    refuses = """
from rearview.errors import RestoreRefused
from rearview.record.resume.reaching import Reach
there = Reach._be_there
def refuse(self, *args):
    if self.manifest.part == "inside":
        raise RestoreRefused(["it draws from elsewhere"])
    there(self, *args)
Reach._be_there = refuse
"""
    story = _story(tmp_path, refuses + PLAIN)
    story.fill("inner", "early", workers=2)
    (answer,) = seen.answers
    assert INSIDE in seen.starts and (answer.judgement.verdict, answer.lost) == ("identical", [])
    assert any("inside a nested loop, and an earlier one was used" in note for note in answer.notes)
    assert _is_true(story, "inner", "early")


@pytest.mark.parametrize("numbers", [(5,), (5, 6)], ids=["once", "twice"])
def test_a_worker_that_dies_inside_is_replaced(
    tmp_path: Path, seen: Replays, monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...]
) -> None:
    dies = """
import os, rearview.session
def die(place):
    unit = getattr(rearview.session.active, "unit", None)
    if unit is not None and place == (1, 5) and unit.number in NUMBERS:
        os._exit(9)
"""
    text = PLAIN.replace("            total += weights[0]\n", "            total += weights[0]\n            die((epoch, step))\n")
    story = _story(tmp_path, dies.replace("NUMBERS", str(numbers)) + text)
    ran: list[Unit] = []
    start = pool.start

    def starting(program: pool.Program, unit: Unit) -> pool.Worker:
        ran.append(unit)
        return start(program, unit)

    monkeypatch.setattr(pool, "start", starting)
    story.fill("inner", "outer", workers=1)
    (answer,) = seen.answers
    assert len(answer.prepared.plan.stretches) == 9 and len(ran) == 9 + len(numbers)
    parts = [unit.start.rpartition("-")[2] for unit in ran[5 : 6 + len(numbers)] if unit.start is not None]
    assert parts == [INSIDE, INSIDE, ITERATION][: 1 + len(numbers)], "the second time from the beginning of the epoch"
    assert (answer.judgement.verdict, answer.lost) == ("identical", [])
    assert answer.replay is not None and answer.replay.covers == [["iterations", 0, 0, 2]]
    assert _is_true(story, "inner", "outer")


def test_a_statement_that_changes_the_run_is_found_where_its_stretch_ends(tmp_path: Path, seen: Replays) -> None:
    text = PLAIN.replace('rv.log("inner", total * 3)', 'rv.log("inner", random.random())')
    text = text.replace('            rv.log("loss", weights[0])\n', "")  # only states tell
    story = _story(tmp_path, text)
    with contextlib.suppress(RearviewError):
        story.fill("inner", only="epoch=0", workers=2)
    assert seen.starts == [None, INSIDE, INSIDE]
    assert seen.answers[0].judgement.verdict == "divergent" and seen.answers[0].statement_changes_run
    assert not story.rows(story.project, "inner")


def test_a_run_that_failed_inside_fails_there_once_more(tmp_path: Path, seen: Replays) -> None:
    leaves = "            if step == 6 and epoch == 1:\n                break\n"
    text = PLAIN.replace(leaves, "            assert (epoch, step) != (1, 6)\n")
    story = Story(tmp_path, {"train.py": text}, env=ENV)
    assert story.record(check=False).returncode == 1
    story.fill("inner", workers=2)
    assert seen.starts == [None, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE]
    assert seen.are_identical()
    story.fresh = False
    assert story.run(story.folder / "truth", ["train.py"], check=False).returncode == 1
    assert _is_true(story, "inner")


def test_a_run_that_went_on_from_inside_is_shared_at_the_states_of_both_attempts(tmp_path: Path, seen: Replays) -> None:
    text = PLAIN.replace("range(3)", "range(2)").replace(
        "            if step == 6",
        """\
            if step == 6 and epoch == 1 and not os.path.exists("../again"):
                os._exit(9)
            if step == 7""",
    )
    story = Story(tmp_path, {"train.py": "import os\n" + text}, env=ENV)
    assert story.record(check=False).returncode == 9
    (tmp_path / "again").mkdir()
    story.cli("resume", "--yes")
    story.fill("inner", "outer", workers=2)
    assert seen.starts == [None, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE]
    assert seen.are_identical()
    assert _is_true(story, "inner", "outer")


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_run_that_was_killed_inside_is_shared_up_to_its_last_record(tmp_path: Path, seen: Replays, epoch: int) -> None:
    logged, asked = '            rv.log("loss", weights[0])\n', '            rv.log("inner", total * 3)  #?\n'
    written = "                getattr(rearview.session.active.keeping.materializer, 'wait', int)()\n"  # none of that in a replay
    killed = f"            if (epoch, step) == ({epoch}, 6):\n{written}                os._exit(9)\n"
    text = "import os, rearview.session\n" + PLAIN.replace(logged + asked, asked + logged + killed)
    story = Story(tmp_path, {"train.py": text}, env=ENV)
    assert story.record(check=False).returncode == 9
    story.fill("inner", "early", workers=2)
    assert seen.starts == [None, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE][: 3 + 3 * epoch]
    assert seen.are_identical()
    story.fresh = False
    assert story.run(story.folder / "truth", ["train.py"], check=False).returncode == 9
    assert len(story.truth("inner")) == 7 + 8 * epoch
    assert _is_true(story, "inner", "early")


def test_a_run_is_proved_in_parts(tmp_path: Path, seen: Replays) -> None:
    story = _story(tmp_path, PLAIN)
    with contextlib.chdir(story.project), Catalog(layout.open_store(story.project / ".rearview"), timeout_s=60) as catalog:
        prepared = preparing.prepare_proof(catalog.store, story.project, catalog.runs()[0], Ask(workers=2))
        answer = answering.carry_out(prepared)
    assert seen.starts.count(INSIDE) == 6 and seen.are_identical()
    assert (answer.comparison.records, answer.comparison.states) == (8 + 7 + 8 + 1, 6 + 3 + 3 + 1), "the end of the loop twice"


# -- torch ---------------------------------------------------------------------------------------------------------------

TORCH = f"""
import random
import numpy as np
import torch
from torch import nn
import rearview as rv
{KEEPS}
torch.set_num_threads(1)
random.seed(1); np.random.seed(2); torch.manual_seed(3)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.randn(4) + random.random() + float(np.random.rand()), i % 3


class Mean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total, self.count = self.total + value, self.count + 1


def gradients(net):
    return sum(float((p.grad.double() ** 2).sum()) for p in net.parameters() if p.grad is not None) ** 0.5


def train(net, opt, loader, epoch):
    mean = Mean()
    for step, (x, y) in enumerate(rv.loop("step", loader)):
        loss = nn.functional.cross_entropy(net(x), y) / 2
        loss.backward()
        rv.log("grads", gradients(net))  #?
        if step % 2:
            opt.step()
            opt.zero_grad()
        mean.add(loss.item())
        rv.log("loss", loss.item())
        rv.log("inner", mean.total / mean.count)  #?
        if BREAKS and epoch == 1 and step == 6:
            break
    rv.log("left", gradients(net) + float(loss))  #?
    return mean.total


def main():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    loader = torch.utils.data.DataLoader(Data(), 4, shuffle=True, LOADER)
    best = 0.0
    with rv.checkpointing(net=net, opt=opt):
        for epoch in rv.loop("epoch", range(2)):
            rv.log("early", float(torch.get_rng_state().double().sum()))  #?
            best = max(best, train(net, opt, loader, epoch))
            rv.log("best", best)  #?
    rv.log("final", best)


main()
"""
NAMES = ("grads", "inner", "left", "early", "best")


@pytest.mark.torch
@pytest.mark.parametrize("breaks", [False, True], ids=["exhausted", "break"])
@pytest.mark.parametrize("loader", ["num_workers=0", "num_workers=2", "num_workers=2, persistent_workers=True"])
def test_loaders_go_on_in_mid_epoch(
    tmp_path: Path, seen: Replays, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, loader: str, breaks: bool
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = TORCH.replace("LOADER", loader).replace("BREAKS", str(breaks))
    story = Story(tmp_path, {"train.py": text}, env=ENV, nursery=nursery)
    story.record()
    story.fill(*NAMES, workers=2)
    assert seen.starts == [None, INSIDE, INSIDE, ITERATION, INSIDE, INSIDE]
    assert seen.are_identical()
    assert _is_true(story, *NAMES)
