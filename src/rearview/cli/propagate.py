"""`rearview propagate`: one statement of a file placed into another version of it."""

from __future__ import annotations

import io
import os
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rearview.cli import options, target
from rearview.cli.shown import output, screen, text
from rearview.errors import EXIT_NOTHING_MATCHED, UsageError

if TYPE_CHECKING:
    from rearview.propagate.place import Placed, Refused

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("propagate", short_help="Place a statement of one version of a file into another.")
@click.option("--from", "new", type=_FILE, metavar="FILE", required=True, help="The version that has the statement.")
@click.option("--line", type=click.IntRange(min=1), metavar="N", required=True, help="The line where it begins.")
@click.option("--end", type=click.IntRange(min=1), metavar="M", help="The last line, for several statements or lines.")
@click.option("--to", "old", type=_FILE, metavar="FILE", required=True, help="The version that it goes into; this file is only read.")
@click.option("--output", "-o", "out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", required=True, help="The result.")
@options.as_json
@click.pass_context
def command(ctx: click.Context, new: Path, line: int, end: int | None, old: Path, out: Path, as_json: bool) -> None:
    """Place the statement on a line of one version of a file into another version of it, with what it needs.

    Says where, and how certain that is. Exit code 3 if it refuses: nothing is written then.
    """
    from rearview.propagate.place import Placed, propagate

    if end is not None and end < line:
        raise UsageError(f"--end {end} comes before --line {line}: give the first line with --line")
    source, _ = _read(new)
    text_of_old, encoding = _read(old)
    _check(out, new, old)
    found = propagate(source, line, end, text_of_old)
    if isinstance(found, Placed):
        _write(out, found.text, encoding, old)
    if as_json:
        _json(found, out)
    else:
        screen.write([text.escape(said) for said in _said(found, old, out)])
    ctx.exit(0 if isinstance(found, Placed) else EXIT_NOTHING_MATCHED)


def _check(out: Path, new: Path, old: Path) -> None:
    """Refuse to write over one of the two versions, or over something else than a program."""
    if not out.exists():
        target.check(out, out.suffix)
    elif any(out.samefile(one) for one in (new, old)):
        raise UsageError(f"{out} is one of the two versions, so it is not overwritten: name another file")
    elif out.suffix != ".py":
        raise UsageError(f"{out} is there and is no .py file, so it is not overwritten: name another file, or remove it first")


def _read(path: Path) -> tuple[str, str]:
    """A program's text, every byte of it, and its encoding as it says."""
    data = path.read_bytes()
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        return data.decode("utf-8" if encoding == "utf-8-sig" else encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as problem:
        raise UsageError(f"{path} cannot be read as Python: {problem}; correct its encoding first") from problem


def _write(out: Path, content: str, encoding: str, old: Path) -> None:
    try:
        data = content.encode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeEncodeError as problem:
        raise UsageError(f"the statement cannot be written in the encoding of {old} ({encoding}): {problem}") from problem
    temp = out.with_name(f".{out.name}.{os.getpid()}.part")
    with target.written(out):
        try:
            temp.write_bytes(data)
            temp.replace(out)
        finally:
            temp.unlink(missing_ok=True)


def _said(found: Placed | Refused, old: Path, out: Path) -> list[str]:
    from rearview.propagate.place import Placed

    if not isinstance(found, Placed):
        places = f"; it could stand before line {' or '.join(map(str, found.candidates))}" if found.candidates else ""
        return [f"not placed in {old}: {found.why}{places}"]
    if not found.lines:
        return [f"{found.why} of {old}: nothing was added; {out} is the same"]
    said = [f"placed in line {found.lines[0]} of {out}: {'certain' if found.certain else 'uncertain'}, {found.why}"]
    if found.renamed:
        said.append("  renamed: " + ", ".join(f"{new} is {name}" for new, name in sorted(found.renamed.items())))
    return said + [f"  taken along: {one}" for one in found.carried]


def _json(found: Placed | Refused, out: Path) -> None:
    from rearview.propagate.place import Placed

    if isinstance(found, Placed):
        output.write(
            "rearview.propagate/1", placed=bool(found.lines), file=str(out), lines=list(found.lines), certain=found.certain, why=found.why,
            renamed=dict(found.renamed), carried=list(found.carried), candidates=[],
        )  # fmt: skip
    else:
        output.write(
            "rearview.propagate/1", placed=False, file=None, lines=[], certain=False, why=found.why, renamed={}, carried=[],
            candidates=list(found.candidates),
        )  # fmt: skip
