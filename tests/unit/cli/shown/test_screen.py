"""Where output goes: width, colours, progress."""

import io
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from rearview.cli import opening
from rearview.cli.shown import figure, screen
from rearview.errors import MissingLibrary, UsageError
from rearview.store import layout


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_short_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with screen.progress("reading"):
        pass
    assert terminal.getvalue() == ""


def test_long_work_says_so_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(screen, "PATIENCE_S", 0.0)
    import threading

    with screen.progress("reading the store"):
        waited = threading.Event()
        while "reading the store" not in terminal.getvalue():
            waited.wait(0.01)
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("say", [lambda: screen.write(["a line"]), lambda: screen.note("a line")])
def test_progress_is_gone_before_anything_else_is_written(monkeypatch: pytest.MonkeyPatch, say: Callable[[], None]) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(screen, "PATIENCE_S", 0.0)
    monkeypatch.setattr(screen.click, "echo", lambda line, **_: terminal.write(line.decode()))
    with screen.progress("reading the store"):
        while "reading the store" not in terminal.getvalue():
            time.sleep(0.01)
        say()
        time.sleep(0.6)  # as long as it took to tell again
    assert terminal.getvalue().endswith("\r\x1b[Ka line\n")


def test_a_screen_that_belongs_to_something_else_gets_no_progress(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    layout.create(project / layout.FOLDER)
    asked: list[str] = []
    monkeypatch.setattr(screen, "progress", lambda doing: nullcontext(asked.append(doing)))
    with opening.catalog(quiet=True):
        pass
    assert asked == []
    with opening.catalog():
        pass
    assert asked == ["reading the store"]


def test_no_progress_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    monkeypatch.setattr(screen, "PATIENCE_S", 0.0)
    with screen.progress("reading"):
        pass
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("color", "terminal", "environ", "coloured"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_when_there_are_colours(
    color: str, terminal: bool, environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", Terminal() if terminal else io.StringIO())
    assert screen.of_stdout(color).colour is coloured


def test_what_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen.write(["café ▁█"])
    assert raw.getvalue() == b"caf\\xe9 \\u2581\\u2588\n"


def test_pictures_without_matplotlib_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingLibrary, match=r"pip install rearview-ml\[plot\]"):
        figure.render([figure.Panel("a", "x", [])], ".png")


def test_other_pictures_are_refused() -> None:
    from pathlib import Path

    assert figure.kind_of(Path("a.PNG")) == ".png"
    with pytest.raises(UsageError, match=r"end the name in \.png, \.svg or \.html"):
        figure.kind_of(Path("a.jpeg"))
