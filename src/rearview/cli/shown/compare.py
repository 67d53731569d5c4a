"""What differs between two runs. Pure: facts in, differences out; must not know how they are shown.

Two values are the same if they have the same type and the same exact form: NaN equals NaN, 1 differs from 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rearview.cli.shown import output
from rearview.cli.shown.metrics import Metric


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two runs have differently; a side that lacks it is None with `has_` false."""

    name: str
    left: object
    right: object
    has_left: bool = True
    has_right: bool = True


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric of two runs."""

    name: str
    left: Metric | None
    right: Metric | None
    differs: bool
    """Whether the recorded values differ anywhere, not only at the end."""

    @property
    def volatile(self) -> bool:
        """Not expected to repeat: shown, but no difference."""
        return any(side is not None and side.volatile for side in (self.left, self.right))


def exact(value: object) -> tuple[str, str]:
    """A form that is equal for equal values only."""
    return type(value).__name__, json.dumps(output.plain(value))


def differences(left: Mapping[str, object], right: Mapping[str, object]) -> list[Difference]:
    """The keys that are not the same in both, in the order of the first, then of the second."""
    return [
        Difference(name, left.get(name), right.get(name), name in left, name in right)
        for name in [*left, *(name for name in right if name not in left)]
        if name not in left or name not in right or exact(left[name]) != exact(right[name])
    ]


def flat(facts: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Nested facts as one level: `packages.torch`."""
    found: dict[str, object] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{above}{name}."))
        else:
            found[f"{above}{name}"] = value
    return found


def pair_metrics(left: Sequence[Metric], right: Sequence[Metric], differ: Callable[[str], bool]) -> list[MetricPair]:
    """The metrics of both runs side by side; `differ` tells whether the values of a name that both have differ."""
    ours = {metric.key: metric for metric in left}
    theirs = {metric.key: metric for metric in right}
    pairs = []
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        a, b = ours.get(key), theirs.get(key)
        pairs.append(MetricPair(key[0], a, b, a is None or b is None or differ(key[0])))
    return pairs


Rows = Sequence[tuple[Any, ...]]


def rows_differ(left: Rows, right: Rows) -> bool:
    """Whether two runs' rows of one name differ: in a place, in a value, or in a value's type."""
    if len(left) != len(right):
        return True
    return any(a is not b and exact(a) != exact(b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))
