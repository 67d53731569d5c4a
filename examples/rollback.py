"""A story: a detector has got worse at something that nobody logged. Which was the last good one? `python examples/rollback.py`

The history of six weeks is recorded first, in a fresh folder: three versions of the script, two runs of each. Then one added line is
asked of all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import detector

import rearview as rv

BEHIND = 'rv.log("f1_round", f1("roundabout", found))\n'
ADDED = 'rv.log("f1_ped", f1("pedestrian", found))\n'
CHOSEN = "lr > 0.001"
GOOD = 0.9
"""A model is good if it has this part of the best that there was."""


def main() -> None:
    """Record, ask in hindsight, choose."""
    detector.tell("Six weeks of training, each from last week's weights. Meanwhile the code changes: names, a function taken out, ...")
    project = detector.record()
    detector.do("versions")

    detector.tell("What was logged looks well, week after week. (Accuracy is a little lower lately: the scenes are harder, it is said.)")
    detector.do("df", "week", "f1_round", "accuracy", "--where", "epoch = 4")

    detector.tell("But pedestrians are not seen any more. Since when? That score was never logged. It is one line in today's script:")
    detector.add_line(BEHIND, ADDED)

    detector.tell("Ask it of every version. The plan says where the line goes in each, and how certain that is.")
    detector.do("replay", "f1_ped", "--where", CHOSEN, "--dry-run")

    detector.tell("Where it is uncertain, a version is left out unless told. Look at the places; they are right:")
    detector.do("replay", "f1_ped", "--where", CHOSEN, "--show")

    detector.tell("So all of them. No training runs again: each program goes on from its last stored state, with its own code.")
    detector.do("replay", "f1_ped", "--where", CHOSEN, "--unsure", "--yes")

    detector.tell("One column, over all versions:")
    detector.do("df", "week", "f1_round", "f1_ped", "--provenance")
    detector.chart("f1_ped", "--x", "week")

    found = rv.dataframe("week", "f1_ped", as_="rows")
    best = max(row["f1_ped"] for row in found)
    last_good = max(row["week"] for row in found if row["f1_ped"] >= GOOD * best)
    detector.tell(f"The last good model is that of week {last_good}. Its weights and its code, out of the store:")
    state = rv.checkpoint(f"week{last_good}")
    weights = state["model"] if "model" in state else state["weights"]
    Path("rolled-back.json").write_text(json.dumps(weights))
    print("wrote rolled-back.json")
    detector.do("code", f"week{last_good}", "--to", "rolled-back")
    print(f"\nThe folder of this story: {project}")


if __name__ == "__main__":
    main()
