"""Sets whose order is another one in each process: which variables have one, and which statements make or use one."""

from __future__ import annotations

import pytest

from rearview.replay.proof.compare import Comparison
from rearview.replay.proof.verdicts import Evidence, judge
from rearview.replay.worker import orders
from rearview.state.capture import capture


class Thing:
    def __init__(self, **held: object) -> None:
        self.__dict__.update(held)


def test_variables_that_reach_one() -> None:
    tree = capture({
        ("global", "m", "numbers"): {1, 2, 3.5}, ("global", "m", "single"): {"a"}, ("global", "m", "words"): {"a", "b"},
        ("local", 0, "self"): Thing(deep={"k": [Thing(seen={Thing(), Thing()})]}), ("global", "m", "pairs"): {(1, "a"), (2, "b")},
        ("global", "m", "mapping"): {Thing(): 1, Thing(): 2},
    }).tree  # fmt: skip
    assert orders.rows(tree, True) == [("local/0/self", "deep", "k", "seen")]
    assert {row[0] for row in orders.rows(tree, False)} == {"global/m/words", "global/m/pairs", "local/0/self"}


@pytest.mark.parametrize(
    ("text", "makes", "counts"),
    [
        ("rv.log('x', next(iter(names)))", False, set()),
        ("rv.log('x', sum({f(v) for v in names}))", True, set()),
        ("rv.log('x', len(names | set(others)))", False, set()),
        ("rv.log('x', sorted(set(names))[0])", False, {"names"}),
        ("rv.log('x', len(self.names))", False, {"names"}),
        ("rv.log('x', len(names) + [n for n in names][0])", False, set()),
    ],
)
def test_statements_that_use_an_order(text: str, makes: bool, counts: set[str]) -> None:
    assert orders.makes_one(text) is makes
    assert orders.counted(text) >= counts and ("names" in orders.counted(text)) is ("names" in counts)


def test_the_verdict_says_which_set_it_is() -> None:
    found = Comparison(records=3, states=2, virtual={"a": 1, "b": 1, "c": 1}, unordered={"global/m/self": frozenset(("deep", "seen"))})
    reads = {"a": frozenset(("self", ".seen")), "b": frozenset(("self", ".loss")), "c": frozenset(("self", ".seen"))}
    made = judge(found, Evidence(reads=reads, counted={"c": frozenset(("seen",))}))
    assert (made.verdict, made.verdicts) == ("identical", {"a": "unverified"})
    assert any("a is unverified: it reads the set self.deep.seen" in why for why in made.why)
    found.virtual = {"a": 1}
    assert judge(found, Evidence(reads={"a": reads["a"]})).verdict == "unverified"
    found.unordered = {}
    assert judge(found, Evidence(reads=reads)).verdict == "identical"
    assert judge(found, Evidence(makes_sets=frozenset(("a",)))).verdict == "unverified"
