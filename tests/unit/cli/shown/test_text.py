"""Text for people: nothing hidden, nothing obeyed, widths as a terminal counts them."""

import datetime as dt
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rearview.cli.shown import text

any_text = st.text(st.characters(codec=None, categories=None), max_size=60)


@given(any_text)
def test_escaped_text_holds_nothing_a_terminal_obeys_or_hides(hostile: str) -> None:
    shown = text.escape(hostile)
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.category(char) != "Cf" or char in "\u200c\u200d"


@given(any_text)
def test_escaping_twice_changes_nothing_more(hostile: str) -> None:
    once = text.escape(hostile)
    assert text.escape(once) == once


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b]8;;http://x\x07link", "\\x1b]8;;http://x\\x07link"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("naïve 学習 🎉", "naïve 学習 🎉"),
    ],
)
def test_escape(raw: str, shown: str) -> None:
    assert text.escape(raw) == shown


def test_stacked_marks_are_limited() -> None:
    assert text.width(text.escape("a" + "\u0301" * 100)) > 90  # shown as escapes, not piled up


@given(any_text, st.integers(0, 30), st.sampled_from(["start", "end"]))
def test_shortened_text_fits(raw: str, columns: int, keep: str) -> None:
    escaped = text.escape(raw)
    short = text.shorten(escaped, columns, keep)
    assert text.width(short) <= columns
    assert short == escaped or text.width(escaped) > columns


def test_shorten_keeps_the_asked_end() -> None:
    assert text.shorten("abcdefgh", 4) == "abc…"
    assert text.shorten("abcdefgh", 4, keep="end") == "…fgh"


@given(any_text, st.integers(0, 80))
def test_padding_reaches_the_width(raw: str, columns: int) -> None:
    escaped = text.escape(raw)
    assert text.width(text.pad(escaped, columns)) == max(columns, text.width(escaped))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1 + 0.2, "0.3"),
        (1e-9, "1e-09"),
        (123456789.0, "1.23457e+08"),
        (-0.0, "-0.0"),
        (float("nan"), "nan"),
        (3, "3"),
        (10**25, "100000…0000 (26 digits)"),
        (-(10**25), "-10000…0000 (26 digits)"),
        (True, "True"),
        (None, ""),
        ("[red]x", "[red]x"),
        (b"ab", "b'ab'"),
        (b"a" * 100, "100 bytes"),
        ([1, 2.5, "a"], "[1, 2.5, 'a']"),
        ((1,), "(1,)"),
        ({"a": None}, "{'a': None}"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]"),
        (dt.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_values(value: object, shown: str) -> None:
    assert text.value(value) == shown


def test_an_int_too_long_to_print_is_described() -> None:
    assert "5001 digits" in text.value(10**5000)


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123456, "123 kB"), (99_960_000, "100 MB"), (5 * 10**15, "5000 TB")]
)
def test_sizes(count: int, shown: str) -> None:
    assert text.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (0.0, "0.00s"), (9.999, "10.0s"), (59.96, "1m00s"), (3599.7, "1h00m"), (7265, "2h01m"), (200000, "2d07h"), (-1, "0.00s")],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_when_is_local_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        now = dt.datetime(2026, 11, 15, 20, 0, tzinfo=dt.UTC)  # the 16th, 05:00 in Tokyo
        assert text.when(dt.datetime(2026, 11, 15, 16, 30, 5, tzinfo=dt.UTC), now) == "01:30:05"
        assert text.when(dt.datetime(2026, 11, 15, 1, 30, tzinfo=dt.UTC), now) == "Nov 15 10:30"
        assert text.when(dt.datetime(2025, 11, 15, 1, 30, tzinfo=dt.UTC), now) == "2025-11-15"
        assert text.moment(now) == "2026-11-16 05:00:00 +0900"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_short_ids_stay_apart() -> None:
    ids = ["raaaaaaaaaaaa", "raaaaaaaab000", "rbbbbbbbbbbbb"]
    short = text.short_ids(ids)
    assert len({short(one) for one in ids}) == 3
    assert text.short_ids(ids[1:])(ids[2]) == "rbbbbbb"
    assert text.short_ids([])("rcccccccccccc") == "rcccccc"


def test_pairs_show_whole_pairs() -> None:
    values: dict[str, object] = {"lr": 0.001, "batch": 32, "note": "x" * 100}
    assert text.pairs(values, 20) == "lr=0.001 batch=32 …"
    assert text.pairs(values, 17) == "lr=0.001 batch=3…"
    assert text.pairs({"a\n": "b\x1b"}) == "a\\n=b\\x1b"
    assert text.pairs({"seed": None, "large": 10**80}) == "seed=None large=100000…0000 (81 digits)"
