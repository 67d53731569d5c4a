"""Carries a prepared replay out: conducts it, compares it with the record, finds what made it differ, publishes the values.

The one place where running, proving and keeping come together. Decides nothing about what is run; asks nobody anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rearview import config
from rearview.plan import scans
from rearview.plan.scans import Plan, Stretch
from rearview.plan.timeline import INSIDE, History
from rearview.replay import preparing, publish
from rearview.replay.journals import logged
from rearview.replay.journals.logged import Logged, Recorded
from rearview.replay.preparing import MEASURED, PREDICTED, Prepared, mains_of
from rearview.replay.proof import clocks, verdicts
from rearview.replay.proof.compare import Comparison, ManifestOf, compare
from rearview.replay.proof.verdicts import Evidence, Judgement
from rearview.replay.question.query import DIGESTS, Question
from rearview.replay.running import again, conductor, pieces
from rearview.replay.running.conductor import Task
from rearview.replay.running.pieces import Conducted, Piece
from rearview.replay.running.pool import Slots
from rearview.replay.running.progress import Shown
from rearview.replay.running.units import Unit
from rearview.replay.sandbox import scratch as sandbox_scratch
from rearview.replay.worker import becoming as worker
from rearview.replay.worker import orders
from rearview.store import frames, replays
from rearview.store.replays import PLACED, Replay
from rearview.versions import read

_MOST_MEASURED = 200
_NO_HISTORY = "RuntimeError: HistoryNotKept"
_NOT_THERE = ("NameError", "UnboundLocalError", "AttributeError", "KeyError", _NO_HISTORY)
_NO_LIBRARY = ("ModuleNotFoundError", "ImportError")
Show = Callable[[Shown], None]


@dataclass(slots=True)
class Answer:
    """What came of a replay of one run."""

    prepared: Prepared
    judgement: Judgement
    comparison: Comparison
    replay: Replay | None
    """As it was published; None if there is nothing to publish."""
    seconds: float = 0.0
    interrupted: bool = False
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Statements that raised: file, line, traceback."""
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    output: str = ""
    kept: int | None = None
    """How many values were published, where that is not all that was logged."""

    @property
    def rows(self) -> int:
        """Values that were filled in."""
        if self.kept is not None:
            return self.kept
        names = self.replay.names if self.replay is not None else ()
        return sum(count for name, count in self.comparison.virtual.items() if name in names)

    @property
    def complete(self) -> bool:
        """Whether all of the plan was run."""
        return not (self.interrupted or self.failed or self.lost)

    @property
    def unanswered(self) -> str | None:
        """Why it gives no value that can be trusted; None if it does."""
        if self.failed:
            return f"the statement raised {self.failed[0].get('error') or 'an exception'}"
        if self.lost:
            return f"it could not be run again: {raised(self.output) or self.lost[0]}"
        if self.never_came:
            return "the run ended before it came to the statement"
        return "its replay diverged from the record" if self.judgement.verdict == "divergent" else None

    @property
    def never_came(self) -> bool:
        """Whether the run ended, by an exception or a signal, before it came to the statement: nothing is answered."""
        cut_short = self.prepared.run.status in ("failed", "killed")
        return self.prepared.question is not None and cut_short and self.complete and not self.rows and self.judgement.faithful

    @property
    def not_there(self) -> bool:
        """Whether a statement found something not to be there, where states were put back: it may be they that do not have it."""
        plan = self.prepared.plan
        restored = plan.rung != scans.START and any(one.start is not None or one.skip for one in plan.stretches)
        return restored and (self.lacks_history or any(str(one.get("error")).startswith(_NOT_THERE) for one in self.failed))

    @property
    def lacks_history(self) -> bool:
        """Whether a statement, or the program itself, went back through how a tensor was computed that was put back."""
        if self.failed:
            return any(str(one.get("error")).startswith(_NO_HISTORY) for one in self.failed)
        return bool(self.lost) and str(raised(self.output)).startswith(_NO_HISTORY)

    @property
    def counts_along(self) -> bool:
        """Whether a statement has something of its own that changes as the program goes on: only one run from the start has it right."""
        return bool(self.comparison.changed_along) and not self.judgement.faithful

    @property
    def statement_changes_run(self) -> bool:
        """Whether it is the statement itself that made the replay differ."""
        return any("the added statement changes the run" in why for why in self.judgement.why)


def raised(printed: str) -> str | None:
    """What a program raised that ended by it, from what it printed last.

    >>> raised("Traceback (most recent call last):\\n  File ...\\nModuleNotFoundError: No module named 'gone'\\n")
    "ModuleNotFoundError: No module named 'gone': install it again"
    """
    _, found, rest = printed.rpartition("Traceback (most recent call last):")
    lines = [line for line in rest.splitlines() if line and not line.startswith(" ")]
    if not found or not lines:
        return None
    return f"{lines[0]}: install it again" if lines[0].startswith(_NO_LIBRARY) else lines[0]


