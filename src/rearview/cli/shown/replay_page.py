"""What a replay will do and what came of it, as a person reads it and as JSON. Pure: values in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rearview.catalog import paths
from rearview.cli.shown import output, replay_versions, screen, tables, text
from rearview.plan import scans
from rearview.plan.cost import Seconds
from rearview.plan.partition import makespan
from rearview.plan.scans import Plan
from rearview.plan.timeline import BLOCK, INSIDE, Boundary
from rearview.replay.answering import Answer, raised
from rearview.replay.asking import UNSURE, Prospect
from rearview.replay.preparing import Prepared
from rearview.replay.proof.compare import Difference
from rearview.replay.question.coverage import path_of
from rearview.replay.question.query import DIGESTS, Other, Question
from rearview.store.replays import Replay
from rearview.versions.changes import Changes

_SHOWN = 8
_STYLES = {"identical": "good", "close": "good", "volatile": "odd", "unverified": "odd", "divergent": "bad"}


def interval(seconds: Seconds) -> str:
    """`12.3s (11.0s to 14.0s)`."""
    return f"{text.duration(seconds.expected)} ({text.duration(seconds.low)} to {text.duration(seconds.high)})"


def page(prospect: Prospect, view: screen.Screen, changed: Mapping[str, Changes] | None = None) -> list[str]:
    """What a person reads before saying yes. `changed` tells of each version what it is from the one before it."""
    lines: list[str] = []
    if replay_versions.several(prospect):
        lines += [*_statement(prospect, view), *replay_versions.table(prospect, view, changed or {})]
        lines += _listed("placed", replay_versions.doubts(prospect), view)
        lines += _told([*prospect.to_run, *prospect.unsure], view)
    else:
        for prepared in prospect.to_run:
            lines += [*([""] if lines else []), *_run(prepared, view)]
    if len(prospect.to_run) > 1:
        lines += ["", _in_all(prospect)]
    if prospect.answered:
        runs = ", ".join(one.run.run[:8] for one in prospect.answered[:_SHOWN])
        more = f" and {len(prospect.answered) - _SHOWN} more" if len(prospect.answered) > _SHOWN else ""
        lines.append(f"answered already, nothing to run: {runs}{more}")
    return lines + not_asked(prospect, view)


def _in_all(prospect: Prospect) -> str:
    """What all runs take: the sum, and the time until the last answer."""
    said = f"{text.count(len(prospect.to_run), 'run')}: {interval(total(prospect.to_run))} in all"
    if prospect.workers > 1:
        together = makespan([one.plan.seconds.expected for one in prospect.to_run], prospect.workers)
        said += f", {text.duration(together)} with {text.count(prospect.workers, 'worker')} at a time"
    return said


def not_asked(prospect: Prospect, view: screen.Screen) -> list[str]:
    """The runs that are left out, and why."""
    unsure = [Other(one.run.run, UNSURE, str(one.run.version)) for one in prospect.unsure]
    lines = _listed("not asked", [f"{one.run}: {one.why}" for one in _few_others([*prospect.others, *unsure])], view)
    return lines + [f"no added statement logs {text.escape(name)}" for name in prospect.unknown]


def _statement(prospect: Prospect, view: screen.Screen) -> list[str]:
    """What is asked, in the words of the newest version that is asked."""
    asked = [one.question for one in (*prospect.to_run, *prospect.unsure) if one.question is not None]
    return [*tables.facts([("statement", asked[0].text)], view), ""] if asked else []


def _few_others(others: Sequence[Other]) -> list[Other]:
    """One run for each reason, with how many more there are."""
    by_reason: dict[str, list[Other]] = {}
    for one in others:
        whose = f"version {one.version[:8]}: " if one.version is not None and one.why != UNSURE else ""
        by_reason.setdefault(whose + one.why.removeprefix(f"run {one.run} "), []).append(one)
    few = []
    for why, some in list(by_reason.items())[:_SHOWN]:
        more = f" (and {len(some) - 1} more)" if len(some) > 1 else ""
        few.append(Other(some[0].run, why + more))
    return few


def total(prepared: Sequence[Prepared]) -> Seconds:
    """Of several runs, one after the other."""
    seconds = [one.plan.seconds for one in prepared]
    return Seconds(sum(one.expected for one in seconds), sum(one.low for one in seconds), sum(one.high for one in seconds))


def _run(prepared: Prepared, view: screen.Screen) -> list[str]:
    plan = prepared.plan
    named = f" ({prepared.run.name})" if prepared.run.name else ""
    facts: list[tuple[str, tables.Cell]] = [
        ("run", f"{prepared.run.run}{named}, {prepared.run.filename}"),
        ("statement", prepared.question.text if prepared.question is not None else "none: it is replayed to itself"),
        ("scan", "; ".join(f"{scan.name}: {scan.why}" for scan in plan.scans)),
        ("rung", "" if plan.rung == scans.RESUME else rung_in_words(plan.rung)),
        ("from", starts_in_words(prepared)),
        ("runs", runs_in_words(prepared)),
        ("workers", workers_in_words(prepared)),
        ("predicted", tables.Styled(f"{interval(plan.seconds)}; plain re-execution {text.duration(plan.plain_s)}", "head")),
    ]
    lines = tables.facts([(name, cell) for name, cell in facts if cell], view)
    return lines + _told([prepared], view)


def _told(every: Sequence[Prepared], view: screen.Screen) -> list[str]:
    """What must be known besides, each sentence once; of several runs, with how many it concerns."""
    lines: list[str] = []
    for title, of in _TOLD.items():
        counts = Counter(sentence for one in every for sentence in dict.fromkeys(of(one)))
        said = [one if count == len(every) else f"{one} ({count} of the {len(every)} runs)" for one, count in counts.items()]
        lines += _listed(title, said[: _SHOWN * 2], view)
    return lines


_TOLD: dict[str, Callable[[Prepared], Sequence[str]]] = {
    "left out": lambda one: one.plan.left_out,
    "noted": lambda one: one.notes,
    "inputs that are not as they were": lambda one: one.inputs,
    "cannot be bit-exact here, compared as close": lambda one: one.inexact,
    "not as it was: the numbers may differ": lambda one: [sentence for sentence in one.environment if sentence not in one.inexact],
    "set for it": lambda one: one.variables,
    "not protected": lambda one: one.unprotected,
}


def rung_in_words(rung: str) -> str:
    """What a rung of the ladder does."""
    return {
        scans.RESUME: "from checkpoints",
        scans.PSEUDORESUME: "pseudoresume: from the beginning of the main loop, the end state of every nested block put back",
        scans.START: "from the start: everything runs once more",
    }[rung]


def starts_in_words(prepared: Prepared) -> str:
    """From which checkpoints."""
    stretches = prepared.plan.stretches
    if all(one.first is None and not one.to_end for one in stretches):
        return "the program's beginning, up to the main loop"
    states = [one.start for one in stretches if one.start is not None]
    if not states:
        kept = any(one.restorable for one in prepared.history.boundaries)
        return "the program's beginning" + ("" if kept else ": there is no checkpoint to start from")
    names = [_state(prepared, one) for one in states]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    begin = "the program's beginning, and " if len(states) < len(stretches) else ""
    return f"{begin}the {'state' if len(states) == 1 else 'states'} after {shown}"


def _state(prepared: Prepared, state: Boundary) -> str:
    place = paths.shown(path_of(prepared.history.blocks[state.block], state.iteration))
    if "/" in state.name:
        place += f" of run {state.name.partition('/')[0]}"
    if state.part == INSIDE:
        return f"{place}/{state.loop}#{state.step}"
    return f"{place} (end of its nested loop)" if state.part == BLOCK else place


def runs_in_words(prepared: Prepared) -> str:
    """How many iterations and nested blocks, and why the latter."""
    plan = prepared.plan
    shared = plan.shared
    count = sum(last - first + 1 for one in plan.stretches for _, first, last in one.covers) + len(shared)
    if not count:
        whole = any(one.start is None and one.to_end for one in plan.stretches)
        return "everything, from beginning to end" if whole else "no iteration of the main loop"
    said = [text.count(count, "iteration")]
    if shared:
        stretches = sum(bool(one.parts) for one in plan.stretches)
        which = "" if len(shared) == count else f"{len(shared)} of them "
        said.append(f"{which}shared by {stretches} stretches that begin or end inside")
    if plan.put_back:
        said.append(f"{text.count(plan.put_back, 'nested block')} put back")
    if plan.must_run:
        said.append(f"{text.count(len(plan.must_run), 'nested block')} run because the state is not kept")
    return ", ".join(said)


def workers_in_words(prepared: Prepared) -> str:
    """How many, with how many threads."""
    threads = f" of {text.count(prepared.threads, 'thread')}" if prepared.threads else ""
    faster = f", {prepared.plan.speedup:.2f} x faster than one" if prepared.plan.workers > 1 else ""
    return f"{prepared.plan.workers}{threads}{faster}"


def _listed(title: str, sentences: Sequence[str], view: screen.Screen) -> list[str]:
    if not sentences:
        return []
    lines = [piece for one in sentences for piece in tables.wrap(text.escape(one), view.width - 2)]
    return [view.paint(title, "odd"), *(f"  {line}" for line in lines)]


# -- what came of it -----------------------------------------------------------------------------------------------------------


def result(answer: Answer, view: screen.Screen) -> list[str]:
    """A line with the verdict, and what must be known besides."""
    judged, run = answer.judgement, answer.prepared.run.run
    what = text.count(answer.rows, "value") if answer.prepared.question is not None else "replayed to itself"
    verdict = view.paint(judged.verdict, _STYLES.get(judged.verdict, ""))
    rung = "" if answer.prepared.plan.rung == scans.RESUME else f", {answer.prepared.plan.rung}"
    if answer.interrupted and not answer.comparison.records and not answer.comparison.states and not answer.rows:
        return [f"{run[:8]}: interrupted before anything was finished"]
    proved = answer.prepared.question is None and (answer.comparison.records or answer.comparison.states)
    if answer.lost and not answer.rows and not proved:
        failed = raised(answer.output) or "a worker failed"
        said = [f"{run[:8]}: nothing is answered, {failed}", *(f"  {one}" for one in (*answer.lost, *answer.notes))]
        said = [text.escape(one) for one in said]
        return said if judged.verdict != "divergent" else [*said, *(f"  {text.escape(one)}" for one in judged.why)]
    if answer.lost:
        verdict = f"{verdict} as far as it came"
    elif answer.prepared.question is not None and not answer.rows and answer.complete:
        what = "no value: the statement was never come to"
        if answer.never_came:
            ended = f"failed ({answer.prepared.run.detail})" if answer.prepared.run.detail else f"was {answer.prepared.run.status}"
            what = text.escape(f"no value: the run {ended} before it came to the statement")
    lines = [f"{run[:8]}: {what}, {verdict}{rung} ({compared(answer)}), {text.duration(answer.seconds)}"]
    names = [f"  {text.escape(name)}: {verdict}" for name, verdict in judged.verdicts.items()]
    why = judged.why if judged.verdict != "identical" else [one for one in judged.why if "bit for bit" not in one]
    first = judged.first_difference
    if first is not None:
        where = f" at {first.path}" if first.path else ""
        lines.append(f"  first difference{where}: {text.escape(_difference(first))}")
    whose = [one for one in (answer.replay.why if answer.replay is not None else ()) if one not in judged.why]
    lines += names
    lines += [f"  {text.escape(one)}" for one in (*why, *whose)]
    if judged.volatile:
        lines.append(f"  volatile: {', '.join(dict.fromkeys(text.escape(root_in_words(name)) for name in judged.volatile))}")
    return lines + [f"  {text.escape(one)}" for one in (*answer.lost, *answer.notes)]


def _difference(first: Difference) -> str:
    """What differs; of a state only digests are known, which say nothing to a person."""
    if first.kind == "state":
        gone = " (not there any more)" if first.replayed is None else " (not there then)" if first.recorded is None else ""
        return f"{root_in_words(first.name)} in the kept state{gone}"
    return f"{first.name} was {_cut(first.recorded)}, is {_cut(first.replayed)}"


def root_in_words(name: str) -> str:
    """A part of a state as a person calls it; the name of a record as it is.

    >>> root_in_words("global/__main__/t0"), root_in_words("stream/global"), root_in_words("given/net"), root_in_words("val/loss")
    ('t0', 'the random streams', 'net', 'val/loss')
    >>> root_in_words("function/__main__/step/__dict__")
    'what step remembers'
    """
    kind, _, rest = name.partition("/")
    if kind == "stream" and rest in ("global", "iteration"):
        return "the random streams"
    if kind == "position" and rest.isdigit():
        return "the position of a loop"
    if kind == "item" and rest.isdigit():
        return "the item of the main loop"
    if kind == "function" and rest.count("/") == 2:
        return f"what {rest.split('/')[1]} remembers"
    return name.rsplit("/", 1)[-1] if kind in ("given", "local", "outer", "caller", "global", "class") and rest else name


def _cut(value: str | None) -> str:
    return "not there" if value is None else text.shorten(value, 60)


def compared(answer: Answer) -> str:
    """How much was compared."""
    found = answer.comparison
    return f"{text.count(found.records, 'record')} and {text.count(found.states, 'state')} compared"


def failures(answer: Answer) -> list[str]:
    """Statements that raised: the program's traceback first."""
    lines: list[str] = []
    for fact in {str(one.get("traceback")): one for one in answer.failed}.values():  # workers meet the same
        lines += text.escape_lines(str(fact.get("traceback") or "").rstrip("\n"))
        where = f"{fact.get('file')}, line {fact.get('line')}"
        kept = "; values before it are kept" if answer.rows else ""
        lines.append(text.escape(f"the statement at {where} raised: {fact.get('text') or ''}{kept}"))
    return lines


