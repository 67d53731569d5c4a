"""Progress bars around loops, `tqdm(rv.loop(...))`: checkpoints are complete, and a resumed bar goes on counting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunsProgram

PROGRAM = """
import io, os, random, sys
import rearview as rv

def tqdm_bar(items):
    from tqdm import tqdm
    return tqdm(items, file=shown, mininterval=0.0)

def rich_bar(items):
    from rich.console import Console
    from rich.progress import track
    return track(items, total=len(items), console=Console(file=shown))

def off_bar(items):
    from tqdm import tqdm
    return tqdm(items, disable=True)

def main():
    random.seed(3)
    total = 0.0
    with rv.checkpointing():
        epochs = rv.loop("epoch", range(6))
        held = bar(epochs) if sys.argv[1] != "rich" else None
        for epoch in bar(epochs) if held is None else held:
            for step in bar(rv.loop("step", range(4))):
                total += random.random()
                rv.log("total", total)
            if epoch == 3 and os.environ.get("DIE"):
                os._exit(9)
    print(total)

shown = open(os.devnull, "w") if os.environ.get("DIE") else io.StringIO()
bar = globals()[sys.argv[1] + "_bar"]
main()
if sys.argv[1] == "tqdm":
    outer = [line for line in shown.getvalue().replace("\\n", "\\r").split("\\r") if "/6 " in line]
    print(outer[-1].split("|")[2].split()[0])
"""


@pytest.mark.parametrize("kind", ["tqdm", "off", "rich"])
def test_a_bar_around_a_loop_takes_nothing_from_its_checkpoints(project: Path, cli: RunsProgram, kind: str) -> None:
    pytest.importorskip("rich" if kind == "rich" else "tqdm")
    (project / "train.py").write_text(PROGRAM)
    expected = cli("run", "train.py", kind, check=True).stdout
    died = cli("run", "train.py", kind, env={"REARVIEW_EVERY": "1", "DIE": "1"})
    assert died.returncode == 9 and "partial" not in died.stderr, died.stderr
    listed = json.loads(cli("checkpoints", "last", "--json", check=True).stdout)["checkpoints"]
    assert listed and all(one["complete"] for one in listed)
    done = cli("resume", "--yes", env={"REARVIEW_EVERY": "1"})
    assert done.returncode == 0, done.stderr
    assert ("held (tqdm.std.tqdm): a progress bar" in done.stderr) == (kind != "rich")
    assert done.stdout == expected  # tqdm's own last word too: 6 of 6, not what was done since
    assert "each with the same value as before" in done.stderr


ZIPPED = """
import os, random
import rearview as rv

def walk():
    at = 0.0
    while True:
        at += random.random()
        yield at

def main():
    random.seed(3)
    with rv.checkpointing():
        for epoch, at in zip(rv.loop("epoch", range(6)), walk()):
            rv.log("at", at + random.random())
            if epoch == 3 and os.environ.get("DIE"):
                os._exit(9)
    print(at, random.random())

main()
"""


def test_what_is_zipped_with_a_loop_and_draws_goes_on_where_it_was(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(ZIPPED)
    expected = cli("run", "train.py", check=True).stdout
    assert cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"}).returncode == 9
    done = cli("resume", "--yes", env={"REARVIEW_EVERY": "1"}, check=True)
    assert done.stdout == expected, done.stderr
    assert "may not go on exactly" not in done.stderr and "differ" not in done.stderr, done.stderr


def test_what_stands_before_a_loop_in_a_zip_is_named_before_it_starts(project: Path, cli: RunsProgram) -> None:
    source = ZIPPED.replace(
        'for epoch, at in zip(rv.loop("epoch", range(6)), walk())', 'for at, epoch in zip(walk(), rv.loop("epoch", range(6)))'
    )
    (project / "train.py").write_text(source)
    assert cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"}).returncode == 9
    plan = cli("resume", "--dry-run", check=True).stdout
    assert "what stands before a loop in a zip begins anew where the program is resumed: put the loop first" in " ".join(plan.split())
