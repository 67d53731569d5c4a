"""Names of runs, orders of processes, arguments."""

from __future__ import annotations

import datetime as dt

import pytest

from rearview.catalog.runs import RUN_KEYS, args_by_process, args_of, listed_facts, parse_tstamp, process_order, resolve, tstamp_of
from rearview.errors import NoSuchRun
from rearview.model import RunId
from rearview.store.encoding import encode
from rearview.store.journal import PartName

NOON = dt.datetime(2026, 6, 23, 12, tzinfo=dt.UTC)
KNOWN = [
    (RunId("rabc000000000"), "first", NOON),
    (RunId("rabd000000000"), None, NOON + dt.timedelta(minutes=1)),
    (RunId("rxyz000000000"), "first", NOON + dt.timedelta(minutes=2)),
]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("rabc", "rabc000000000"),
        ("rx", "rxyz000000000"),
        ("last", "rxyz000000000"),
        ("last~1", "rabd000000000"),
        ("last~2", "rabc000000000"),
        ("first", "rxyz000000000"),
        ("rabd000000000", "rabd000000000"),
    ],
)
def test_a_run_is_found(ref: str, expected: str) -> None:
    assert resolve(ref, KNOWN) == expected


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("rab", "2 runs .*give more characters"),
        ("last~3", "has 3 runs"),
        ("frist", "did you mean first"),
        ("", "no run"),
        ("zzz", "no run has"),
    ],
)
def test_a_run_is_not_found_with_a_sentence(ref: str, said: str) -> None:
    with pytest.raises(NoSuchRun, match=said):
        resolve(ref, KNOWN)


def test_one_run_is_one() -> None:
    with pytest.raises(NoSuchRun, match="the store has 1 run;"):
        resolve("last~1", KNOWN[:1])


def test_processes_are_ordered_by_rank_and_fork() -> None:
    given = ["10", "0.s1", "2", "0.10", "0", "0.2", "1", "0.2.1"]
    assert sorted(given, key=process_order) == ["0", "0.2", "0.2.1", "0.10", "0.s1", "1", "2", "10"]


@pytest.mark.parametrize("text", ["not a time", None, 5, "", "0001-01-01T00:00:00+23:59"])
def test_a_damaged_time_is_unknown_and_comes_first(text: object) -> None:
    assert tstamp_of(text) is None and parse_tstamp(text) == dt.datetime.fromtimestamp(0, dt.UTC)


@pytest.mark.parametrize("odd", [5, 1.5, True, None, "x", ["a", 1], {"k": [1]}, [None], [[1]]])
def test_any_json_in_run_json_is_listed(odd: object) -> None:
    facts = listed_facts(dict.fromkeys(RUN_KEYS, odd))
    for key in ("name", "notes", "projid", "tstamp", "filename", "version", "how", "module"):
        assert facts[key] is None or isinstance(facts[key], str)
    assert all(isinstance(item, str) for item in (*facts["tags"], *facts["argv"]))
    assert isinstance(facts["place"], int) and (facts["parent"] is None or set(facts["parent"]) == {"run"})
    assert parse_tstamp("2026-06-23T12:00:00+02:00").hour == 10


def test_arguments_come_from_the_lowest_process_and_the_last_attempt() -> None:
    def entry(**args: object) -> dict[str, object]:
        return {"args": {name: [encode(value).hex(), True] for name, value in args.items()}}

    parts = [(PartName("0", 1, 1), entry(lr=1)), (PartName("0", 2, 1), entry(lr=2)), (PartName("1", 1, 1), entry(lr=3, seed=4))]
    assert args_of(parts) == {"lr": (encode(2), True), "seed": (encode(4), True)}


def test_each_process_has_its_own_arguments_the_first_call_of_an_attempt_stands() -> None:
    def entry(**args: object) -> dict[str, object]:
        return {"args": {name: [encode(value).hex(), True] for name, value in args.items()}}

    parts = [(PartName("0", 1, 1), entry(lr=1)), (PartName("0", 2, 1), entry(lr=2)), (PartName("0", 2, 2), entry(lr=3))]
    parts.append((PartName("1", 1, 1), entry(lr=4)))
    assert args_by_process(parts) == {"0": {"lr": (encode(2), True)}, "1": {"lr": (encode(4), True)}}
