"""`python -m bench.propagate.frontier --mirror M`: could another decision what to refuse do better, from what the two versions tell?

Each case is placed a second time at the best place that was found, whatever speaks against it, and what the method knows there is written
down as numbers. Scores learned from these numbers on eleven repositories are judged on the twelfth, for each of them. Printed is, by how
much damage is let through: the right and the damage (percent of the cases) that the best threshold of a score comes to; the threshold is
chosen in hindsight, which flatters it. `placed`: the score refuses some of what is placed today; `every`: it alone decides.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bench.propagate import scoring
from bench.propagate.__main__ import CASES, RIGHT, run, sources
from rearview.propagate import place
from rearview.propagate.beside import left_behind
from rearview.propagate.certain import agreement, reasons
from rearview.propagate.choose import choose
from rearview.propagate.needs import Finding
from rearview.propagate.place import Placed, Refused
from rearview.propagate.spots import Anchor, Nowhere, Spot
from rearview.propagate.telling import tells
from rearview.propagate.tree import Node

Score = Callable[[np.ndarray], np.ndarray]
SAYS_NO = ("nowhere", "refusal", "missing", "stand_in", "attribute", "choose", "late", "lost")
DAMAGE = (20, 18, 16, 14, 12, 9)
"""Cases of damage let through: what there is today, and less."""


class Always(place._Placing):
    """Takes the best place there is, and knows what speaks against it."""

    known: ClassVar[list[float]] = []

    def result(self, after: int | None) -> Placed | Refused:
        """The statement at the best place."""
        wrapped, no = self._wrap(), dict.fromkeys(SAYS_NO, False)
        spot = self._spots.find(self._group)
        if isinstance(spot, Nowhere):
            no["nowhere"] = True
            if not spot.spots:
                return Refused(spot.why)
            spot = spot.spots[0]
        no["refusal"] = spot.refusal() is not None
        needs = Finding(self._names, self._group, place._inside(spot), self._surely_matched).find()
        no |= {"missing": needs.missing is not None, "stand_in": needs.stand_in is not None, "attribute": bool(self._lost_attribute())}
        between = [one for one in spot.siblings[spot.low : spot.high] if not one.nothing]
        no["choose"] = not choose(spot, self._group, {old for old, _ in self._read_as(needs)})
        no["late"] = self._too_early(spot, needs, said_so=False) is not None
        behind = left_behind(self._matching, self._group, [*needs.module, *needs.temporaries])
        no["lost"] = any(line < self._group[0].line for line in behind)
        doubts = reasons(self._matching, spot, self._group)
        counts = [len(between), sum(map(tells, between)), len(behind), len(needs.renamed), len(needs.doubts), len(spot.doubts), len(doubts)]
        type(self).known = [float(one) for one in (*no.values(), sum(no.values()), *counts, *self._around(spot))]
        return self._text(spot, needs, doubts, wrapped)

    def _around(self, spot: Spot) -> list[float]:
        """How alike the two versions are there, near and far."""
        matching, first, last = self._matching, self._group[0], self._group[-1]
        likeness, old_of = matching.likeness, matching.old_of
        sides = [_real(first.siblings[: first.index])[::-1], _real(first.siblings[last.index + 1 :])]
        there = [_real(spot.siblings[: spot.index])[::-1], _real(spot.siblings[spot.index :])]
        found = [float(one) for one in (spot.block, spot.last, spot.apart, spot.headed, spot.edge, spot.fellow is not None, spot.exchanged)]
        for anchor, new, old in zip((spot.before, spot.after), sides, there, strict=True):
            found += _of_anchor(anchor, new)
            found += [float(bool(new) and new[0] in old_of), float(bool(new) and tells(new[0]))]
            found += [float(bool(old) and old[0] in matching.new_of), float(bool(old and new) and old_of.get(new[0]) is old[0])]
            near = new[:3]
            found.append(sum(likeness.of(one, old_of[one]) for one in near if one in old_of) / max(1, len(near)))
            found.append(float(next((at for at, one in enumerate(new) if one in old_of), len(new))))
        here, block = _real(first.siblings), _real(spot.siblings)
        both = [one for one in here if one in old_of and old_of[one].owner is spot.owner]
        told = [one for one in first.function.below() if tells(one) and not one.nothing and one.function is first.function]
        same = first.owner is not None and first.owner.kind == spot.owner.kind
        depths = [sum(1 for _ in one.above()) for one in (first, spot.owner)]
        return [
            *found, agreement(matching, first), len(here), len(block), len(both) / max(1, len(here)),
            sum(one.key == old_of[one].key for one in both) / max(1, len(here)),
            sum(one in matching.new_of for one in block) / max(1, len(block)),
            likeness.heads(first.owner, spot.owner) if first.owner is not None and same else 0.0, depths[0], abs(depths[0] - depths[1] - 1),
            len(told), sum(one in old_of for one in told) / max(1, len(told)), float(first.kind == "If"),
            first.function.end - first.function.line,
        ]  # fmt: skip


def _real(nodes: list[Node]) -> list[Node]:
    return [one for one in nodes if not one.nothing]


def _of_anchor(anchor: Anchor | None, new: list[Node]) -> list[float]:
    if anchor is None:
        return [0.0, 6.0 * bool(new), 0.0]
    return [anchor.alike, min(anchor.apart, 6.0), float(anchor.new.key == anchor.old.key)]


def always(case: dict[str, Any], mirror: str) -> tuple[str, list[float]]:
    """What becomes of a case at its best place, and what is known there."""
    later, truth, without = sources(case, mirror)
    usual, place._Placing, Always.known = place._Placing, Always, []  # type: ignore[misc]
    try:
        found = place.propagate(later, case["y_line"], case["y_end"], without)
    finally:
        place._Placing = usual  # type: ignore[misc]
    out = found.bare if isinstance(found, Placed) and found.lines else None
    return scoring.judge(case, truth, without, out), Always.known


def logistic(known: np.ndarray, right: np.ndarray, penalty: float = 10.0) -> Score:
    """A weight for each number, by Newton's method; the penalty keeps what few cases tell from weighing much."""
    mean, scale = known.mean(0), known.std(0) + 1e-9

    def wide(some: np.ndarray) -> np.ndarray:
        return np.c_[np.ones(len(some)), (some - mean) / scale]

    every = wide(known)
    weights, ridge = np.zeros(every.shape[1]), np.full(every.shape[1], penalty)
    ridge[0] = 1e-9
    for _ in range(25):
        chance = 1 / (1 + np.exp(-every @ weights))
        slope = every.T @ (chance - right) + ridge * weights
        weights -= np.linalg.solve((every.T * (chance * (1 - chance))) @ every + np.diag(ridge), slope)
    return lambda some: wide(some) @ weights


