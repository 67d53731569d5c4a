"""`python -m bench [NAME...]`: run every `bench_*.py`, each in a process of its own, and print its JSON lines.

A benchmark that fails, or prints no JSON, is a line with `error`; the exit code says whether all ran. Whether a figure
holds is in its own line: a busy machine does not make a build fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 1800


def is_json(line: str) -> bool:
    """Whether a line is one JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def run(name: str) -> bool:
    """Run one benchmark and pass on what it found; False if it found nothing."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("REARVIEW")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as those of an installed package are
    environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent)])
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, env=environ, capture_output=True, text=True, timeout=TIME_LIMIT_S
        )
        output, code, errors = done.stdout, done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        output, code, errors = "", 1, f"not done after {TIME_LIMIT_S} s"
    lines = [line for line in output.splitlines() if is_json(line)]
    if code != 0 or not lines:
        why = (errors.strip().splitlines() or ["it printed no JSON object"])[-1]
        lines.append(json.dumps({"bench": name.removeprefix("bench_"), "error": why, "exit_code": code}))
    print("\n".join(lines), flush=True)
    return code == 0 and bool(lines)


def main() -> int:
    """Run those named, or all."""
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    if asked := set(sys.argv[1:]):
        unknown = asked - set(names) - {name.removeprefix("bench_") for name in names}
        if unknown:
            print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names) or 'none'}", file=sys.stderr)
            return 2
        names = [name for name in names if name in asked or name.removeprefix("bench_") in asked]
    failed = [name for name in names if not run(name)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
