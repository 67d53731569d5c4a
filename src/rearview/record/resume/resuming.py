"""Going on with a run, up to the moment its program starts: the restore point, the files, the agreement.

Used by `rearview resume` for the process that it starts, and by `rv.resume()` for the process it is called in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rearview.model import RunId
from rearview.record import arguments, firsts, process, source
from rearview.record.resume import aside, choosing, handshake, in_vain, past, recorded_code, restore_points, undoing
from rearview.record.resume.handshake import Handshake, Turn
from rearview.record.resume.past import Past
from rearview.record.resume.restore_points import RestorePoint
from rearview.record.say import say
from rearview.store.layout import Store


@dataclass(slots=True)
class Prospect:
    """What going on with a run comes to."""

    past: Past
    point: RestorePoint | None
    """None: there is no checkpoint, it begins once more from the beginning."""
    files: list[aside.Plan]
    passed_over: list[str] = field(default_factory=list)
    """Newer checkpoints that are damaged or cannot be come to again, a sentence each."""
    left: list[undoing.Left] = field(default_factory=list)
    """Files that an attempt has changed which was killed before it came to its place: they are put back first."""

    @property
    def why_anew(self) -> str:
        """Why it begins once more from the beginning."""
        return "none of its checkpoints can be used" if self.passed_over else "it has no checkpoint"

    @property
    def lost_s(self) -> float | None:
        """Work done after the checkpoint, which is done again."""
        if self.point is None or self.past.heard_wall is None:
            return None
        return max(0.0, self.past.heard_wall - self.point.wall)


def prospect(store: Store, project: Path, known: Past, points: Sequence[RestorePoint], passed_over: Sequence[str] = ()) -> Prospect:
    """Look for the newest sound one of some restore points, and at the run's output files."""
    point, unsound = restore_points.newest_sound(store, list(points))
    rows = point.files if point is not None else []
    with firsts.unseen():  # the program did not open them
        left = undoing.left_by(store, known.run, known.heard_wall)
        files = aside.survey(store, project, rows, known.opened, known.removed, known.heard_wall, undoing.copies(left))
        files += aside.folders_since(project, known.made_in_loop, 0.0 if point is None else point.wall)
    return Prospect(known, point, files, [*passed_over, *unsound], left)


def candidates(store: Store, known: Past, *, edited: bool) -> tuple[list[RestorePoint], list[str]]:
    """The places to go on from, newest first, after what became of the attempts so far; sentences about newer ones that are none."""
    points, damaged = restore_points.of_run(store, known.run)
    missed = restore_points.to_be_missed(points, known.missed, known.otherwise)
    points, others = restore_points.reachable(points, missed, in_vain.attempts_of(store, known.run), edited=edited)
    return points, [*damaged, *others]


def agree(store: Store, found: Prospect, turn: Turn, *, asked: bool = False) -> Handshake:
    """Set files aside and lay down what the program that goes on needs to know. The first thing that writes anything.

    `asked`: somebody named the place. That is gone on with however it comes back; so is one that was refused before, and is chosen again.
    """
    origin: dict[str, Any] = {"place": "the beginning", "path": []} if found.point is None else found.point.origin()
    origin["lost_s"] = found.lost_s
    checkpoint = {} if found.point is None else found.point.checkpoint()
    if asked or not found.past.otherwise.isdisjoint(checkpoint.values()):
        origin["anyway"] = True
    with firsts.unseen():
        for sentence in undoing.put_back(found.left):
            say(sentence)
        for one in found.left:
            aside.settle(one.folder, one.plan.process)
        if found.left:
            aside.look_again(found.files)
        files = aside.set_aside(store, found.files, turn.aside)
    shake = Handshake(store.root, found.past.run, turn.attempt, checkpoint, turn.aside, files, origin)
    handshake.write(store, shake)
    if found.point is None:  # there is no restore point to wait for
        for sentence in aside.bring_back(turn.aside, files):
            say(sentence)
    return shake


# -- rv.resume() ---------------------------------------------------------------------------------------------------------


def pick_up(store: Store, project: Path, key: str | None) -> Handshake | None:
    """What this process goes on with, by itself; None if it begins anew. Says which and why."""
    launch = process.launch_of(os.environ, os.getppid())
    joined = _of_this_launch(store, launch.key) if launch is not None else None
    if joined is not None:
        return handshake.follow(store, joined)
    choice = choosing.choose(
        choosing.candidates(store), _here(project), key, choosing.job_key(os.environ), lambda run: past.status_of(store, run)[0]
    )
    if choice.run is None:
        return None
    known = past.look(store, choice.run)
    edited = recorded_code.differences(store, known.version, project) if known.version else ["the source, which was not kept"]
    turn = handshake.claim(store, choice.run, launch.key if launch is not None else None, new_run=bool(edited))
    if not turn.first:
        return handshake.follow(store, turn)
    found = prospect(store, project, known, *candidates(store, known, edited=bool(edited)))
    for sentence in found.passed_over:
        say(f"{sentence}; {'an older one is used' if found.point is not None else 'there is no older one'}")
    shake = agree(store, found, turn)
    where = found.point.place if found.point is not None else f"the beginning: {found.why_anew}"
    if edited:
        say(f"{choice.why}; its source has changed since ({_few(edited)}): a new run goes on from {where} and names it as its parent")
    else:
        say(f"{choice.why}: going on with it as attempt {turn.attempt}, from {where}")
    for plan in found.files:
        if plan.what in (aside.LOST, aside.LEFT):
            say(f"{plan.path} {aside.in_words(plan)}")
    return shake


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _here(project: Path) -> choosing.Program:
    """What this process runs, in the words of `run.json`."""
    program = source.program()
    return choosing.Program(
        relative(program.path, project) if program.path else program.name, tuple(sys.argv[1:]), dict(arguments.given().texts),
        relative(Path(source.starting_folder()), project), program.module,
    )  # fmt: skip


def relative(path: Path, project: Path) -> str:
    """A path as `run.json` has it: below the project, relative to it."""
    try:
        return str(path.relative_to(project))
    except ValueError:
        return str(path)


def _of_this_launch(store: Store, launch: str) -> Turn | None:
    """The attempt that another rank of this launch has taken."""
    for mark in sorted(store.tmp.glob("r*.attempt")) if store.tmp.is_dir() else ():
        run, _, name = mark.name.removesuffix(".attempt").partition("-")
        if handshake.claimed_by(mark).get("launch") == launch:
            attempt = int(name[1:]) if name[1:].isdigit() else 0
            return Turn(attempt, store.run(RunId(run)) / "aside" / name, False)
    return None
