"""Programs made at random, asked in hindsight: every value is what a run that had the statements from the start logs, bit for bit."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story
from tests.property.replay_programs import Maker

PROGRAMS = int(os.environ.get("REARVIEW_TEST_PROGRAMS", "100"))
BATCH = 10
REGIMES = ({"REARVIEW_EVERY": "1"}, {"REARVIEW_EVERY": "2"}, {"REARVIEW_EVERY": "3"}, {"REARVIEW_CHECKPOINTS": "off"}, {})


def check(folder: Path, seed: int) -> int:
    """One program; how many values were compared."""
    maker = Maker(seed)
    text = maker.make()
    if not maker.probes:
        return 0
    draw = random.Random(seed)
    story = Story(folder / str(seed), {"train.py": text}, env=draw.choice(REGIMES))
    story.record()
    asked = maker.probes if draw.random() < 0.5 else draw.sample(maker.probes, 1)
    # A program whose stream nobody seeded is another one each time: what was recorded is the only truth there is.
    story.fill(*asked)
    now = story.rows(story.project, *asked)
    if "random.seed(" in text:
        assert now == story.truth(*asked), f"program {seed}, {asked}"
    return len(now)


@pytest.mark.parametrize("batch", range(-(-PROGRAMS // BATCH)))
def test_values_of_hindsight_are_those_of_a_run_that_had_the_statements(
    batch: int, tmp_path: Path, tally: Callable[[str, int], None]
) -> None:
    compared = [check(tmp_path, seed) for seed in range(batch * BATCH, min((batch + 1) * BATCH, PROGRAMS))]
    tally("replay: programs made at random", len(compared))
    tally("replay: values compared with a run that had them", sum(compared))
