"""`rearview plot`: what it says when there is nothing to draw, and labels that leave room for the picture."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.cli.shown import chart, figure
from rearview.testing.stores import StoreBuilder


@pytest.fixture
def recorded(project: Path) -> Path:
    """A run with two loops, one of them not around `loss`, and a text."""
    process = StoreBuilder(project).run(name="only").process()
    process.arg("lr", 0.1)
    for k in process.loop("epoch", range(1, 5)):
        process.log("loss", 1 / k)
        process.log("words", f"epoch {k}")
    for k in process.loop("fold", range(3)):
        process.log("score", k * 1.5)
    process.end()
    return project


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ("nosuch", "nothing was logged as 'nosuch', and no loop is called so"),
        ("epch", "did you mean epoch?"),
        ("scor", "did you mean score?"),
        ("words", "words has no numbers beside loss"),
        ("score", "score has no numbers beside loss"),
        ("fold", "fold has no numbers beside loss"),
        ("tstamp", "tstamp has no numbers beside loss"),
    ],
)
def test_an_axis_that_is_not_there_is_said(x: str, said: str, recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", "loss", "--x", x]) == 3
    err = capfd.readouterr().err
    assert said in err
    assert "no numbers were logged as loss" not in err


def test_a_name_without_numbers_is_said(recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", "words"]) == 3
    assert "no numbers were logged as words" in capfd.readouterr().err
    assert main.main(["plot", "los"]) == 3
    assert "did you mean loss?" in capfd.readouterr().err


def test_a_loop_or_a_name_is_an_axis(recorded: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for x in ("epoch", "lr"):
        assert main.main(["plot", "loss", "--x", x]) == 0
        assert f"loss  by {x}" in capfd.readouterr().out


LONG = "a very long name " * 300


@pytest.fixture
def long_names(project: Path) -> Path:
    """Two runs whose names and args are long."""
    builder = StoreBuilder(project)
    for number in range(2):
        process = builder.run(name=f"{number}{LONG}").process()
        process.arg("model", f"{number}{LONG}", given=True)
        for k in process.loop("k", range(4)):
            process.log("x", k * (number + 0.5))
            process.log(f"{LONG}", k)
        process.end()
    return project


def test_long_names_are_short_in_the_terminal(long_names: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("x", LONG):
        assert main.main(["plot", name]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 100
        assert "r000000000000" in lines[-3] and "a very long" in lines[-3] and "model=0" in lines[-3]


def test_long_names_leave_the_picture_its_size(long_names: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("x", LONG):
        assert main.main(["plot", name, "-o", "chart.png"]) == 0
        width, height = struct.unpack(">II", (long_names / "chart.png").read_bytes()[16:24])
        assert (width, height) == (1080, 480)


@pytest.mark.parametrize("kind", ["svg", "html"])
def test_long_names_are_short_in_pictures(long_names: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    assert main.main(["plot", "x", LONG, "-o", f"chart.{kind}"]) == 0
    page = (long_names / f"chart.{kind}").read_text()
    assert "a very long name" in page
    assert "a very long name " * 6 not in page


def test_a_legend_of_many_lines_stands_below_the_picture() -> None:
    pytest.importorskip("matplotlib")
    lines = [chart.Line(f"line {k}", [(0.0, float(k)), (1.0, k + 1.0)]) for k in range(12)]
    heights = [struct.unpack(">II", figure.render([figure.Panel("x", "k", lines[:many])], ".png")[16:24])[1] for many in (4, 12)]
    assert heights[0] == 480 and heights[1] > 650


def test_thirty_lines_look_different_and_a_long_legend_says_so(project: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = [chart.Line(f"line {k}", [(0.0, float(k)), (1.0, k + 1.0)]) for k in range(30)]
    drawing = figure.render([figure.Panel("x", "k", lines)], ".svg").decode()
    ids = [f"line2d_{k}" for k in range(200)]
    looks = [re.search(f'<g id="{one}">.*?style="(fill: none; [^"]*stroke: #[^"]*)"', drawing, re.DOTALL) for one in ids]
    drawn = [look[1] for look in looks if look and "stroke-width: 1.4" in look[1]]
    assert len(set(drawn)) == 30
    assert "the first 20 of 30 lines" in drawing
