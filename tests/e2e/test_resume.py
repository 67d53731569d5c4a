"""`rearview resume`: a run that was killed goes on and ends as the one that was not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rearview.record.resume import past
from tests.conftest import RunsProgram, environment
from tests.e2e import resuming


@pytest.mark.parametrize(("at", "after"), [("3,4", 2), ("2,0", 1), ("5,7", 4)])
def test_it_ends_as_the_run_that_was_never_killed(project: Path, cli: RunsProgram, tmp_path: Path, at: str, after: int) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    run = resuming.killed(project, cli, at, after=after)
    done = cli("resume", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project) == {name: expected[name] for name in ("log.csv", "best.json")}
    assert resuming.logged(cli, run) == resuming.losses(expected["log.csv"])
    again = resuming.newest(cli)
    assert (again["run"], again["status"], again["attempts"]) == (run, "finished", 2)
    assert "logged again, each with the same value as before" in done.stderr


def test_killed_again_and_again(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    run = resuming.killed(project, cli, "2,3", after=1)
    for at, after, of in (("3,1", 2, signal.SIGTERM), ("3,6", 2, signal.SIGKILL), ("4,2", 3, signal.SIGKILL)):
        done = cli("resume", run, "--yes", env={"DIE_AT": at, "DIE_AFTER": str(after), "DIE_OF": str(int(of))})
        assert done.returncode == -of, done.stderr
        assert (resuming.newest(cli)["status"], resuming.newest(cli)["detail"]) == ("killed", of.name)
    done = cli("resume", run, "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project)["log.csv"] == expected["log.csv"]
    assert resuming.logged(cli, run) == resuming.losses(expected["log.csv"])
    shown = json.loads(cli("show", run, "--json", check=True).stdout)
    assert [one["place"] for one in shown["attempts"]] == [None, "after epoch=1", "after epoch=2", "after epoch=2", "after epoch=3"]
    assert shown["overlap"]["differing"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process as Linux does")
def test_out_of_memory(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    """The interpreter finds no more memory in mid-epoch, so the program raises, with rearview's threads in the same process."""
    expected = resuming.uninterrupted(tmp_path / "full")
    resuming.write_trainer(project)
    done = cli("run", "train.py", env={"DIE_AT": "3,4", "DIE_AFTER": "2", "DIE_OF": "memory", "REARVIEW_EVERY": "1"})
    assert done.returncode == 1
    assert "MemoryError" in done.stderr
    failed = resuming.newest(cli)
    assert (failed["status"], failed["detail"]) == ("failed", "MemoryError")
    done = cli("resume", "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project) == {name: expected[name] for name in ("log.csv", "best.json")}
    assert resuming.logged(cli, failed["run"]) == resuming.losses(expected["log.csv"])


def test_what_it_will_do_is_said_before_it_starts(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace("maybe_die(epoch, step)\n ", "log.flush()\n                maybe_die(epoch, step)\n "))
    run = resuming.killed(project, cli)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    told = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert (told["run"], told["attempt"], told["place"], told["new_run"]) == (run, 2, "after epoch=2", False)
    assert told["lost_s"] > 0
    assert told["restore_bytes"] > 0
    files = {one["path"]: one for one in told["files"]}
    assert (files["log.csv"]["what"], files["log.csv"]["emptied"]) == ("cut", True)
    assert set(files) == {"log.csv", "best.json"}
    page = cli("resume", "--dry-run", check=True).stdout
    for piece in ("after epoch=2, as attempt 2", "log.csv is cut back", "the code before the loop empties it", "of work done after it"):
        assert piece in page
    after = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert {path.name for path in before if "segments" not in path.parts and before[path] != after.get(path)} == set()


@pytest.mark.parametrize("how", ["1", "9"], ids=["failed", "killed"])
def test_one_that_did_not_come_to_its_place_leaves_files_as_they_were(project: Path, cli: RunsProgram, tmp_path: Path, how: str) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    run = resuming.killed(project, cli, "3,4", after=2)
    with (project / "log.csv").open("a") as log:
        log.write("3,4,0.5\n")  # the run's own: what was not flushed when it was killed
    before = resuming.files_of(project)
    failed = cli("resume", "--yes", env={"DIE_BEFORE": how})
    assert failed.returncode in (1, -9), failed.stderr
    if how == "9":
        assert resuming.files_of(project)["log.csv"] == "epoch,step,loss\n"
        assert "log.csv is put back first" in cli("resume", "--dry-run", check=True).stdout
        assert resuming.files_of(project)["log.csv"] == "epoch,step,loss\n", "that was a look"
    else:
        assert "as before that attempt again, from copies: log.csv" in failed.stderr
        assert resuming.files_of(project) == before
    done = cli("resume", run, "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project) == {name: expected[name] for name in ("log.csv", "best.json")}


def test_what_was_edited_after_such_an_attempt_is_left_alone(project: Path, cli: RunsProgram) -> None:
    run = resuming.killed(project, cli, "3,4", after=2)
    cli("resume", "--yes", env={"DIE_BEFORE": "9"})
    (project / "log.csv").write_text("mine\n")
    later = time.time() + 60
    os.utime(project / "log.csv", (later, later))
    page = cli("resume", run, "--dry-run", check=True).stdout
    assert "put back first" not in page
    assert "it is left as it is" in page


def test_a_killed_run_says_what_it_ran_in(project: Path, cli: RunsProgram) -> None:
    run = resuming.killed(project, cli)
    (journal,) = (project / ".rearview" / "runs" / run).glob("0-a1-*.journal")
    assert [sorted(fact) for fact in past.facts_in(journal, "environment")] == [["fact", "packages"]]


def test_a_set_of_text_depends_on_the_hash_seed(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    for checkpoints, code, noted in ((1, "", False), (2, "words = {'a', 'b'}", True)):
        (project / "model.py").write_text(resuming.MODEL + code)
        told = {"DIE_AT": "2,0", "DIE_AFTER": str(checkpoints), "REARVIEW_EVERY": "1"}
        assert resuming.plainly(project, told) == -9
        assert ("hash seed is not known" in cli("resume", "--dry-run", check=True).stdout) == noted


def test_nobody_to_ask(project: Path, cli: RunsProgram) -> None:
    resuming.killed(project, cli)
    done = cli("resume", stdin="")
    assert done.returncode == 2
    assert "add --yes" in done.stderr
    assert resuming.newest(cli)["attempts"] == 1


def test_finished_running_and_unknown_runs_are_refused(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    done = cli("resume", "--yes")
    assert done.returncode == 3, "there is no store yet"
    cli("run", "train.py", check=True)
    done = cli("resume", "last", "--yes")
    assert done.returncode == 2
    assert "has finished" in done.stderr
    done = cli("resume", "--yes")
    assert done.returncode == 3
    assert "nothing to go on with" in done.stderr
    (project / "inner.py").write_text(
        "import subprocess, sys\nimport rearview as rv\nrv.log('x', 1)\n"
        "sys.exit(subprocess.run([sys.executable, '-m', 'rearview', 'resume', 'last', '--yes']).returncode)\n"
    )
    done = cli("run", "inner.py")
    assert done.returncode == 2
    assert "still running" in done.stderr


def test_edited_and_deleted_source_is_not_what_runs(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    resuming.killed(project, cli)
    (project / "train.py").write_text("print('edited')\n")
    (project / "model.py").unlink()
    shutil.rmtree(project / "__pycache__", ignore_errors=True)
    told = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert sorted(told["edited"]) == ["model.py", "train.py"]
    done = cli("resume", "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert (project / "train.py").read_text() == "print('edited')\n"
    assert not (project / "model.py").exists()
    versions = {run["version"] for run in json.loads(cli("runs", "--json", check=True).stdout)["runs"]}
    assert len(versions) == 1, "the edited source is nobody's version"


SPAWNS = """
import glob, multiprocessing, os, time
import rearview as rv
from model import name

def ask(k):
    return f"{name} {k} as recorded"

if __name__ == "__main__":
    state = {"n": 0}
    with rv.checkpointing(state=state):
        for epoch in rv.loop("epoch", range(3)):
            state["n"] += 1
            if epoch == 2 and os.environ.get("DIE_AT"):
                patience = time.monotonic() + 20
                while not glob.glob(".rearview/runs/*/checkpoints/*-iteration.json") and time.monotonic() < patience:
                    time.sleep(0.01)
                os.kill(os.getpid(), 9)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(ask, [state["n"]]))
"""


def test_spawned_children_run_the_recorded_source_too(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(SPAWNS)
    (project / "model.py").write_text("name = 'the model'\n")
    assert cli("run", "train.py", env={"DIE_AT": "2", "REARVIEW_EVERY": "1"}).returncode == -9
    (project / "train.py").write_text(SPAWNS.replace("as recorded", "edited"))
    (project / "model.py").write_text("name = 'another model'\n")
    done = cli("resume", "--yes", check=True)
    assert done.stdout == "['the model 3 as recorded']\n"


def test_a_newer_run_that_cannot_be_started_again_is_passed_over(project: Path, cli: RunsProgram) -> None:
    piped = cli("run", "-", stdin="import rearview as rv\nrv.log('x', 1)\nraise SystemExit(3)\n")
    assert piped.returncode == 3, piped.stderr
    alone = cli("resume", "--yes")
    assert (alone.returncode, "which cannot be started again" in alone.stderr) == (2, True)
    run = resuming.killed(project, cli)
    assert cli("run", "-", stdin="import rearview as rv\nrv.log('x', 1)\nraise SystemExit(3)\n").returncode == 3
    done = cli("resume", "--dry-run", check=True)
    assert run in done.stdout
    told = " ".join(done.stderr.split())
    assert "passed over, as it is newer: run" in told
    assert "was read from a pipe, which cannot be started again" in told


CHILDREN = """
import multiprocessing, os, sys
import rearview as rv

def train():
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(4)):
            rv.log("epoch", epoch)
            if epoch == 2:
                os.kill(os.getpid(), 9)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=train)
    child.start()
    child.join()
    sys.exit(-child.exitcode)
"""


def test_a_spawned_child_that_is_a_run_of_its_own_is_passed_over(project: Path, cli: RunsProgram) -> None:
    """Nothing had been recorded in its parent: it joined no run."""
    run = resuming.killed(project, cli)
    (project / "children.py").write_text(CHILDREN)
    subprocess.run([sys.executable, "children.py"], cwd=project, env=environment({"REARVIEW_EVERY": "1"}), timeout=60, check=False)
    child = resuming.newest(cli)["run"]
    assert child != run
    named = cli("resume", child, "--yes")
    assert (named.returncode, "was a child process of a program" in named.stderr) == (2, True)
    assert "Traceback" not in named.stderr
    done = cli("resume", "--dry-run", check=True)
    assert run in done.stdout
    assert f"passed over, as it is newer: run {child} was a child process" in " ".join(done.stderr.split())


def test_edited_source_on_request(project: Path, cli: RunsProgram) -> None:
    run = resuming.killed(project, cli)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace('print("final"', 'print("edited"'))
    done = cli("resume", "--yes", "--current-code", check=True)
    assert "come back as they were, whatever edited code before the loop sets" in " ".join(done.stderr.split())
    assert done.stdout.startswith("edited")
    new = resuming.newest(cli)
    assert (new["parent"], new["status"], new["attempts"]) == (run, "finished", 1)
    assert new["run"] != run
    assert new["tags"] == [f"from {run}"]
    assert {epoch for epoch, _, _ in resuming.logged(cli, new["run"])} == {3, 4, 5}
    old = json.loads(cli("runs", "--json", check=True).stdout)["runs"][0]
    assert (old["run"], old["status"], old["attempts"]) == (run, "killed", 1)


@pytest.mark.parametrize("epochs", [4, 7])
def test_edited_source_says_how_far_a_loop_goes(epochs: int, project: Path, cli: RunsProgram) -> None:
    resuming.killed(project, cli)
    source = (project / "train.py").read_text()
    assert "range(1, 6)" in source
    (project / "train.py").write_text(source.replace("range(1, 6)", f"range(1, {epochs + 1})"))
    cli("resume", "--yes", "--current-code", check=True)
    assert {epoch for epoch, _, _ in resuming.logged(cli, resuming.newest(cli)["run"])} == set(range(3, epochs + 1))


TWO_LOOPS = """
import os, random, time
import rearview as rv
random.seed(5)
kept = []
with rv.checkpointing():
    for _ in rv.loop("warmup", range(3)):
        kept.append(random.random())
    mean = sum(kept) / len(kept)
    for k in rv.loop("main", range(6)):
        kept.append((k, mean * random.random()))
        time.sleep(0.2)
        if k == 3 and "DIE" in os.environ:
            os.kill(os.getpid(), 9)
print(mean, kept)
"""


def test_what_runs_between_two_loops_sees_the_end_of_the_first(project: Path, cli: RunsProgram) -> None:
    (project / "train.py").write_text(TWO_LOOPS)
    whole = cli("run", "train.py", env={"REARVIEW_EVERY": "1"}, check=True)
    assert cli("run", "train.py", env={"DIE": "1", "REARVIEW_EVERY": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert "after main=" in done.stderr
    assert done.stdout == whole.stdout


def test_arguments_and_settings_are_the_same(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full", "0.25")
    resuming.write_trainer(project)
    told = {"DIE_AT": "3,4", "DIE_AFTER": "2", "REARVIEW_EVERY": "1"}
    cli("run", "--arg", "seed=3", "train.py", "0.25", env=told)
    done = cli("resume", "--yes", cwd=project / ".rearview", check=True)
    assert done.stdout == expected["stdout"]
    found = json.loads(cli("checkpoints", "--json", check=True).stdout)["checkpoints"]
    last = [one for one in found if one["attempt"] == 2]
    assert len(last) >= 2, "every=1 was set for the first attempt alone"


def test_a_program_that_went_elsewhere_before_its_run_began(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    resuming.write_trainer(project)
    source = (project / "train.py").read_text().replace(".rearview/runs", "../.rearview/runs")
    source = source.replace("def main():\n", 'def main():\n    os.makedirs("out", exist_ok=True)\n    os.chdir("out")\n')
    (project / "train.py").write_text(source)
    resuming.killed(project, cli)
    done = cli("resume", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project / "out") == {name: expected[name] for name in ("log.csv", "best.json")}


def test_from_a_place(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    run = resuming.killed(project, cli, "4,4", after=3)
    told = json.loads(cli("resume", run, "--at", "epoch=1", "--dry-run", "--json", check=True).stdout)
    assert told["place"] == "after epoch=1"
    assert cli("resume", run, "--at", "epoch=9", "--yes").returncode == 3
    done = cli("resume", run, "--at", "epoch=1", "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert resuming.files_of(project)["log.csv"] == expected["log.csv"]


def test_without_a_checkpoint_it_begins_anew(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    run = resuming.killed(project, cli, "1,4", after=0)
    assert "no checkpoint" in cli("resume", "--dry-run", check=True).stdout
    done = cli("resume", "--yes", check=True)
    assert done.stdout == expected["stdout"]
    assert "from the future" not in done.stderr
    assert resuming.files_of(project)["log.csv"] == expected["log.csv"]
    assert resuming.newest(cli)["run"] == run
    assert resuming.logged(cli, run) == resuming.losses(expected["log.csv"])


@pytest.mark.damages_store
def test_a_damaged_checkpoint_is_named_and_the_older_one_used(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    expected = resuming.uninterrupted(tmp_path / "full")
    resuming.killed(project, cli, "4,4", after=3)
    newest = max((project / ".rearview").glob("runs/*/checkpoints/*-iteration.json"))
    newest.write_bytes(newest.read_bytes()[:-40] + b"x" * 40)
    told = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert told["place"] == "epoch=3, behind the loop step", "the other part of the same decision is whole"
    assert newest.name.removesuffix(".json") in told["passed_over"][0]
    done = cli("resume", "--yes", check=True)
    assert "damaged" in done.stderr
    assert done.stdout == expected["stdout"]


def test_a_difference_is_reported(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace('rv.log("acc", total)', 'rv.log("acc", float(os.environ.get("WHO", "0")))'))
    resuming.killed(project, cli, "4,2", after=2)
    newest = max((project / ".rearview").glob("runs/*/checkpoints/*-iteration.json"))
    place = json.loads(newest.read_text())["path"][0][3]
    done = cli("resume", "--at", f"epoch={place - 1}", "--yes", env={"WHO": "7"}, check=True)
    assert "logged again differ from what was logged before" in done.stderr
    assert f"acc at epoch={place} was 0.0 and is 7.0 in attempt 2" in done.stderr
    assert "loss at" not in done.stderr
    assert "differ" in cli("show", "last", check=True).stdout


def test_the_exit_code_is_the_programs_own(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace("    log.close()", "    log.close()\n    sys.exit(int(os.environ.get('CODE', '0')))"))
    resuming.killed(project, cli)
    assert cli("resume", "--yes", env={"CODE": "17"}).returncode == 17
    assert resuming.newest(cli)["status"] == "failed"


def test_a_changed_input_is_named_first(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    (project / "data.bin").write_bytes(b"1234")
    (project / "train.py").write_text("data = open('data.bin', 'rb').read()\n" + (project / "train.py").read_text().replace("0.005", "0.2"))
    resuming.killed(project, cli)
    assert json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)["changed"] == []
    (project / "data.bin").write_bytes(b"12345")
    assert json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)["changed"] == ["data.bin"]


def test_what_changed_is_named_once_by_what_it_is_now(project: Path, cli: RunsProgram) -> None:
    """Files of the version, and others, that were written as they were, changed, deleted; source that is read as a file as well."""
    resuming.write_trainer(project)
    names = [f"{name}.{kind}" for name in ("same", "other", "gone") for kind in ("json", "bin")]
    for name in names:
        (project / name).write_text("1234")
    read = f"import inspect; [open(name).read() for name in {names}]; inspect.getsource(inspect.currentframe())\n"
    (project / "train.py").write_text(read + (project / "train.py").read_text().replace("0.005", "0.2"))
    resuming.killed(project, cli)
    (project / "train.py").write_text((project / "train.py").read_text() + "# edited\n")
    for name in names:
        os.utime(project / name, (0, 0))
        if name.startswith("other"):
            (project / name).write_text("1235")
        elif name.startswith("gone"):
            (project / name).unlink()
    told = json.loads(cli("resume", "--dry-run", "--json", check=True).stdout)
    assert (told["edited"], sorted(told["changed"]), sorted(told["gone"])) == (
        ["train.py"], ["other.bin", "other.json"], ["gone.bin", "gone.json"],
    )  # fmt: skip
    lines = cli("resume", "--dry-run", check=True).stdout.splitlines()
    assert sorted(line.strip() for line in lines if "gone." in line or "other." in line) == sorted([*told["changed"], *told["gone"]])
    assert len([line for line in lines if line.startswith(("changed since", "gone since"))]) == 2


def test_tracebacks_show_the_recorded_lines(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    source = (project / "train.py").read_text()
    (project / "train.py").write_text(source.replace("    log.close()", "    raise ValueError('as recorded')  # the line"))
    resuming.killed(project, cli)
    (project / "train.py").write_text("\n" * 100)
    done = cli("resume", "--yes")
    assert done.returncode == 1
    assert "# the line" in done.stderr
    assert f'File "{project / "train.py"}"' in done.stderr


def test_an_interpreter_that_is_gone_is_named(project: Path, cli: RunsProgram) -> None:
    run = resuming.killed(project, cli)
    path = project / ".rearview" / "runs" / run / "run.json"
    from rearview.store import layout, runs

    store = layout.open_store(project / ".rearview")
    facts = {key: value for key, value in runs.read_run(store, run).items() if key not in ("schema", "run")}  # type: ignore[arg-type]
    path.unlink()
    facts["environment"]["executable"] = "/nowhere/python"
    runs.write_run(store, run, facts)  # type: ignore[arg-type]
    done = cli("resume", "--yes")
    assert done.returncode == 2
    assert "/nowhere/python" in done.stderr
    assert sys.executable in done.stderr


def test_checkpoints_that_were_off_are_not_asked_for_again(project: Path, cli: RunsProgram) -> None:
    resuming.write_trainer(project)
    cli("run", "train.py", env={"REARVIEW_CHECKPOINTS": "off"}, check=True)
    told = cli("checkpoints").stderr
    assert "they were off" in told
    assert "with rv.checkpointing" not in told


VALIDATES = """
import os, time, glob
import torch
import rearview as rv

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(5)):
        for step in rv.loop("step", range(3)):
            opt.zero_grad()
            loss = net(torch.ones(2, 4)).pow(2).mean()
            loss.backward()
            opt.step()
        value = net(torch.ones(2, 4)).pow(2).mean()
        rv.log("value", value.item())
        while os.environ.get("DIE") and epoch == 3:
            if len(glob.glob(".rearview/runs/*/checkpoints/*-iteration.json")) == 3:
                os.kill(os.getpid(), 9)
            time.sleep(0.01)
print("final", net.weight, value)
"""


def test_a_value_with_a_history_that_nobody_looks_at_any_more(project: Path, cli: RunsProgram, tmp_path: Path) -> None:
    """The state at the end of an iteration lacks nothing for it."""
    pytest.importorskip("torch")
    (project / "train.py").write_text(VALIDATES)
    full = cli("run", "train.py", env={"REARVIEW_DIR": str(tmp_path / "elsewhere")}, check=True)
    assert "partial" not in full.stderr
    assert cli("run", "train.py", env={"REARVIEW_EVERY": "1", "DIE": "1"}).returncode == -9
    done = cli("resume", "--yes", check=True)
    assert "epoch=3, behind the loop step" in done.stderr or "after epoch=2" in done.stderr
    assert "partial" not in done.stderr
    assert done.stdout == full.stdout
