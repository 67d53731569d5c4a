"""Versions on the command line: the list, and `code` and `diff` with versions instead of runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """\
import rearview as rv

for epoch in rv.loop("epoch", range(2)):
    rv.log("loss", 1 / (epoch + 1))
"""

Cli = Callable[..., subprocess.CompletedProcess[str]]


def document(cli: Cli, *words: str, code: int = 0) -> Any:
    done = cli(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_history_with_commits(project: Path, cli: Cli) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    (project / "train.py").write_text(SCRIPT)
    git("add", ".")
    git("commit", "-q", "-m", "first")
    head = git("rev-parse", "HEAD")
    cli("run", "--name", "one", "train.py", check=True)
    (project / "train.py").write_text(SCRIPT.replace("range(2)", "range(3)"))
    (project / "helper.py").write_text("A = 1\nB = 2\n")
    for name in ("two", "three"):
        cli("run", "--name", name, "train.py", check=True)

    found = document(cli, "versions")
    assert (found["schema"], found["total"], found["runs_without_version"]) == ("rearview.versions/1", 2, 0)
    first, second = found["versions"]
    assert first["commit"] == {"head": head, "branch": first["commit"]["branch"], "dirty": False}
    assert (first["before"], first["files_changed"], first["lines_added"], len(first["runs"])) == (None, None, None, 1)
    assert second["commit"]["head"] == head and second["commit"]["dirty"] is True
    assert (second["before"], second["files_changed"]) == (first["version"], ["helper.py", "train.py"])
    assert (second["lines_added"], second["lines_removed"], len(second["runs"])) == (3, 1, 2)
    assert first["first_run"] < second["first_run"]

    heading, *rows = cli("versions", check=True).stdout.splitlines()
    assert heading.split() == ["version", "when", "runs", "files", "added", "removed", "changed", "commit"]
    assert [row.split()[0] for row in rows] == [one["version"][:8] for one in (first, second)]
    assert rows[0].endswith(head[:8]) and rows[1].endswith(f"{head[:8]}*") and "helper.py, train.py" in rows[1]
    limited = cli("versions", "--limit", "1", check=True).stdout.splitlines()
    assert limited[0] == "... 1 earlier version, --limit 0 for all" and len(limited) == 3 and "+3" in limited[2]


def test_code_and_diff_take_versions(project: Path, cli: Cli) -> None:
    (project / "train.py").write_text(SCRIPT)
    cli("run", "--name", "one", "train.py", check=True)
    one = document(cli, "versions")["versions"][0]["version"]
    (project / "train.py").write_text(SCRIPT.replace("range(2)", "range(3)"))
    cli("run", "--name", one[:7], "train.py", check=True)  # a name that looks like a version, and is the beginning of one
    two = document(cli, "versions")["versions"][1]["version"]

    page = cli("code", one[:9], check=True).stdout
    assert page.splitlines()[0].startswith(f"version {one}  1 run, first r") and "train.py  (the script)" in page
    assert cli("code", one, "train.py", check=True).stdout == SCRIPT
    cli("code", one[:9], "--to", "copy", check=True)
    assert (project / "copy" / "train.py").read_text() == SCRIPT
    assert document(cli, "code", one)["run"] is None and document(cli, "code", one)["version"] == one

    taken = cli("code", one[:7], "train.py", check=True)
    assert "range(3)" in taken.stdout and f"the version is {one}" in taken.stderr and "is the name of run" in taken.stderr

    done = cli("diff", one[:9], two[:9])
    assert done.returncode == 1 and '+for epoch in rv.loop("epoch", range(3)):' in done.stdout
    assert "metrics" not in done.stdout and "args" not in done.stdout
    mixed = document(cli, "diff", "one", two, code=1)
    assert (mixed["schema"], mixed["left"]["version"], mixed["right"]) == ("rearview.code-diff/1", one, {"run": None, "version": two})
    assert mixed["left"]["run"].startswith("r") and "range(3)" in mixed["diff"]
    same = cli("diff", "one", one)
    assert same.returncode == 0 and "the same code" in same.stdout

    for ref, said in (("v12", "at least 4 digits"), ("v" + "0" * 12, "no version v"), ("vqqqq", "no run has the id or name")):
        missing = cli("code", ref)
        assert missing.returncode == 3 and said in missing.stderr, missing.stderr


def test_nothing_yet(project: Path, cli: Cli) -> None:
    assert cli("versions").returncode == 3
    (project / "bare.py").write_text("import rearview as rv\nrv.log('x', 1)\n")
    cli("run", "bare.py", check=True)
    cli("rm", "last", "--yes", check=True)
    none = cli("versions")
    assert none.returncode == 3 and "no versions yet" in none.stderr
