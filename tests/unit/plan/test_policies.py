"""Retention policies as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rearview.errors import ConfigError
from rearview.plan.policies import Peak, Policy, parse, parse_size


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("everything", Policy(everything=True)),
        ("", Policy()),
        ("newest:3", Policy(newest=3)),
        (" every : 5 , NEWEST:2", Policy(every=5, newest=2)),
        ("peak-and-end:min:val loss", Policy(peak=Peak("min", "val loss"))),
        ("peak_and_end", Policy(peak=Peak("max", "acc"))),
        ("budget:10GB", Policy(budget_bytes=10**10)),
        ("peak-and-end, newest:3, budget:1.5 MB", Policy(peak=Peak("max", "acc"), newest=3, budget_bytes=1_500_000)),
    ],
)
def test_what_people_write(text: str, policy: Policy) -> None:
    assert parse(text, peak="max:acc") == policy


WRONG = ["most", "newest", "newest:0", "newest:-1", "newest:1.5", "every:x", "budget:", "budget:-1", "budget:10XB", "everything:1"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_policy_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_peak_needs_a_metric() -> None:
    with pytest.raises(ConfigError, match="max:acc"):
        parse("peak-and-end")
    for wrong in ("acc", "best:acc", "max:", ":acc"):
        with pytest.raises(ConfigError, match="max:NAME"):
            parse("peak-and-end", peak=wrong)


def test_a_budget_is_for_the_store_and_not_for_a_run() -> None:
    assert parse("newest:2", for_run=True).newest == 2
    with pytest.raises(ConfigError, match="whole store"):
        parse("budget:1GB", for_run=True)


SIZES = {"1": 1, "10kB": 10_000, "10 KiB": 10_240, "2g": 2 * 10**9, "1e9": 10**9, "0.5TiB": 2**39}


@pytest.mark.parametrize(("text", "size"), SIZES.items())
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


policies = st.builds(
    Policy, st.booleans(), st.none() | st.builds(Peak, st.sampled_from(["max", "min"]), st.sampled_from(["acc", "val/loss"])),
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 10**15),
)  # fmt: skip


@given(policies)
def test_a_policy_written_and_read_keeps_the_same(policy: Policy) -> None:
    read = parse(str(policy))
    assert str(read) == str(policy)
    assert (read.keeps_all, read.peak, read.every, read.newest, read.budget_bytes) == (
        policy.keeps_all, policy.peak, policy.every, policy.newest, policy.budget_bytes,
    )  # fmt: skip
