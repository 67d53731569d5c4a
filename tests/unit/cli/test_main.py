"""The main command: lazy, and one boundary for every failure."""

import importlib
import os
import subprocess
import sys

import click
import pytest

from rearview.cli import errors, main
from rearview.errors import Damaged, NoSuchRun, QueryError


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_the_line_in_the_list_is_the_commands_own(name: str) -> None:
    command = importlib.import_module(f"rearview.cli.{name}").command
    assert command.name == name
    if command.short_help is not None:
        assert command.short_help == main.COMMANDS[name]


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (NoSuchRun("no run is called 'x': `rearview runs` lists them"), 3, "rearview: no run is called 'x': `rearview runs` lists them\n"),
        (Damaged("bad"), 5, "rearview: bad\n"),
        (QueryError("two\nlines"), 2, "rearview: two\nlines\n"),
        (RuntimeError("\x1b[31mboom"), 6, "rearview: RuntimeError: \\x1b[31mboom (REARVIEW_DEBUG=1 shows where)\n"),
        (FileNotFoundError(2, "No such file or directory", "no/such.png"), 6, "rearview: no/such.png: No such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (click.UsageError("wrong"), 2, "rearview: wrong\n"),
    ],
)
def test_every_failure_has_a_sentence_and_a_code(
    problem: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REARVIEW_DEBUG", raising=False)

    def fail() -> None:
        raise problem

    assert errors.guarded(fail) == code
    assert capsys.readouterr().err == said


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REARVIEW_DEBUG", "1")

    def fail() -> None:
        raise RuntimeError("boom")

    assert errors.guarded(fail) == 6
    said = capsys.readouterr().err
    assert "Traceback" in said and "in fail" in said and "shows where" not in said


def test_nothing_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Usage: rearview ") and "Commands:" in said and "Try" not in said


def test_unknown_command_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["shwo"]) == 2
    assert "there is no command 'shwo'; did you mean 'show'?" in capsys.readouterr().err


def test_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["runs", "--limt", "3"]) == 2
    assert "Try `rearview runs --help`." in capsys.readouterr().err


def test_no_command_is_a_usage_error_that_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom rearview.cli.main import main\ncode = main(['--help'])\n"
        "heavy = {'rich', 'duckdb', 'pandas', 'numpy', 'matplotlib', 'rearview.catalog', 'rearview.cli.runs'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Record training runs" in done.stdout