def offer(answer: Answer, plan: Plan) -> list[str]:
    """A rung that was not agreed to."""
    run, rung = answer.prepared.run.run[:8], rung_in_words(answer.prepared.plan.rung)
    if answer.lacks_history and not answer.failed:
        why = f"in the replay of {run} ({rung}) the program went back through a tensor, and no stored state keeps how that was computed"
    elif answer.counts_along:
        why = f"the replay of {run} ({rung}) is not right: {answer.judgement.why[0]}"
    elif answer.not_there:
        why = f"a statement raised in the replay of {run} ({rung}): it may be the stored states that do not have what it reads"
    else:
        why = f"the replay of {run} did not prove itself on this rung ({rung})"
    following = "from checkpoints that have no such tensor" if plan.rung == answer.prepared.plan.rung else rung_in_words(plan.rung)
    return [why, f"next: {following}, {interval(plan.seconds)}"]


def how_to_climb(plan: Plan) -> str:
    """How to have a rung that nobody could be asked about."""
    if plan.rung == scans.START:
        return "the same command with --from-start does that"
    return "the same command without --yes asks; with --from-start it runs everything once more"


# -- JSON ------------------------------------------------------------------------------------------------------------------------


def plan_as_json(prepared: Prepared) -> dict[str, output.Json]:
    """A plan for other programs."""
    plan = prepared.plan
    stretches: list[output.Json] = [
        {
            "start": one.start.name if one.start is not None else None, "first": output.facts(one.first), "last": output.facts(one.last),
            "to_end": one.to_end, "prefix": one.prefix, "skip": one.skip, "runs_inside": output.facts(one.runs_inside),
            "put_back": one.put_back, "must_run": output.facts(one.must_run), "seconds": output.facts(one.seconds),
            "stop": one.stop.name if one.stop is not None else None, "parts": output.facts(one.parts),
        }
        for one in plan.stretches
    ]  # fmt: skip
    return {
        "run": prepared.run.run, "names": output.facts(prepared.question.names) if prepared.question is not None else [],
        "statement": prepared.question.text if prepared.question is not None else None, "rung": plan.rung,
        "scans": output.facts(plan.scans), "stretches": stretches, "workers": plan.workers, "threads": prepared.threads,
        "put_back": plan.put_back, "must_run": output.facts(plan.must_run), "predicted": output.facts(plan.seconds),
        "plain_s": plan.plain_s, "speedup": plan.speedup, "left_out": output.facts(plan.left_out), "notes": output.facts(prepared.notes),
        "inputs": output.facts(prepared.inputs), "environment": output.facts(prepared.environment),
        "inexact": output.facts(prepared.inexact), "variables": output.facts(prepared.variables),
        "unprotected": output.facts(prepared.unprotected), "version": output.facts(prepared.run.version),
        "placed": replay_versions.as_json(prepared),
    }  # fmt: skip


