"""Statements of every kind, asked of a version that was written differently: each is placed where it belongs, with what it needs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story, recorded_text

THEN = """\
import rearview as rv
import helper
import math  #?


def norm(x):  #?
    return math.sqrt(abs(x))  #?


def step(total, k):
    change = k * 0.5 + 0.25
    rv.log("in_step", change)  #?
    return total + change


total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for k in rv.loop("step", range(2)):
            total = step(total, k)
        rv.log("total", total)
        rv.log("root", math.sqrt(total))  #?
        rv.log("size", norm(total))  #?
        doubled = 2 * total  #?
        rv.log("double", doubled)  #?
        if epoch > 0:  #?
            rv.log("late", total)  #?
        rv.log(f"of/{epoch}", total)  #?
        rv.log("several", [total, epoch])  #?
        helper.look(total)
print(total)
"""
HELPER = """\
import rearview as rv  #?


def look(x):
    y = x + 1
    rv.log("looked", y)  #?
    return y
"""
NOW = '''\
"""The same, renamed and longer."""
import math

import helper
import rearview as rv


def norm(x):
    return math.sqrt(abs(x))


def step(summed, k):
    change = k * 0.5 + 0.25
    rv.log("in_step", change)
    return summed + change


summed = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        for k in rv.loop("step", range(2)):
            summed = step(summed, k)
        rv.log("total", summed)
        rv.log("root", math.sqrt(summed))
        rv.log("size", norm(summed))
        doubled = 2 * summed
        rv.log("double", doubled)
        if epoch > 0:
            rv.log("late", summed)
        rv.log(f"of/{epoch}", summed)
        rv.log(
            "several",
            [summed,
             epoch],
        )
        helper.look(summed)
print(summed)
'''
NAMES = ("in_step", "root", "size", "double", "late", "several", "looked", "of/0", "of/1", "of/2")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path, {"train.py": THEN, "helper.py": HELPER}, env={"REARVIEW_EVERY": "1"})
    story.record()
    (story.project / "train.py").write_text(NOW)
    (story.project / "helper.py").write_text(HELPER.replace("  #?", ""))
    return story


def test_statements_of_every_kind(story: Story) -> None:
    """A new import, helper, temporary, condition, another file, a computed name, several lines, a function that the loop calls."""
    done = story.cli("replay", *NAMES, "--yes", "--unsure", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert story.rows(story.project, *NAMES) == story.truth(*NAMES)


def test_uncertain_places_are_shown_and_left_out(story: Story) -> None:
    text = recorded_text(THEN).replace("        helper.look(total)\n", "        helper.look(total)\n        total = total * 1.5\n")
    (story.project / "train.py").write_text(text.replace('rv.log("total", total)', 'rv.log("sum", total)\n        rv.log("asked", -total)'))
    plan = story.cli("replay", "asked", "--dry-run").stdout
    shown = story.cli("replay", "asked", "--show").stdout
    assert '+        rv.log("asked", -total)' in shown and "certain" in shown
    left = story.cli("replay", "asked", "--only-sure", "--yes", check=False)
    taken = story.cli("replay", "asked", "--unsure", "--yes")
    none = story.cli("replay", "asked", "--where", "total > 100", check=False)
    assert none.returncode == 3 and "total is 1, 2, 3" in none.stderr, none.stderr
    assert "uncertain" in plan and left.returncode == 3 and "1 of 1 run" in left.stderr
    assert len(story.rows(story.project, "asked")) == 3, taken.stdout


def test_a_place_by_hand_is_remembered(story: Story) -> None:
    version = story.cli("code", "last").stdout.split()[3]
    line = next(k for k, text in enumerate(recorded_text(THEN).splitlines(), 1) if "total = 0.0" in text)
    (story.project / "train.py").write_text(NOW + 'rv.log("zero", summed)\n')
    story.cli("replay", "zero", "--yes", "--place", version[:9], f"train.py:{line}")
    assert [values[0][1] for values in story.rows(story.project, "zero").values()] == ["0" * 16]
    again = story.cli("replay", "zero", "--yes")
    assert "answered already" in again.stdout
    story.cli("replay", "--forget", "zero")
    story.cli("replay", "zero", "--yes")
    assert [values[0][1] for values in story.rows(story.project, "zero").values()] == ["0" * 16], "where it goes was forgotten"
    inside = next(k for k, text in enumerate(recorded_text(THEN).splitlines(), 1) if "helper.look" in text)
    story.cli("replay", "zero", "--yes", "--place", version[:9], f"train.py:{inside}")
    assert {path for _, path, *_ in story.rows(story.project, "zero")} == {"epoch=0", "epoch=1", "epoch=2"}, "what stood elsewhere is gone"
    misplaced = {f"train.py:{inside + 99}": "no statement on line", "nothing.py:1": "has no nothing.py", "train.py:1": "has no value"}
    for said, why in misplaced.items():
        wrong = story.cli("replay", "zero", "--yes", "--place", version[:9], said, check=False)
        assert wrong.returncode == 2 and f"--place {version[:9]} {said}: " in wrong.stderr and why in wrong.stderr, wrong.stderr


def test_a_place_by_hand_holds_for_versions_alike(tmp_path: Path) -> None:
    then = """\
import rearview as rv
w = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        w = w + 0.5
        rv.log("w", w)
