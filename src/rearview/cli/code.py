"""`rearview code`: the source that a run executed, as it was; also by the version's own id."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rearview.cli import options, reference
from rearview.cli.shown import output, screen, text
from rearview.errors import UsageError

if TYPE_CHECKING:
    from rearview.catalog.runs import RunInfo

CELLS = "cells/"
"""Where a version keeps the cells of a notebook or an IPython session, numbered as they were executed."""


@click.command("code", short_help="Show the source that a run executed.")
@options.run_argument(metavar="RUN|VERSION")
@click.argument("path", metavar="[PATH]", required=False)
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="Write the files into DIR, which must be new or empty.")
@options.as_json
@options.color
def command(run_ref: str, path: str | None, to: Path | None, as_json: bool, color: str) -> None:
    """List the files of a version, or print the one at PATH; with --to, write them into a folder.

    A run stands for the version that it executed; a version is named by v and at least four digits of its id. The version
    of a notebook or an IPython session is its executed cells in order. A pipe gets a file's exact bytes; on a terminal
    control characters are shown as escapes.
    """
    from rearview.cli import opening
    from rearview.versions import read

    store = opening.store()
    with opening.catalog() as catalog:
        chosen = reference.meant(catalog, run_ref)
        version = reference.source_of(chosen)
        runs = [chosen.run] if chosen.run is not None else [run for run in catalog.runs(newest_first=False) if run.version == version]
    path = os.path.normpath(path) if path else None
    view = screen.of_stdout(color)
    if to is not None:
        _must_be_empty(to)
        written = read.export(store, version, path, to)
        if as_json:
            output.write("rearview.code/1", run=_run_id(chosen), version=version, written=output.facts(written))
        else:
            screen.write([f"wrote {text.count(len(written), 'file')} to {text.escape(str(to))}"])
    elif path is not None:
        _print(path, read.source(store, version, path), as_json, view)
    else:
        files = read.files(store, version)
        typed = any(run.how in ("notebook", "interactive") for run in runs)
        cells = {one: read.source(store, version, one) for one in sorted(files) if typed and one.startswith(CELLS)}
        _list(chosen, runs, files, cells, as_json, view)


def _run_id(chosen: reference.Meant) -> str | None:
    return chosen.run.run if chosen.run is not None else None


def _must_be_empty(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is not a folder: name a new or empty one")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty, and nothing in it is overwritten: name a new or empty folder")


def _list(
    chosen: reference.Meant, runs: Sequence[RunInfo], files: Mapping[str, str], cells: Mapping[str, bytes],
    as_json: bool, view: screen.Screen,
) -> None:  # fmt: skip
    if as_json:
        shown = [_text_or_bytes(source) for source in cells.values()]
        output.write("rearview.code/1", run=_run_id(chosen), version=chosen.version, files=output.facts(files), cells=shown)
        return
    named = f"run {chosen.run.run}  version {chosen.version}" if chosen.run is not None else f"version {chosen.version}  {_executed(runs)}"
    lines = [view.paint(named, "head")]
    mark = {run.filename: view.paint("  (the script)", "dim") for run in runs}
    lines += [text.escape(path) + mark.get(path, "") for path in sorted(set(files) - set(cells))]
    for path, source in cells.items():
        lines += ["", view.paint(f"# --- {text.escape(path)}", "dim"), *_for_terminal(path, source, view)]
    screen.write(lines)


def _executed(runs: Sequence[RunInfo]) -> str:
    return f"{text.count(len(runs), 'run')}, first {runs[0].run}" if runs else "no run has it"


def _text_or_bytes(source: bytes) -> output.Json:
    try:
        return source.decode()
    except UnicodeDecodeError:
        return output.plain(source)


def _print(path: str, source: bytes, as_json: bool, view: screen.Screen) -> None:
    if as_json:
        output.write("rearview.source/1", path=path, source=_text_or_bytes(source))
    elif view.terminal or view.colour:
        screen.write(_for_terminal(path, source, view))
    else:
        click.echo(source, nl=False)


def _for_terminal(path: str, source: bytes, view: screen.Screen) -> list[str]:
    shown = "\n".join(text.escape_lines(source.decode("utf-8", "backslashreplace").rstrip("\n")))
    if not view.colour:
        return shown.split("\n")
    import io

    from rich.console import Console
    from rich.syntax import Syntax

    lexer = Syntax.guess_lexer(path)
    painted = Syntax("", lexer, theme="ansi_dark", background_color="default").highlight(shown)
    painted.rstrip()
    page = io.StringIO()
    Console(file=page, force_terminal=True, color_system="standard", width=view.width, highlight=False).print(painted, soft_wrap=True)
    return page.getvalue().rstrip("\n").split("\n")
