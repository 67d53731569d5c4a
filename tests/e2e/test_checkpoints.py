"""States of recorded programs, through the commands and calls a user has: list, look, roll back, export, keep to a policy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunsProgram
from tests.integration.resume.training import with_torch

Python = Callable[..., subprocess.CompletedProcess[str]]

TRAIN = """
import random
import rearview as rv

class Model:
    def __init__(self):
        self.weights = [0.0] * 50
        self.steps = 0

def main():
    random.seed(3)
    model, history = Model(), []
    with rv.checkpointing(model=model):
        for epoch in rv.loop("epoch", range(1, 7)):
            for step in rv.loop("step", range(4)):
                model.weights[step] += random.random()
                model.steps += 1
            history.append(sum(model.weights))
            rv.log("acc", [0.1, 0.9, 0.3, 0.2, 0.5, 0.6][epoch - 1])
    print(history)

main()
"""


def listed(cli: RunsProgram, run: str = "last") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("checkpoints", run, "--json", check=True).stdout)["checkpoints"]
    return found


def test_a_recorded_program_from_list_to_rollback(project: Path, python: Python, cli: RunsProgram) -> None:
    done = python(TRAIN, name="train.py", env={"REARVIEW_EVERY": "1"}, check=True)
    history = json.loads(done.stdout)
    found = listed(cli)
    assert [(one["at"], one["boundary"]) for one in found] == [(f"epoch={k}", part) for k in range(1, 7) for part in ("block", "iteration")]
    assert all(one["whole"] and one["complete"] and one["size_bytes"] >= one["new_bytes"] > 0 for one in found)
    reading = f"""
import rearview as rv
history = {history}
for k in range(1, 7):
    state = rv.checkpoint("last", epoch=k)
    assert state.boundary == "iteration"
    assert state["model"]["steps"] == 4 * k
    assert sum(state["model"]["weights"]) == history[k - 1]
    assert state["history"] == history[:k]
    assert (state["epoch"], state["step"]) == (k, 3)
assert rv.checkpoint("last", at="epoch#0")["epoch"] == 1
assert rv.checkpoint("last", epoch=2, step=3).boundary == "block"
assert len(rv.checkpoint("last", epoch=2, step=3)["history"]) == 1
assert "python" in rv.checkpoint().streams

class Model:
    pass

model = Model()
model.weights, model.steps = [1.0] * 50, 0
try:
    rv.checkpoint("last", epoch=4).restore(model={{}})
except rv.RearviewError as refused:
    assert "model was of type Model, not dict" in str(refused), refused
rv.checkpoint("last", epoch=4).restore(model=model)
assert (sum(model.weights), model.steps) == (history[3], 16)
"""
    python(reading, name="reading.py", check=True)
    shown = cli("show", "last", check=True).stdout
    assert "6 checkpoints, " in shown
    assert "k=" in shown
    assert "every 1" in shown


@pytest.mark.parametrize(
    ("settings", "call", "stays"),
    [
        ({"REARVIEW_KEEP": "newest:2"}, "", ["epoch=5", "epoch=6"]),
        ({}, 'keep="peak-and-end", peak="max:acc"', ["epoch=2", "epoch=6"]),
        ({"REARVIEW_KEEP": "peak-and-end", "REARVIEW_PEAK": "min:acc"}, "", ["epoch=1", "epoch=6"]),
    ],
)
def test_a_run_keeps_to_its_policy(
    project: Path, python: Python, cli: RunsProgram, settings: dict[str, str], call: str, stays: list[str]
) -> None:
    script = TRAIN.replace("\nmain()\n", f"\nwith rv.run(name='kept', every=1, {call}):\n    main()\n")
    python(script, name="train.py", env=settings, check=True)
    cli("gc", check=True)  # by the run's own policy: the project has none, and this command's environment neither
    found = listed(cli, "kept")
    assert list(dict.fromkeys(one["at"] for one in found if one["thinned"] is None)) == stays
    assert len(found) == 12
    for place in stays:
        number = place.partition("=")[2]
        python(f"import rearview as rv; assert rv.checkpoint('kept', epoch={number})['epoch'] == {number}", name="look.py", check=True)
    gone = python("import rearview as rv; rv.checkpoint('kept', epoch=3)", name="look.py")
    assert "was thinned" in gone.stderr


ROLLBACK = """
import rearview as rv

weights = [1.0, 1.0]
tries = 0
with rv.run(every=1) as run, rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(1, 6)):
        weights[0] *= 2
        if epoch == 4 and not tries:
            tries = 1
            weights[0] = float("nan")
        if weights[0] != weights[0]:
            state = rv.checkpoint("last", epoch=2)
            state.restore(weights=weights)
            print("back to", state.path, weights)
print(weights)
"""


def test_a_program_goes_back_to_its_own_earlier_state(project: Path, python: Python) -> None:
    done = python(ROLLBACK, check=True)
    assert done.stdout.splitlines() == ["back to epoch=2 [4.0, 1.0]", "[8.0, 1.0]"]


TORCH = """
import torch
import rearview as rv

torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
with rv.checkpointing(net=net, opt=opt):
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(5)):
            opt.zero_grad()
            loss = net(torch.randn(16, 4)).square().mean()
            loss.backward()
            opt.step()
        torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, f"epoch{epoch}.pt")
        rv.log("loss", loss.item())
