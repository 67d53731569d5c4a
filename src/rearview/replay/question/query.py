"""A question in hindsight: which statements, which runs, what of them is answered already. Looks and executes nothing.

A run is asked if the source as it is now is its own source with statements added; a run of another version, if the statements have a
place in its source. The others are listed with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview import config
from rearview.errors import NotFound, UsageError
from rearview.instrument.added import Changed, Log
from rearview.instrument.modules import reachable
from rearview.model import RunId, VersionId
from rearview.propagate.place import Refused
from rearview.propagate.project import Site
from rearview.replay.question import cells, notebooks
from rearview.replay.question.elsewhere import Elsewhere, Unasked
from rearview.replay.question.placing import wanted
from rearview.replay.question.sources import At, Notebook, Now, Statements
from rearview.store import probes
from rearview.store.probes import Probe

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.runs import RunInfo

_FILES = ("script", "module")
"""Kinds of runs whose program began with a file."""
_NOTHING_ADDED = "no log statement was added to its source since it ran"
DIGESTS = "digests"
"""In a published replay: name -> digest of the statements that log it, so that the same question is recognised name by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What somebody asks."""

    names: tuple[str, ...] = ()
    """None: every name that is virtual."""
    run: str | None = None
    where: str | None = None
    only: str | None = None
    at: At | None = None
    from_start: bool = False
    workers: int | None = None
    isolate: bool = False
    device: str | None = None
    """`cpu`: a run of a GPU is replayed without one."""
    unsure: bool = False
    """Take statements also where their place in another version is not certain."""
    probe: Probe | None = None
    """Not what stands in the source now, but a question that was asked before."""
    place: tuple[tuple[str, str, int], ...] = ()
    """Version (the beginning of its id), file and line behind whose statement the statements go there: somebody says so."""
    skip: tuple[str, ...] = ()
    """Versions that are not asked, by the beginnings of their ids."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one run."""

    run: RunInfo
    statements: Statements
    logs: tuple[Log, ...]
    """Of the statements that were added, those that are asked for."""
    placed: tuple[Site, ...] = ()
    """Where they went, in a version that is not today's."""

    @property
    def certain(self) -> bool:
        """Whether the statements surely stand where they are meant to."""
        return all(site.certain for site in self.placed)

    @property
    def names(self) -> tuple[str, ...]:
        """Those that stand in the text; a computed one is known when it is logged."""
        return tuple(dict.fromkeys(log.name for log in self.logs if log.name is not None))

    @property
    def computed(self) -> bool:
        return any(log.name is None for log in self.logs)

    @property
    def digests(self) -> dict[str, str]:
        return {name: self.statements.digest(name) for name in self.names} | ({"": self.statements.digest(None)} if self.computed else {})

    @property
    def digest(self) -> str:
        """Of the whole question."""
        return question_digest(self.digests)

    @property
    def text(self) -> str:
        """The statements, as they are shown."""
        return "; ".join(dict.fromkeys(log.text for log in self.logs))


