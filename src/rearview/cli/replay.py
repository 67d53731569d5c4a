"""`rearview replay`: fill the columns of statements that were added in hindsight."""

from __future__ import annotations

import sys
from typing import Any

import click

from rearview.cli import options
from rearview.cli.shown import output, replay_page, screen, text
from rearview.errors import (
    EXIT_DIFFERENCES,
    EXIT_INTERRUPTED,
    EXIT_NOTHING_MATCHED,
    EXIT_OK,
    EXIT_USER_CODE_RAISED,
    UsageError,
)

_NOTHING_YET = "nothing was asked yet: add a log statement and `rearview replay` it"


@click.command("replay", short_help="Fill columns from statements added in hindsight.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the plan and run nothing.")
@options.in_run
@options.where
@click.option("--only", metavar="PLACES", help='Only these iterations of the main loop, e.g. "epoch=10..20".')
@click.option("--workers", type=click.IntRange(1), metavar="N", help="At most so many at a time; else what memory and cores allow.")
@click.option("--from-start", is_flag=True, help="Run everything from the program's start, from no checkpoint.")
@click.option("--at", metavar="FILE:LINE", help="Ask without editing: NAME is then an expression, logged after the statement there.")
@click.option("--as", "as_name", metavar="NAME", help="The name for --at.")
@click.option("--before", is_flag=True, help="With --at: log before the statement.")
@click.option("--isolate", is_flag=True, help="Put generators and touched state back after each added statement.")
@click.option("--device", type=click.Choice(["cpu"]), help="Replay a run of a GPU without one.")
@click.option("--show", is_flag=True, help="Show where the statement goes in each version, as a diff, and run nothing.")
@click.option("--unsure", is_flag=True, help="Also in versions where its place is not certain.")
@click.option("--only-sure", is_flag=True, help="Leave those versions out, and never ask about them.")
@click.option(
    "--place", nargs=2, multiple=True, metavar="VERSION FILE:LINE", help="There it goes behind the statement on this line; remembered."
)
@click.option("--skip", multiple=True, metavar="VERSION", help="Leave this version out.")
@click.option("--missing", is_flag=True, help="Ask what was asked before (`rearview probes`) of the runs that have no answer yet.")
@click.option("--forget", is_flag=True, help="Forget what was replayed under these names.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Fill the columns of NAMEs: of log statements that you have added to the source since. Without NAME: of all of them.

    Asks every run, whatever its code looked like: in another version the statement is placed where it belongs, or the plan says why it
    cannot go there. Shows the plan first: what runs, from which checkpoints, how long it will take; then asks. Values are proved against
    the record and fill the rows of the run itself.

    Exit code: 0 answered, 1 diverged or answered in part, 3 nothing matched, 4 a statement raised in the one run, 130 interrupted.
    """
    if given["forget"]:
        ctx.exit(_forget(given["names"], given["run_ref"]))
    if given["missing"] and given["at"] is not None:
        raise UsageError("--missing asks what was asked before, and --at asks something new: choose one")
    if given["unsure"] and given["only_sure"]:
        raise UsageError("--unsure and --only-sure say the opposite: choose one")
    if given["as_json"] and not (given["yes"] or given["dry_run"] or given["show"]):
        raise UsageError("--json asks nobody: add --yes to run the plan, or --dry-run to see it")
    ctx.exit(_replay(given))


def _replay(given: dict[str, Any]) -> int:
    from rearview.cli import opening
    from rearview.cli.shown import replay_watch
    from rearview.replay import asking

    ask = _ask(given)
    with opening.catalog() as catalog:
        prospect = asking.missing(catalog, ask) if given["missing"] else asking.look(catalog, ask)
    view = screen.of_stdout(given["color"])
    if given["dry_run"] or given["show"]:
        _look_only(prospect, given, view)
        return EXIT_OK
    if not given["as_json"]:
        screen.write(_page(prospect, view))
    if prospect.unsure and not given["only_sure"] and not given["yes"] and sys.stdin.isatty():
        _ask_about(prospect)
    if not prospect.to_run:
        return _nothing_to_run(prospect, given["as_json"], given["names"])
    runnable = [one for one in prospect.to_run if not one.plan.is_empty]
    if not runnable:
        return EXIT_DIFFERENCES
    if not given["yes"] and not _agreed("Replay?"):
        return EXIT_OK
    asking.remember(prospect)
    answers, interrupted = replay_watch.all_of(runnable, prospect.workers, _offer(given), given["as_json"], view)
    asking.learn(prospect, answers)
    if given["as_json"]:
        facts = replay_page.prospect_as_json(prospect)
        told = [*(replay_page.answer_as_json(one) for one in answers), *_before(prospect)]
        output.write("rearview.replayed/1", answers=told, **facts)
    if interrupted:
        return EXIT_INTERRUPTED
    partly = _partly(prospect, answers)
    return code_of(answers) or partly


def _look_only(prospect: Any, given: dict[str, Any], view: screen.Screen) -> None:
    if given["as_json"]:
        output.write("rearview.replay-plan/1", **replay_page.prospect_as_json(prospect))
    else:
        screen.write(_shown(prospect, view) if given["show"] else _page(prospect, view))


def _nothing_to_run(prospect: Any, as_json: bool, names: tuple[str, ...]) -> int:
    from rearview.replay import asking

    if as_json:
        output.write("rearview.replayed/1", answers=_before(prospect), **replay_page.prospect_as_json(prospect))
    asking.remember(prospect)
    if not prospect.answered and not prospect.unanswered and not as_json:
        asked = f"nothing was asked as {', '.join(names)}: `rearview probes` lists what was" if names else _NOTHING_YET
        screen.note(f"rearview: {text.escape(asked)}")  # only --missing comes here
    partly = _partly(prospect)
    return partly if prospect.answered else EXIT_NOTHING_MATCHED


def _before(prospect: Any) -> list[output.Json]:
    """What answered the questions that are answered already."""
    from rearview.cli import opening
    from rearview.store import replays

    store = opening.store()
    answers = [replay_page.answered_as_json(one, replays.list_of(store, one.run.run)) for one in prospect.answered]
    return [one for some in answers for one in some]


def _page(prospect: Any, view: screen.Screen) -> list[str]:
    """The plan, with what changed from version to version."""
    from rearview.cli import opening
    from rearview.cli.shown import replay_versions
    from rearview.versions.changes import changes

    pairs = replay_versions.pairs(prospect) if replay_versions.several(prospect) else []
    found = changes(opening.store(), pairs) if pairs else []
    return replay_page.page(prospect, view, {after: one for (_, after), one in zip(pairs, found, strict=True)})


def _shown(prospect: Any, view: screen.Screen) -> list[str]:
    """Each placement as a diff."""
    from rearview.cli import opening
    from rearview.cli.shown import replay_versions
    from rearview.model import VersionId
    from rearview.versions import read

    store, recorded = opening.store(), {}
    for one in replay_versions.of([*prospect.to_run, *prospect.unsure]):
        version = VersionId(one.version)
        recorded[one.version] = {path: read.source(store, version, path) for path in read.files(store, version) if path.endswith(".py")}
    left = replay_page.not_asked(prospect, view)
    return [*replay_versions.shown(prospect, recorded, view), *([""] if left else []), *left]


def _ask_about(prospect: Any) -> None:
    """Ask about each uncertain place, version by version; what is agreed to is run."""
    from rearview.cli.shown import replay_versions

    for one in replay_versions.of(prospect.unsure):
        for line in replay_versions.question_to_ask(one):
            screen.note(line)
        said = click.prompt("Is that its place? (q: ask no more)", type=click.Choice(["y", "n", "q"]), default="n", err=True)
        if said == "q":
            return
        if said == "y":
            prospect.to_run += one.runs
            prospect.unsure = [prepared for prepared in prospect.unsure if prepared not in one.runs]


def _partly(prospect: Any, answers: Any = ()) -> int:
    """Say how much of what was asked has no answer, and the exit code for that."""
    refused, taken = {one.run for one in prospect.unanswered}, {one.run.run for one in (*prospect.to_run, *prospect.answered)}
    left = len(prospect.unanswered) + sum(1 for one in answers if one.unanswered is not None)
    asked = len(prospect.unanswered) + len(prospect.to_run) + len(prospect.answered) - len(refused & taken)
    if not left:
        return EXIT_OK
    if prospect.unanswered or asked > 1:
        why = "the plan says why" if not answers else "it is said above why"
        wholly = " in full" if refused & taken else ""
        screen.note(f"rearview: {left} of {text.count(asked, 'run')} {'is' if left == 1 else 'are'} not answered{wholly}; {why}")
    return EXIT_DIFFERENCES


def _ask(given: dict[str, Any]) -> Any:
    from rearview.replay.asking import place
    from rearview.replay.question.query import Ask
    from rearview.replay.question.sources import At

    names, at = tuple(given["names"]), None
    if given["at"] is not None:
        if len(names) != 1 or not given["as_name"]:
            raise UsageError('--at takes one expression and --as NAME: rearview replay --at train.py:42 "norm(net)" --as grad_norm')
        at = At(*place(given["at"]), names[0], given["as_name"], given["before"])
        names = ()
    elif given["as_name"] or given["before"]:
        raise UsageError("--as and --before go with --at FILE:LINE")
    return Ask(
        names=names, run=given["run_ref"], where=given["where"], only=given["only"], at=at, from_start=given["from_start"],
        workers=given["workers"], isolate=given["isolate"], device=given["device"], unsure=given["unsure"], skip=given["skip"],
        place=tuple((version, *place(where)) for version, where in given["place"]),
    )  # fmt: skip


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("replay asks before it runs anything, and there is nobody to ask: add --yes")
    return click.confirm(question, default=True, err=True)


def _offer(given: dict[str, Any]) -> Any:
    """A rung that costs more than what was agreed to: asked for on a terminal, else said with the flag that does it."""

    def offer(answer: Any, plan: Any) -> bool:
        for line in replay_page.offer(answer, plan):
            screen.note(line)
        if given["yes"] or not sys.stdin.isatty():
            screen.note(replay_page.how_to_climb(plan))
            return False
        return click.confirm("Go on?", default=False, err=True)

    return offer


def code_of(answers: Any) -> int:
    """The exit code of answers."""
    if len(answers) == 1 and answers[0].failed:
        return EXIT_USER_CODE_RAISED
    bad = any(one.judgement.verdict == "divergent" or not one.complete or one.never_came for one in answers)
    return EXIT_DIFFERENCES if bad else EXIT_OK


def _forget(names: tuple[str, ...], run_ref: str | None) -> int:
    from rearview.cli import replays

    if not names:
        raise UsageError("--forget takes the names, or the ids of replays, that are to be forgotten")
    gone = replays.forget(names, run_ref)
    for name, one in gone:
        screen.write([f"forgot {text.escape(name)} of run {one.run} (replay {one.id})"])
    unknown = [name for name in names if name not in {name for name, _ in gone}]
    if unknown:
        screen.note(f"nothing was replayed as {text.escape(', '.join(unknown))}")
    return EXIT_OK
