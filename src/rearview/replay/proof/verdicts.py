"""How far replayed values can be trusted, and what probably made a replay differ. Pure: a comparison and what is known beside it.

A leaf that differs while everything else stays identical is *volatile*: it fails nothing. That is believed only where something proves
it: a state that was found identical after the leaf had differed, or, where none was kept, the name itself and another name that fits.
Counts are not believed to be volatile unless they are called so: a counter that differs is a mistake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rearview.replay.proof.compare import Comparison, Difference, NameFacts
from rearview.state.leaves import ARRAY

CLOSE_LIMIT = 0.1
"""A relative difference beyond this is not close any more, wherever it ran."""
_CLOCK = re.compile(
    r"(^|[_/.\s-])(time|times|sec|secs|seconds|ms|elapsed|duration|wall|walltime|clock|timestamp|eta|speed|throughput|ips|fps|it_s|rate_s|"
    r"per_sec|per_second|samples_s|tokens_s|tps|latency|mem|memory|rss|ram|path|dir|host|hostname|pid)([_/.\s-]|$)",
    re.IGNORECASE,
)
_LEAVES = frozenset(("float", "str", "bytes", "complex", ARRAY))
_COUNTS = frozenset(("int", "bigint", "true", "false", "none"))
"""Kinds of nodes that hold one value."""
ANYTHING = "*"
"""Among what a statement reads: that cannot be told."""
_GENERATOR = re.compile(r"(^|_)(rng|rngs|gen|generator|random|seed)([_\d]|$)", re.IGNORECASE)
_VARIABLES = ("local/", "outer/", "global/", "class/")
_GIVEN = "given/"
_INSIDE = re.compile(r"[.\[]")
_WORDS = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known beside the comparison."""

    inexact: tuple[str, ...] = ()
    """Why this replay cannot be bit-exact: a GPU, another kind of CPU, other library versions. A sentence each."""
    close: bool = False
    """Somebody asked for close."""
    changed_inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """What else is not as it was: threads, hash seed, variables. A sentence each."""
    unseeded: tuple[str, ...] = ()
    """Random streams whose first state is not known."""
    volatile: frozenset[str] = frozenset()
    """Names that are known to be volatile: settings, earlier replays."""
    partial: tuple[str, ...] = ()
    """What the restored states do not hold and the probes read."""
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Virtual name to the variables that its probes read, and to the words in them, with a dot before: what may be an attribute."""
    makes_sets: frozenset[str] = frozenset()
    """Virtual names whose statements make a set and use its order, where that of the recorded process cannot be had again."""
    counted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Virtual name to what its statements only count, or look for something in."""
    clocks: frozenset[str] = frozenset()
    """Virtual names whose statements read the clock, or memory, or what else differs from run to run (`clocks`)."""
    rung: str = ""
    timed: frozenset[str] = frozenset()
    """Variables and recorded names that the program computes from a clock (`clocks`)."""
    restored: bool = False
    """States were put back on the way: what they do not hold may differ because of that."""
    without_probe: Comparison | None = None
    """The same stretch replayed without the probes."""
    again: Comparison | None = None
    """The same replay a second time."""
    values_differ: frozenset[str] = frozenset()
    """Virtual names whose values came out otherwise the second time."""
    isolated: bool = False


@dataclass(slots=True)
class Judgement:
    """The verdict of a replay and of each of its names, with the reasons."""

    verdict: str
    why: list[str] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    """Virtual name to its verdict, where that is another."""
    volatile: list[str] = field(default_factory=list)
    """Names and variables that are volatile, as they are to be remembered."""
    first_difference: Difference | None = None

    @property
    def faithful(self) -> bool:
        """Whether its values may fill the table without being asked for."""
        return self.verdict != "divergent"


def judge(found: Comparison, evidence: Evidence | None = None) -> Judgement:
    """The verdict over a comparison."""
    known = evidence or Evidence()
    if found.changed_along and known.restored:
        names = ", ".join(f"`{name}`" for name in sorted(found.changed_along))
        return Judgement("divergent", [f"added statements change {names} as the program goes on, and no checkpoint has that"])
    volatile = volatile_leaves(found, known)
    serious = [one for one in _differing(found) if one not in volatile]
    if serious and (known.inexact or known.close) and _largest(found, volatile) <= CLOSE_LIMIT:
        made = Judgement("close", [*map(_sentence, known.inexact), *_closeness(found, volatile)])
    elif serious:
        made = Judgement("divergent", probable_causes(found, known), first_difference=_first(found, volatile))
    elif reasons := _unverified(found, known):
        made = Judgement("unverified", reasons)
    else:
        made = Judgement("identical", [_how_much(found)])
    made.volatile = sorted(volatile)
    if made.verdict != "divergent":
        _judge_names(made, found, known, volatile)
    return made


