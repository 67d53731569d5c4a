"""`rearview checkpoints`: the states of a run that were kept, where in its loops, what they cost, why they are still there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import cadence, output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK, NoCheckpoint

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.checkpoints import CheckpointInfo
    from rearview.catalog.retention import Retention, Rules
    from rearview.catalog.runs import RunInfo


@click.command("checkpoints", short_help="List the checkpoints of a run.")
@options.run_argument(required=False)
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, run_ref: str | None, as_json: bool, color: str) -> None:
    """List the checkpoints of a run, the last one unless told: place, size, what they cost, what is missing, why they are kept.

    Looking reads manifests and the indexes of packs only; nothing is unpickled and no code of the run is touched. The exit code is 1 if
    a checkpoint is damaged, as far as that is known without reading packs: `rearview check` reads them.
    """
    from rearview.cli import opening
    from rearview.cli.shown import damage

    with opening.catalog() as catalog:
        run = catalog.run(run_ref or "last")
        found: list[str] = []
        listed = catalog.checkpoints(run.run, found)
        none = _none(catalog, run) if not listed and not found else None
        kept = judged(catalog, run)
    whys = kept.whys()
    if as_json:
        facts = [as_facts(one, whys) for one in listed]
        output.write("rearview.checkpoints/1", run=run.run, keep=str(kept.policy_of(run.run)), checkpoints=facts)
    if none is not None:
        raise NoCheckpoint(none)
    if not as_json:
        screen.write(page(listed, kept, screen.of_stdout(color), dt.datetime.now(dt.UTC)))
    damage.tell(found, what_to_do=damage.OF_CHECKPOINTS)
    ctx.exit(EXIT_DIFFERENCES if found else EXIT_OK)


def _none(catalog: Catalog, run: RunInfo) -> str:
    from rearview.store.runs import read_run

    if not (read_run(catalog.store, run.run).get("settings") or {}).get("checkpoints", True):
        return f"run {run.run} has no checkpoints: they were off (REARVIEW_CHECKPOINTS, or `checkpoints` in [tool.rearview])"
    figures = cadence.why_none(catalog.run_detail(run.run).cadence)
    return f"run {run.run} has no checkpoints: {figures or '`with rv.checkpointing(...)` around its loop takes them'}"


def rules_in_force(keep: str | None = None) -> Rules:
    """The project's rules, or another policy with the project's idea of what is best."""
    from rearview import config
    from rearview.catalog.retention import Rules
    from rearview.cli import opening

    settings = config.load(opening.store().project)
    return Rules(settings["keep"] if keep is None else keep, settings["peak"], given=keep is not None)


def judged(catalog: Catalog, run: RunInfo) -> Retention:
    """What the rules in force say of a run's checkpoints: a budget looks at all runs."""
    rules = rules_in_force()
    return catalog.retention(rules, catalog.runs() if rules.policy.budget_bytes else [run])


def as_facts(info: CheckpointInfo, whys: Mapping[tuple[object, ...], str]) -> output.Json:
    """A checkpoint in JSON."""
    return {
        "path": info.place,
        "at": info.named,
        "loops": [output.facts(element) for element in info.path],
        "boundary": info.boundary,
        "process": info.process,
        "attempt": info.attempt,
        "number": info.number,
        "taken_at": output.facts(info.taken_at),
        "size_bytes": info.size_bytes,
        "new_bytes": info.new_bytes,
        "stall_s": info.stall_s,
        "background_s": info.background_s,
        "whole": info.whole,
        "absent_ranks": list(info.absent),
        "complete": info.complete,
        "damaged": info.damaged,
        "missing": list(info.missing),
        "pickled": list(info.pickled),
        "pinned": info.pinned,
        "thinned": info.thinned,
        "why": whys.get((info.decision, info.boundary), ""),
        "manifests": [str(one.name) for one in info.members],
    }


def boundary_of(info: CheckpointInfo) -> str:
    """What had just ended, in words."""
    if info.boundary == "block" and info.path:
        return f"after the {info.path[-1].loop} loop"
    return {"iteration": "end of iteration", "inside": "inside"}.get(info.boundary, info.boundary)


def state_of(info: CheckpointInfo) -> tables.Cell:
    """How a checkpoint stands, in a word or two."""
    if not info.whole:
        return tables.Styled(f"no part of rank {', '.join(map(str, info.absent))}", "bad")
    if info.thinned is not None:
        return tables.Styled("thinned", "dim")
    if info.damaged:
        return tables.Styled("damaged", "bad")
    if not info.complete:
        count = len(info.missing)
        return tables.Styled(f"partial, {count} missing" if count else "partial", "odd")
    return tables.Styled("complete", "good")


def page(listed: Sequence[CheckpointInfo], kept: Retention, view: screen.Screen, now: dt.datetime) -> list[str]:
    """The table, and below it what no checkpoint holds."""
    columns = [
        tables.Column("at", least=12, style="place"),
        tables.Column("boundary", least=8, weight=4),
        tables.Column("attempt", align="right", least=3, weight=6),
        tables.Column("process", least=3, weight=6),
        tables.Column("when", least=8, weight=7),
        tables.Column("size", align="right"),
        tables.Column("new", align="right", weight=1),
        tables.Column("stall", align="right", weight=2),
        tables.Column("background", align="right", weight=3),
        tables.Column("state", least=10),
        tables.Column("why", least=10, wish=24, weight=5),
    ]
    many, whys = any(one.attempt > 1 for one in listed), kept.whys()
    rows: list[list[tables.Cell]] = [
        [
            one.named,
            boundary_of(one),
            str(one.attempt) if many else "",
            one.process,
            text.when(one.taken_at, now),
            text.size(one.size_bytes),
            text.size(one.new_bytes),
            text.duration(one.stall_s),
            text.duration(one.background_s),
            state_of(one),
            one.thinned if one.thinned is not None else whys.get((one.decision, one.boundary), ""),
        ]
        for one in listed
    ]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    drawn = tables.draw([_uncut(columns[k], [row[k] for row in rows]) for k in used], [[row[k] for k in used] for row in rows], view)
    lines = drawn.lines
    if drawn.dropped:
        lines += [view.paint(line, "dim") for line in tables.wrap(f"no room for {', '.join(drawn.dropped)}", view.width)]
    for title, things in _below(listed).items():
        lines += ["", view.paint(title, "head")]
        lines += [f"  {piece}" for thing in things for piece in tables.wrap(text.escape(thing), view.width - 2)]
    lines += [piece for note in kept.notes for piece in tables.wrap(text.escape(note), view.width)]
    return lines


def _uncut(column: tables.Column, cells: Sequence[tables.Cell]) -> tables.Column:
    """A column of numbers is dropped rather than cut: half a number is another number, and one without its unit is none."""
    if column.align != "right":
        return column
    return replace(column, least=max((text.width(cell) for cell in cells if isinstance(cell, str)), default=0))


def _below(listed: Sequence[CheckpointInfo]) -> dict[str, list[str]]:
    """What is missing or pickled, each thing once, with the first place where it was."""
    found: dict[str, dict[str, str]] = {"not in partial checkpoints": {}, "kept as pickles": {}}
    for one in listed:
        for thing in one.missing:
            found["not in partial checkpoints"].setdefault(thing, one.named)
        for thing in one.pickled:
            found["kept as pickles"].setdefault(thing, one.named)
    return {title: [f"{thing}, from {place} on" for thing, place in things.items()] for title, things in found.items() if things}
