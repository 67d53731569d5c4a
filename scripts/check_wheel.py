"""Look at the wheel that was built: the package, its licence and `py.typed` are in it, and nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def problems_of(wheel: Path) -> list[str]:
    """What is missing, and what should not be there."""
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".typed")}
    found = [f"{name} is missing" for name in sorted(sources - names)]
    found += [f"{name} should not be in it" for name in sorted(names) if not name.startswith(("rearview/", "rearview_ml-"))]
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        found.append("the licence is missing")
    return found


def main() -> int:
    """Check each wheel of a folder."""
    wheels = sorted(Path(sys.argv[1]).glob("*.whl"))
    problems = [f"{wheel.name}: {problem}" for wheel in wheels for problem in problems_of(wheel)]
    if not wheels:
        problems.append("no wheel was built")
    for line in problems or [f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB, whole" for wheel in wheels]:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
