"""The tour behind `make demo`: a run that is over, a question that comes up, one added line, and the answer with its proof."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REARVIEW = [sys.executable, "-m", "rearview"]
BEHIND = '        rv.log("loss", loss)\n'
ADDED = '        rv.log("grad_norm", sum(p.grad.norm() ** 2 for p in net.parameters()) ** 0.5)\n'


def tell(text: str) -> None:
    """A word on what comes next."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def show(*words: str) -> None:
    """A command as somebody types it."""
    print("$ rearview", *(f"'{word}'" if set(word) & set(" \"'*()") else word for word in words), flush=True)


def do(*words: str) -> None:
    """Show a command and run it; stop the tour if it fails."""
    show(*words)
    code = subprocess.run([*REARVIEW, *words], check=False).returncode
    if code:
        sys.exit(f"the command ended with {code}")


def rows(query: str) -> list[dict[str, object]]:
    """What a query answers."""
    done = subprocess.run([*REARVIEW, "sql", query, "--json"], check=True, stdout=subprocess.PIPE)
    found: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return found


def kill_in_the_middle(project: Path) -> None:
    """Start a run and kill it as a cluster would, without a word, once it has kept a few states."""
    words = ["--set", "every=1", "run", "--name", "second", "train.py"]
    show(*words)
    print("  (and in the middle: kill -9)", flush=True)
    known = set((project / ".rearview" / "runs").iterdir())
    child = subprocess.Popen([*REARVIEW, *words])
    kept = 0
    while child.poll() is None and kept < 8:
        time.sleep(0.05)
        fresh = set((project / ".rearview" / "runs").iterdir()) - known
        kept = sum(len(list((run / "checkpoints").glob("*"))) for run in fresh if (run / "checkpoints").is_dir())
    if child.poll() is not None:
        sys.exit("the run ended before it could be killed")
    child.send_signal(signal.SIGKILL)  # the script dies with it
    child.wait()


def main() -> None:
    """Record, ask, replay, prove; kill, go on; one table."""
    project = Path(tempfile.mkdtemp(prefix="rearview-")) / "demo"
    project.mkdir()
    script = project / "train.py"
    shutil.copy(HERE / "train.py", script)
    os.chdir(project)
    print(f"A fresh folder, {project}, with one script:\n")
    print(script.read_text())

    tell("1. Record it. (every=1 keeps a state after each epoch: this run is short. By default, as often as it is worth it.)")
    do("--set", "every=1", "run", "--name", "first", "train.py")
    do("df", "loss", "--limit", "8")

    tell("2. A question comes up: the loss goes up and down on its way. Was it the gradients? Nobody logged them. Add the line:")
    print(f" {BEHIND}+{ADDED}", end="")
    script.write_text(script.read_text().replace(BEHIND, BEHIND + ADDED))

    tell("3. Ask the run that is over. The plan comes first, then the values, proved against all that the run had recorded.")
    do("replay", "grad_norm", "--yes")
    do("df", "loss", "grad_norm", "--provenance", "--limit", "8")

    tell("4. A question about single steps, without editing: these epochs run again, each worker from a stored state.")
    line = 1 + script.read_text().splitlines().index("            opt.step()")
    do("replay", "--at", f"train.py:{line}", "loss", "--as", "step_loss", "--only", "epoch=6..7", "--yes")
    do("df", "step_loss", "--limit", "6")

    tell("5. Does the whole run replay to itself, every record and every kept state, bit for bit?")
    do("verify", "first", "--yes")

    tell("6. Record the edited script, and kill it in the middle. Then go on with it.")
    kill_in_the_middle(project)
    do("resume", "--yes")

    tell("7. The second run logged the norm itself, the first was asked in hindsight: one column.")
    do("df", "grad_norm", "--provenance", "--where", "epoch >= 10")
    do("runs")
    values = rows("SELECT origin, path, value_float FROM logs WHERE value_name = 'grad_norm' ORDER BY path")
    replayed, recorded = ({row["path"]: row["value_float"] for row in values if row["origin"] == kind} for kind in ("replayed", "recorded"))
    if not replayed or replayed != recorded:
        sys.exit("the replayed values are not those that a run with the line in it records")
    print(f"All {len(replayed)} replayed values are those that a run with the line in it recorded, to the last bit.")

    tell("That is all of it. The store is the folder .rearview in")
    print(f"   {project}")
    print("Try there: rearview replays; rearview show first; rearview replay --at train.py:11 'y.float().mean()' --as balance")


if __name__ == "__main__":
    main()
