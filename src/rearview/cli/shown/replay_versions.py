"""A question over several versions as a person reads it: where the statement goes in each, how certain that is, what it costs.

Pure: values in, lines out.
"""

from __future__ import annotations

import datetime as dt
import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rearview.cli.shown import output, patch, screen, tables, text
from rearview.instrument.place_at import lines_of
from rearview.model import VersionId
from rearview.propagate.project import Site
from rearview.replay.asking import Prospect
from rearview.replay.preparing import Prepared
from rearview.replay.question.query import Question
from rearview.replay.question.sources import decoded
from rearview.versions.changes import Changes


@dataclass(frozen=True, slots=True)
class Version:
    """The runs of one version that are asked the same."""

    version: str
    runs: list[Prepared]

    @property
    def sites(self) -> tuple[Site, ...]:
        """Where the statements went; none if they stand in the source as it is now."""
        question = self.runs[0].question
        return question.placed if question is not None else ()


def of(prepared: Sequence[Prepared]) -> list[Version]:
    """The versions of some runs, the oldest last as they come."""
    by_version: dict[str, list[Prepared]] = {}
    for one in prepared:
        by_version.setdefault(str(one.run.version), []).append(one)
    return [Version(version, runs) for version, runs in by_version.items()]


def several(prospect: Prospect) -> bool:
    """Whether the plan is better told by version than by run."""
    every = [*prospect.to_run, *prospect.unsure]
    return any(one.question is not None and one.question.placed for one in every)


def table(prospect: Prospect, view: screen.Screen, changed: Mapping[str, Changes]) -> list[str]:
    """One line a version. `changed` tells what it is from the version before it to this one."""
    now = dt.datetime.now(dt.UTC)
    columns = [
        tables.Column("version", least=8, style="place"),
        tables.Column("when", least=8, weight=6),
        tables.Column("runs", align="right", least=4),
        tables.Column("changed", least=9, weight=7),
        tables.Column("where", least=14, wish=30, keep="end"),
        tables.Column("between", least=12, wish=40, weight=5),
        tables.Column("place", least=9),
        tables.Column("taken along", least=10, wish=24, weight=4),
        tables.Column("scan", least=6, wish=10, weight=3),
        tables.Column("predicted", align="right", least=8),
    ]
    rows = [_row(one, now, changed.get(one.version)) for one in of([*prospect.to_run, *prospect.unsure])]
    used = [k for k, column in enumerate(columns) if column.weight == 0 or any(row[k] for row in rows)]
    return tables.draw([columns[k] for k in used], [[row[k] for k in used] for row in rows], view).lines


def pairs(prospect: Prospect) -> list[tuple[VersionId, VersionId]]:
    """Each version with the one before it in time."""
    versions = sorted(of([*prospect.to_run, *prospect.unsure]), key=lambda one: str(_began(one)))
    return [(VersionId(before.version), VersionId(after.version)) for before, after in itertools.pairwise(versions)]


def _began(one: Version) -> dt.datetime | None:
    return min((prepared.run.tstamp for prepared in one.runs if prepared.run.tstamp is not None), default=None)


def _row(one: Version, now: dt.datetime, changed: Changes | None) -> list[tables.Cell]:
    plans = [prepared.plan for prepared in one.runs]
    seconds = sum(plan.seconds.expected for plan in plans)
    sites = one.sites
    where = ", ".join(f"{site.file}:{site.lines[0]}" if site.lines else site.file for site in sites) or "as it is now"
    between = "; ".join(f"{site.before} | {site.after}" for site in sites)
    sure = all(site.certain for site in sites)
    along = ", ".join(dict.fromkeys(what for site in sites for what in site.carried))
    scans = "+".join(dict.fromkeys(scan.name for plan in plans for scan in plan.scans))
    lines = f"{text.count(len(changed.files), 'file')} +{changed.added} -{changed.removed}" if changed is not None else ""
    return [
        one.version[:8], text.when(_began(one), now), str(len(one.runs)), lines, where, between,
        tables.Styled("certain" if sure else "uncertain", "good" if sure else "odd"), along, scans, text.duration(seconds),
    ]  # fmt: skip


def doubts(prospect: Prospect) -> list[str]:
    """Why places are uncertain, a sentence for each version."""
    said = []
    for one in of([*prospect.to_run, *prospect.unsure]):
        for site in one.sites:
            if not site.certain:
                said.append(f"{one.version[:8]}, {site.file}:{site.lines[0] if site.lines else ''}: uncertain: {site.why}")
            if site.renamed:
                names = ", ".join(f"{new} is {old}" for new, old in sorted(site.renamed.items()))
                said.append(f"{one.version[:8]}: {names} there")
            if site.helpers:
                said.append(f"{one.version[:8]}: computed by today's {', '.join(site.helpers)}: this version has none")
    return list(dict.fromkeys(said))


def shown(prospect: Prospect, recorded: dict[str, dict[str, bytes]], view: screen.Screen) -> list[str]:
    """Each placement as a diff. `recorded` has the files of each version as they ran."""
    lines: list[str] = []
    for one in of([*prospect.to_run, *prospect.unsure]):
        question = one.runs[0].question
        if question is not None:
            place = "certain" if question.certain else "uncertain"
            lines += ["", view.paint(f"version {one.version[:12]}, {text.count(len(one.runs), 'run')}, {place}", "head")]
            lines += patch.lines(diff(question, recorded.get(one.version, {})), view, full=True)
    return lines[1:]


def diff(question: Question, recorded: dict[str, bytes]) -> str:
    """What the probed source has that the recorded one has not."""
    out = []
    for path, data in sorted(question.statements.files.items()):
        before, now = (_lines(one) for one in (recorded.get(path, b""), data))
        names = (f"a/{path}" if path in recorded else "/dev/null"), f"b/{path}"
        hunks = list(difflib.unified_diff(before, now, *names, lineterm=""))
        if hunks:
            out.append("\n".join([f"diff a/{path} b/{path}", *hunks]) + "\n")
    return "".join(out)


def _lines(data: bytes) -> list[str]:
    """Lines as Python counts them, without their ends."""
    return [line.rstrip("\r\n") for line in lines_of(decoded(data))]


def question_to_ask(one: Version) -> list[str]:
    """An uncertain place, as a person is asked about it."""
    lines = [f"version {one.version[:8]}, {text.count(len(one.runs), 'run')}:"]
    for site in one.sites:
        if not site.certain:
            lines += [f"  {site.file}:{site.lines[0] if site.lines else ''}, {site.why}", *_neighbours(site, one)]
    return [text.escape(line) for line in lines]


def _neighbours(site: Site, one: Version) -> list[str]:
    question = one.runs[0].question
    statement = question.text if question is not None else ""
    return [f"    {site.before}", f"  + {statement}", f"    {site.after}"]


def as_json(prepared: Prepared) -> list[output.Json]:
    """Where the statements of a plan went."""
    return [output.facts(site) for site in prepared.question.placed] if prepared.question is not None else []
