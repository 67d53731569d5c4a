"""Where the statements of a question run, and what they read: from the program's text to what a plan must cover. Pure.

A statement whose depth cannot be told may run anywhere; one that reads what a stored state does not hold is not answered from it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from rearview.instrument import feeds, foreign, needs, settings
from rearview.instrument.added import Place
from rearview.instrument.calls import first_line, last_line, tree_of
from rearview.instrument.depth import Depth
from rearview.instrument.program import Program
from rearview.instrument.reads import Reads, reads
from rearview.instrument.relevant import relevant
from rearview.plan.scans import Need
from rearview.plan.timeline import History
from rearview.replay.proof.verdicts import ANYTHING
from rearview.replay.question import narrowing
from rearview.replay.question.query import Question

BEYOND = frozenset(
    "os sys subprocess logging decimal builtins warnings signal resource gc threading open globals locals vars environ getenv getcwd "
    "cache_info grad_fn is_leaf _version get_gradient_edge make_dot getcontext getrecursionlimit getEffectiveLevel".split()
)
"""What belongs to the process or the machine, not to the variables of the program: a statement that names it is answered by a run."""
BEYOND_CALLS = frozenset(
    "cache_info getEffectiveLevel isEnabledFor grad_fn is_leaf _version get_gradient_edge make_dot getsignal getrusage".split()
)
"""The same in functions that a statement calls. Folder, environment and settings are put back with a state (`state/process`)."""
_SAYS_BEYOND = re.compile(rf"\b({'|'.join(sorted(BEYOND_CALLS))})\b")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Found:
    """What the text says."""

    need: Need
    notes: tuple[str, ...] = ()
    """Why everything is run, a sentence each."""
    from_start: bool = False
    """Only a run from the program's start, in one piece, gives the values."""
    reads: dict[str, frozenset[str]] = field(default_factory=dict)
    """Name -> the variables that its statements read; with a dot before, the words in them: attributes, perhaps; `*`: anything."""
    along: frozenset[str] = frozenset()
    """What they make before the main loop and read behind it: right as long as it stays as it was made."""


def of(question: Question) -> Found:
    """Where a question's statements run."""
    places = [(group.file, group.place[0], group.place[2]) for group in question.statements.added.groups]
    files = relevant(question.statements.program(), [*places, *((log.file, log.line, log.line) for log in question.logs)])
    entry = question.run.filename if question.run.filename in files else None
    program = Program(files)
    found = needs.needs(files, replace(question.statements.added, logs=question.logs), entry, program)
    notes = []
    every = _reads(question, files, program)
    written = frozenset(word for log in question.logs for word in _words(log.text))
    read = frozenset().union(written, *(one.names | one.attributes for _, one in every))
    beyond = sorted(BEYOND & read)
    if beyond and not found.from_start:
        found = replace(found, from_start=True, why=f"a statement reads what no stored state holds ({', '.join(beyond)})")
    outside = _outside(question, files, entry, every) if not found.from_start else ""
    if outside:
        found = replace(found, from_start=True, why=outside)
    if found.from_start:
        notes.append(f"{found.why}: everything is run from the start")
    elif found.depth.whole:
        notes.append(f"{found.depth.why or 'where a statement runs cannot be told'}: everything is run")
    by_name: dict[str, frozenset[str]] = {}
    for name, one in every:  # a name may be logged in several places
        told = one.names | {word for _, word in one.elsewhere} | {"." + word for word in one.words} | ({ANYTHING} if one.unknown else set())
        by_name[name or ""] = by_name.get(name or "", frozenset()) | told
    need = replace(need_of(found.depth), unparted=found.unparted)
    return Found(need, tuple(notes), found.from_start, by_name, found.along)


