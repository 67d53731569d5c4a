"""What is kept and what goes: gc, pin, policies, over stores made by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rearview import past
from rearview.errors import NoCheckpoint
from rearview.store import manifests
from rearview.store.manifests import THINNED
from rearview.testing.checkpoints import epoch, keep
from rearview.testing.stores import StoreBuilder
from tests.integration.past.commands import MB, Says, asked, kept, train


def test_gc_goes_by_the_projects_policy(project: Path, says: Says) -> None:
    (project / "pyproject.toml").write_text('[tool.rearview]\nkeep = "peak-and-end, newest:2"\npeak = "max:acc"\n')
    run = train(StoreBuilder(project), "a")
    planned = asked(says, "gc", "--dry-run")
    assert [one["at"] for one in planned["dropped"]] == ["epoch=1"] * 2 + ["epoch=3"] * 2 + ["epoch=4"] * 2
    assert planned["dropped"][0]["why"] == "not kept by peak-and-end:max:acc, newest:2"
    assert 3 * MB <= planned["frees_bytes"] <= 3.2 * MB
    assert planned["freed_bytes"] is None
    assert kept(says) == [f"epoch={k}" for k in range(1, 7)], "a dry run changes nothing"
    assert "would free 3.0 MB; 3 checkpoints stay; nothing was removed" in says("gc", "--dry-run")[1]
    done = asked(says, "gc")
    assert done["frees_bytes"] == planned["frees_bytes"] <= done["freed_bytes"] <= 1.05 * planned["frees_bytes"]
    assert kept(says) == ["epoch=2", "epoch=5", "epoch=6"]
    assert asked(says, "gc")["dropped"] == []
    whys = {one["at"]: one["why"] for one in asked(says, "checkpoints")["checkpoints"]}
    assert whys["epoch=2"] == "the best acc (0.9)"
    assert whys["epoch=6"] == "one of the newest 2, the last of its run"
    assert len(manifests.marked(run.store, run.run, THINNED)) == 6, "the manifests stay, with their digests"
    with pytest.raises(NoCheckpoint, match=r"epoch=3 was thinned \(not kept by peak-and-end:max:acc, newest:2\).*nearest are epoch=2"):
        past.checkpoint("a", epoch=3)
    assert says("checkpoints")[1].count("thinned") == 6


def test_a_run_keeps_what_it_was_told(project: Path, says: Says) -> None:
    builder = StoreBuilder(project)
    train(builder, "own", keep="newest:1")
    train(builder, "peak", peak="min:acc")
    train(builder, "wrong", keep="most of it")
    train(builder, "plain")
    (project / "pyproject.toml").write_text('[tool.rearview]\nkeep = "peak-and-end"\npeak = "max:acc"\n')
    code, _, err = says("gc")
    assert code == 0
    assert "'most of it'" in err
    assert [kept(says, name) for name in ("own", "peak", "plain")] == [["epoch=6"], ["epoch=1", "epoch=6"], ["epoch=2", "epoch=6"]]
    assert len(kept(says, "wrong")) == 6
    told = {name: asked(says, "checkpoints", name)["keep"] for name in ("own", "peak", "wrong", "plain")}
    assert told == {"own": "newest:1", "peak": "peak-and-end:min:acc", "wrong": "everything", "plain": "peak-and-end:max:acc"}
    says("gc", "--keep", "newest:2")
    assert kept(says, "wrong") == ["epoch=5", "epoch=6"], "a policy given to the command goes before the runs' own"


def test_a_pin_stays_until_it_is_removed(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a")
    code, out, _ = says("pin", "a", "--at", "epoch=2..3")
    assert (code, out) == (0, "pinned 4 checkpoints of run r000000000000: epoch=2, epoch=3\n")
    says("gc", "--keep", "newest:1")
    assert kept(says) == ["epoch=2", "epoch=3", "epoch=6"]
    assert {one["why"] for one in asked(says, "checkpoints")["checkpoints"] if one["at"] == "epoch=2"} == {"pinned"}
    assert says("pin", "a", "--at", "epoch#1", "--remove")[1].startswith("took the pin from 2 checkpoints of run r000000000000: epoch=2")
    says("gc", "--keep", "newest:1")
    assert kept(says) == ["epoch=3", "epoch=6"]
    assert says("pin", "a")[1].startswith("pinned 2 checkpoints of run r000000000000 (2 already pinned): epoch=3, epoch=6")
    code, _, err = says("pin", "a", "--at", "epoch=1")
    assert code == 3
    assert "thinned" in err


def test_pins_that_are_taken_away_are_named_in_the_order_of_the_run(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    run.process().stop()
    inside = epoch(3, None, ["step", 0, 4, 4])
    for attempt, number, place in [(1, 0, epoch(0)), (1, 1, epoch(3)), (2, 0, epoch(1)), (2, 1, inside), (2, 2, epoch(9))]:
        part = "inside" if len(place) > 1 else "iteration"
        keep(run, number, place, {"w": b"w"}, attempt=attempt, part=part, at_s=60.0 * attempt + number)
    said = "pinned 5 checkpoints of run r000000000000: epoch=1, epoch=2, epoch=4/step=4, epoch=4, epoch=10\n"
    assert says("pin", "last")[1] == said
    assert says("pin", "last", "--at", "epoch=4", "--remove")[1].startswith("took the pin from ")
    assert says("pin", "last", "--remove")[1].endswith(": epoch=1, epoch=2, epoch=4/step=4, epoch=10\n"), "what had none is not named"
    assert says("pin", "last", "--remove")[1].endswith("(5 already without): epoch=1, epoch=2, epoch=4/step=4, epoch=4, epoch=10\n")


def test_a_budget_thins_evenly_over_all_runs(project: Path, says: Says) -> None:
    builder = StoreBuilder(project)
    train(builder, "old")
    train(builder, "new")
    done = asked(says, "gc", "--keep", "budget:7MB")
    assert done["above_budget_bytes"] == 0
    size = sum(path.stat().st_blocks * 512 for path in (project / ".rearview").rglob("*") if path.is_file())
    assert size <= 7.5 * MB
    old, new = kept(says, "old"), kept(says, "new")
    assert old[-1] == new[-1] == "epoch=6"
    assert 2 <= len(old) < len(new), "older runs give first, and are not cut off"
    assert old[0] not in ("epoch=5", "epoch=6")
    code, out, _ = says("gc", "--keep", "budget:1MB")
    assert code == 0
    assert kept(says, "old") == kept(says, "new") == ["epoch=6"]
    assert "above its budget of 1.0 MB" in out


def test_a_run_that_was_killed_keeps_what_a_resume_starts_from(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a", ends=False)
    says("gc", "--keep", "peak-and-end:max:acc")
    assert kept(says) == ["epoch=2", "epoch=6"]
    assert asked(says, "checkpoints")["checkpoints"][-1]["why"] == "a resume starts from it"


def test_frozen_weights_stay_while_a_checkpoint_has_them(project: Path, says: Says) -> None:
    run = StoreBuilder(project).run()
    frozen = os.urandom(3 * MB)
    for k in range(4):
        keep(run, k, epoch(k), {"frozen": frozen, "head": os.urandom(200_000)})
    run.process().end()
    done = asked(says, "gc", "--keep", "newest:1")
    assert 0.5 * MB < done["freed_bytes"] < 0.8 * MB
    assert [one["frees_bytes"] for one in done["dropped"]] == [one["frees_bytes"] for one in done["dropped"][:1]] * 3


def test_a_wrong_policy_is_refused_before_anything_goes(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a")
    for wrong in ("newest", "peak-and-end", "budget:much"):
        code, _, err = says("gc", "--keep", wrong)
        assert code == 2
        assert wrong.partition(":")[0] in err or "bytes" in err
    assert len(kept(says)) == 6


def test_a_metric_nobody_logged_costs_no_checkpoint(project: Path, says: Says) -> None:
    train(StoreBuilder(project), "a")
    assert asked(says, "gc", "--keep", "peak-and-end:max:nothing")["dropped"] == []
    for _, out, err in (says("gc", "--dry-run", "--keep", "peak-and-end:max:nothing"), says("gc", "--keep", "peak-and-end:max:nothing")):
        assert "logged no number called 'nothing', so nothing is dropped for the best of it" in " ".join((out + err).split())
