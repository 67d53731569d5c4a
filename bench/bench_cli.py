"""How long a person waits for the command itself: `rearview --help` and one command's, as new processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from bench import harness


def starting(*words: str) -> Callable[[], object]:
    """A work that starts a Python with these words and waits for its end."""
    return lambda: subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    bare, of_all, of_one = harness.in_turn(
        starting("-c", "pass"), starting("-m", "rearview", "--help"), starting("-m", "rearview", "runs", "--help"), times=15, warmup=2
    )
    harness.report(
        "cli",
        {**harness.figures(bare_python_s=bare, help_s=of_all, runs_help_s=of_one), "help_to_bare": harness.ratio(of_all, bare)},
        limits={"help_s.median": 0.15},
    )