def prospect_as_json(prospect: Prospect) -> dict[str, output.Json]:
    """What a question comes to."""
    return {
        "plans": [plan_as_json(one) for one in prospect.to_run],
        "unsure": [plan_as_json(one) for one in prospect.unsure],
        "answered": [one.run.run for one in prospect.answered],
        "others": output.facts(prospect.others),
        "unknown": output.facts(prospect.unknown),
    }


def answered_as_json(question: Question, listed: Sequence[Replay]) -> list[output.Json]:
    """What was answered before: the replays that did it, of those of the run."""
    mine = [one for one in listed if _answers(one, question)]
    return [
        {
            "run": one.run, "replay": one.id, "verdict": one.verdict, "why": list(one.why), "verdicts": output.facts(one.verdicts),
            "volatile": list(one.volatile), "compared": output.facts(one.compared), "rung": one.rung, "seconds": one.seconds,
            "covers": output.facts(one.covers), "answered_before": True,
        }
        for one in mine
    ]  # fmt: skip


def _answers(replay: Replay, question: Question) -> bool:
    digests = replay.more.get(DIGESTS)
    return replay.verdict != "divergent" and isinstance(digests, dict) and bool(digests.items() & question.digests.items())


def answer_as_json(answer: Answer) -> dict[str, output.Json]:
    """What came of one run."""
    judged = answer.judgement
    return {
        "run": answer.prepared.run.run, "replay": answer.replay.id if answer.replay is not None else None, "verdict": judged.verdict,
        "why": output.facts(judged.why), "verdicts": output.facts(judged.verdicts), "volatile": output.facts(judged.volatile),
        "values": answer.rows, "compared": {"records": answer.comparison.records, "states": answer.comparison.states},
        "first_difference": judged.first_difference.as_json() if judged.first_difference is not None else None,
        "rung": answer.prepared.plan.rung, "seconds": answer.seconds, "predicted": output.facts(answer.prepared.plan.seconds),
        "complete": answer.complete, "interrupted": answer.interrupted, "lost": output.facts(answer.lost),
        "notes": output.facts(answer.notes), "failed": output.facts(answer.failed),
    }  # fmt: skip
