"""`rearview gc`: says what goes and why, then drops the bytes that no policy and no checkpoint needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables, text
from rearview.errors import EXIT_DIFFERENCES, EXIT_OK

if TYPE_CHECKING:
    from rearview.catalog.checkpoints import CheckpointInfo
    from rearview.catalog.retention import Retention
    from rearview.plan.retention import Verdict
    from rearview.store.gc import GcDone, GcPlan

SHOWN = 40
"""Checkpoints that are listed one by one on the screen."""


@click.command("gc", short_help="Drop the bytes of checkpoints that need not be kept.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--keep", "keep_text", metavar="POLICY", help="This policy for all runs: newest:3, peak-and-end:max:acc ...")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, dry_run: bool, keep_text: str | None, as_json: bool, color: str) -> None:
    """Thin checkpoints by the retention policy and give back every byte that nothing refers to.

    A thinned checkpoint loses its bytes and keeps its digests: it can still prove that a replay is right. What is pinned, and the
    last whole checkpoint of each run, always stays. Safe beside recording runs and with no byte free on the disk. The exit code is 1
    if a checkpoint is damaged; what it names stays.
    """
    from rearview.cli import checkpoints, opening
    from rearview.cli.shown import damage
    from rearview.store import gc

    rules = checkpoints.rules_in_force(keep_text)
    with opening.catalog() as catalog:
        found = catalog.retention(rules, catalog.runs(seal=False))
    store = opening.store()
    dropped = found.dropped
    why = {one.name: verdict.why for info, verdict in dropped for one in info.members}
    plan = gc.plan(store, why, why=why)
    done = None if dry_run else gc.execute(store, plan)
    if as_json:
        _write_json(found, dropped, plan, done)
    else:
        screen.write(page(found, plan, done, screen.of_stdout(color)))
    for sentence in [*found.notes, *plan.kept, *(done.kept if done else ())]:
        screen.note(f"rearview: {text.escape(sentence)}")
    damage.tell(found.damage, what_to_do=damage.OF_CHECKPOINTS)
    ctx.exit(EXIT_DIFFERENCES if found.damage else EXIT_OK)


def _write_json(found: Retention, dropped: Sequence[tuple[CheckpointInfo, Verdict]], plan: GcPlan, done: GcDone | None) -> None:
    output.write(
        "rearview.gc/1",
        dry_run=done is None,
        keep=str(found.policy),
        dropped=[
            {
                "run": info.run,
                "at": info.named,
                "path": info.place,
                "boundary": info.boundary,
                "process": info.process,
                "attempt": info.attempt,
                "number": info.number,
                "size_bytes": info.size_bytes,
                "frees_bytes": verdict.frees_bytes,
                "why": verdict.why,
            }
            for info, verdict in dropped
        ],
        kept=len(found.checkpoints) - len(dropped),
        reasons=list(plan.reasons),
        frees_bytes=plan.bytes_free,
        freed_bytes=done.bytes_freed if done else None,
        stays=[*plan.kept, *(done.kept if done else ())],
        above_budget_bytes=above_budget(found),
    )


def above_budget(found: Retention) -> int:
    """Bytes by which the store stays above its budget."""
    if not found.policy.budget_bytes:
        return 0
    left = found.held_bytes - sum(verdict.frees_bytes for verdict in found.verdicts) + found.other_bytes
    return max(0, left - found.policy.budget_bytes)


def page(found: Retention, plan: GcPlan, done: GcDone | None, view: screen.Screen) -> list[str]:
    """What goes, and what that frees."""
    dropped = found.dropped
    lines = _table(dropped, view) if dropped else []
    lines += _others(plan)
    stay = len({info.decision for info in found.checkpoints} - {info.decision for info, _ in dropped})
    kept = f"{text.count(stay, 'checkpoint')} stay{'s' * (stay == 1)}"
    promised = sum(verdict.frees_bytes for _, verdict in dropped)
    free = plan.bytes_free if done is None else done.bytes_freed
    waits = free < promised and text.size(free) != text.size(promised) and bool(plan.kept or (done and done.kept))
    less = f" of {text.size(promised)}; the rest comes free with a later gc, see below" if waits else ""
    if done is None:
        lines.append(f"would free {text.size(free)}{less}; {kept}; nothing was removed (--dry-run)")
    else:
        lines.append(f"freed {text.size(free)}{less}; {kept}")
    over = above_budget(found)
    if over:
        lines.append(
            f"the store is still {text.size(over)} above its budget of {text.size(found.policy.budget_bytes)}: what is left is pinned, the "
            "best or the last of its run, or no checkpoint (`rearview pin --remove`, `rearview rm`)"
        )
    return lines


def _table(dropped: Sequence[tuple[CheckpointInfo, Verdict]], view: screen.Screen) -> list[str]:
    short = text.short_ids(info.run for info, _ in dropped)
    decisions: dict[object, list[tuple[CheckpointInfo, Verdict]]] = {}
    for info, verdict in dropped:
        decisions.setdefault((info.decision, verdict.why), []).append((info, verdict))
    columns = [
        tables.Column("run", least=7, style="place"),
        tables.Column("at", least=12),
        tables.Column("size", align="right", least=6, weight=2),
        tables.Column("frees", align="right", least=6),
        tables.Column("why", least=12, wish=30, weight=1),
    ]
    rows: list[Sequence[tables.Cell]] = [
        [
            short(parts[0][0].run),
            parts[-1][0].named,
            text.size(max(info.size_bytes for info, _ in parts)),
            text.size(sum(verdict.frees_bytes for _, verdict in parts)),
            parts[-1][1].why,
        ]
        for parts in decisions.values()
    ]
    shown, gap_at, hidden = tables.elide(rows, SHOWN)
    lines = tables.draw(columns, shown, view).lines
    if hidden:
        lines.insert(1 + gap_at, view.paint(f"... {text.count(hidden, 'checkpoint')}, --json lists all", "dim"))
    return lines


def _others(plan: GcPlan) -> list[str]:
    counts = (
        (len(plan.packs_removed), "pack to remove", "packs to remove"),
        (len(plan.packs_thinned), "pack to thin", "packs to thin"),
        (len(plan.objects_removed), "object of no record and no checkpoint", "objects of no record and no checkpoint"),
        (len(plan.leftovers), "unfinished file", "unfinished files"),
    )
    said = [text.count(count, one, many) for count, one, many in counts if count]
    return [f"{', '.join(said)}"] if said else []
