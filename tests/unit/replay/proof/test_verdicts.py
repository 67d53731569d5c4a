"""The verdict of a replay: what proves it, what does not, and what probably made it differ."""

from __future__ import annotations

import math

import pytest

from rearview.replay.proof.compare import Comparison, Difference, NameFacts, RootFacts
from rearview.replay.proof.verdicts import Evidence, judge, probable_causes


def name(compared: int = 10, **facts: object) -> NameFacts:
    made = NameFacts(compared=compared, varies=True)
    for key, value in facts.items():
        setattr(made, key, value)
    return made


def differing(at: int, **facts: object) -> NameFacts:
    return name(differing=10, first_at=at, largest=0.5, first_relative=0.5, last_relative=0.5, **facts)


def found(
    states: tuple[int, ...] = (), roots: dict[str, RootFacts] | None = None, virtual: tuple[str, ...] = (), **names: NameFacts
) -> Comparison:
    """A comparison with these names, and states compared at these moments."""
    made = Comparison(records=sum(facts.compared for facts in names.values()), states=len(states), names=dict(names), roots=roots or {})
    made.states_at = [(at, frozenset(root for root, facts in made.roots.items() if facts.first_at <= at)) for at in states]
    made.virtual = dict.fromkeys(virtual, 5)
    for which, facts in (*names.items(), *made.roots.items()):
        if facts.first_at >= 0:
            made.met.append((facts.first_at, "name", which))
            made.differences.append(Difference("value", which, "epoch=1", "1.0", "2.0"))
    made.differences.sort(key=lambda one: min(at for at, _, which in made.met if which == one.name))
    made.first = made.differences[0] if made.differences else None
    return made


def test_identical_says_how_much() -> None:
    made = judge(found((3, 6), loss=name(1200)))
    assert made.verdict == "identical" and made.faithful and made.why == ["1,200 records and 2 states are the same bit for bit"]
    assert judge(found(loss=name(1))).why == ["1 record is the same bit for bit"]


def test_a_clock_beside_identical_states_is_volatile() -> None:
    made = judge(found((3, 6), loss=name(), epoch_time=differing(2)))
    assert made.verdict == "identical" and made.volatile == ["epoch_time"] and made.first_difference is None


def test_whatever_it_is_called_if_a_state_proves_it() -> None:
    assert judge(found((6,), loss=name(), weird=differing(2))).volatile == ["weird"]
    late = judge(found((6,), loss=name(), weird=differing(7)))
    assert late.verdict == "divergent", "no state was compared after it had differed"
    assert late.first_difference is not None and late.first_difference.name == "weird"


def test_where_all_that_was_logged_differs_only_clocks_are_believed() -> None:
    variable = {"global/__main__/w": RootFacts(5, 2, "float")}
    assert judge(found((6,), variable, w=differing(2))).verdict == "divergent"
    assert judge(found((6,), variable, w=differing(2), epoch_time=differing(3))).verdict == "divergent"
    assert judge(found((6,), variable, epoch_time=differing(3))).volatile == ["epoch_time", "global/__main__/w"]


def test_a_small_array_in_a_variable() -> None:
    times = "global/__main__/infos['episode']['t']"
    roots = {times: RootFacts(2, 3, "array", frozenset((times, "global/__main__/infos", "global/__main__/last")))}

    def judged(*reads: str, rung: str = "start", kept: tuple[int, ...] = (3, 6)) -> tuple[str, list[str]]:
        made = judge(found(kept, roots, ("x",), loss=name()), Evidence(rung=rung, restored=rung != "start", reads={"x": frozenset(reads)}))
        return made.verdict, made.volatile

    assert judged("values") == ("identical", [times])
    assert judged("infos") == judged("last") == judged("*") == ("volatile", [times]), "whatever is called on the way"
    assert judged("values", rung="resume") == ("divergent", []), "a state that was put back may lack what makes it differ"
    assert judged("values", kept=(2,)) == ("divergent", [])


