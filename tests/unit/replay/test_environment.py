from __future__ import annotations

from typing import Any

import pytest

from rearview.record import environment as noted
from rearview.replay import environment
from rearview.replay.environment import differences, threads_for

THEN: dict[str, Any] = {
    "python": "3.11.7",
    "implementation": "cpython",
    "platform": "linux",
    "machine": "x86_64",
    "cpu": "One CPU",
    "usable_cores": 2,
    "flags": {"hash_randomization": 1},
    "variables": {"PYTHONHASHSEED": "7"},
    "packages": {"torch": "2.13.0", "numpy": "2.1.0", "tqdm": "4.66", "rearview": "0.1"},
    "torch": {"threads": 2, "cpu_capability": "AVX2", "deterministic": False, "matmul_precision": "highest", "cuda": None},
}


def changed(**facts: Any) -> dict[str, Any]:
    return {**THEN, **facts}


def test_nothing_differs_from_itself() -> None:
    assert differences(THEN, THEN) == []


@pytest.mark.parametrize(
    ("now", "what", "exact"),
    [
        ({"python": "3.11.9"}, "Python", True),
        ({"python": "3.12.1"}, "Python", False),
        ({"implementation": "pypy"}, "interpreter", False),
        ({"cpu": "Another CPU"}, "processor", False),
        ({"machine": "arm64"}, "machine", False),
        ({"packages": {**THEN["packages"], "torch": "2.14.0"}}, "torch", False),
        ({"packages": {**THEN["packages"], "tqdm": "4.67"}}, "tqdm", True),
        ({"packages": {**THEN["packages"], "rearview": "9"}}, None, True),
        ({"packages": {"torch": "2.13.0", "tqdm": "4.66"}}, "numpy", False),
        ({"torch": {**THEN["torch"], "threads": 4}}, "threads", False),
        ({"torch": {**THEN["torch"], "cpu_capability": "AVX512"}}, "the processor's capability as torch uses it", False),
        ({"variables": {"PYTHONHASHSEED": "8"}}, "hash seed", False),
        ({"variables": {"PYTHONHASHSEED": "7", "MKL_CBWR": "COMPATIBLE"}}, "MKL_CBWR", False),
        ({"variables": {"PYTHONHASHSEED": "7", "OMP_WAIT_POLICY": "passive", "PYTHONPATH": "/x"}}, None, True),
        ({"usable_cores": 64}, None, True),
        ({"torch": {}}, None, True),
    ],
)
def test_each_difference_is_told(now: dict[str, Any], what: str | None, exact: bool) -> None:
    found = differences(THEN, changed(**now))
    assert [one.what for one in found] == ([what] if what else [])
    assert all(one.exact for one in found) is exact
    for one in found:
        assert str(one.now if one.now is not None else one.recorded) in one.sentence


def test_cores_matter_where_the_number_of_threads_is_not_known() -> None:
    then = changed(torch={}, usable_cores=2)
    assert [one.what for one in differences(then, {**then, "usable_cores": 4})] == ["cores"]


def test_an_unset_hash_seed_cannot_be_known() -> None:
    then = changed(variables={})
    (one,) = differences(then, THEN)
    assert one.what == "hash seed" and one.exact
    assert differences(changed(variables={}, flags={"hash_randomization": 0}), changed(variables={})) == []


def test_gpus() -> None:
    then = changed(torch={**THEN["torch"], "devices": ["A100"]})
    assert [one.what for one in differences(then, then)] == ["determinism"]
    found = differences(then, changed(torch={**THEN["torch"], "devices": []}))
    assert {one.what for one in found} == {"device", "determinism"} and not all(one.exact for one in found)
    sure = changed(torch={**THEN["torch"], "devices": ["A100"], "deterministic": True})
    assert differences(sure, sure) == []


def test_inexact_differences_come_first() -> None:
    now = changed(packages={**THEN["packages"], "tqdm": "5", "torch": "3"})
    assert [one.exact for one in differences(THEN, now)] == [False, True]


def test_this_machine_is_itself() -> None:
    then = noted.at_start({"PYTHONHASHSEED": "1"})
    assert differences(then, environment.here(then, {"PYTHONHASHSEED": "1"})) == []


@pytest.mark.parametrize(
    ("recorded", "workers", "cores", "given"),
    [
        ({"torch": {"threads": 2}, "usable_cores": 2}, 1, 2, {}),
        ({"torch": {"threads": 1}, "usable_cores": 2}, 2, 2, {}),
        ({"torch": {"threads": 4}, "usable_cores": 4}, 3, 4, {"OMP_WAIT_POLICY": "passive"}),
        ({"torch": {"threads": 4}, "usable_cores": 8}, 1, 2, dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "4")
         | {"OPENBLAS_NUM_THREADS": "8", "OMP_WAIT_POLICY": "passive"}),
        ({"variables": {"OMP_NUM_THREADS": "3,2"}, "usable_cores": 8}, 2, 8, {"OMP_NUM_THREADS": "3,2"}),
        ({}, 2, 4, {"OMP_WAIT_POLICY": "passive"}),
    ],
)  # fmt: skip
def test_threads(recorded: dict[str, Any], workers: int, cores: int, given: dict[str, str]) -> None:
    assert threads_for(recorded, workers, cores) == given
