"""The tour behind `make demo`: real runs of a small model in a folder of their own, and the table they give."""

from __future__ import annotations

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


def tell(text: str) -> None:
    """A word on what comes next."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def do(*words: str) -> None:
    """Show a command and run it; stop the tour if it fails."""
    print("$ rearview", *(f'"{word}"' if " " in word else word for word in words), flush=True)
    code = subprocess.run([*REARVIEW, *words], check=False).returncode
    differences = 1 if words[0] == "diff" else 0
    if code not in (0, differences):
        sys.exit(code)


def kill_in_the_middle(project: Path) -> None:
    """Start a long run and kill it as a cluster would, without a word."""
    words = ["run", "--name", "killed", "--arg", "epochs=100000", "train.py"]
    print("$ rearview", *words, "   # and in the middle: kill -9", flush=True)
    known = set((project / ".rearview" / "runs").iterdir())
    child = subprocess.Popen([*REARVIEW, *words])
    journals: list[Path] = []
    while child.poll() is None and not any(journal.stat().st_size > 20_000 for journal in journals):
        time.sleep(0.05)
        fresh = set((project / ".rearview" / "runs").iterdir()) - known
        journals = [journal for run in fresh for journal in run.glob("0-*.journal")]
    child.send_signal(signal.SIGKILL)  # the script dies with it
    child.wait()


def main() -> None:
    """Record, kill, edit, look."""
    project = Path(tempfile.mkdtemp(prefix="rearview-")) / "demo"
    project.mkdir()
    shutil.copy(HERE / "train.py", project)
    os.chdir(project)
    print(f"A fresh folder, {project}, with one script:\n")
    print((project / "train.py").read_text())

    tell("1. Record it twice, with another learning rate each time.")
    do("run", "--name", "slow", "--arg", "lr=0.001", "train.py")
    do("run", "--name", "fast", "--arg", "lr=0.01", "train.py")

    tell("2. Record it again and kill it. Whatever was logged before the kill is there.")
    kill_in_the_middle(project)

    tell("3. Edit the script and run it once more: each run keeps the source it ran.")
    script = project / "train.py"
    script.write_text(script.read_text().replace("torch.optim.Adam", "torch.optim.SGD"))
    print("   (torch.optim.Adam became torch.optim.SGD)")
    do("run", "--name", "sgd", "train.py")

    tell("4. Every run of every version is in one place.")
    do("runs")

    tell("5. One table over all of them: a row per epoch, the argument beside it.")
    do("df", "lr", "acc", "--where", "name <> 'killed'")

    tell("6. What is the difference between two of them?")
    do("diff", "fast", "sgd")

    tell("7. A picture.")
    do("plot", "loss", "--where", "name in ('slow', 'fast')")

    tell("That is all of it. The store is the folder .rearview in")
    print(f"   {project}")
    print("Try there: rearview show fast; rearview sql \"select name, status, records from runs\"; rearview code sgd train.py")


if __name__ == "__main__":
    main()
