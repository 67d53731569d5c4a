"""What a learned decision could do: the scores separate what can be separated, and the frontier counts right and damage."""

from __future__ import annotations

import numpy as np
import pytest

from bench.propagate.frontier import boosted, frontier, judged, logistic


def rows() -> list[dict[str, object]]:
    """Cases of two repositories that are right where the first number is large, all but one; the second number tells nothing."""
    chance = np.random.default_rng(3)
    found = []
    for number in range(80):
        known = [float(number % 40), chance.random()]
        case = {"id": f"{number}", "repo": f"r{number // 40}"}
        found.append({"case": case, "known": known, "right": number % 40 >= 10 or number == 2})
    return found


@pytest.mark.parametrize("learn", [logistic, boosted])
def test_what_the_numbers_tell_in_one_repository_is_known_in_the_other(learn: object) -> None:
    every = rows()
    scores = judged(every, learn)  # type: ignore[arg-type]
    right = [score for row, score in zip(every, scores, strict=True) if row["right"]]
    wrong = [score for row, score in zip(every, scores, strict=True) if not row["right"]]
    assert sum(one > other for one in right for other in wrong) > 0.9 * len(right) * len(wrong)  # half of them by chance


def test_the_frontier_lets_so_much_damage_through_and_no_more() -> None:
    every = rows()
    scores = np.array([row["known"][0] for row in every])  # type: ignore[index]
    ids = {str(number) for number in range(80)}
    lines = frontier(every, scores, {"all": ids})
    assert lines[0]["all"] == "76.2 / 23.8"  # 19 of 80: less than 20, so that nothing is left out
    assert lines[-1]["all"] == "75.0 / 11.2"  # 9 let through: the one that is right though it looks wrong is left out with the rest