def _judge_names(made: Judgement, found: Comparison, known: Evidence, volatile: set[str]) -> None:
    shaky = {"." + _last(one) if _is_inside(one) else _variable(one) for one in volatile | known.volatile}
    for name in sorted(found.virtual.keys() | known.reads.keys()):
        by_name = {one.removeprefix(".") for one in known.reads.get(name, frozenset()) & shaky}
        read = sorted(by_name | _arrays_read(name, found, known, volatile))
        if read or name in found.virtual_flagged or name in known.values_differ | known.volatile | known.clocks:
            made.verdicts[name] = "volatile"
            because = f"reads {', '.join(read)}, which differs from run to run" if read else "differs from run to run"
            because = "reads the clock, or what else differs from run to run" if name in known.clocks else because
            made.why.append(f"{name} is volatile: it {because}")
    for name in sorted((found.virtual.keys() | known.reads.keys()) - made.verdicts.keys()):
        sets = _sets_read(name, found, known)
        if sets and made.verdict == "identical":
            made.verdicts[name] = "unverified"
            made.why.append(f"{name} is unverified: {sets}, which comes in another order in each process")
    for verdict in ("volatile", "unverified"):
        if found.virtual and made.verdict == "identical" and {made.verdicts.get(name) for name in found.virtual} == {verdict}:
            made.verdict, made.verdicts = verdict, {}


def _arrays_read(name: str, found: Comparison, known: Evidence, volatile: set[str]) -> set[str]:
    """The volatile arrays that a statement may read: those that can be come to from its variables, whatever it calls on the way."""
    read = known.reads.get(name, frozenset())
    arrays = {one: found.roots[one].reached for one in volatile & found.roots.keys() if found.roots[one].kind == ARRAY}
    return {_variable(one) for one, reached in arrays.items() if ANYTHING in read or not read.isdisjoint(map(_variable, reached))}


def _sets_read(name: str, found: Comparison, known: Evidence) -> str:
    """What a statement reads whose order is not that of the recorded process, in words; nothing if it reads no such thing."""
    if name in known.makes_sets:
        return "it makes a set of its own"
    read = known.reads.get(name, frozenset())
    for root, way in sorted(found.unordered.items()):
        if not (way or {_variable(root)}).isdisjoint(known.counted.get(name, frozenset())):
            continue
        if _variable(root) in read and (not way or any("." + word in read for word in way)):
            return f"it reads the set {'.'.join([_variable(root), *sorted(way)])}"
    return ""


def _differing(found: Comparison) -> list[str]:
    return [*found.differing_names, *found.differing_roots]


def _variable(name: str) -> str:
    """The variable that a root of the state is: `global/__main__/t0` is t0."""
    return name.rsplit("/", 1)[-1] if name.startswith((*_VARIABLES, _GIVEN)) else name


def _is_inside(name: str) -> bool:
    """Whether it is a plain value in a variable: `local/1/self.t0`."""
    return name.startswith((*_VARIABLES, _GIVEN)) and _INSIDE.search(_variable(name)) is not None


def _last(name: str) -> str:
    """What a value in a variable is called there: t0 of `self.t0`, epoch of `self.timers['epoch']`."""
    words = _WORDS.findall(_variable(name))
    return words[-1] if words else ""


# Volatile


def volatile_leaves(found: Comparison, known: Evidence) -> set[str]:
    """The names and roots that differ and are volatile. Empty if what differs beside them shows that it means something."""
    differing = set(_differing(found))
    declared = {one for one in differing if _is_declared(one, found, known)}
    presumed = differing - declared
    if not presumed:
        return declared
    if known.changed_inputs or known.inexact or any(not _may_be_leaf(one, found) for one in presumed):
        return declared
    proven = {one for one in presumed if _is_proven(one, found, known)}
    return declared | proven if proven == presumed else declared


def _is_declared(one: str, found: Comparison, known: Evidence) -> bool:
    facts = found.names.get(one)
    return bool(facts and facts.volatile) or one in known.volatile or (one in found.roots and _variable(one) in known.volatile)