def test_what_is_volatile_is_not_counted_as_the_same() -> None:
    made = judge(found((3, 6), loss=name(10), epoch_time=differing(2)))
    assert made.why == ["10 records and 2 states are the same bit for bit"]
    made = judge(found((3, 6), {"global/__main__/t0": RootFacts(2, 2, "float")}, loss=name(10)))
    assert made.why == ["10 records and 2 states are the same bit for bit but for what is volatile"]


def test_several_volatile_names() -> None:
    made = judge(found((9,), loss=name(), epoch_time=differing(2), samples_per_second=differing(3)))
    assert made.verdict == "identical" and made.volatile == ["epoch_time", "samples_per_second"]


def test_a_variable_of_the_state() -> None:
    t0 = {"global/__main__/t0": RootFacts(2, 3, "float")}
    made = judge(found((3, 6), t0, loss=name(), epoch_time=differing(2)))
    assert made.verdict == "identical" and made.volatile == ["epoch_time", "global/__main__/t0"]


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ("given/net", "object"),
        ("stream/global", "dict"),
        ("global/__main__/net", "object"),
        ("global/__main__/step", "int"),
        ("more roots than were named", ""),
        ("given/lr", "float"),
    ],
)
def test_what_is_no_leaf_is_a_divergence(root: str, kind: str) -> None:
    made = judge(found((3, 6), {root: RootFacts(2, 3, kind)}, loss=name()))
    assert made.verdict == "divergent" and not made.faithful and made.volatile == []
    clock = judge(found((3, 6), {root: RootFacts(2, 3, kind)}, loss=name(), epoch_time=differing(2)))
    assert clock.verdict == "divergent", "a clock does not excuse the rest"


def test_a_count_is_not_volatile_unless_it_is_called_so() -> None:
    assert judge(found((9,), loss=name(), correct=differing(2, counts=True))).verdict == "divergent"
    assert judge(found((9,), loss=name(), elapsed_ms=differing(2, counts=True))).verdict == "identical"


def test_without_states_a_name_has_to_say_it() -> None:
    assert judge(found(loss=name(), epoch_time=differing(2))).volatile == ["epoch_time"]
    assert judge(found(loss=differing(2), lr=name())).verdict == "divergent"
    assert judge(found(lr=name(varies=False), epoch_time=differing(2))).verdict == "divergent", "a constant proves nothing"
    assert judge(found(loss=differing(1), epoch_time=differing(2))).verdict == "divergent"


@pytest.mark.parametrize(
    "called", ["epoch_time", "time/epoch", "samples_per_sec", "sec", "it_s", "gpu_mem", "Elapsed", "train.speed", "log_dir"]
)
def test_names_of_clocks(called: str) -> None:
    assert judge(found(loss=name(), **{called: differing(2)})).volatile == [called]


@pytest.mark.parametrize("called", ["loss", "timestep", "sentiment", "second_loss", "memorized", "discount"])
def test_names_of_other_things(called: str) -> None:
    assert judge(found(acc=name(), **{called: differing(2)})).verdict == "divergent"


def test_one_that_was_not_logged_is_never_volatile() -> None:
    assert judge(found((9,), loss=name(), epoch_time=name(unmatched=1, first_at=2))).verdict == "divergent"


def test_declared_and_remembered_names() -> None:
    assert judge(found(loss=name(), noise=differing(2, volatile=True))).volatile == ["noise"]
    assert judge(found(loss=name(), noise=differing(2)), Evidence(volatile=frozenset({"noise"}))).volatile == ["noise"]
    roots = {"local/0/seed": RootFacts(1, 3, "int")}
    assert judge(found((3,), roots, loss=name()), Evidence(volatile=frozenset({"seed"}))).verdict == "identical"
    mixed = judge(found((9,), loss=differing(3, unmatched=1), noise=differing(2, volatile=True)))
    assert mixed.verdict == "divergent" and mixed.first_difference is not None and mixed.first_difference.name == "loss"


def test_a_changed_input_is_not_called_volatile() -> None:
    made = judge(found((9,), loss=name(), val_acc=differing(2)), Evidence(changed_inputs=("data/val.csv",)))
    assert made.verdict == "divergent" and made.why[0] == "an input is not what it was: data/val.csv"