"""
    story = Story(tmp_path, {"train.py": then}, env={"REARVIEW_EVERY": "1"})
    story.record()
    version = story.cli("code", "last").stdout.split()[3]
    for later in (then.replace("w = 0.0", "w = 1.0"), then.replace("0.5", "0.25")):
        (story.project / "train.py").write_text(later)
        story.record()
    now = then.replace("w = 0.0\n", 'w = 0.0\n\ndef shown(w):\n    rv.log("seen", w * 2)\n\n').replace('rv.log("w", w)', "shown(w)")
    (story.project / "train.py").write_text(now)
    refused = story.cli("replay", "seen", "--yes", check=False)
    assert refused.returncode != 0 and not story.rows(story.project, "seen")
    story.cli("replay", "seen", "--yes", "--place", version[:9], "train.py:5", check=False)
    assert [len(values) for values in story.rows(story.project, "seen").values()] == [2, 2, 2], "corrected, and alike"
    doubtful = story.cli("replay", "seen", "--yes", check=False).stdout
    assert "a statement next to it was changed" in doubtful
    story.cli("replay", "seen", "--yes", "--unsure")
    bits = sorted(one[1] for values in story.rows(story.project, "seen").values() for one in values)
    assert bits == sorted(struct.pack("<d", value).hex() for value in (1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 0.5, 1.0, 1.5))


def test_scripts_that_log_the_same_are_asked_for_themselves(tmp_path: Path) -> None:
    text = 'import rearview as rv\nfor k in rv.loop("k", range(2)):\n    x = k * 2\n    rv.log("x", x)\n'
    story = Story(tmp_path, {"train.py": text})
    story.record()
    (story.project / "train.py").write_text(text.replace("range(2)", "range(3)") + '    rv.log("asked", x + 1)\n')
    (story.project / "other.py").write_text(text.replace('"k"', '"j"') + '    rv.log("asked", x - 1)\n')
    story.cli("replay", "asked", "--yes")
    assert [values[0][2] for values in story.rows(story.project, "asked").values()] == [1, 3]


def test_a_version_in_which_it_raises_takes_no_answer_from_the_others(tmp_path: Path) -> None:
    text = """\
import rearview as rv
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(1, 4)):
        for k in rv.loop("step", range(2)):
            pass
        rv.log("epoch_twice", 2 * epoch)
"""
    story = Story(tmp_path, {"train.py": text}, env={"REARVIEW_EVERY": "1"})
    story.record()
    later = text.replace("range(1, 4)", "range(0, 3)")
    (story.project / "train.py").write_text(later)
    story.record()
    (story.project / "train.py").write_text(later + '        rv.log("inverse", 1 / epoch)\n')
    done = story.cli("replay", "inverse", "--yes", check=False)
    assert done.returncode == 1 and "1 of 2 runs is not answered" in done.stderr and "ZeroDivisionError" in done.stderr + done.stdout
    rows = story.rows(story.project, "inverse")
    assert [values[-1][1] for (_, path, _, _), values in rows.items() if path == "epoch=3"] == ["555555555555d53f"]


BESIDE = """\
import random
import rearview as rv
random.seed(2)
class Net:
    w = gn = 0.0
net, hist, total = Net(), [], 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        total = 0.0
        for step in rv.loop("step", range(2)):
            net.w += random.random() - 0.5
            total += net.w
        hist.append(total)
        rv.log("loss", net.w)
        net.w *= 0.99
"""


def test_a_line_that_was_added_with_the_log_is_not_left_behind_silently(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": BESIDE}, env={"REARVIEW_EVERY": "1"})
    story.record()
    log = '        rv.log("loss", net.w)\n'
    companions = {
        "net.gn = abs(net.w) + 5": "net.gn", "net.peak = max(getattr(net, 'peak', -9), net.w)": "net.peak",
        "total = sum(hist) + 7": "total", "total += 100": "total", "hist.append(1000.0)": "sum(hist)",
        "setattr(net, 'gn', 3.0)": "net.gn", "hist[0] = 8.0": "hist[0]",
    }  # fmt: skip
    for line, value in companions.items():
        added = f'{log}        {line}\n        rv.log("asked", {value})\n'
        (story.project / "train.py").write_text(BESIDE.replace(log, added))
        for unsure in ([], ["--unsure"]):
            done = story.cli("replay", "asked", "--yes", *unsure, check=False)
            assert done.returncode == 3 and "train.py line 15: `" in done.stderr and "would be another value" in done.stderr, done.stderr
    renamed = f'{log}        mine = sum(hist) + 7\n        rv.log("asked", mine)\n'
    (story.project / "train.py").write_text(BESIDE.replace(log, renamed))
    story.cli("replay", "asked", "--yes")
    (story.folder / "truth" / "train.py").write_text(BESIDE.replace(log, renamed))
    assert story.rows(story.project, "asked") == story.truth("asked")


def test_in_another_version_it_makes_the_place_uncertain(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": BESIDE}, env={"REARVIEW_EVERY": "1"})
    story.record()
    log = '        rv.log("loss", net.w)\n'
    now = BESIDE.replace("seed(2)", "seed(3)").replace(log, f'{log}        total = sum(hist) + 7\n        rv.log("asked", total)\n')
    (story.project / "train.py").write_text(now)
    done = story.cli("replay", "asked", "--yes", check=False)
    assert done.returncode == 3 and "not certain" in done.stdout, done.stdout + done.stderr
    assert "`total = sum(hist) + 7`, may change `total`, and is not there" in " ".join(done.stdout.split())
    assert not story.rows(story.project, "asked")


def test_variables_looked_up_by_name_are_carried_from_the_start(tmp_path: Path) -> None:
    lines = "        last = locals().get('last', 0) + 1  #?\n        rv.log('asked', last)  #?\n"
    story = Story(tmp_path, {"train.py": BESIDE + lines}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.ask("asked", "--only", "epoch=1..2")
    found, truth = story.rows(story.project, "asked"), story.truth("asked")
    assert {key[1] for key in found} >= {"epoch=1", "epoch=2"}
    assert found == {key: truth[key] for key in found}
