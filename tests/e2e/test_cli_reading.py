"""The reading commands over runs that were really recorded."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import math
import rearview as rv

lr = rv.arg("lr", 0.1)
for epoch in rv.loop("epoch", range(1, 4)):
    for step in rv.loop("step", range(5)):
        rv.log("loss", 1 / (epoch * 5 + step) * lr)
    rv.log("acc", 1 - lr / epoch)
rv.log("odd", math.nan)
rv.log("big", 2**70)
rv.log("speed", __import__("time").perf_counter(), volatile=True)
if lr > 1:
    raise ValueError("lr is too large")
"""

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that records two runs leaves a copy for the others."""
    return tmp_path_factory.mktemp("two_runs") / "project"


@pytest.fixture
def two_runs(project: Path, cli: Cli, copied: Path) -> Path:
    """A run that finished and one that failed, from one script."""
    if copied.exists():
        shutil.copytree(copied, project, dirs_exist_ok=True)
        return project
    (project / "train.py").write_text(SCRIPT)
    cli("run", "--name", "good", "train.py", check=True)
    assert cli("run", "--name", "bad", "--arg", "lr=2.5", "train.py").returncode == 1
    shutil.copytree(project, copied)
    return project


def document(cli: Cli, *words: str, code: int = 0) -> Any:
    done = cli(*words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_runs(two_runs: Path, cli: Cli) -> None:
    page = cli("runs", check=True).stdout
    head, good, bad = page.splitlines()
    assert head.split() == ["run", "when", "name", "script", "version", "ended", "took", "args", "last", "values"]
    assert "good" in good and "finished" in good and "lr=0.1" in good and "train.py" in good
    assert "bad" in bad and "failed ValueError" in bad and "lr=2.5" in bad

    found = document(cli, "runs")
    assert (found["schema"], found["total"], [run["name"] for run in found["runs"]]) == ("rearview.runs/1", 2, ["good", "bad"])
    assert found["runs"][0]["last"]["odd"] == "NaN"
    assert found["runs"][0]["last"]["big"] == 2**70
    assert found["runs"][1]["given"] == ["lr"]

    assert [run["name"] for run in document(cli, "runs", "--where", "lr > 1")["runs"]] == ["bad"]
    limited = document(cli, "runs", "--limit", "1")
    assert (limited["total"], [run["name"] for run in limited["runs"]]) == (2, ["bad"])
    assert cli("runs", "--limit", "1").stdout.startswith("... 1 earlier run, --limit 0 for all\n")
    assert document(cli, "runs", "--where", "lr > 100", code=3)["runs"] == []


@pytest.mark.parametrize("width", [40, 80, 140])
def test_nothing_is_wider_than_the_screen(two_runs: Path, cli: Cli, width: int) -> None:
    wide = {"COLUMNS": str(width)}
    for words in (["runs"], ["df", "loss", "acc", "lr"], ["sql", "select * from logs"], ["plot", "loss"], ["config"]):
        for line in cli(*words, env=wide, check=True).stdout.splitlines():
            assert len(line) <= width, (words, line)


def test_show(two_runs: Path, cli: Cli) -> None:
    page = cli("show", "bad", check=True).stdout
    for part in ("failed", "ValueError: lr is too large", "train.py", "acc", "python", "15", "on disk"):
        assert part in page
    found = document(cli, "show", "good")
    assert found["schema"] == "rearview.show/1"
    figures = {metric["name"]: metric for metric in found["metrics"]}
    assert (figures["loss"]["count"], figures["acc"]["minimum"], figures["acc"]["maximum"]) == (15, 0.9, 1 - 0.1 / 3)
    assert figures["speed"]["volatile"] is True and figures["loss"]["volatile"] is False
    assert cli("show", "nosuch").returncode == 3


def test_df(two_runs: Path, cli: Cli) -> None:
    found = document(cli, "df", "loss", "acc", "lr", "--run", "good")
    assert [column["name"] for column in found["columns"]] == ["projid", "run", "tstamp", "filename", "epoch", "step", "loss", "acc", "lr"]
    assert len(found["rows"]) == 15
    assert found["rows"][7] == {**found["rows"][7], "epoch": 2, "step": 2, "loss": 1 / 12 * 0.1, "acc": 1 - 0.1 / 2, "lr": 0.1}

    page = cli("df", "loss", check=True).stdout.splitlines()
    assert page[-1].startswith("30 rows")
    assert len(page) == 32
    elided = cli("df", "loss", "--limit", "4", check=True).stdout.splitlines()
    assert len(elided) == 7 and "26 rows not shown" in elided[3]

    table = list(csv.DictReader(io.StringIO(cli("df", "loss", "big", "--where", "epoch = 1", "--csv", check=True).stdout)))
    assert len(table) == 10
    assert float(table[0]["loss"]) == 1 / 5 * 0.1 and int(table[0]["big"]) == 2**70

    assert cli("df", "loss", "--parquet", "out.parquet", check=True).stdout == ""
    assert (two_runs / "out.parquet").read_bytes()[:4] == b"PAR1"


def test_df_with_an_unknown_name_says_so(two_runs: Path, cli: Cli) -> None:
    done = cli("df", "loss", "acccc", "--json")
    assert done.returncode == 1
    assert "acccc" in done.stderr and "acc" in done.stderr
    assert {row["acccc"] for row in json.loads(done.stdout)["rows"]} == {None}
    assert cli("df", "acccc").returncode == 3


def test_sql(two_runs: Path, cli: Cli) -> None:
    found = document(cli, "sql", "select value_name, count(*) as n from logs where value_name = 'loss' group by all")
    assert found["rows"] == [{"value_name": "loss", "n": 30}]
    assert cli("sql", "select 1 as one, '=1' as two", "--csv", check=True).stdout == "one,two\n1,'=1\n"
    for wrong in ("select from", "drop table logs", "select * from read_text('/etc/passwd')"):
        done = cli("sql", wrong)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("rearview: ") and "Traceback" not in done.stderr


def test_plot(two_runs: Path, cli: Cli) -> None:
    page = cli("plot", "acc", check=True).stdout
    assert page.startswith("acc  by epoch\n") and "lr=0.1" in page and "lr=2.5" in page
    found = document(cli, "plot", "loss", "--run", "good")
    (chart,) = found["charts"]
    assert chart["x"] == "row" and chart["series"][0]["x"] == [float(k) for k in range(15)]
    (chart,) = document(cli, "plot", "loss", "--x", "acc", "--run", "good")["charts"]
    assert chart["x"] == "acc" and chart["series"][0]["x"][0] == 0.9
    (chart,) = document(cli, "plot", "loss", "--x", "epoch", "--run", "good")["charts"]
    assert chart["series"][0]["x"][:6] == [1, 1, 1, 1, 1, 2]
    assert cli("plot", "nosuch").returncode == 3
    assert cli("plot", "loss", "-o", "x.pdf").returncode == 2


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_plot_files(two_runs: Path, cli: Cli, kind: str) -> None:
    pytest.importorskip("matplotlib")
    cli("plot", "loss", "acc", "-o", f"chart.{kind}", check=True)
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}
    assert (two_runs / f"chart.{kind}").read_bytes().startswith(begins[kind])


def test_diff(two_runs: Path, cli: Cli) -> None:
    (two_runs / "train.py").write_text(SCRIPT.replace("range(5)", "range(6)"))
    cli("run", "--name", "edited", "train.py", check=True)
    found = document(cli, "diff", "good", "edited", code=1)
    assert found["differs"] is True and found["args"] == []
    assert '+    for step in rv.loop("step", range(6)):' in found["code"]["diff"]
    by_name = {metric["name"]: metric for metric in found["metrics"]}
    assert by_name["loss"]["differs"] and not by_name["acc"]["differs"] and by_name["speed"]["volatile"]

    page = cli("diff", "good", "bad").stdout
    assert "0.1" in page and "2.5" in page and "args" in page
    assert document(cli, "diff", "good", "bad", code=1)["args"] == [{"name": "lr", "left": 0.1, "right": 2.5}]
    assert cli("diff", "good", "good").returncode == 0


def test_equal_runs_do_not_differ(two_runs: Path, cli: Cli) -> None:
    cli("run", "--name", "again", "train.py", check=True)
    done = cli("diff", "good", "again")
    assert done.returncode == 0, done.stdout
    assert "variables.PYTHONHASHSEED: drawn for each run, no difference" in done.stdout
    (seed,) = document(cli, "diff", "good", "again")["environment"]
    assert (seed["name"], seed["by_chance"]) == ("variables.PYTHONHASHSEED", True)


def test_code(two_runs: Path, cli: Cli) -> None:
    (two_runs / "train.py").write_text("changed = True\n")
    assert "train.py  (the script)" in cli("code", "good", check=True).stdout
    assert cli("code", "good", "train.py", check=True).stdout == SCRIPT
    assert cli("code", "good", "./train.py", "--color", "always", check=True).stdout != SCRIPT
    cli("code", "good", "--to", "copy", check=True)
    assert (two_runs / "copy" / "train.py").read_text() == SCRIPT
    refused = cli("code", "good", "--to", "copy")
    assert refused.returncode == 2 and "not empty" in refused.stderr
    (two_runs / "link").symlink_to(two_runs / "elsewhere")
    assert cli("code", "good", "--to", "link").returncode == 2
    assert cli("code", "good", "../train.py").returncode == 3
    assert document(cli, "code", "good", "train.py")["source"] == SCRIPT
    assert "train.py" in document(cli, "code", "good")["files"]


@pytest.mark.parametrize(("how", "filename"), [("notebook", "a.ipynb"), ("interactive", "ipython")])
def test_code_of_a_notebook_or_session_is_its_cells_in_order(project: Path, cli: Cli, how: str, filename: str) -> None:
    from rearview.testing.stores import StoreBuilder
    from rearview.versions import snapshot

    builder = StoreBuilder(project)
    cells = {f"cells/{number:04d}.py": f"step = {number}\n".encode() for number in (2, 10, 1)}
    taken = snapshot.take(builder.store, project, script=None, script_source=None, extra=cells, limit_bytes=1 << 20)
    builder.run(how=how, filename=filename, version=taken.version).process().end()
    page = cli("code", "last", check=True).stdout
    assert page.index("step = 1\n") < page.index("step = 2\n") < page.index("step = 10\n")
    assert "# --- cells/0010.py" in page
    assert document(cli, "code", "last")["cells"] == ["step = 1\n", "step = 2\n", "step = 10\n"]


def test_a_loop_called_like_what_another_run_logged(project: Path, cli: Cli) -> None:
    """`runs --where` and `replay --where` take a run by its own rows, whatever others logged."""
    loop = 'import rearview as rv\nfor epoch in rv.loop("epoch", range(3)):\n    rv.log("m", epoch)\n'
    (project / "train.py").write_text(loop)
    cli("run", "--name", "loop", "train.py", check=True)
    (project / "other.py").write_text('import rearview as rv\nrv.log("epoch", 7)\n')
    cli("run", "--name", "value", "other.py", check=True)
    for clause, name in (("epoch = 1", "loop"), ("epoch = 7", "value")):
        assert [run["name"] for run in document(cli, "runs", "--where", clause)["runs"]] == [name]
    (project / "train.py").write_text(loop + '    rv.log("twice", 2 * epoch)\n')
    (run,) = (run["run"] for run in document(cli, "runs")["runs"] if run["name"] == "loop")
    plan = document(cli, "replay", "twice", "--where", "epoch = 1", "--dry-run")
    assert [one["run"] for one in plan["plans"]] == [run]