def carry_out(prepared: Prepared, show: Show | None = None, slots: Slots | None = None) -> Answer:
    """Run a plan, prove it, publish what it gave. `slots` are shared with the plans that run beside it."""
    ident = replays.new_id()
    task = prepared.task()
    scratch = sandbox_scratch.make(prepared.store, ident)
    try:
        conducted = conductor.conduct(task, scratch, ident, show, slots)
        return _Answering(prepared, task, ident).answer(conducted, show)
    finally:
        sandbox_scratch.remove(scratch)


class _Answering:
    def __init__(self, prepared: Prepared, task: Task, ident: str) -> None:
        self._prepared, self._task, self._ident = prepared, task, ident
        self._store = prepared.store
        self._manifest_of: ManifestOf = publish.manifest_reader(self._store, task.run)
        self._recorded: Recorded = logged.recorded(self._store.run(task.run))
        self._mains = mains_of(prepared.history)
        self._diagnosing_s = 0.0

    def answer(self, conducted: Conducted, show: Show | None) -> Answer:
        pieces = [piece for piece in conducted.pieces if _has_journal(piece) and not piece.went_beyond]
        units = [piece.unit for piece in pieces]
        virtual = self._virtual(units)
        found = self._compare(units, virtual)
        evidence = self._evidence(units, virtual)
        judgement = verdicts.judge(found, evidence)
        if judgement.verdict == "divergent" and not conducted.interrupted and not found.changed_along:
            evidence = self._diagnosed(pieces, virtual, evidence, show)
            judgement = verdicts.judge(found, evidence)
        published, kept = self._publish(conducted, units, virtual, found, judgement)
        return Answer(
            self._prepared, judgement, found, published, conducted.seconds + self._diagnosing_s, conducted.interrupted, conducted.failed,
            conducted.lost, conducted.notes, conducted.output, kept,
        )  # fmt: skip

    def _virtual(self, units: Sequence[Unit]) -> tuple[str, ...]:
        """The names that the statements log: as they stand in the text, or as they came out."""
        question = self._prepared.question
        if question is None:
            return ()
        names = dict.fromkeys(question.names)
        if question.computed:
            names.update(self._came_out(units))
        return tuple(names)

    def _came_out(self, units: Sequence[Unit]) -> dict[str, None]:
        """The names in units that the record does not know, in order."""
        known = {name for _, _, _, name, _ in self._recorded.records}
        return dict.fromkeys(name for unit in units for name in _names_in(unit) if name not in known)

    def _compare(self, units: Sequence[Unit], virtual: Sequence[str]) -> Comparison:
        rows = publish.stretches(units, self._manifest_of)
        logs = self._logs()
        computed = self._came_out(units) if None in logs else ()
        every = {*virtual, *computed, *(name for name in logs if name is not None)}
        return compare(self._recorded, rows, every, self._mains, self._manifest_of)

    def _logs(self) -> list[str | None]:
        """Everything that added statements log, asked for or not: none of it was recorded."""
        question = self._prepared.question
        return [log.name for log in question.statements.added.logs] if question is not None else []

    def _evidence(self, units: Sequence[Unit], virtual: Sequence[str]) -> Evidence:
        prepared, question = self._prepared, self._prepared.question
        known = config.load(prepared.project).values.get("volatile")
        volatile = known if isinstance(known, tuple) else ()
        return Evidence(
            inexact=tuple(prepared.inexact), changed_inputs=tuple(prepared.inputs), environment=tuple(prepared.environment),
            volatile=frozenset(volatile) | preparing.remembered(self._store), reads=prepared.reads,
            unseeded=self._unseeded(), values_differ=self._came_out_twice(units, virtual),
            clocks=clocks.clocked(question.statements.program(), question.logs) if question is not None else frozenset(),
            timed=clocks.timed(question.statements.program()) if question is not None else self._timed(),
            makes_sets=self._makes_sets(), counted=self._counted(), rung=self._task.plan.rung, isolated=self._task.isolate,
            restored=any(one.start is not None or one.skip for one in units),
        )  # fmt: skip

    def _timed(self) -> frozenset[str]:
        """Of the source that ran, where no statement is asked for."""
        texts = {
            path: read.source(self._store, self._task.recorded_version, path).decode("utf-8", "replace")
            for path in read.files(self._store, self._task.recorded_version) if path.endswith(".py")
        }  # fmt: skip
        return clocks.timed(texts)

    def _makes_sets(self) -> frozenset[str]:
        """Names whose statements use the order of a set that they make, where the recorded process had an unknown hash seed."""
        question = self._prepared.question
        if question is None or again.unknown_seed(self._prepared.known.facts) is None:
            return frozenset()
        return frozenset(log.name for log in question.logs if log.name is not None and orders.makes_one(log.text))

    def _counted(self) -> dict[str, frozenset[str]]:
        """Name -> what all of its statements only count."""
        found: dict[str, frozenset[str]] = {}
        for log in self._prepared.question.logs if self._prepared.question is not None else ():
            if log.name is not None:
                words = orders.counted(log.text)
                found[log.name] = found.get(log.name, words) & words
        return found

    def _unseeded(self) -> tuple[str, ...]:
        """Random streams that a run from the start cannot begin with as they were."""
        if self._task.plan.rung != scans.START:
            return ()
        return () if "python" in worker.first_streams(self._store, self._task.run) else ("Python's random numbers",)

    def _came_out_twice(self, units: Sequence[Unit], virtual: Sequence[str]) -> frozenset[str]:
        """Names that two workers gave different values: one died, and another ran the same once more."""
        if len(units) <= len(self._task.plan.stretches):
            return frozenset()
        return frozenset(publish.choose(units, virtual, self._recorded, self._manifest_of).differing)

    # -- what made it differ ------------------------------------------------------------------------------------------------

    def _diagnosed(self, pieces: Sequence[Piece], virtual: Sequence[str], evidence: Evidence, show: Show | None) -> Evidence:
        """Run the stretch that differs once more, without the statements: whether it is they that change the run."""
        first = next((one for one in pieces if not verdicts.judge(self._compare([one.unit], virtual), evidence).faithful), None)
        if first is None or not self._task.probes or not (first.seen.iterations or first.seen.done == INSIDE):
            return evidence
        ident = replays.new_id()
        scratch = sandbox_scratch.make(self._store, ident)
        try:
            bare = replace(
                self._task, version=self._task.recorded_version, probes=(), plan=_only(self._task.plan, first.stretch),
                program=replace(self._task.program, wishes={**self._task.program.wishes, "version": self._task.recorded_version}),
            )  # fmt: skip
            conducted = conductor.conduct(bare, scratch, ident, show)
            self._diagnosing_s += conducted.seconds
            units = [piece.unit for piece in conducted.pieces if piece.complete]
            if not units:
                return evidence
            found = self._compare(units, ())
        finally:
            sandbox_scratch.remove(scratch)
        return replace(evidence, without_probe=found, again=None if found.identical else found)

    # -- keeping it ---------------------------------------------------------------------------------------------------------

    def _publish(
        self, conducted: Conducted, units: Sequence[Unit], virtual: Sequence[str], found: Comparison, judgement: Judgement
    ) -> tuple[Replay | None, int | None]:
        """The replay, and how many values it has, where those of iterations that were not finished are left out."""
        question, task = self._prepared.question, self._task
        covers = replays.merged(conducted.covers)
        if not covers:
            return None, 0 if conducted.interrupted else None
        asked, text, digests = (question.digest, question.text, question.digests) if question is not None else ("", "", {})
        predicted = task.plan.seconds.expected if not conducted.interrupted and not conducted.lost else None
        replay = Replay(
            id=self._ident, run=task.run, created=publish.now(), names=tuple(virtual), verdict=judgement.verdict, covers=covers,
            probe_digest=asked, probes=task.probes, version=task.version, why=(*judgement.why, *_whose(question)),
            compared={"records": found.records, "states": found.states}, verdicts=judgement.verdicts, volatile=tuple(judgement.volatile),
            first_difference=judgement.first_difference.as_json() if judgement.first_difference is not None else None,
            rung=task.plan.rung, scan="+".join(scan.name for scan in task.plan.scans), seconds=conducted.seconds,
            statement=text,
            more={DIGESTS: digests, PREDICTED: predicted, MEASURED: self._measured(conducted), PLACED: _placed(question)},
        )  # fmt: skip
        finished = self._finished(covers) if conducted.interrupted else None
        chosen = publish.publish(self._store, replay, units if question is not None else [], self._recorded, finished)
        self._remove_divergent(replay)
        self._forget_other_questions(replay)
        return replay, sum(map(len, chosen.records.values())) if finished is not None else None

    def _finished(self, covers: replays.Covers) -> Callable[[Logged], bool]:
        """Whether a record is in an iteration that was run to its end, or outside of all of them."""
        mains = {place: number for number, place in self._mains.items()}
        done = {(block, k) for block, first, last in pieces.ranges_of(covers) for k in range(first, last + 1)}

        def finished(record: Logged) -> bool:
            home = next(((mains[one.place], at) for one, at in record.block.around(record.iteration) if one.place in mains), None)
            return home is None or home in done

        return finished

    def _remove_divergent(self, replay: Replay) -> None:
        """What answered less well before, on a lower rung."""
        for one in replays.list_of(self._store, replay.run):
            if self._prepared.question is None:
                if not one.names and one.id != replay.id:  # the run was proved before
                    replays.remove(self._store, replay.run, one.id)
                continue
            if one.id == replay.id or one.probe_digest != replay.probe_digest:
                continue
            covered = replays.merged([*one.covers, *replay.covers]) == replay.covers
            if covered or (one.verdict == "divergent" and replay.verdict != "divergent"):
                replays.remove(self._store, replay.run, one.id)

    def _forget_other_questions(self, replay: Replay) -> None:
        """What another statement, or the same at another place, gave under these names: in the table it would stand beside these values."""
        question = self._prepared.question
        if question is None or replay.verdict == "divergent":
            return
        for name, digest in question.digests.items():
            before = [one for one in replays.list_of(self._store, replay.run) if one.id != replay.id and name in one.names]
            stale = {one.id for one in before if (one.more.get(DIGESTS) or {}).get(name) != digest}
            publish.forget(self._store, replay.run, name, stale)

    def _measured(self, conducted: Conducted) -> list[list[Any]]:
        """What the pieces of the work took, for the next prediction."""
        history = self._prepared.history
        sizes = {one.name: one.size_bytes for one in history.boundaries}
        rows: list[list[Any]] = []
        for piece in conducted.pieces:
            if piece.complete and piece.stretch.in_whole_iterations:  # of parts it is not known what they took
                rows += _of_piece(piece, history)
            rows += [[kind, sizes.get(name, 0), round(seconds, 6)] for kind, name, seconds in piece.seen.measured]
        return rows[:_MOST_MEASURED]