def _may_be_leaf(one: str, found: Comparison) -> bool:
    """A value that was logged each time it should be, or a variable that holds one plain value; no stream, nothing registered."""
    facts = found.names.get(one)
    if facts is not None:
        return not facts.unmatched and (not facts.counts or _is_clock(one))
    kind = found.roots[one].kind
    return (one.startswith(_VARIABLES) or _is_inside(one)) and (kind in _LEAVES or (kind in _COUNTS and _is_clock(one)))


def _is_proven(one: str, found: Comparison, known: Evidence) -> bool:
    """A state was compared after the leaf had differed. All that differs in any state are leaves, else nobody would ask."""
    facts = found.names.get(one) or found.roots.get(one)
    assert facts is not None
    later = any(when >= facts.first_at for when, _ in found.states_at)
    holds_all = known.rung == "start" or not (known.restored or found.lacking or found.inexact or known.partial)
    if later and (_is_clock(one) or _is_timed(one, known) or (holds_all and _something_fits(found))):
        return True
    witness = any(other.same and other.varies for name, other in found.names.items() if name != one)
    return not found.states and witness and (_is_clock(one) or _is_timed(one, known))


def _something_fits(found: Comparison) -> bool:
    """Whether not everything that was logged differs: a program of nothing but leaves is no proof that they mean nothing."""
    telling = [facts for name, facts in found.names.items() if not facts.volatile and not _is_clock(name)]
    return not telling or any(facts.same for facts in telling)


def _is_timed(name: str, known: Evidence) -> bool:
    return (_last(name) if _is_inside(name) else _variable(name)) in known.timed


def _is_clock(name: str) -> bool:
    return _CLOCK.search(_variable(name)) is not None


# Unverified, close, identical


def _unverified(found: Comparison, known: Evidence) -> list[str]:
    reasons = []
    for path, why in found.loaded_elsewhere:
        reasons.append(f"{path} was not loaded from the recorded source ({why}): the values may come from other code")
    if known.partial:
        reasons.append(f"the stored states do not hold {', '.join(known.partial)}, which the statement reads")
    if known.changed_inputs:
        reasons.append(f"an input is not what it was, and a statement may read it: {', '.join(known.changed_inputs[:5])}")
    if not found.records and not found.states:
        reasons.append("there is nothing to compare with: the run logged nothing in what was replayed, and kept no state there")
    elif not found.states and found.names and all(facts.volatile or not facts.same for facts in found.names.values()):
        reasons.append("there is nothing to compare with: everything that the run logged in what was replayed is volatile")
    return reasons


def _largest(found: Comparison, volatile: set[str]) -> float:
    return max((facts.largest for name, facts in found.names.items() if name not in volatile), default=math.inf if found.roots else 0.0)


def _closeness(found: Comparison, volatile: set[str]) -> list[str]:
    names = {name: facts for name, facts in found.names.items() if facts.differing and name not in volatile}
    if not names:
        return [f"all {found.records:,} common records are the same; states are not compared where they cannot be"]
    worst, facts = max(names.items(), key=lambda item: item[1].largest)
    at = f" at {facts.largest_path}" if facts.largest_path else ""
    return [f"the largest relative difference is {facts.largest:.2g}, of {worst}{at}", _growth(worst, facts)]


def _growth(name: str, facts: NameFacts) -> str:
    """Whether differences become larger on the way."""
    first, last = facts.first_relative, facts.last_relative
    if facts.differing < 2 or first <= 0:
        return f"{facts.differing:,} of {facts.compared:,} values of {name} differ"
    if last > 3 * first:
        return f"it grows over the steps: {first:.2g} where {name} first differs, {last:.2g} at the end, {last / first:.3g} times as much"
    return f"it does not grow over the steps: {first:.2g} where {name} first differs, {last:.2g} at the end"


def _how_much(found: Comparison) -> str:
    """`1,200 records and 30 states`, as a sentence. What is volatile is not the same, and is not counted."""
    same = found.records - sum(facts.differing for facts in found.names.values())
    pieces = [f"{count:,} {word}{'s' * (count != 1)}" for count, word in ((same, "record"), (found.states, "state")) if count]
    but = " but for what is volatile" if found.roots and found.states else ""
    return f"{' and '.join(pieces) or 'nothing'} {'are' if same + found.states > 1 else 'is'} the same bit for bit{but}"


def _sentence(text: str) -> str:
    return f"cannot be bit-exact: {text}"


# Causes


