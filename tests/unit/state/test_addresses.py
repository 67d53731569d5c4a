"""Numbers that are addresses of objects are named: they lead nowhere in another process."""

from __future__ import annotations

from typing import Any

from rearview.state.capture import capture
from rearview.state.take.addresses import WHY
from rearview.state.take.again import Again


def _lacks(again: Again | None = None, **values: Any) -> list[tuple[str, str]]:
    return [(lack.where, lack.why) for lack in capture({("given", name): one for name, one in values.items()}, again=again).missing]


def test_the_id_of_an_object_in_the_state_is_named() -> None:
    weights, other = [0.5], [1.5]
    ((where, why),) = _lacks(weights=weights, momentum={id(weights): [0.0]})
    assert (where.startswith("momentum"), why) == (True, WHY)
    assert _lacks(weights=weights, momentum={id(other): [0.0]}) == [], "an object that is not kept"
    assert _lacks(weights=weights, many=[2**40 + 16 * k for k in range(5)], few={16: 1, 32: 2}) == []


def test_every_time() -> None:
    again, weights = Again(), [0.5]
    momentum = {id(weights): [0.0]}
    said = [_lacks(again, weights=weights, momentum=momentum) for _ in range(4)]
    assert [len(one) for one in said] == [1, 1, 1, 1]