def _of_piece(piece: Piece, history: History) -> list[list[Any]]:
    """How fast the program ran, and what being a worker took besides."""
    put_back = sum(kind == "put_back" for kind, _, _ in piece.seen.measured)
    timed = [history.blocks[block].total_s[k : k + 1] for block, k in piece.seen.seconds if block < len(history.blocks)]
    recorded = sum(map(sum, timed))  # nothing, where checkpoints were off
    ran = sum(piece.seen.seconds.values())
    besides = sum(seconds for kind, _, seconds in piece.seen.measured if kind != "put_back")
    whole = put_back == 0 and recorded > 1.0
    pace = ran / recorded if whole else 1.0
    after = history.suffix_s if piece.stretch.to_end else 0.0
    last = piece.stretch.last or (piece.stretch.start.place if piece.stretch.start is not None else (0, 0))
    gaps = sum(block.gap_s for block in history.blocks[1 : last[0] + 1])
    outside = history.start_s + history.prefix_s + gaps + after
    worker = max(0.0, piece.seconds - ran - besides - outside)
    return [["worker", 0, round(worker, 6)], *([["pace", 0, round(pace, 6)]] if whole else [])]


def _placed(question: Question | None) -> list[dict[str, Any]]:
    """Where the statements went in a version that is not today's."""
    return [asdict(site) for site in question.placed] if question is not None else []


