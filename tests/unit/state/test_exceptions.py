"""An exception is the same state whether or not somebody has looked at its attributes."""

from __future__ import annotations

from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.state.tree import RootKey
from tests.unit.state.round_trip import put, taken

KEY: RootKey = ("global", "m", "error")


def digest(error: Exception) -> str:
    return root_digests(capture({KEY: error}).tree, ())[KEY]


def test_looking_changes_nothing() -> None:
    error = ValueError(1, "a")
    first = digest(error)
    assert digest(error) == first == digest(ValueError(1, "a"))
    error.__dict__["note"] = 3
    assert digest(error) != first


class Wanting(Exception):
    """Called with other arguments than it passes on."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(f"{text}!")
        self.code = code


class Missing(FileNotFoundError):
    """Of a class that looks at its arguments."""

    def __init__(self, path: str) -> None:
        super().__init__(2, "not there", path)


def test_one_whose_class_wants_other_arguments_comes_back_with_those_that_it_had() -> None:
    made = put(taken(error=Wanting("no", 3)))["error"]
    assert (type(made), made.args, made.code) == (Wanting, ("no!",), 3)
    made = put(taken(error=Missing("a.txt")), error=Missing("b.txt"))["error"]
    assert (type(made), made.errno, made.strerror, made.filename) == (Missing, 2, "not there", "a.txt")


def test_those_of_the_language_come_back_with_what_they_make_of_their_arguments() -> None:
    errors = [StopIteration(3), SystemExit(2), KeyError("a"), OSError(2, "x", "y"), UnicodeDecodeError("utf-8", b"a", 0, 1, "no")]
    made = put(taken(errors=[*errors, ExceptionGroup("all", [ValueError(1)])]))["errors"]
    assert [repr(one) for one in made[:-1]] == [repr(one) for one in errors]
    assert (made[0].value, made[1].code, made[3].filename, made[4].object) == (3, 2, "y", b"a")
    assert (made[5].message, made[5].exceptions[0].args) == ("all", (1,))