def question_digest(digests: dict[str, str]) -> str:
    """One digest over those of the names."""
    return hashlib.blake2b("\0".join(f"{name}\0{digest}" for name, digest in sorted(digests.items())).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Other:
    """A run that is not asked, and why."""

    run: RunId
    why: str
    version: str | None = None
    """If it is its version that cannot take the statement."""


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A run of another version."""

    run: RunInfo
    changed: Changed
    partly: Question | None = None
    """What can be asked of it as it is: of a notebook, what was added to cells that are otherwise as they were."""


@dataclass(slots=True)
class Found:
    """What a question comes to, before anything is planned."""

    questions: list[Question] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names that no statement logs."""
    now: Now | None = None


def find(catalog: Catalog, project: Path, ask: Ask, settings: config.Settings) -> Found:
    """The runs that are asked, newest first, and the others."""
    now = Now(catalog.store, project, settings, ask.at, brief=bool(ask.names) and ask.run is None)
    if ask.probe is not None:
        now.source = VersionId(ask.probe.source)
    now.check_at()
    now.corrected = remembered(now, ask)
    chosen = [catalog.run(ask.run)] if ask.run is not None else catalog.runs(where=ask.where)
    if ask.run is not None and ask.where is not None:
        matched = {one.run for one in catalog.runs(where=ask.where)}
        chosen = [one for one in chosen if one.run in matched]
    if not chosen:
        what = f" {ask.where}: {_values(catalog, ask.where)}" if ask.where else ": `rearview runs` lists them"
        raise NotFound("no run matched" + what)
    names = tuple(dict.fromkeys((*ask.names, *([ask.at.name] if ask.at is not None else ()))))
    scripts = {one.filename for one in (chosen if ask.where is None else catalog.runs())} if ask.run is None else set()
    found = Found(now=now)
    elsewhere: list[_Elsewhere] = []
    _refuse_unknown((*ask.skip, *(version for version, _, _ in ask.place)), chosen)
    said = _correct(now, ask.place, chosen)
    _refuse_other_cells(now, chosen)
    for run in chosen:
        if ask.skip and str(run.version).startswith(ask.skip):
            found.others.append(Other(run.run, f"version {str(run.version)[:8]} is skipped"))
            continue
        try:
            one = _question(now, run, names)
        except UsageError as problem:
            if len(chosen) == 1:
                raise
            one = Other(run.run, str(problem))
        if isinstance(one, _Elsewhere):
            _refuse_unreadable(one.changed)
            elsewhere.append(one)
        else:
            _refuse_misplaced(said, one)
            _sort(found, one, scripts)
    virtual = names or tuple(dict.fromkeys(name for one in found.questions for name in one.names))
    placing = Elsewhere(now)
    for other in elsewhere:
        one = _placed(placing, other, virtual)
        _refuse_misplaced(said, one)
        if isinstance(one, Other) and other.partly is not None:
            one = _without(one, other.partly, virtual)
            _sort(found, other.partly, scripts)
        _sort(found, one, scripts)
    order = {run.run: at for at, run in enumerate(chosen)}
    found.questions.sort(key=lambda one: order[one.run.run])
    asked = {name for one in found.questions for name in one.names}
    computed = any(one.computed for one in found.questions)
    found.unknown = [name for name in names if name not in asked and not computed]
    if ask.probe is None:
        _refuse_if_nothing(found, names)
    return found


def _refuse_unreadable(changed: Changed) -> None:
    """What was added cannot be told from a file that is no Python: no run can be asked before it is corrected."""
    if changed.unreadable:
        said = changed.why.partition(": ")[2]
        raise UsageError(f"{changed.file}, line {changed.line}, cannot be read as Python: {said}; correct it and ask again")


def _values(catalog: Catalog, clause: str) -> str:
    """What the names of a clause are in the runs that there are."""
    from rearview.catalog.asking.there import values_there

    runs = catalog.runs()
    said = values_there(catalog.sql, clause, runs)
    return f"{'; '.join(said)} (in the {len(runs)} runs there are)" if said else "`rearview runs` lists them"


def remembered(now: Now, ask: Ask) -> dict[str, list[Any]]:
    """What somebody said before about the same statements: version -> file and line. What was said of one says nothing of another."""
    if ask.probe is not None:
        return dict(ask.probe.corrected)
    names = {*ask.names, *([ask.at.name] if ask.at is not None else [])}
    told = [probe for probe in probes.every(now.store) if probe.corrected and names and names <= set(probe.names)]
    asked = {one.text for one in wanted(now.texts(), names)} if told else set()
    return {version: place for probe in told if asked <= set(probe.statements) for version, place in probe.corrected.items()}


def _correct(now: Now, said: Sequence[tuple[str, str, int]], runs: Sequence[RunInfo]) -> dict[str, str]:
    """Take note of where somebody says that the statements go; by version, in their own words."""
    found = {}
    for prefix, file, line in said:
        version = next(str(run.version) for run in runs if str(run.version).startswith(prefix))
        now.corrected[version] = [file, line]
        found[version] = f"--place {prefix} {file}:{line}"
    return found


def _refuse_misplaced(said: dict[str, str], one: Question | Other) -> None:
    """What somebody says about a place must be right: it is remembered."""
    if isinstance(one, Other) and one.version in said:
        raise UsageError(f"{said[one.version]}: {one.why}")
    if isinstance(one, Question) and not one.placed and str(one.run.version) in said:
        place = said[str(one.run.version)]
        raise UsageError(f"{place}: that version is the source as it is now: put the statement there where it belongs")


def _refuse_unknown(prefixes: Sequence[str], runs: Sequence[RunInfo]) -> None:
    """Refuse what is not the beginning of one version."""
    for prefix in prefixes:
        versions = {str(run.version) for run in runs if str(run.version).startswith(prefix)} if prefix.startswith("v") else set()
        if not versions:
            raise UsageError(f"no run of what was asked is of a version {prefix}: `rearview versions` lists them")
        if len(versions) > 1:
            raise UsageError(f"{prefix} is the beginning of {len(versions)} versions: give more digits")


def _refuse_other_cells(now: Now, runs: Sequence[RunInfo]) -> None:
    """A cell that somebody gives by its number must be the same in all runs: nothing tells which is meant."""
    number = cells.number_of(now.at.file) if now.at is not None else None
    if number is None:
        return
    known = [(run.run, VersionId(run.version)) for run in runs if run.how in notebooks.KINDS and run.version is not None]
    texts = {notebooks.executed(now.store, run, version).get(number) for run, version in known} - {None}
    if len(texts) > 1:
        raise UsageError(f"cell [{number}] is another one in some of the {len(known)} runs: say with --run which is meant")


def _sort(found: Found, one: Question | Other, scripts: set[str]) -> None:
    """Put a run where it belongs."""
    other = _other_script(one, scripts) if isinstance(one, Question) else one
    if isinstance(other, Other):
        found.others.append(other)
    elif isinstance(one, Question):
        found.questions.append(one)


def _without(one: Other, partly: Question, names: Sequence[str]) -> Other:
    """Why a run that is asked in part is not asked for the rest."""
    left = [name for name in names if name not in partly.names and name not in partly.run.last]
    return replace(one, why=f"only in part, without {', '.join(left)}: {one.why}")


def _placed(elsewhere: Elsewhere, one: _Elsewhere, names: tuple[str, ...]) -> Question | Other:
    """A run of another version, with the statements in its own source."""
    run, version = one.run, VersionId(str(one.run.version))
    if not names:
        return Other(run.run, f"it ran another version of the source ({one.changed}): name what is to be asked of it")
    own = [name for name in names if name in run.last]
    lacking = tuple(name for name in names if name not in own)
    if not lacking:
        return Other(run.run, f"it logged {', '.join(own)} itself")
    placed = elsewhere.placed_in(one.changed, version, lacking, run.filename if run.how in _FILES else None, notebook_of(run))
    if isinstance(placed, Refused | Unasked):
        return Other(run.run, placed.why, version if isinstance(placed, Refused) else None)
    statements, sites = placed
    logs = tuple(log for log in statements.added.logs if log.name in lacking or log.name is None)
    if not logs:
        return Other(run.run, "the statement is there already, and was never come to")
    return Question(run, *statements.only(logs), sites)


def _other_script(question: Question, scripts: set[str]) -> Other | None:
    """A run of one script is not asked for statements that were added to another one, which it does not import."""
    entry, files = question.run.filename, {log.file for log in question.logs}
    if entry in files or not files <= scripts or files & reachable(question.statements.program(), entry):
        return None
    return Other(question.run.run, f"what was added is in {', '.join(sorted(files))}, another script: `--run` asks it all the same")


def _refuse_if_nothing(found: Found, names: Sequence[str]) -> None:
    if found.questions:
        return
    hint = ": add the one you wish you had, or use --at" if all(one.why == _NOTHING_ADDED for one in found.others) else ""
    if len(found.others) == 1:
        raise NotFound(f"run {found.others[0].run} cannot answer: {found.others[0].why}{hint}")
    reasons = dict.fromkeys(one.why for one in found.others)
    what = f"no run can answer {', '.join(names)}" if names else "no run can answer"
    raise NotFound(f"{what}: {'; '.join(list(reasons)[:3])}{' ...' if len(reasons) > 3 else hint}")


def _question(now: Now, run: RunInfo, names: Sequence[str]) -> Question | Other | _Elsewhere:
    if run.status == "running":
        if run.how in notebooks.KINDS:
            return Other(run.run, "it is still open in its kernel: ask there with rv.replay, which ends it, or begin another with rv.run()")
        return Other(run.run, "it is still running: wait for its end")
    if run.version is None:
        return Other(run.run, "its source was not recorded")
    executed = notebook_of(run)
    statements = now.against(VersionId(run.version), executed, run.filename if run.how in _FILES else None)
    if isinstance(statements, Changed):
        return _Elsewhere(run, statements)
    logs = _asked(statements, run, names)
    if executed is not None and not logs and now.at is not None and cells.number_of(now.at.file) is not None:
        return Other(run.run, f"it executed no cell {now.at.file}: `rearview code {run.run}` shows those it did")
    question = Question(run, *statements.only(logs)) if logs else None
    if executed is not None and not {name for name in names if name not in run.last} <= {log.name for log in logs}:
        return _Elsewhere(run, Changed("what was added to its cells logs something else", 1), question)
    return question if question is not None else Other(run.run, _why_nothing(statements, run, names))


def _why_nothing(statements: Statements, run: RunInfo, names: Sequence[str]) -> str:
    """Why nothing that was added to its source is asked of a run."""
    if names and all(name in run.last for name in names):
        return f"it logged {', '.join(names)} itself"
    if not statements.added.logs and run.how in notebooks.KINDS:
        return "no log statement was added to its cells: add the one you wish you had, and save the notebook"
    if not statements.added.logs:
        return _NOTHING_ADDED
    return f"no added statement logs {', '.join(names)}" if names else "it recorded every name that the added statements log"


def notebook_of(run: RunInfo) -> Notebook | None:
    """The cells that a run executed, if it did."""
    return Notebook(run.run, run.filename) if run.how in notebooks.KINDS else None


def _asked(statements: Statements, run: RunInfo, names: Sequence[str]) -> tuple[Log, ...]:
    logs = statements.added.logs
    if not names:
        return tuple(log for log in logs if log.name is None or log.name not in run.last)
    known = {log.name for log in logs}
    taken = [name for name in names if name in known and name in run.last]
    if taken:
        raise UsageError(
            f"run {run.run} logged {', '.join(taken)} itself, and the added statement would log it again: give the statement another name"
        )
    return tuple(log for log in logs if log.name in names or (log.name is None and not known.issuperset(names)))
