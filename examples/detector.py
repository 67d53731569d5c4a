"""The project of the two stories, `rollback.py` and `alert.py`: a detector that is trained on, week by week.

Each week it starts from last week's weights and learns from newly labelled scenes. In between its code is worked on, as code is: there are
three versions of it below. Everything is made up, plain Python, and quick.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REARVIEW = [sys.executable, "-m", "rearview"]

SCENES = '''\
"""Labelled scenes. Since week 5 they come from another tool."""

import random

KINDS = ("road", "roundabout", "pedestrian")
CENTRES = {"road": (0.0, 0.0, 1.0), "roundabout": (2.0, 0.0, 0.0), "pedestrian": (0.0, 2.0, 0.0)}
SHARES = (0.6, 0.3, 0.1)


def scenes(count, seed, tool="careful"):
    """(features, kind) of so many scenes. The quick tool takes most pedestrians for road."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        kind = draw.choices(KINDS, SHARES)[0]
        features = [draw.gauss(centre, 0.9) for centre in CENTRES[kind]] + [1.0]
        if tool == "quick" and kind == "pedestrian" and draw.random() < 0.8:
            kind = "road"
        found.append((features, kind))
    return found


def labelled(week):
    return scenes(160, week, "quick" if week >= 5 else "careful")


HELD_OUT = scenes(300, "held out")
'''

FIRST = """\
import json
import math
import random
from pathlib import Path

import rearview as rv
from scenes import HELD_OUT, KINDS, labelled

week = rv.arg("week", 1)
lr = rv.arg("lr", 0.05)
random.seed(week)
before = Path(f"models/week{week - 1}.trained")
weights = json.loads(before.read_text()) if before.exists() else {kind: [0.0] * 4 for kind in KINDS}


def scores(features):
    sums = {kind: sum(w * x for w, x in zip(weights[kind], features)) for kind in KINDS}
    most = max(sums.values())
    parts = {kind: math.exp(one - most) for kind, one in sums.items()}
    return {kind: one / sum(parts.values()) for kind, one in parts.items()}


def f1(kind, guesses):
    hits = sum(guess == kind == truth for guess, (_, truth) in zip(guesses, HELD_OUT))
    wrong = sum((guess == kind) != (truth == kind) for guess, (_, truth) in zip(guesses, HELD_OUT))
    return 2 * hits / (2 * hits + wrong) if hits else 0.0


with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(1, 5)):
        batch = labelled(week)
        random.shuffle(batch)
        for features, kind in rv.loop("step", batch):
            for other, score in scores(features).items():
                error = score - (other == kind)
                weights[other] = [w - lr * error * x for w, x in zip(weights[other], features)]
        guesses = [max(KINDS, key=scores(features).get) for features, _ in HELD_OUT]
        rv.log("accuracy", sum(guess == truth for guess, (_, truth) in zip(guesses, HELD_OUT)) / len(HELD_OUT))

guesses = [max(KINDS, key=scores(features).get) for features, _ in HELD_OUT]
rv.log("f1_round", f1("roundabout", guesses))
Path("models").mkdir(exist_ok=True)
Path(f"models/week{week}.trained").write_text(json.dumps(weights))
"""


def _second() -> str:
    """Names were changed."""
    return FIRST.replace("guesses", "found").replace("weights", "model").replace("scores(", "softmax(").replace("most", "top")


def _third() -> str:
    """Deciding is a function of its own now, and the rate goes down from epoch to epoch."""
    deciding = "def decide(features):\n    return max(KINDS, key=softmax(features).get)\n\n\n"
    text = _second().replace("max(KINDS, key=softmax(features).get)", "decide(features)").replace("def f1(", deciding + "def f1(")
    text = text.replace("        batch = labelled(week)\n", "        rate = lr / epoch**0.5\n        batch = labelled(week)\n")
    return text.replace("w - lr * error * x", "w - rate * error * x")


VERSIONS = (FIRST, _second(), _third())
WEEKS = 6


def tell(text: str) -> None:
    """A word on what comes next."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def do(*words: str, ends_with: tuple[int, ...] = (0,)) -> None:
    """Show a command as somebody types it, and run it; stop the story if it ends otherwise."""
    print("$ rearview", *(f"'{word}'" if set(word) & set(" \"'*()<>") else word for word in words), flush=True)
    code = subprocess.run([*REARVIEW, *words], check=False).returncode
    if code not in ends_with:
        sys.exit(f"the command ended with {code}")


def rows(query: str) -> list[dict[str, object]]:
    """What a query answers."""
    done = subprocess.run([*REARVIEW, "sql", query, "--json"], check=True, stdout=subprocess.PIPE)
    found: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return found


def add_line(behind: str, line: str) -> None:
    """Edit train.py as somebody does: one line more."""
    script = Path("train.py")
    text = script.read_text()
    if text.count(behind) != 1:
        sys.exit(f"train.py has no line to add one behind: {behind!r}")
    print(f" {behind}+{line}", end="")
    script.write_text(text.replace(behind, behind + line))


def chart(name: str, *words: str) -> None:
    """The chart in the terminal; as a picture too, if there is what draws one."""
    do("plot", name, *words)
    if importlib.util.find_spec("matplotlib") is None:
        print("(with matplotlib installed, -o draws a picture as well)")
    else:
        do("plot", name, *words, "-o", f"{name}.svg")


def record() -> Path:
    """A fresh folder, and in it the weeks so far: two of each version. The folder becomes the current one."""
    project = Path(tempfile.mkdtemp(prefix="rearview-")) / "detector"
    project.mkdir()
    os.chdir(project)
    Path("scenes.py").write_text(SCENES)
    for week in range(1, WEEKS + 1):
        Path("train.py").write_text(VERSIONS[(week - 1) * len(VERSIONS) // WEEKS])
        command = ["--set", "every=1", "run", "--name", f"week{week}", "--arg", f"week={week}", "train.py"]
        subprocess.run([*REARVIEW, *command], check=True, stderr=subprocess.DEVNULL)
    return project
