"""States that were kept, and that nobody goes on from: the program was halfway through something that no state has. Pure."""

from __future__ import annotations

from rearview.plan import scans
from rearview.plan.scans import Plan
from rearview.plan.timeline import BLOCK, History


def states(timeline: History) -> frozenset[str]:
    """Their names."""
    return frozenset(one.name for one in timeline.boundaries if one.halfway)


def why_from_before(plan: Plan, timeline: History) -> list[str]:
    """Why states are not used although they are kept, a sentence each."""
    if plan.rung == scans.START or all(one.first is None for one in plan.stretches):
        return []
    run = set(plan.must_run)
    halfway = [one for one in timeline.boundaries if one.halfway]
    pending = sorted({name for one in halfway if one.part == BLOCK and one.place in run for name in one.pending})
    unplaced = sorted({name for one in halfway for name in one.unplaced})
    at_work = sorted({name for one in halfway if one.place in run for name in one.at_work})
    held = sorted({name for one in halfway if one.place in run for name in one.held})
    said = []
    if held:
        said.append(f"{', '.join(held)}: what that gathers of a nested loop is in no state, so the loop is run")
    if at_work:
        said.append(f"{', '.join(at_work)} works beside a nested loop and waits for it: that loop is run")
    if pending:
        some = pending[0] + (" and others" if len(pending) > 1 else "")
        said.append(f"the program goes back through {some} behind a nested loop, and no state keeps how that was computed: it is run")
    if unplaced:
        which = ", ".join(unplaced)
        said.append(f"the program draws from the iterator {which}, and the stored states do not hold where that stood: they are not used")
    return said
