"""Arguments: where they come from, how they are typed, what is said when one does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.errors import ArgError, UsageError
from rearview.record import arguments


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("5", 1, 5), (" -7 ", 1, -7), (str(10**40), 1, 10**40), ("1_000", 1, 1000),
        ("0.1", 1e-3, 0.1), ("1e-3", 1.0, 1e-3), ("inf", 1.0, float("inf")), ("3", 1.0, 3.0),
        ("true", False, True), ("False", True, False), ("1", False, True), ("off", True, False), ("YES", False, True),
        ("text", "a", "text"), ("", "a", ""), ("1", "a", "1"), (" spaces ", "a", " spaces "), ("a=b", "x", "a=b"),
        ("64,32", [8], [64, 32]), ("0.1,2", [1.0], [0.1, 2.0]), ("[0.1, 2]", [1.0], [0.1, 2.0]), ("[1, 2]", [8], [1, 2]),
        ("a,b", ["x"], ["a", "b"]), ('["a,b", "c"]', ["x"], ["a,b", "c"]), ("", [1], []), ("[]", [1], []), ("1,a", [], [1, "a"]),
        ("(1, 2)", (3,), (1, 2)), ("1,2", (3, 4), (1, 2)), ("true,false", [True], [True, False]), ("1,2.5", [1, 2.5], [1, 2.5]),
        ("3", None, 3), ("word", None, "word"), ("None", None, None), ("[1]", None, [1]), ("1e3", None, 1000.0),
    ],
)  # fmt: skip
def test_typed_by_the_default(text: str, default: Any, expected: Any) -> None:
    value = arguments.fit("a", text, default)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "default", "wanted"),
    [
        ("many", 5, "an integer like 5"), ("1.5", 5, "an integer like 5"), ("", 5, "an integer like 5"),
        ("fast", 0.1, "a number like 0.1"), ("maybe", True, "true or false like True"), ("2", False, "true or false like False"),
        ("1,x", [1], "a list like [1]"), ("[1, ", [1.0], "a list like [1.0]"), ("{}", [1], "a list like [1]"),
        ("[1.5]", [1], "a list like [1]"), ("0x10", 5, "an integer like 5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(text: str, default: Any, wanted: str) -> None:
    with pytest.raises(ArgError) as raised:
        arguments.fit("epochs", text, default)
    assert str(raised.value) == f"argument 'epochs' is {text!r}, expected {wanted}"
    assert isinstance(raised.value, ValueError)


def test_a_default_that_cannot_be_given() -> None:
    with pytest.raises(ArgError, match="'model'.*type dict"):
        arguments.fit("model", "x", {})
    assert arguments.Given({}).value("model", {"a": 1}) == {"a": 1}, "without a given value any default is fine"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--kwargs", "lr=0.1", "batch=32"], {"lr": "0.1", "batch": "32"}),
        (["x", "--kwargs", "lr=0.1", "--flag", "y=2"], {"lr": "0.1"}),
        (["--kwargs", "lr=0.1", "word", "y=2"], {"lr": "0.1"}),
        (["--kwargs", "lr=0.1", "lr=0.2"], {"lr": "0.2"}),
        (["--kwargs", "name=a=b", "empty="], {"name": "a=b", "empty": ""}),
        (["--kwargs"], {}), ([], {}), (["lr=0.1"], {}), (["--kwargs=lr=1"], {}), (["--kwargs", "a-b=1"], {}),
        (["--kwargs", "a=1", "--kwargs", "b=2"], {"a": "1", "b": "2"}),
        (["--kwargs", "größe=1"], {"größe": "1"}),
    ],
)  # fmt: skip
def test_kwargs_are_read_from_argv(argv: list[str], expected: dict[str, str]) -> None:
    before = list(argv)
    assert arguments.from_argv(argv) == expected
    assert argv == before


def test_pairs() -> None:
    assert arguments.parse_pairs(["lr=0.1", "a=b=c", " x =1"], "--arg") == {"lr": "0.1", "a": "b=c", "x": "1"}
    for wrong in ("lr", "=1", " =1"):
        with pytest.raises(UsageError, match="--arg takes NAME=VALUE"):
            arguments.parse_pairs([wrong], "--arg")


def test_unasked_names_are_reported_with_the_nearest() -> None:
    given = arguments.Given({"learning_rate": "1", "zzz": "2", "lr": "3"})
    assert given.unasked()[0].startswith("argument 'learning_rate' was given but nothing asked for it")
    assert given.value("learning_rat", 0.5) == 0.5
    assert given.value("lr", 0) == 3
    first, second = given.unasked()
    assert "did you mean 'learning_rat'?" in first
    assert "'zzz'" in second
    assert "asked for: learning_rat, lr" in second


def test_joining_a_run_takes_over_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x", "--kwargs", "a=1", "b=2"])
    monkeypatch.setattr(arguments, "_given", None)
    arguments.join({"b": "3", "c": "4", "bad": 5})
    assert arguments.given().texts == {"a": "1", "b": "3", "c": "4"}
    arguments.join(None)
    assert arguments.given().texts == {"a": "1", "b": "3", "c": "4"}
