"""What going on with a run will do, as a person reads it before it starts, and as JSON. Pure: values in, lines out."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from rearview.cli.shown import output, screen, tables, text
from rearview.record.resume import aside
from rearview.record.resume.resuming import Prospect
from rearview.replay.running.again import Command

_SHOWN_FILES = 12


@dataclass(slots=True)
class Outlook:
    """Everything that is said before a run is gone on with."""

    prospect: Prospect
    ended: str
    """`killed SIGKILL`."""
    attempt: int
    """The one that begins; 0: a new run."""
    command: Command
    interpreter: str
    cwd: str
    aside: str
    edited: list[str] = field(default_factory=list)
    """Python files that are not on disk as they were: the recorded ones run, or with --current-code those on disk."""
    inputs: list[str] = field(default_factory=list)
    """Other files of the version, and files the run read, that are not as they were, and are used as they are."""
    gone: list[str] = field(default_factory=list)
    """Those of them that are not there any more."""
    environment: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    hash_seed: str = ""
    """A sentence, where an unknown one may matter."""
    place: str = ""
    """Where it begins, in words; nothing: at its beginning."""


def page(found: Outlook, view: screen.Screen, now: dt.datetime) -> list[str]:
    """What a person reads before saying yes."""
    prospect, point = found.prospect, found.prospect.point
    run = prospect.past.run
    facts: list[tuple[str, tables.Cell]] = [
        ("run", f"{run} ({found.ended}{_ago(prospect.past.heard_wall, now)})"),
        ("program", _program(found)),
        ("begins", tables.Styled(_begins(found), "head")),
        ("restores", f"{text.size(point.size_bytes)}, taken {text.when(_moment(point.wall), now)}" if point else ""),
        ("repeats", _repeats(prospect)),
        ("code", _code(found)),
        ("variables", _variables(found)),
    ]
    lines = tables.facts([(name, cell) for name, cell in facts if cell], view)
    lines += _list("passed over", prospect.passed_over, view)
    lines += _list("not in the checkpoint: it may not go on just as it was", point.lacks if point else [], view)
    lines += _list("comes back otherwise than it was", point.unlike if point else [], view)
    lines += _list("changed since, and read as they are now", found.inputs, view)
    lines += _list("gone since: the run had them", found.gone, view)
    lines += _list("not as it was: the numbers may differ", found.environment, view)
    lines += _list("set for it", found.variables, view)
    lines += [view.paint(piece, "dim") for piece in tables.wrap(found.hash_seed, view.width)] if found.hash_seed else []
    return lines + _files(found, view)


def _program(found: Outlook) -> str:
    command = found.command
    words = [*(["-m"] if command.is_module else []), command.target, *command.arguments]
    return f"{shlex.join(words)} in {found.cwd}"


def _begins(found: Outlook) -> str:
    where = found.place or f"at its beginning, for {found.prospect.why_anew}"
    return f"{where}, as attempt {found.attempt}" if found.attempt else f"{where}, as a new run with this one as its parent"


def _repeats(prospect: Prospect) -> str:
    if prospect.lost_s is None:
        return "everything" if prospect.point is None else ""
    return f"{text.duration(prospect.lost_s)} of work done after it"


def _code(found: Outlook) -> str:
    version = (found.prospect.past.version or "")[:8]
    if found.attempt == 0:
        return f"as it is now, not the recorded {version}" + (
            f": {_few(found.edited)} differ{'s' * (len(found.edited) == 1)}" if found.edited else ""
        )
    return f"the recorded version {version}" + (f"; {_few(found.edited)} edited since, not used" if found.edited else "")


def _variables(found: Outlook) -> str:
    """What surprises whoever edited a number in front of the loop."""
    return (
        ""
        if found.attempt or not found.edited
        else "come back as they were, whatever edited code before the loop sets; inside it, edits count"
    )


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(text.escape(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _list(title: str, sentences: Sequence[str], view: screen.Screen) -> list[str]:
    if not sentences:
        return []
    lines = [piece for one in sentences for piece in tables.wrap(text.escape(one), view.width - 2)]
    return [view.paint(title, "odd"), *(f"  {line}" for line in lines)]


def _files(found: Outlook, view: screen.Screen) -> list[str]:
    """Every file that is changed, or that the code before the loop would change; those that stay as they are, in one line."""
    apart = [plan.path for plan in found.prospect.files if plan.what == aside.APART]
    plans = [plan for plan in found.prospect.files if plan.what != aside.APART]
    if not plans:
        return _apart(apart, view)
    size = text.size(aside.bytes_to_copy(plans))
    left = {one.plan.path for one in found.prospect.left}
    told = [f"{path} is put back first: an attempt that did not come to its place had changed it" for path in sorted(left)]
    changed = {plan.path: _fate(plan) for plan in plans if plan.what != aside.SAME or plan.is_emptied()}
    told += [f"{path} {fate}" for path, fate in changed.items()]
    same = len({plan.path for plan in plans} - changed.keys() - left)
    rest = [f"... and {len(told) - _SHOWN_FILES} more (--dry-run --json lists all)"] if len(told) > _SHOWN_FILES else []
    if same:
        rest.append(f"{text.count(same, 'file')} stay{'s' * (same == 1)} as {'it is' if same == 1 else 'they are'}")
    title = f"output files: {text.count(len(plans), 'file')} of the run, copied to {found.aside} first ({size})"
    return _list(title, [*told[:_SHOWN_FILES], *rest], view) + _apart(apart, view)


def _apart(paths: Sequence[str], view: screen.Screen) -> list[str]:
    """Files that are left alone, because nothing is known of how they were."""
    title = "stay as they are now: among temporary files, or hidden in the home folder, and not open at the checkpoint"
    rest = [f"... and {len(paths) - _SHOWN_FILES} more (--dry-run --json lists all)"] if len(paths) > _SHOWN_FILES else []
    return _list(title, [*paths[:_SHOWN_FILES], *rest], view)


def _fate(plan: aside.Plan) -> str:
    emptied = "deletes" if plan.deleted_before_loop else "empties"
    also = f"; the code before the loop {emptied} it, and that is undone" if plan.is_emptied() and plan.what != aside.BEGUN else ""
    return aside.in_words(plan) + also


def _moment(wall: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(wall, dt.UTC)


def _ago(wall: float | None, now: dt.datetime) -> str:
    return f", last heard of {text.duration((now - _moment(wall)).total_seconds())} ago" if wall is not None else ""


def as_json(found: Outlook) -> dict[str, output.Json]:
    """The same for other programs."""
    prospect, point = found.prospect, found.prospect.point
    return {
        "run": prospect.past.run,
        "status": prospect.past.status,
        "attempt": found.attempt or None,
        "new_run": found.attempt == 0,
        "checkpoint": output.facts(point.checkpoint()) if point else None,
        "place": found.place or None,
        "path": output.facts(point.first.path) if point else None,
        "lacks": output.facts(point.lacks) if point else [],
        "unlike": output.facts(point.unlike) if point else [],
        "restore_bytes": point.size_bytes if point else 0,
        "lost_s": prospect.lost_s,
        "passed_over": output.facts(prospect.passed_over),
        "command": output.facts([found.interpreter, *found.command.flags, *_words(found.command)]),
        "cwd": found.cwd,
        "version": prospect.past.version,
        "edited": output.facts(found.edited),
        "changed": output.facts(found.inputs),
        "gone": output.facts(found.gone),
        "environment": output.facts([*found.environment, *([found.hash_seed] if found.hash_seed else [])]),
        "variables": output.facts(found.variables),
        "aside": found.aside,
        "files": [_file(plan) for plan in prospect.files],
    }


def _words(command: Command) -> list[str]:
    return [*(["-m"] if command.is_module else []), command.target, *command.arguments]


def _file(plan: aside.Plan) -> output.Json:
    return {"path": plan.path, "what": plan.what, "length": plan.length, "size": plan.size, "emptied": plan.is_emptied()}
