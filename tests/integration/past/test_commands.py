"""The commands about checkpoints, over stores made by hand: checkpoints, export, show, sql."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rearview import past
from rearview.errors import NoCheckpoint
from rearview.store import manifests
from rearview.store.layout import Store
from rearview.store.packs import Known, damaged, index
from rearview.testing.checkpoints import epoch, keep, keep_state
from rearview.testing.stores import StoreBuilder
from tests.integration.past.commands import ACC, MB, Says, asked, train

# checkpoints


def test_checkpoints_are_listed_in_peoples_words(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a")
    code, out, _ = says("checkpoints", "a")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["at", "boundary", "when", "size", "new", "stall", "background", "state", "why"]
    assert len(lines) == 13
    assert lines[1][:5] == ["epoch=1", "after", "the", "step", "loop"]
    assert lines[2][:4] == ["epoch=1", "end", "of", "iteration"]
    assert out.splitlines()[-1].endswith("complete  the last of its run")
    assert lines[1][-3:] == ["everything", "is", "kept"]
    found = asked(says, "checkpoints")["checkpoints"]
    assert found[1] | {"taken_at": 0, "size_bytes": 0} == {
        "path": "epoch=1", "at": "epoch=1", "loops": [{"loop": "epoch", "occurrence": 0, "iteration": 0, "value": 1}],
        "boundary": "iteration", "process": "", "attempt": 1, "number": 1, "taken_at": 0, "size_bytes": 0, "new_bytes": 10, "stall_s": 0.01,
        "background_s": 0.1, "whole": True, "absent_ranks": [], "complete": True, "damaged": False, "missing": [], "pickled": [],
        "pinned": False, "thinned": None, "why": "everything is kept", "manifests": ["0-a1-000001-iteration"],
    }  # fmt: skip
    assert found[0]["new_bytes"] == MB


def test_what_is_missing_is_named_once_and_ranks_that_lack(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    run.process().stop()
    for k in range(2):
        missing = [["log.file", "TextIOWrapper", "an open file"]]
        for rank in range(2 - k):
            keep(run, k, epoch(k), {"w": b"w"}, process=str(rank), rank=rank, world=2, missing=missing, complete=False, pickled=["odd"])
    code, out, _ = says("checkpoints")
    assert code == 0
    assert "partial, 2 missing" in out
    assert "no part of rank 1" in out
    assert out.count("log.file: an open file (TextIOWrapper), rank 0, from epoch=1 on") == 1
    assert "kept as pickles" in out


@pytest.mark.damages_store
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda pack: pack.with_suffix(".index").unlink(), r"are in no pack of the store \(pack .* has no index; restore .*\.index from"),
        (lambda pack: pack.with_suffix(".index").write_bytes(b"garbage"), r"are in no pack of the store \(the index of pack .* is damaged"),
        (lambda pack: os.truncate(pack, 5000), r"are cut off in pack .*: it has 5000 bytes, and \d+ were written; restore .*\.pack from"),
        (lambda pack: pack.unlink(), r"are in pack .*, which cannot be read or is missing"),
        (lambda pack: damaged.note(Store(pack.parents[2]), pack.stem, {name for name, *_ in index.read(pack.with_suffix(".index"))}),
         r"have other bytes, in pack .*; a checkpoint that has the same bytes writes them anew"),
    ],
    ids=["no index", "index", "cut off", "no pack", "noted"],
)  # fmt: skip
def test_what_is_known_to_be_damaged_is_said_once(project: Path, says: Says, harm: Callable[[Path], object], said: str) -> None:
    builder = StoreBuilder(project)
    run, _ = train(builder, "a", size=20_000), train(builder, "b", size=20_000)
    third = manifests.read(run.store, manifests.list_of(run.store, run.run)[4])
    place = Known(run.store).places(map(bytes.fromhex, third.chunks()))
    harm(index.pack_path(run.store, next(iter(place.values())).pack))
    code, out, err = says("checkpoints", "a")
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()[1:] if " damaged " in line] == ["epoch=3", "epoch=3"]
    told, what_to_do = err.splitlines()
    both = "0-a1-000003-block to 0-a1-000003-iteration"
    assert re.match(f"rearview: 2 checkpoints of run {run.run} are damaged, {both}: chunks of each {said}", told)
    assert what_to_do.startswith("rearview: a damaged checkpoint cannot be put back as it was: `rearview check`")
    found = json.loads(says("checkpoints", "a", "--json")[1])["checkpoints"]
    assert [one["at"] for one in found if one["damaged"]] == ["epoch=3", "epoch=3"]
    assert says("checkpoints", "b")[0] == 0


def test_a_run_without_checkpoints(project: Path, says: Says) -> None:
    StoreBuilder(project).run().process().end()
    code, out, err = says("checkpoints")
    assert (code, out) == (3, "")
    assert "rv.checkpointing" in err
    code, out, err = says("checkpoints", "--json")
    assert (code, json.loads(out)["schema"], json.loads(out)["checkpoints"]) == (3, "rearview.checkpoints/1", [])
    assert "rv.checkpointing" in err


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"M": 0.5, "eps": 0.05}, "its cost: one would lose about 0.50s, and 8 executions of epoch took 2.00s, of which eps = 0.05 allows"),
        ({"M": None, "eps": 0.05}, "worth its cost: 8 executions of epoch took 2.00s, of which eps = 0.05 allows"),
        ({"M": None, "every": 10}, "none was due: every = 10 takes one after each 10 executions, and epoch was executed 8 times"),
    ],
)
def test_a_run_that_took_none_says_why_and_how_to_have_some(project: Path, says: Says, facts: dict[str, Any], said: str) -> None:
    process = StoreBuilder(project).run().process()
    process.fact("cadence", block="epoch", **{"every": 0, "n": 8, "k": 0, "ran_s": 2.0, "lost_s": 0.0, **facts})
    process.end()
    code, out, err = says("checkpoints")
    assert (code, out) == (3, "")
    assert said in err
    assert "REARVIEW_EVERY=1" in err
    assert "with rv.checkpointing" not in err


@pytest.mark.damages_store
def test_damaged_checkpoints_are_named(project: Path, says: Says) -> None:
    run = train(StoreBuilder(project), "a")
    path = manifests.path_of(run.store, manifests.list_of(run.store, run.run)[0])
    path.write_bytes(path.read_bytes().replace(b'"rank"', b'"rant"'))
    code, out, err = says("checkpoints")
    assert code == 1
    assert len(out.splitlines()) == 12
    assert "checkpoint 0-a1-000001-block" in err
    code, _, err = says("sql", "SELECT count(*) FROM checkpoints")
    assert code == 1
    assert "0-a1-000001-block" in err
    code, _, err = says("gc")
    assert code == 1
    assert "0-a1-000001-block" in err


def test_loops_that_are_called_alike_are_told_apart(project: Path, says: Says, tmp_path: Path) -> None:
    run = StoreBuilder(project).run(name="two")
    for nth, phase in enumerate(("pre", "fine")):
        keep_state(run, nth + 1, [["epoch", nth, 0, 0]], {("given", "phase"): phase})
    run.process().end()
    listed = asked(says, "checkpoints", "two")["checkpoints"]
    assert [one["at"] for one in listed] == [one["path"] for one in listed] == ["epoch[1]=0", "epoch[2]=0"]
    assert [line.split()[0] for line in says("checkpoints", "two")[1].splitlines()[1:3]] == ["epoch[1]=0", "epoch[2]=0"]
    code, _, err = says("export", "two", "--at", "epoch=0", "--name", "phase", "-o", str(tmp_path / "a.pt"))
    assert code == 3 and "epoch[1]=0 or epoch[2]=0" in err
    code, out, err = says("pin", "two", "--at", "epoch[1]=0")
    assert code == 0 and "1 checkpoint" in out, err
    assert asked(says, "sql", "SELECT DISTINCT path FROM checkpoints")["rows"] == [{"path": "epoch=0"}], "as in logs"


def test_a_process_below_a_rank_counts_for_itself(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    for k in range(2):
        keep_state(run, k + 1, epoch(k), {("given", "who"): "main"})
    for k in range(5):
        keep_state(run, k + 1, epoch(k), {("given", "who"): "fork"}, process="0.1")
    run.process().end()
    says("gc", "--keep", "newest:1")
    left = [(one["process"], one["at"]) for one in asked(says, "checkpoints")["checkpoints"] if one["thinned"] is None]
    assert left == [("", "epoch=2"), ("0.1", "epoch=5")]
    assert past.checkpoint("last")["who"] == "main"
    assert past.checkpoint("last", process="0.1", epoch=5)["who"] == "fork"
    with pytest.raises(NoCheckpoint, match="nearest is epoch=2"):
        past.checkpoint("last", epoch=5)


# sql


def test_the_view_joins_with_what_was_logged(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a")
    both = "checkpoints c JOIN logs l USING (ctx_id)"
    rows = asked(says, "sql", f"SELECT c.path, value FROM {both} WHERE boundary = 'iteration' AND value_name = 'acc' ORDER BY 1")["rows"]
    assert [(row["path"], row["value"]) for row in rows] == [(f"epoch={k + 1}", value) for k, value in enumerate(ACC)]
    assert asked(says, "sql", "SELECT count(DISTINCT digest) AS n FROM checkpoints")["rows"] == [{"n": 12}]
    assert asked(says, "sql", "SELECT * FROM checkpoints LIMIT 0")["columns"][0]["name"] == "run"


def test_equal_states_have_one_digest(project: Path, says: Says) -> None:
    builder = StoreBuilder(project)
    for _ in range(2):
        keep_state(builder.run(), 0, epoch(0), {("given", "w"): [1.5, "x"], ("given", "n"): 3})
    assert asked(says, "sql", "SELECT count(DISTINCT digest) AS n, count(*) AS c FROM checkpoints")["rows"] == [{"n": 1, "c": 2}]


# export


def test_export_is_refused_with_the_reason(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    keep_state(run, 0, epoch(0), {("given", "n"): {"a": 1}, ("given", "w"): [1.0]})
    run.process().end()
    for words, code, said in [
        (("--name", "n", "-o", "x.txt"), 2, ".safetensors, .pt"),
        (("--name", "n", "-o", "x.safetensors"), 2, "a (int)"),
        (("--name", "q", "-o", "x.npz"), 3, "nothing called 'q'"),
        (("--name", "n", "-o", "x.npz", "--at", "epoch=9"), 3, "nearest is epoch=1"),
        (("--name", "n", "-o", "nowhere/x.npz"), 2, "no folder"),
        (("--name", "n", "-o", "x.npz", "--at", "nine"), 2, "epoch=3"),
    ]:
        found, _, err = says("export", "last", *words)
        assert (found, said in err) == (code, True), err
    assert not list(project.glob("*x.*"))
    (project / "mine.npz").write_text("text of mine")
    code, _, err = says("export", "last", "--name", "n", "-o", "mine.npz")
    assert code == 2
    assert "not overwritten" in err


def test_export_arrays(project: Path, says: Says) -> None:
    np = pytest.importorskip("numpy")
    run = StoreBuilder(project).run()
    for k in range(2):
        keep_state(run, k, epoch(k), {("given", "w"): np.full(3, k, np.float32), ("global", "lib", "table"): {"a": np.arange(k + 1)}})
    run.process().end()
    for _ in range(2):  # a file of that kind is overwritten
        code, out, _ = says("export", "last", "--at", "epoch=1", "--name", "w", "-o", "w.npz")
        assert code == 0
        assert out.startswith("wrote w of run r000000000000 at epoch=1 to w.npz: ")
    assert np.load("w.npz")["w"].tolist() == [0, 0, 0]
    facts = asked(says, "export", "last", "--name", "lib.table", "-o", "t.npz")
    assert (facts["path"], facts["name"], facts["file"]) == ("epoch=2", "lib.table", "t.npz")
    assert np.load("t.npz")["a"].tolist() == [0, 1]
    assert sorted(path.name for path in project.glob("*.npz")) == ["t.npz", "w.npz"]


@pytest.mark.torch
def test_export_a_model(project: Path, says: Says) -> None:
    import torch

    library = pytest.importorskip("safetensors.torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(5, 4)
            self.head = torch.nn.Linear(4, 5, bias=False, dtype=torch.bfloat16)
            self.tied = self.embed

    net = Net()
    run = StoreBuilder(project).run()
    keep_state(run, 0, epoch(0), {("given", "net"): net})
    run.process().end()
    code, _, err = says("export", "last", "--at", "epoch=1", "--name", "net", "-o", "net.safetensors")
    assert code == 0, err
    assert "embed.weight, tied.weight share their memory" in err
    loaded = library.load_file("net.safetensors")
    other = Net()
    other.load_state_dict(loaded)
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in other.state_dict().items())
    assert says("export", "last", "--name", "net", "-o", "net.pt")[0] == 0
    again = torch.load("net.pt", weights_only=True)
    assert again["embed.weight"].data_ptr() == again["tied.weight"].data_ptr()
    code, _, err = says("export", "last", "--name", "net", "-o", "net.npz")
    assert code == 2
    assert "head.weight is a tensor of bfloat16" in err
    assert not Path("net.npz").exists()


# show


def test_show_prints_what_checkpoints_cost(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    process = run.process()
    for k in range(3):
        keep(run, k, epoch(k), {"w": bytes([k]) * MB})
    figures = {"M": 0.25, "C": 31.2, "c": 1.25, "share": 0.0123, "eps": 1 / 15, "every": 0, "n": 90, "k": 3}
    process.fact("cadence", block="epoch", **(figures | {"k": 1}))
    process.fact("cadence", block="epoch", **figures)
    process.end()
    section = says("show", "last")[1].partition("\ncheckpoints\n")[2].partition("\n\n")[0].splitlines()
    assert section[0].strip().startswith("3 checkpoints, 3.0 MB; the last at epoch=3; `rearview checkpoints")
    assert [line.split() for line in section[1:]] == [
        ["block", "taken", "M", "C", "c", "share", "of", "time", "limit"],
        ["epoch", "k=3", "of", "n=90", "0.25s", "31.2s", "1.25", "1.23", "%", "eps", "6.67", "%"],
    ]
    shown = asked(says, "show", "last")
    assert shown["cadence"]["epoch"]["k"] == 3
    assert shown["checkpoints"]["count"] == 3
