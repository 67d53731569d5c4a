"""`rearview export`: the state of a checkpoint as a file that other programs load. Model rollback in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rearview.cli import options, target
from rearview.cli.shown import output, screen, tensors, text
from rearview.errors import UsageError

if TYPE_CHECKING:
    from rearview.past import State


@click.command("export", short_help="Write the state of a checkpoint to a file.")
@options.run_argument()
@click.option("--at", metavar="PLACE", help="Where: epoch=3, epoch=3/step=120, epoch#3 by number; the newest whole checkpoint unless told.")
@click.option("--name", metavar="NAME", required=True, help="What: a name given to rv.checkpointing, or a variable.")
@click.option(
    "--output", "-o", "out", type=click.Path(path_type=Path), metavar="FILE", required=True, help="Ends with .safetensors, .pt or .npz."
)
@click.option("--process", metavar="P", help="Of this process instead of the main one: a rank.")
@options.as_json
def command(run_ref: str, at: str | None, name: str, out: Path, process: str | None, as_json: bool) -> None:
    """Write what a name was at a checkpoint: a module's state dict, an optimizer's, an array.

    A model comes back with load_state_dict. Every byte is verified; nothing is unpickled and no code of the run is imported. Names
    that share memory (tied weights) each have a copy in a .safetensors or .npz file; a .pt file keeps them tied.
    """
    from rearview import past
    from rearview.catalog import paths
    from rearview.cli import opening

    suffix = out.suffix.lower()
    if suffix not in tensors.FORMATS:
        raise UsageError(f"{out} does not say which format: end it with {', '.join(tensors.FORMATS)}")
    target.check(out, suffix)
    with opening.catalog() as catalog:
        state = past.find(catalog, run_ref, paths.parse(at) if at is not None else [], process=process)
        value = state[name]
        size = write(out, suffix, name, value)
    tied = tensors.shared(name, value) if suffix in (".safetensors", ".npz") else []
    if as_json:
        where: dict[str, output.Json] = {"run": state.run, "path": state.path, "boundary": state.boundary, "name": name}
        output.write("rearview.export/1", **where, file=str(out), size_bytes=size, shared=output.facts(tied), missing=list(state.missing))
    else:
        screen.write([_said(state, name, out, size)])
    for names in tied:
        screen.note(f"rearview: {text.escape(', '.join(names))} share their memory: each has a copy of its own in the file")


def _said(state: State, name: str, out: Path, size: int) -> str:
    return text.escape(f"wrote {name} of run {state.run} at {state.path} to {out}: {text.size(size)}")


def write(out: Path, suffix: str, name: str, value: Any) -> int:
    """Write the file whole or not at all; its size."""
    temp = out.with_name(f".{out.name}.{os.getpid()}.part")
    with target.written(out):
        try:
            with temp.open("wb") as file:
                _fill(suffix, name, value, file)
            size = temp.stat().st_size
            temp.replace(out)
        finally:
            temp.unlink(missing_ok=True)
    return size


def _fill(suffix: str, name: str, value: Any, file: IO[bytes]) -> None:
    tensors.FORMATS[suffix](name, value, file)
    file.flush()
    os.fsync(file.fileno())