def boosted(known: np.ndarray, right: np.ndarray, rounds: int = 150, rate: float = 0.1, least: int = 5) -> Score:
    """Round by round the one split of one number that helps most, of at least some cases on both sides."""
    order = np.argsort(known, axis=0, kind="stable")
    ordered = np.take_along_axis(known, order, 0)
    allowed = ordered[1:] > ordered[:-1]
    allowed[: least - 1] = allowed[len(right) - least :] = False
    base = np.log(right.mean() / (1 - right.mean()))
    score, splits = np.full(len(right), base), []
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-score))
        slope, bend = (right - chance)[order], (chance * (1 - chance))[order]
        low, bent = np.cumsum(slope, 0)[:-1], np.cumsum(bend, 0)[:-1]
        high, rest = slope.sum(0) - low, bend.sum(0) - bent
        gain = np.where(allowed, low**2 / (bent + 1) + high**2 / (rest + 1), -1)
        at, which = np.unravel_index(gain.argmax(), gain.shape)
        value = (ordered[at, which] + ordered[at + 1, which]) / 2
        step = rate * low[at, which] / (bent[at, which] + 1), rate * high[at, which] / (rest[at, which] + 1)
        score = score + np.where(known[:, which] < value, *step)
        splits.append((which, value, step))
    return lambda some: base + sum(np.where(some[:, which] < value, *step) for which, value, step in splits)


def judged(rows: list[dict[str, Any]], learn: Callable[[np.ndarray, np.ndarray], Score]) -> np.ndarray:
    """The score of each case, learned from the other repositories."""
    known = np.array([row["known"] for row in rows])
    right, repos = np.array([float(row["right"]) for row in rows]), np.array([row["case"]["repo"] for row in rows])
    found = np.zeros(len(rows))
    for repo in set(repos):
        mine = repos == repo
        found[mine] = learn(known[~mine], right[~mine])(known[mine])
    return found


def frontier(rows: list[dict[str, Any]], scores: np.ndarray, groups: dict[str, set[str]]) -> list[dict[str, str]]:
    """By how much damage is let through: right / damage of each group of cases."""
    found = []
    ordered = [rows[at] for at in np.argsort(-scores, kind="stable")]
    wrong = [at for at, row in enumerate(ordered) if not row["right"]]
    for most in DAMAGE:
        taken = ordered[: wrong[most]] if most < len(wrong) else ordered
        line = {}
        for name, ids in groups.items():
            mine = [row["right"] for row in taken if row["case"]["id"] in ids]
            line[name] = f"{100 * sum(mine) / len(ids):.1f} / {100 * (len(mine) - sum(mine)) / len(ids):.1f}"
        found.append(line)
    return found


def main() -> int:
    """Place all cases twice, learn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", required=True)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [one for one in scoring.load(CASES) if one["kind"] == "place" and not one["moved"]]
    rows = []
    for case in cases:
        verdict, known = always(case, asked.mirror)
        if known and verdict != "refuse":
            rows.append({"case": case, "known": known, "right": verdict in RIGHT, "placed": run(case, asked.mirror)["verdict"] != "refuse"})
    groups = {
        "place": {one["id"] for one in cases},
        "none unchanged": {one["id"] for one in cases if one["context"] == "0 of 2"},
        "renamed": {one["id"] for one in cases if one["sub"] == "renamed"},
    }
    every = {name: round(100 * sum(row["right"] for row in rows if row["case"]["id"] in ids) / len(ids), 1) for name, ids in groups.items()}
    print(json.dumps({"right_if_always_placed_percent": every}))
    for what, some in (("placed", [row for row in rows if row["placed"]]), ("every", rows)):
        for learn in (logistic, boosted):
            print(json.dumps({"decides": what, "score": learn.__name__, "right / damage": frontier(some, judged(some, learn), groups)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