"""


@pytest.mark.torch
def test_an_exported_model_is_the_one_that_was_saved(project: Path, cli: RunsProgram) -> None:
    library = pytest.importorskip("safetensors.torch")
    import torch

    (project / "train.py").write_text(TORCH)
    nursery = with_torch()
    done = [nursery.run(project, "train.py", env={"REARVIEW_EVERY": "1"})]
    for name, file in (("net", "net.safetensors"), ("opt", "opt.pt")):
        done.append(nursery.command(project, "export", "last", "--at", "epoch=1", "--name", name, "-o", file).wait())
    assert [one.code for one in done] == [0, 0, 0], done
    saved = torch.load(project / "epoch1.pt", weights_only=True)
    net = library.load_file(project / "net.safetensors")
    assert net.keys() == saved["net"].keys()
    assert all(torch.equal(net[name], value) for name, value in saved["net"].items())
    opt = torch.load(project / "opt.pt", weights_only=True)
    assert opt["param_groups"] == saved["opt"]["param_groups"]
    for number, state in saved["opt"]["state"].items():
        assert all(torch.equal(opt["state"][number][name], value) for name, value in state.items())
    refused = cli("export", "last", "--name", "opt", "-o", "opt.safetensors")
    assert refused.returncode == 2
    assert "write a .pt file instead" in refused.stderr


TWO_PHASES = """
import rearview as rv

total = 0
for phase in ("pre", "fine"):
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(3)):
            total += 1
            rv.log("total", total)
            if total == 6:
                raise RuntimeError("enough")
"""


def test_two_loops_of_one_name(project: Path, python: Python, cli: RunsProgram) -> None:
    assert python(TWO_PHASES, name="train.py", env={"REARVIEW_EVERY": "1"}).returncode == 1
    assert [one["at"] for one in listed(cli)] == ["epoch[1]=0", "epoch[1]=1", "epoch[1]=2", "epoch[2]=0", "epoch[2]=1"]
    for place, total in (("epoch[1]=1", 2), ("epoch[2]=1", 5)):
        python(f"import rearview as rv\nassert rv.checkpoint('last', at={place!r})['total'] == {total}", name="look.py", check=True)
    refused = python("import rearview as rv\nrv.checkpoint('last', epoch=1)", name="look.py")
    assert "say which: epoch[1]=1 or epoch[2]=1" in refused.stderr
    plan = cli("resume", "--dry-run", check=True).stdout
    assert "after epoch[2]=1" in plan, plan
    assert "after epoch[1]=1" in cli("resume", "--dry-run", "--at", "epoch[1]=1", check=True).stdout


AT_RISK = """
import time
import numpy as np
import rearview as rv
weights = np.zeros(2_000_000)
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(30)):
            weights += 1
            time.sleep(0.01)
"""


def test_that_eps_wins_over_the_work_at_risk_is_said_once(python: Python) -> None:
    """It is found anew at every look, each time with other figures."""
    done = python(AT_RISK, env={"REARVIEW_RISK": "0.02", "REARVIEW_EPS": "0.0001"}, check=True)
    assert done.stderr.count("of work are at risk") == 1, done.stderr


SLOW_WRITES = """
import time
import rearview as rv
from rearview.store import manifests

write = manifests.write

def slow(*given):
    time.sleep(0.3)
    return write(*given)

manifests.write = slow
weights = [0.0]
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        weights[0] += 1
        if epoch == 2 and FAILS:
            raise SystemExit(1)
"""


@pytest.mark.parametrize("fails", [False, True], ids=["the loop ends", "the program ends in it"])
def test_the_last_checkpoint_is_accounted_for_although_it_was_still_being_written(python: Python, cli: RunsProgram, fails: bool) -> None:
    python(SLOW_WRITES.replace("FAILS", str(fails)), env={"REARVIEW_EVERY": "1"})
    taken = len(listed(cli))
    assert taken == (2 if fails else 3)
    assert f"k={taken} of n={taken}" in cli("show", "last", check=True).stdout


UNKEPT = """
import socket
import rearview as rv
links = [socket.socket() for _ in range(20)]
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        links.append(socket.socket())
for link in links:
    link.close()
"""


def test_members_of_a_container_that_cannot_be_kept_are_said_once(project: Path, python: Python) -> None:
    done = python(UNKEPT, name="train.py", env={"REARVIEW_EVERY": "1"}, check=True)
    said = [line for line in done.stderr.splitlines() if "partial" in line and "links" in line]
    assert len(said) == 1 and "links[" in said[0] and "20 more like it are not in them" in said[0], done.stderr


MUCH_ALIKE = """
import array
import rearview as rv
weights = array.array("d", [float(k % 7) for k in range(400_000)])
with rv.checkpointing(weights=weights):
    for epoch in rv.loop("epoch", range(2)):
        for k in range(len(weights)):
            weights[k] += 1.0
open("weights.bin", "wb").write(weights.tobytes())
"""


def test_nothing_is_compressed(project: Path, python: Python) -> None:
    python(MUCH_ALIKE, name="train.py", env={"REARVIEW_EVERY": "1"}, check=True)
    packs = [path.read_bytes() for path in (project / ".rearview").rglob("*.pack")]
    last = (project / "weights.bin").read_bytes()
    chunks = [last[at : at + (1 << 20)] for at in range(0, len(last), 1 << 20)]
    assert all(any(chunk in pack for pack in packs) for chunk in chunks), "each chunk lies there as it was in memory"


def test_checkpointing_that_nothing_is_inside_of_is_said(project: Path, python: Python) -> None:
    done = python("import rearview as rv\nrv.checkpointing(a={})\nfor e in rv.loop('e', range(3)): rv.log('x', e)\n", check=True)
    assert done.stderr.count("there is nothing inside: write `with rv.checkpointing(...):` around the loop") == 1
    done = python("import rearview as rv\nwith rv.checkpointing():\n    for e in rv.loop('e', range(3)): rv.log('x', e)\n", check=True)
    assert "nothing inside" not in done.stderr
