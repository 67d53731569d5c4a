"""The list of versions: their order, what each is compared with, the user's commit, narrow screens."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from rearview.cli import versions
from rearview.cli.shown import screen
from rearview.model import RunId, VersionId
from rearview.versions.changes import Changes
from tests.unit.cli.test_runs import NOW, RUN


def history(*runs: tuple[str, str], git: dict[str, object] | None = None) -> list[versions.Version]:
    """Versions of runs (script, version), one a minute."""
    made = [
        replace(
            RUN, run=RunId(f"r{k}"), filename=script, version=VersionId(version) if version else None, git=git,
            tstamp=NOW - dt.timedelta(minutes=len(runs) - k),
        )
        for k, (script, version) in enumerate(runs)
    ]  # fmt: skip
    return versions.of_runs(made)


def test_each_is_compared_with_the_one_before_of_its_own_script() -> None:
    found = history(("a.py", "v1"), ("b.py", "v2"), ("a.py", "v1"), ("a.py", "v3"), ("b.py", "v3"), ("b.py", "v4"), ("a.py", ""))
    assert [(one.version, one.before, [run.run for run in one.runs]) for one in found] == [
        ("v1", None, ["r0", "r2"]),
        ("v2", None, ["r1"]),
        ("v3", "v1", ["r3", "r4"]),
        ("v4", "v3", ["r5"]),
    ]
    assert [one.scripts for one in found] == [["a.py"], ["b.py"], ["a.py", "b.py"], ["b.py"]]


def test_going_back_to_an_old_version_does_not_list_it_again() -> None:
    found = history(("a.py", "v1"), ("a.py", "v2"), ("a.py", "v1"), ("a.py", "v3"))
    assert [(one.version, one.before, len(one.runs)) for one in found] == [("v1", None, 2), ("v2", "v1", 1), ("v3", "v2", 1)]


def test_the_commit_is_where_the_source_was_clean() -> None:
    dirty, clean = {"head": "a" * 40, "branch": "main", "dirty": True}, {"head": "b" * 40, "branch": "main", "dirty": False}
    runs = [replace(RUN, git=git) for git in (None, dirty, clean)]
    shown = [versions.listing(versions.of_runs(some), [None], 0, view(120), NOW)[1] for some in (runs, runs[:2], runs[:1])]
    assert "bbbbbbbb" in shown[0] and "*" not in shown[0]
    assert "aaaaaaaa*" in shown[1]
    assert "aaaaaaaa" not in shown[2]
    unknown = versions.of_runs([replace(RUN, git={"head": "c" * 40, "branch": None, "dirty": None})])
    assert "cccccccc?" in versions.listing(unknown, [None], 0, view(120), NOW)[1]


def view(width: int) -> screen.Screen:
    return screen.Screen(width, 24, terminal=False, colour=False)


@pytest.mark.parametrize("width", [40, 80, 140])
def test_it_fits_the_screen_and_keeps_the_counts(width: int) -> None:
    found = history(("a.py", "v" + "1" * 40), ("a.py", "v" + "2" * 40))
    changed = [None, Changes(tuple(f"folder/module{k}.py" for k in range(30)), 1200, 3)]
    lines = versions.listing(found, changed, 5, view(width), NOW)
    assert lines[0] == "... 5 earlier versions, --limit 0 for all"
    assert all(len(line) <= width for line in lines[1:])
    assert "+1,200" in lines[3] and "-3" in lines[3] and "30" in lines[3]
    assert width < 140 or "first of a.py" in lines[2]
