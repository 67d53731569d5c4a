"""A story: below which score should an alert be raised? `python examples/alert.py`

An alert that is raised too often is soon ignored. So the threshold is calibrated: the score is computed in hindsight in the validation of
every epoch of the weeks that were fine, and the threshold set below all of them. The history is that of `rollback.py`.
"""

from __future__ import annotations

from pathlib import Path

import detector

import rearview as rv

BEHIND = '        rv.log("accuracy", sum(guess == truth for guess, (_, truth) in zip(found, HELD_OUT)) / len(HELD_OUT))\n'
ADDED = '        rv.log("f1_alert", f1("pedestrian", found))\n'
MARGIN = 0.9
FINE = "week >= 2 and week <= 4"
"""The weeks that nobody complained about; the first one began with a model that knew nothing."""


def main() -> None:
    """Record, ask the weeks that were fine, calibrate, try it on the others."""
    detector.tell("Six weeks of training, in three versions of the code. Until week 4 all was well.")
    project = detector.record()
    detector.do("versions")

    detector.tell("An alert shall watch the pedestrians in every epoch's validation. What would it have seen? One line more:")
    detector.add_line(BEHIND, ADDED)

    detector.tell("First the weeks that were fine. The plan: each epoch's validation runs from the stored state, its training does not.")
    detector.do("replay", "f1_alert", "--where", FINE, "--unsure", "--dry-run")

    detector.tell("The same from Python, where calling it is the agreement:")
    print(f'>>> rv.replay("f1_alert", where="{FINE}", unsure=True)', flush=True)
    fine = rv.replay("f1_alert", where=FINE, unsure=True, as_="rows")
    lowest = min(row["f1_alert"] for row in fine)
    threshold = round(MARGIN * lowest, 3)
    print(f"{len(fine)} validations, the lowest {lowest:.3f}: an alert below {threshold}")

    detector.tell("Would it have helped? The weeks after, with the same line:")
    print('>>> rv.replay("f1_alert", where="week >= 5", unsure=True)', flush=True)
    rv.replay("f1_alert", where="week >= 5", unsure=True)
    detector.do("df", "week", "f1_alert", "--where", "week >= 2")
    detector.chart("f1_alert", "--where", "week >= 2")

    rows = rv.dataframe("week", "f1_alert", where="week >= 2", as_="rows")
    raised = [row["week"] for row in rows if row["f1_alert"] < threshold]
    false = sum(week <= 4 for week in raised)
    detector.tell(f"With {threshold}, {len(raised)} of {len(rows)} validations raise an alert, {false} of them without need.")
    print(f"The first would have been raised in week {min(raised)}.")
    Path("threshold.txt").write_text(f"{threshold}\n")
    print(f"The folder of this story: {project}")


if __name__ == "__main__":
    main()