def _outside(question: Question, files: dict[str, str], entry: str | None, every: list[tuple[str | None, Reads]]) -> str:
    """Why a statement, or what it calls, may read what the program changes outside of its own variables; nothing if it does not."""
    words = frozenset().union(*(one.words for _, one in every))
    groups = [(group.file, group.place) for group in question.statements.added.groups]
    stores, calls = list(foreign.stores(files, entry, groups)), list(settings.settings(files, entry, groups))
    if stores or calls or any(_says_beyond(text) for text in question.statements.program().values()):
        words |= _fed(question)
    beyond = sorted(BEYOND_CALLS & words)
    if beyond:
        return f"what a statement calls, or gets its value from, reads what no stored state holds ({', '.join(beyond)})"
    for store in stores:
        if not store.attribute or store.words & words or feeds.EVERYTHING in words:
            what = f"{store.owner or 'an object'}{'.' if store.attribute else ''}{store.attribute}"
            return f"line {store.line} of {store.file} sets {what}, which no stored state holds and a statement may read"
    for one in calls:
        if one.sets or one.function in words or feeds.EVERYTHING in words:
            return f"line {one.line} of {one.file} calls {one.text}, which may set what no stored state holds and a statement may read"
    return ""


def _says_beyond(text: str) -> bool:
    """Whether a file mentions what belongs to the process. Plain search first: it is much quicker, and seldom finds one."""
    return any(word in text for word in BEYOND_CALLS) and _SAYS_BEYOND.search(text) is not None


def _words(text: str) -> list[str]:
    """The names and attributes that stand in a statement."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return _WORD.findall(text)
    nodes = list(ast.walk(tree))
    return [node.id for node in nodes if isinstance(node, ast.Name)] + [node.attr for node in nodes if isinstance(node, ast.Attribute)]


def need_of(found: Depth) -> Need:
    """What a plan must cover for a statement that runs there."""
    return Need(found.prefix, found.before, found.after, found.nested, found.suffix, found.whole)


def _reads(question: Question, files: dict[str, str], program: Program) -> list[tuple[str | None, Reads]]:
    """What each log reads, with what was added for it: not what the logs beside it read."""
    logs, groups = question.statements.added.logs, question.statements.added.groups
    found = []
    for log in question.logs:
        others = frozenset(one.line for one in logs if one.file == log.file and one.line != log.line)
        mine = _own(files.get(log.file, ""), groups[log.group].place, others) if log.group < len(groups) else []
        found.append((log.name, _together(reads(files, log.file, lines, program) for lines in mine or [(log.line, log.line)])))
    return found


def _own(text: str, place: Place, others: Collection[int]) -> list[tuple[int, int]]:
    """The lines of the statements of a group, without those that only log something else."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return [(place[0], place[2])]
    inside = narrowing.outermost(tree, place)
    return [(first_line(one), last_line(one)) for one in inside if not (isinstance(one, ast.Expr) and one.lineno in others)]


def _together(every: Iterable[Reads]) -> Reads:
    found = list(every)
    return Reads(
        frozenset().union(*(one.names for one in found)), frozenset().union(*(one.attributes for one in found)),
        frozenset().union(*(one.elsewhere for one in found)), any(one.unknown for one in found),
        frozenset().union(*(one.words for one in found)),
    )  # fmt: skip


def _fed(question: Question) -> frozenset[str]:
    """The words in what the statements may get their values from. Looks at the whole program, and so only where it matters."""
    program = Program(question.statements.program())
    return frozenset().union(*(feeds.feeds(program, log.file, (log.line, log.line)) for log in question.logs))


def _last(where: str) -> str:
    """What it is called where it lies: `handle` of `model.data.handle`."""
    return next(reversed([one.group() for one in _WORD.finditer(where)]), "")


def lacking(found: Found, history: History, question: Question | None = None) -> tuple[frozenset[str], list[str]]:
    """The stored states that lack something which a statement reads, or may get its value from, and a sentence about it."""
    read = frozenset(word for words in found.reads.values() for word in words)
    fed = _fed(question) if question is not None and any(one.lacks for one in history.boundaries) else frozenset()
    names: set[str] = set()
    what: dict[str, None] = {}
    for one in history.boundaries:
        lacks = [where for where in one.lacks if ANYTHING in read | fed or read.intersection(_WORD.findall(where)) or _last(where) in fed]
        if lacks:
            names.add(one.name)
            what.update(dict.fromkeys(lacks))
    if not what:
        return frozenset(), []
    some = ", ".join(list(what)[:5]) + (" and others" if len(what) > 5 else "")
    return frozenset(names), [f"the stored states do not hold {some}, which a statement reads: they are not used, what makes it is run"]