def _whose(question: Question | None) -> list[str]:
    """Whose code computed a value, where that is not the code of the version that ran."""
    helpers = dict.fromkeys(one for site in (question.placed if question is not None else ()) for one in site.helpers)
    return [f"computed by today's {', '.join(helpers)}: the version that ran has none"] if helpers else []


def _only(plan: Plan, stretch: Stretch) -> Plan:
    return replace(plan, stretches=(stretch,), workers=1, seconds=stretch.seconds)


def _has_journal(piece: Piece) -> bool:
    return publish.scratch_store(piece.unit).run(piece.unit.run).is_dir()


def _names_in(unit: Unit) -> list[str]:
    """Every name that a worker logged."""
    journals = logged.Journals(publish.scratch_store(unit).run(unit.run), scratch=True)
    found = dict.fromkeys(event.name for event in journals.events() if type(event) is logged.Logged and not event.flags & frames.IS_ARG)
    return list(found)


def following(answer: Answer) -> Prepared | None:
    """What may be tried after an answer that failed its proof, as a rule the next rung of the ladder; None if nothing would help."""
    prepared = answer.prepared
    if answer.interrupted:
        return None
    if answer.counts_along:
        return prepared.climb(scans.START)
    if answer.not_there:
        other = prepared.with_histories() if answer.lacks_history else prepared
        return other if other.plan != prepared.plan else prepared.climb(scans.START)
    if answer.judgement.verdict != "divergent" or answer.failed or answer.statement_changes_run:
        return None
    return prepared.next_rung()
