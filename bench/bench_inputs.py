"""What noting the inputs costs a run that reads many files: processor time with rearview, to that without, in turn.

100 MB in 400 files, one read every hundredth of a second of work: they are identified and hashed off the training thread. The same with
one file is taken off, so that what any run pays once is not counted. Processor time of the whole process: other programs do not disturb
it much.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import harness

FILES, BYTES, TIMES = 400, 256 << 10, 3
LIMITS = {"added_percent.median": 1.0}
PROGRAM = """
import sys, time
import rearview as rv
files = int(sys.argv[1])
total = 0
for k in rv.loop("step", range(400)):
    with open(f"data/{k % files}", "rb") as file:
        total += len(file.read())
    until = time.process_time() + 0.01
    while time.process_time() < until:
        total += 1
rv.log("total", float(total > 0))
"""


def cpu_s(folder: Path, files: int, **env: str) -> float:
    """Processor seconds of one run, to the end of the process."""
    before = os.times()
    command = [sys.executable, "train.py", str(files)]
    subprocess.run(command, cwd=folder, env=os.environ | {"REARVIEW_QUIET": "1", "REARVIEW_DIR": str(folder), **env}, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure in turn."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).absolute()
        (folder / "data").mkdir()
        for k in range(FILES):
            (folder / "data" / str(k)).write_bytes(os.urandom(BYTES))
        (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
        added = []
        for _ in range(TIMES):
            many, one = cpu_s(folder, FILES), cpu_s(folder, 1)
            off_many, off_one = cpu_s(folder, FILES, REARVIEW="off"), cpu_s(folder, 1, REARVIEW="off")
            added.append(100 * ((many - one) - (off_many - off_one)) / off_many)
    harness.report("inputs", {"added_percent": harness.summary(added), "files": FILES, "mb": FILES * BYTES / 1e6}, limits=LIMITS)


if __name__ == "__main__":
    main()
