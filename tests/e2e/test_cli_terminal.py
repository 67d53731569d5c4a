"""The commands on a terminal: colours, NO_COLOR, a question, a view that refreshes in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal import on_terminal

SCRIPT = "import rearview as rv\nfor k in rv.loop('k', range(5)):\n    rv.log('x', k)\n    rv.log('text', '\\x1b[31mred')\n"


@pytest.fixture
def recorded(project: Path, python: Callable[..., object]) -> Path:
    """A project with one run."""
    python(SCRIPT, name="train.py", check=True)
    return project


def test_colours_are_for_terminals(recorded: Path) -> None:
    assert "\x1b[32mfinished\x1b[0m" in on_terminal(recorded, "runs")[1]
    assert "\x1b[" not in on_terminal(recorded, "runs", env={"NO_COLOR": "1"})[1]
    assert "\x1b[" not in on_terminal(recorded, "runs", "--color", "never")[1]
    assert "\x1b[" not in on_terminal(recorded, "runs", env={"TERM": "dumb"})[1]
    assert "\x1b[32m" in on_terminal(recorded, "runs", "--color", "always", env={"NO_COLOR": "1"})[1]


def test_values_do_not_colour(recorded: Path) -> None:
    for words in (["df", "text"], ["df", "text", "--csv"], ["show", "last"], ["watch", "last"]):
        assert "\\x1b[31mred" in on_terminal(recorded, *words)[1], words


def test_source_is_coloured_but_obeys_nothing(recorded: Path) -> None:
    (recorded / "odd.py").write_text("# \x1b]0;owned\x07\u202e\nimport rearview as rv\nrv.log('y', 1)\n")
    assert on_terminal(recorded, "run", "odd.py")[0] == 0
    code, shown = on_terminal(recorded, "code", "last", "odd.py")
    assert code == 0
    assert "\\x1b]0;owned\\x07\\u202e" in shown and "\x1b]0" not in shown and "\u202e" not in shown
    assert "\x1b[" in shown


def test_rm_asks(recorded: Path) -> None:
    code, shown = on_terminal(recorded, "rm", "last", answer="n\n")
    assert code == 0 and "Remove 1 run for good? [y/N]" in shown
    assert "train.py" in on_terminal(recorded, "runs")[1]
    code, shown = on_terminal(recorded, "rm", "last", answer="y\n")
    assert code == 0 and "removed 1 run" in shown
    assert "no runs yet" in on_terminal(recorded, "runs")[1]


def test_watch_shows_a_view_and_ends_with_the_run(recorded: Path) -> None:
    code, shown = on_terminal(recorded, "watch", "last")
    assert code == 0
    assert "finished" in shown and "▁▃▅" in shown


@pytest.mark.parametrize("columns", [80, 140])
def test_lines_fit_the_terminal(recorded: Path, columns: int) -> None:
    import re

    for words in (["runs"], ["df", "x", "text"], ["plot", "x"]):
        shown = on_terminal(recorded, *words, columns=columns)[1]
        for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).splitlines():
            assert len(line) <= columns, line
