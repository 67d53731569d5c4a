"""Programs made at random, asked in hindsight: every value is what a run that had the statements from the start logs, bit for bit."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rearview.plan import partition as plan_partition
from rearview.plan import timeline
from rearview.plan.partition import Partition, Piece, Share
from rearview.replay.preparing import Prepared
from rearview.replay.running.conductor import Task
from tests.integration.replay.hindsight import Story
from tests.property.replay_programs import Maker, asks_inside

PROGRAMS = int(os.environ.get("REARVIEW_TEST_PROGRAMS", "100"))
BATCH = 10
INSIDE_PROGRAMS = max(PROGRAMS // 5, 3)
REGIMES = ({"REARVIEW_EVERY": "1"}, {"REARVIEW_EVERY": "2"}, {"REARVIEW_EVERY": "3"}, {"REARVIEW_CHECKPOINTS": "off"}, {})


INSIDE = """
from rearview.record.checkpoints.keeping import Keeping
from rearview.record.checkpoints.materialize import Materializer
Materializer.busy = property(lambda self: not self.wait())
Keeping.inside_due = lambda self, period, running_s, node: (node.iteration * 5 + SEED) % 3 == 0
"""
"""Code that a program begins with: states are kept inside its nested loops."""


def cut(draw: random.Random) -> Callable[[Sequence[Sequence[Piece]], int], Partition]:
    """Shares that begin at some of the places where one can."""

    def partition(rows: Sequence[Sequence[Piece]], workers: int) -> Partition:
        shares = []
        for number, row in enumerate(rows):
            can = [at for at, piece in enumerate(row) if at and piece.begin_s is not None]
            begins = [0, *sorted(draw.sample(can, min(len(can), draw.randint(1, 4))))]
            shares += [Share(number, first, last - 1, 1.0) for first, last in zip(begins, [*begins[1:], len(row)], strict=True)]
        return Partition(tuple(shares), workers, 1.0)

    return partition


def check(folder: Path, seed: int, *, inside: bool = False) -> int:
    """One program; how many values were compared."""
    maker = Maker(seed)
    text = maker.make()
    if not maker.probes:
        return 0
    draw = random.Random(seed)
    env = draw.choice(REGIMES)
    if inside:
        text = INSIDE.replace("SEED", str(seed)) + text
        env = {"REARVIEW_EVERY": draw.choice("112"), "REARVIEW_RISK": "1e-9"}
    story = Story(folder / str(seed), {"train.py": text}, env=env)
    story.record()
    asked = maker.probes if inside or draw.random() < 0.5 else draw.sample(maker.probes, 1)
    # A program whose stream nobody seeded is another one each time: what was recorded is the only truth there is.
    story.fill(*asked)
    now = story.rows(story.project, *asked)
    if "random.seed(" in text:
        assert now == story.truth(*asked), f"program {seed}, {asked}"
    return len(now)


@pytest.mark.parametrize("batch", range(-(-INSIDE_PROGRAMS // BATCH)))
def test_the_same_where_stretches_begin_inside_nested_loops(
    batch: int, tmp_path: Path, tally: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    task = Prepared.task

    def noting(prepared: Prepared) -> Task:
        began.extend(one.start.part for one in prepared.plan.stretches if one.start is not None)
        return task(prepared)

    monkeypatch.setattr(Prepared, "task", noting)
    monkeypatch.setattr(plan_partition, "partition", cut(random.Random(batch)))
    seeds = (seed for seed in itertools.count() if asks_inside(Maker(seed).make()))
    some = itertools.islice(seeds, batch * BATCH, min((batch + 1) * BATCH, INSIDE_PROGRAMS))
    compared = [check(tmp_path, seed, inside=True) for seed in some]
    assert timeline.INSIDE in began
    tally("replay: programs made at random, with states inside nested loops", len(compared))
    tally("replay: stretches that began inside nested loops", began.count(timeline.INSIDE))
    tally("replay: values compared with a run that had them", sum(compared))


@pytest.mark.parametrize("batch", range(-(-PROGRAMS // BATCH)))
def test_values_of_hindsight_are_those_of_a_run_that_had_the_statements(
    batch: int, tmp_path: Path, tally: Callable[[str, int], None]
) -> None:
    compared = [check(tmp_path, seed) for seed in range(batch * BATCH, min((batch + 1) * BATCH, PROGRAMS))]
    tally("replay: programs made at random", len(compared))
    tally("replay: values compared with a run that had them", sum(compared))
