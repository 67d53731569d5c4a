"""`python -m bench.propagate --mirror M`: place each case of `cases.csv` and print one JSON object, by kind and context.

M is a folder of git directories `OWNER+NAME/repo`, one for each public repository named in the cases; nothing of them is kept. A case takes
a log statement of a later version Y of a file and asks for it in an earlier one X, from which it was cut out; what comes back is compared
with X as it was (`scoring`). Imports and helpers that travel are left out there: only the statement is compared.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from bench.propagate import scoring
from bench.propagate.logunits import versions_of_x
from rearview.propagate.place import Placed, propagate

CASES = Path(__file__).with_name("cases.csv")
RIGHT = {"exact", "same"}
DAMAGE = {"wrong", "names", "other", "broken", "false"}


@cache
def show(mirror: str, repo: str, commit: str, path: str) -> str:
    """A file of a commit."""
    folder = Path(mirror) / repo.replace("/", "+") / "repo"
    folder = folder / ".git" if (folder / ".git").is_dir() else folder
    command = ["git", f"--git-dir={folder}", "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def sources(case: dict[str, Any], mirror: str) -> tuple[str, str, str]:
    """The later version, the earlier one as it was, and without the statement."""
    later = show(mirror, case["repo"], case["Y"], case["path"])
    earlier = show(mirror, case["repo"], case["X"], case["x_path"])
    if case["kind"] != "place":
        return later, earlier, earlier
    without, truth = versions_of_x(earlier, case["x_line"], case["x_end"], case["strip"])
    return later, truth, without


def run(case: dict[str, Any], mirror: str) -> dict[str, Any]:
    """Place one case and judge it."""
    later, truth, without = sources(case, mirror)
    begin = time.process_time()
    found = propagate(later, case["y_line"], case["y_end"], without)
    seconds = time.process_time() - begin
    placed = isinstance(found, Placed) and bool(found.lines)
    # A statement that needs a function which X does not have is placed with it; X then had it in other words.
    helper = isinstance(found, Placed) and any(one.startswith(("def ", "async def ", "class ", "@")) for one in found.carried)
    out = found.bare if isinstance(found, Placed) and placed and not helper else None
    verdict = scoring.judge(case, truth, without, out)
    certain = isinstance(found, Placed) and found.certain and out is not None
    return {"case": case, "verdict": verdict, "certain": certain, "seconds": seconds}


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of some cases: how many are right, how many do damage, in percent, and how the certain ones do."""
    counts = collections.Counter(row["verdict"] for row in rows)
    certain = [row for row in rows if row["certain"]]
    bad = sum(counts[one] for one in DAMAGE)
    right = RIGHT if rows[0]["case"]["kind"] == "place" else {"refuse"}
    return {
        "cases": len(rows),
        "right_percent": round(100 * sum(counts[one] for one in right) / len(rows), 1),
        "damage_percent": round(100 * bad / len(rows), 1),
        "certain_percent": round(100 * len(certain) / len(rows), 1),
        "certain_damage": sum(row["verdict"] in DAMAGE for row in certain),
    }


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The table of the figures."""
    place = [row for row in rows if row["case"]["kind"] == "place" and not row["case"]["moved"]]
    groups = {"place": place}
    for one in ("2 of 2", "1 of 2", "0 of 2"):
        groups[f"place, {one} neighbours unchanged"] = [row for row in place if row["case"]["context"] == one]
    groups["place, renamed"] = [row for row in place if row["case"]["sub"] == "renamed"]
    groups["moved"] = [row for row in rows if row["case"]["kind"] == "place" and row["case"]["moved"]]
    groups["cannot"] = [row for row in rows if row["case"]["kind"] == "cannot"]
    times = [row["seconds"] for row in rows]
    return {
        "bench": "propagate",
        "groups": {name: figures(found) for name, found in groups.items() if found},
        "seconds": {"median": round(statistics.median(times), 4), "worst": round(max(times), 3)},
    }


def main() -> int:
    """Run the cases, or every n-th."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", required=True)
    parser.add_argument("--stride", type=int, default=1, help="every n-th case")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = sorted(scoring.load(CASES), key=lambda case: hashlib.sha1(case["id"].encode(), usedforsecurity=False).hexdigest())
    rows = [run(case, asked.mirror) for case in cases[:: asked.stride]]
    print(json.dumps(report(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
