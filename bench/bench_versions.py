"""Planning a question over the whole history: 100 versions of a script of 1,000 lines, each recorded by a run.

The history is made as people make it: between two runs some functions change, lines come and go, a variable is renamed. Then one
statement is added to today's script and asked of all of them. Nothing is run: this is what a person waits for before the plan is shown.
Whether it grows with the number of versions and no faster is told by the same question over the newest 25 and 50; what it costs beside
the work that no planner is spared, by parsing each version's script once, in turn with it.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import harness
from rearview.catalog.catalog import Catalog
from rearview.replay import asking
from rearview.replay.question.query import Ask
from rearview.store import layout
from rearview.store.runs import list_runs, read_run
from rearview.versions import read

VERSIONS = (25, 50, 100)
LINES = 1000
TIMES = 3
SCRIPT = "train.py"
LAST = '            rv.log("loss", loss)\n'
OUTER = '        for epoch in rv.loop("epoch", range(3)):\n'
NAMES = ("weight", "w", "theta", "parameter")
"""What the loop's variable is called, by and by."""
ADDED = '            rv.log("grad", grad * scale)\n'

HELPER = """\
def helper{k}(values, factor={k}):
    # {words}
    total = 0.0
    for position, value in enumerate(values):
        if value > factor:
            total += value * factor
        elif position % 3 == {mod}:
            total -= value
        else:
            total += position
    if total > 1000:
        total = total / 2
    result = total + {k}
    return result


"""

LOOP = """\
HELPERS = [helper0, helper1, helper2, helper3]


def batches(seed):
    return [(seed * 31 + k) % 17 for k in range(4)]


def main():
    weight, grad, scale = 1.0, 0.0, 0.5
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            for value in rv.loop("step", batches(epoch)):
                grad = weight * value
                weight -= 0.000001 * grad
                scale = 1 / (1 + abs(HELPERS[value % 4](batches(value))))
            loss = weight * weight
            rv.log("loss", loss)


main()
"""


def first_script() -> list[str]:
    """A script of a thousand lines: many helpers, one loop."""
    loop = LOOP.splitlines(keepends=True)
    lines = ["import rearview as rv\n", "\n", "\n"]
    number = 0
    chance = random.Random(1)
    while len(lines) + len(loop) < LINES:
        words = " ".join(f"{chance.getrandbits(24):x}" for _ in range(12))  # text that does not shrink to nothing
        lines += HELPER.format(k=number, mod=number % 3, words=words).splitlines(keepends=True)
        number += 1
    return lines + loop


def edited(lines: list[str], chance: random.Random, number: int) -> list[str]:
    """The next version: numbers change, comments come and go, a helper gets a line, the loop's variables are renamed now and then."""
    lines = list(lines)
    inside = [k for k, line in enumerate(lines) if line.startswith("    if total > ")]
    for k in chance.sample(inside, 4):
        lines[k] = f"    if total > {chance.randrange(100, 5000)}:\n"
    for k in sorted(chance.sample(inside, 2), reverse=True):
        lines.insert(k, f"    total += {chance.random():.3f}  # tuned in {number}\n")
    text = "".join(lines)
    if number % 10 == 3:
        text = re.sub(rf"\b{NAMES[number // 10 % len(NAMES)]}\b", NAMES[(number // 10 + 1) % len(NAMES)], text)
    if number % 7 == 2:
        text = text.replace(OUTER, f"        limit{number} = {number}\n{OUTER}")
    return text.splitlines(keepends=True)


def record(project: Path, versions: int) -> None:
    """A run of each version, oldest first, then the statement in today's script."""
    environ = {**os.environ, "REARVIEW_QUIET": "1"}
    chance = random.Random(7)
    lines = first_script()
    for number in range(versions):
        (project / SCRIPT).write_text("".join(lines))
        subprocess.run([sys.executable, SCRIPT], cwd=project, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = edited(lines, chance, number + 1)
    text = (project / SCRIPT).read_text()
    if text.count(LAST) != 1:
        raise ValueError("the statement has no place")
    (project / SCRIPT).write_text(text.replace(LAST, LAST + ADDED))


def newest(project: Path, folder: Path, count: int) -> Path:
    """The same project with its newest versions alone."""
    shutil.copytree(project, folder)
    store = layout.open_store(folder / layout.FOLDER)
    ordered = sorted(list_runs(store), key=lambda run: str(read_run(store, run)["tstamp"]))
    for run in ordered[: len(ordered) - count]:
        shutil.rmtree(store.run(run))
    shutil.rmtree(store.root / "segments", ignore_errors=True)
    return folder


def look(project: Path) -> asking.Prospect:
    """What the question comes to, over all versions of a project."""
    os.chdir(project)
    with Catalog(layout.open_store(project / layout.FOLDER)) as catalog:
        return asking.look(catalog, Ask(names=("grad",)))


def parse_all(project: Path) -> None:
    """What no planner is spared: each version's script, read and parsed."""
    store = layout.open_store(project / layout.FOLDER)
    for version in read.versions(store):
        ast.parse(read.source(store, version, SCRIPT))


def command_seconds(project: Path, *words: str) -> float:
    """How long a person waits."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rearview", *words], check=True, cwd=project, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def bytes_on_disk(folder: Path) -> int:
    """What a folder takes on the disk: whole blocks, folders included."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def main() -> None:
    """Record, ask, print."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "project"
        whole.mkdir()
        record(whole, max(VERSIONS))
        projects = {count: newest(whole, Path(folder) / f"newest{count}", count) for count in VERSIONS}
        most, fewest = max(VERSIONS), min(VERSIONS)
        found = look(projects[most])
        works = [lambda project=project: look(project) for project in projects.values()]
        planned = dict(zip([*VERSIONS, 0], harness.in_turn(*works, lambda: parse_all(projects[most]), times=TIMES, warmup=0), strict=True))
        command = harness.repeat(lambda: command_seconds(projects[most], "replay", "grad", "--dry-run"), times=TIMES, warmup=0)
        listed = harness.repeat(lambda: command_seconds(projects[most], "versions", "--limit", "0"), times=TIMES, warmup=0)
        size = bytes_on_disk(whole / layout.FOLDER / "code.git")
        os.chdir(home)
    results = {
        **harness.figures(**{f"plan_{count}_s": planned[count] for count in VERSIONS}, command_s=command, versions_s=listed),
        "each_grows": harness.ratio([one / most for one in planned[most]], [one / fewest for one in planned[fewest]]),
        "over_parsing_alone": harness.ratio(planned[most], planned[0]),
        "runs": {"certain": len(found.to_run), "uncertain": len(found.unsure), "refused": len(found.others)},
        "lines": LINES,
        "code_store_mb": harness.rounded(size / 1e6),
    }
    limits = {f"plan_{most}_s.median": 3.0, "command_s.median": 3.0, "each_grows.median": 1.25, "code_store_mb": 5.0}
    harness.report("versions", results, limits=limits)


if __name__ == "__main__":
    main()