def test_states_that_do_not_hold_everything_prove_less() -> None:
    comparison = found((9,), loss=name(), ema=differing(2))
    comparison.lacking = {"global/__main__/shadow": "a type that cannot be captured"}
    assert judge(comparison).verdict == "divergent"
    assert judge(comparison, Evidence(rung="start")).verdict == "identical", "nothing was restored"
    clock = found((9,), loss=name(), epoch_time=differing(2))
    clock.lacking = comparison.lacking
    assert judge(clock).verdict == "identical"


def test_a_probe_that_reads_something_volatile() -> None:
    t0 = {"global/__main__/t0": RootFacts(2, 3, "float")}
    reads = {"since": frozenset({"t0", "time"}), "grad": frozenset({"net"})}
    made = judge(found((3,), t0, ("since", "grad"), loss=name()), Evidence(reads=reads))
    assert made.verdict == "identical" and made.verdicts == {"since": "volatile"} and "reads t0" in made.why[-1]
    alone = judge(found((3,), t0, ("since",), loss=name()), Evidence(reads={"since": frozenset({"t0"})}))
    assert alone.verdict == "volatile" and alone.faithful


def test_a_probe_whose_values_do_not_repeat() -> None:
    made = judge(found((3,), virtual=("a", "b"), loss=name()), Evidence(values_differ=frozenset({"a"})))
    assert made.verdict == "identical" and made.verdicts == {"a": "volatile"}
    clock = judge(found((3,), virtual=("a", "b"), loss=name()), Evidence(clocks=frozenset({"b"})))
    assert clock.verdicts == {"b": "volatile"} and "b is volatile: it reads the clock" in clock.why[-1]
    flagged = found((3,), virtual=("a",), loss=name())
    flagged.virtual_flagged = {"a"}
    assert judge(flagged).verdict == "volatile"


def test_unverified_and_why() -> None:
    assert "nothing to compare" in judge(found()).why[0] and judge(found()).verdict == "unverified"
    only = judge(found(epoch_time=differing(2, volatile=True)))
    assert only.verdict == "unverified" and "volatile" in only.why[0] and only.volatile == ["epoch_time"]
    elsewhere = found((3,), loss=name())
    elsewhere.loaded_elsewhere = [("model.py", "site-packages came first")]
    assert judge(elsewhere).verdict == "unverified" and "model.py" in judge(elsewhere).why[0]
    partial = judge(found((3,), loss=name()), Evidence(partial=("shadow",)))
    assert partial.verdict == "unverified" and "shadow" in partial.why[0]
    assert judge(found((3,))).verdict == "identical", "states alone prove it"


def test_close_where_it_cannot_be_exact() -> None:
    near = found((3,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2, largest_path="epoch=9"))
    near.names["loss"].largest, near.names["loss"].first_relative, near.names["loss"].last_relative = 2e-5, 1e-7, 2e-5
    made = judge(near, Evidence(inexact=("recorded on a GPU, replayed on a CPU",)))
    assert made.verdict == "close" and made.faithful and "2e-05, of loss at epoch=9" in made.why[1] and "grows" in made.why[2]
    assert judge(near, Evidence(close=True)).verdict == "close"
    assert judge(near).verdict == "divergent", "only where there is a reason"
    near.names["loss"].last_relative = 1e-7
    assert "does not grow" in judge(near, Evidence(close=True)).why[-1]


def test_far_is_not_close() -> None:
    far = found(loss=differing(2))
    assert judge(far, Evidence(close=True)).verdict == "divergent"
    text = found(loss=differing(2))
    text.names["loss"].largest = math.inf
    assert judge(text, Evidence(inexact=("another kind of CPU",))).verdict == "divergent"


def test_exact_is_identical_also_where_it_could_be_close() -> None:
    assert judge(found(loss=name()), Evidence(inexact=("another kind of CPU",))).verdict == "identical"


BAD = found((3,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2))


