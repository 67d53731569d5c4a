"""Run the torch-free tests on the other Pythons of this machine: 3.12, 3.13, 3.14, each in its own environment.

A Python that is not found, or that cannot be set up here, is skipped with one line: the CI has them all. Tests that start programs are
shared: each is run on one of the other Pythons. REARVIEW_TEST_SHARE=0/1 runs all of them on each.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.12", "3.13", "3.14")
TESTS = ("tests/unit", "tests/property", "tests/integration", "tests/e2e")
FEWER = {
    "REARVIEW_TEST_KILLS": "5",
    "REARVIEW_TEST_STATES": "3",
    "REARVIEW_TEST_EXAMPLES": "100",
    "REARVIEW_TEST_FUZZ": "100",
    "REARVIEW_TEST_FLIPS": "100",
    "REARVIEW_TEST_PROGRAMS": "10",
    "REARVIEW_TEST_INSTRUMENT": "10",
    "REARVIEW_TEST_LAWS": "10",
}
"""The full counts were paid on the main Python; what differs between Pythons shows in a few."""
ALIKE = ("tests/unit/test_house.py",)
"""Tests that look at texts: what they say is the same on every Python."""


def candidates(version: str) -> list[str]:
    """Where a Python of that version may be: on PATH, or kept by pyenv, whose shims alone may refuse to start it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True) if pyenv.is_dir() else []
    return [f"python{version}", *map(str, kept)]


def find(version: str) -> str | None:
    """A Python that starts and is of that version."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in candidates(version):
        try:
            answer = subprocess.run([candidate, "-c", question], capture_output=True, text=True, timeout=60)
        except OSError:
            continue
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return candidate
    return None


def set_up(python: str, version: str) -> Path | None:
    """The environment of that Python with the project in it, made anew only when pyproject.toml changed."""
    venv = ROOT / f".venv-{version}"
    inside = venv / "bin" / "python"
    stamp, wanted = venv / ".ready", hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted and inside.exists():
        return inside
    print(f"python{version}: setting up {venv.name}", flush=True)
    install = [str(inside), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--editable", f"{ROOT}[all,dev]"]
    for command in ([python, "-m", "venv", str(venv)], install):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if done.returncode != 0:
            why = (done.stderr or done.stdout).strip().splitlines()[-1:]
            print(f"python{version}: skipped, it cannot be set up here: {' '.join(why)}", flush=True)
            return None
    stamp.write_text(wanted)
    return inside


def _python(version: str) -> Path | None:
    """The environment of that version, ready; None if it is this one's, or there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return None
    python = find(version)
    if python is None:
        print(f"python{version}: not found, skipped", flush=True)
        return None
    return set_up(python, version)


def main() -> int:
    """Test on each; the exit code is the first that was not 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="2")
    options = parser.parse_args()
    tests = [path for path in TESTS if (ROOT / path).is_dir()]
    ready = [(version, inside) for version in VERSIONS if (inside := _python(version)) is not None]
    worst = 0
    for share, (version, inside) in enumerate(ready):
        print(f"python{version}: the torch-free tests; of those that start programs, share {share + 1} of {len(ready)}", flush=True)
        subprocess.run([str(inside), "-m", "compileall", "-q", str(ROOT / "src")])  # once: the tests start thousands of programs
        command = [str(inside), "-m", "pytest", "-q", "-n", options.workers, "--dist", "worksteal", "-m", "not torch and not long", *tests]
        command += [f"--ignore={path}" for path in ALIKE]
        counts = {**FEWER, "REARVIEW_TEST_SHARE": f"{share}/{len(ready)}", **os.environ}
        code = subprocess.run(command, cwd=ROOT, env=counts).returncode
        worst = worst or code
    return worst


if __name__ == "__main__":
    sys.exit(main())
