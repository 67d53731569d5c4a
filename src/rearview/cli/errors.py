"""The one boundary where a failure becomes a message and an exit code.

A failure rearview knows ends with its sentence and its own code; a wrong command line with 2; Ctrl-C with 130; a
reader that went away (`| head`) quietly with 0; anything else with one line naming its type and 6. With
`REARVIEW_DEBUG=1` the traceback comes first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from rearview.cli.shown import screen, text
from rearview.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, RearviewError

DEBUG = "REARVIEW_DEBUG"


class ReaderGone(Exception):
    """Nobody reads our output any more. Not a BrokenPipeError: click would end the process by itself with code 1."""


def guarded(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; every failure has been told by then."""
    try:
        code = command()
        sys.stdout.flush()
    except Exception as problem:  # noqa: BLE001  the boundary: nothing is above it but the interpreter
        return _told(problem)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else EXIT_OK


def _told(problem: Exception) -> int:
    if isinstance(problem, (BrokenPipeError, ReaderGone)):
        # What is still buffered would fail again when Python flushes at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_OK
    if isinstance(problem, click.Abort):  # Ctrl-C, or the end of input at a question
        return EXIT_INTERRUPTED
    if isinstance(problem, click.ClickException):
        screen.note(_usage(problem))
        return problem.exit_code
    if os.environ.get(DEBUG):
        _traceback(problem)
    if isinstance(problem, RearviewError):
        screen.note(f"rearview: {_safe(str(problem))}")
        return problem.exit_code
    if isinstance(problem, OSError) and problem.filename is not None:
        screen.note(f"rearview: {_safe(str(problem.filename))}: {problem.strerror}")
        return EXIT_FAILED
    hint = "" if os.environ.get(DEBUG) else f" ({DEBUG}=1 shows where)"
    screen.note(f"rearview: {type(problem).__name__}: {_safe(str(problem))}{hint}")
    return EXIT_FAILED


def _safe(message: str) -> str:
    return "\n".join(text.escape_lines(message))


def _usage(problem: click.ClickException) -> str:
    message = _safe(problem.format_message())
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):  # the message is the page of help
        return message
    if isinstance(problem, click.UsageError) and problem.ctx is not None:
        path = problem.ctx.command_path
        return f"rearview: {message}\nTry `{path} --help`."
    return f"rearview: {message}"


def _traceback(problem: Exception) -> None:
    import traceback

    for line in text.escape_lines("".join(traceback.format_exception(problem)).rstrip("\n")):
        screen.note(line)