def test_causes_are_told_apart() -> None:
    assert "unseeded generator" in probable_causes(BAD, Evidence(rung="start"))[0]
    assert "from the start tells" in probable_causes(BAD, Evidence(rung="resume"))[0]
    assert "numpy" in probable_causes(BAD, Evidence(unseeded=("numpy",)))[0]
    assert "torch 2.1 then, 2.2 now" in probable_causes(BAD, Evidence(environment=("torch 2.1 then, 2.2 now",)))[0]
    assert "data.csv" in probable_causes(BAD, Evidence(changed_inputs=("data.csv",)))[0]


def test_a_statement_that_changes_the_run() -> None:
    (cause,) = probable_causes(BAD, Evidence(without_probe=found((3,), loss=name())))
    assert "the added statement changes the run" in cause and "--isolate" in cause
    assert "added statement" not in " ".join(probable_causes(BAD, Evidence(without_probe=BAD)))


def test_a_clock_is_no_race_and_no_excuse() -> None:
    """The same stretch without the statement: only the clock differs, as it always does."""
    clocked = found((3,), loss=name(), epoch_time=differing(2))
    assert "the added statement changes the run" in probable_causes(BAD, Evidence(without_probe=clocked))[0]
    one, two = (found((9,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2), epoch_time=differing(1)) for _ in range(2))
    two.differences[0] = Difference("value", "epoch_time", "epoch=1", "1.0", "7.0")
    assert "two replays" not in " ".join(probable_causes(one, Evidence(again=two)))


def test_the_first_difference_is_not_the_clock() -> None:
    made = judge(found((3,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2), epoch_time=differing(1)))
    assert made.first_difference is not None and made.first_difference.name == "loss"


def test_the_first_difference_is_what_keeps_it_from_being_a_plain_value() -> None:
    leaf, other = {"local/1/self.name": RootFacts(2, 2, "str")}, {"global/__main__/infos": RootFacts(2, 3, "dict")}
    made = judge(found((3, 6), leaf | other))
    assert made.first_difference is not None and made.first_difference.name == "global/__main__/infos"
    logged = judge(found((3, 6), leaf | {"global/__main__/infos": RootFacts(2, 4, "dict")}, loss=differing(3)))
    assert logged.first_difference is not None and logged.first_difference.name == "loss"


def test_a_race() -> None:
    other = found((3,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2))
    other.differences[0] = Difference("value", "loss", "epoch=1", "1.0", "3.0")
    early = found((1, 5), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2))
    (cause,) = probable_causes(early, Evidence(again=other))
    assert "two replays differ" in cause and "the state before was identical" in cause
    assert "two replays" not in " ".join(probable_causes(BAD, Evidence(again=BAD)))


def test_today_s_module() -> None:
    comparison = found(loss=differing(2))
    comparison.loaded_elsewhere = [("model.py", "PYTHONPATH")]
    assert probable_causes(comparison, Evidence())[0].startswith("other code ran: model.py")


def test_random_draws_that_differ_first() -> None:
    comparison = found((3,), {"stream/global": RootFacts(1, 1, "dict")}, loss=differing(2))
    assert "random draws" in probable_causes(comparison, Evidence(rung="start"))[0]


def test_a_generator_that_nobody_seeded() -> None:
    comparison = found((3,), {"global/__main__/rng": RootFacts(1, 3, "object")}, loss=differing(2))
    assert "nobody seeded: rng" in probable_causes(comparison, Evidence(rung="start"))[0]
    assert "seeded: rng" not in " ".join(probable_causes(comparison, Evidence(rung="resume"))), "a restore may have missed it"


def test_two_replays_that_differ_come_before_the_environment() -> None:
    other = found((3,), {"given/net": RootFacts(1, 3, "object")}, loss=differing(2))
    other.differences[0] = Difference("value", "loss", "epoch=1", "1.0", "3.0")
    first, second = probable_causes(BAD, Evidence(again=other, environment=("the hash seed is not known",)))
    assert "two replays differ" in first and "hash seed" in second