def _first(found: Comparison, volatile: set[str]) -> Difference | None:
    """The first difference that means something; a clock, or a plain value in a state, only if nothing else differs."""
    serious = [one for one in found.differences if one.name not in volatile]
    telling = [one for one in serious if not _is_clock(one.name)]
    surely = [one for one in telling if one.name in found.names or not _may_be_leaf(one.name, found)]
    return next(iter([*surely, *telling, *serious]), found.first)


def probable_causes(found: Comparison, evidence: Evidence) -> list[str]:
    """What probably made a replay differ, the likeliest first; a sentence each."""
    causes = []
    changed = evidence.without_probe is not None and _is_clean(evidence.without_probe, evidence) and not found.identical
    if changed:
        remedy = "even with its state put back" if evidence.isolated else "--isolate puts it back after each"
        causes.append(f"the added statement changes the run: without it the replay is identical ({remedy})")
    for path, why in found.loaded_elsewhere:
        causes.append(f"other code ran: {path} was not loaded from the recorded source ({why})")
    if evidence.changed_inputs:
        some = ", ".join(evidence.changed_inputs[:5]) + (" and others" if len(evidence.changed_inputs) > 5 else "")
        causes.append(f"an input is not what it was: {some}")
    if not changed:
        causes += _of_the_program(found, evidence)
    if evidence.inexact:
        causes.append(f"it cannot be bit-exact here: {'; '.join(evidence.inexact)}")
    if evidence.environment:
        causes.append(f"not everything around it is as it was: {'; '.join(evidence.environment)}")
    if not changed and evidence.rung != "start" and (found.lacking or found.inexact):
        lacks = ", ".join(sorted(found.lacking)[:5]) or found.inexact[0]
        causes.append(f"the stored states do not hold everything: {lacks}")
    return causes or [_unknown(evidence)]


def _of_the_program(found: Comparison, evidence: Evidence) -> list[str]:
    """Whether the program repeats itself at all."""
    causes = []
    if evidence.again is not None and _differ(found, evidence.again, evidence):
        causes.append(_race(found, _differ(found, evidence.again, evidence)))
    generators = sorted(_variable(root) for root in found.roots if not root.startswith("stream/") and _GENERATOR.search(_variable(root)))
    if evidence.unseeded:
        causes.append(f"random numbers that nobody seeded: the first state of {', '.join(evidence.unseeded)} was not recorded")
    elif generators and evidence.rung == "start":
        causes.append(f"random numbers that nobody seeded: {', '.join(generators[:5])} is in another state")
    elif _streams_first(found):
        causes.append("another number of random draws: the first thing that differs is the state of the random streams")
    return causes


def _unknown(evidence: Evidence) -> str:
    if evidence.rung == "start":
        return (
            "the program does not repeat itself even from its start: an unseeded generator, threads that race, the clock, "
            "or something outside that it reads"
        )
    return "what was put back is not all that the program uses, or the program does not repeat itself: a replay from the start tells which"


def _race(found: Comparison, differ: Sequence[str]) -> str:
    before = any(not roots for _, roots in found.states_at)
    clean = "the state before was identical, and " if before else ""
    kinds = "threads that race, random numbers that nobody seeded, the clock"
    what = f"in {_variable(differ[0])}{' and others' if len(differ) > 1 else ''}"
    return f"the program does not repeat itself: {clean}two replays differ from each other {what} ({kinds})"


def _is_clean(found: Comparison, known: Evidence) -> bool:
    """Whether nothing differs but what is volatile."""
    return not set(_differing(found)) - volatile_leaves(found, known)


def _differ(one: Comparison, other: Comparison, known: Evidence) -> list[str]:
    """What two replays, of which the second may be of a part only, have other values of where both differ from the record."""
    mine, theirs = _came_out(one, known), _came_out(other, known)
    return list(dict.fromkeys(place[1] for place in mine if place in theirs and mine[place] != theirs[place]))


def _came_out(found: Comparison, known: Evidence) -> dict[tuple[str, ...], str | None]:
    """What each difference came out as; clocks and plain variables beside them differ anyway."""
    leaves = {root for root in found.roots if _may_be_leaf(root, found)}
    rest = [one for one in found.differences if one.name not in leaves and not _is_clock(one.name)]
    rest = [one for one in rest if not _is_declared(one.name, found, known)]
    return {(one.kind, one.name, one.path, one.part, one.process): one.replayed for one in rest}


def _streams_first(found: Comparison) -> bool:
    kinds = [which for _, _, which in sorted(found.met)]
    return bool(kinds) and kinds[0].startswith("stream/")
