"""`rearview verify`: does a run replay to itself?"""

from __future__ import annotations

import sys
from typing import Any

import click

from rearview.cli import options
from rearview.cli.shown import output, replay_page, screen
from rearview.errors import EXIT_DIFFERENCES, EXIT_INTERRUPTED, EXIT_OK, UsageError


@click.command("verify", short_help="Does a run replay to itself?")
@options.run_argument(required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the plan and run nothing.")
@click.option("--only", metavar="PLACES", help='Only these iterations of the main loop, e.g. "epoch=10..20".')
@click.option("--workers", type=click.IntRange(1), metavar="N", help="At most so many at a time; else what memory and cores allow.")
@click.option("--from-start", is_flag=True, help="From the program's start instead of from checkpoints.")
@click.option("--device", type=click.Choice(["cpu"]), help="Replay a run of a GPU without one.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run RUN once more, its recorded source from its own checkpoints, and compare everything it logs and every kept state.

    Without RUN: the last one. Exit code: 0 if it replays to itself, 1 if it does not; the first difference is shown, with its
    probable cause.
    """
    if given["as_json"] and not (given["yes"] or given["dry_run"]):
        raise UsageError("--json asks nobody: add --yes to run the plan, or --dry-run to see it")
    ctx.exit(_verify(given))


def _verify(given: dict[str, Any]) -> int:
    from rearview.cli import opening
    from rearview.cli.shown import replay_watch
    from rearview.replay import asking, preparing
    from rearview.replay.question.query import Ask
    from rearview.replay.sandbox import scratch as sandbox_scratch

    ask = Ask(only=given["only"], workers=given["workers"], from_start=given["from_start"], device=given["device"])
    with opening.catalog() as catalog:
        store = catalog.store
        run = catalog.run(given["run_ref"] or "last")
    if run.status == "running":
        raise UsageError(f"run {run.run} is still running: wait for its end")
    sandbox_scratch.clean(store)
    prepared = preparing.prepare_proof(store, asking.project_of(store), run, ask)
    view = screen.of_stdout(given["color"])
    prospect = asking.Prospect([prepared])
    if given["dry_run"] and given["as_json"]:
        output.write("rearview.replay-plan/1", **replay_page.prospect_as_json(prospect))
        return EXIT_OK
    if not given["as_json"]:
        screen.write(replay_page.page(prospect, view))
    if given["dry_run"]:
        return EXIT_OK
    if prepared.plan.is_empty:
        return EXIT_DIFFERENCES
    if not given["yes"]:
        if not sys.stdin.isatty():
            raise UsageError("verify asks before it runs anything, and there is nobody to ask: add --yes")
        if not click.confirm("Replay it?", default=True, err=True):
            return EXIT_OK
    answers, interrupted = replay_watch.all_of([prepared], 1, lambda *_: False, given["as_json"], view)
    answer = answers[0]
    if given["as_json"]:
        output.write("rearview.verified/1", **replay_page.answer_as_json(answer))
    if interrupted:
        return EXIT_INTERRUPTED
    faithful = answer.judgement.verdict in ("identical", "close", "volatile")
    return EXIT_OK if faithful and answer.complete else EXIT_DIFFERENCES
