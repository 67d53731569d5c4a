"""The list of replays as a screen and as JSON show it; forgetting; where values came from in `rearview df`."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from rearview.cli import main, replays
from rearview.cli.shown import screen
from rearview.errors import EXIT_DIFFERENCES, EXIT_NOTHING_MATCHED, EXIT_OK
from rearview.model import RunId
from rearview.store import frames
from rearview.store import replays as stored
from rearview.store.encoding import encode
from rearview.store.journal import JournalWriter
from rearview.store.replays import Replay
from rearview.testing.stores import StoreBuilder

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


def a_replay(ident: str = "p0123456789abcdef", **facts: Any) -> Replay:
    known: dict[str, Any] = {
        "run": RunId("r000000000000"), "created": "2026-11-15T11:58:00+00:00", "names": ("grad_norm",), "verdict": "identical",
        "covers": [["iterations", 0, 0, 9]], "statement": 'rv.log("grad_norm", norm(net))', "scan": "validation", "seconds": 12.5,
    }  # fmt: skip
    return Replay(id=ident, **{**known, **facts})


def view(width: int) -> screen.Screen:
    return screen.Screen(width, 24, terminal=False, colour=False)


def test_a_row_says_it_in_words() -> None:
    head, row = replays.page([a_replay()], view(160), NOW)
    assert head.split() == ["replay", "run", "when", "names", "statement", "scan", "verdict", "took"]
    for word in ("grad_norm", 'rv.log("grad_norm", norm(net))', "validation", "identical", "12.5s"):
        assert word in row


def test_names_with_verdicts_of_their_own() -> None:
    mixed = a_replay(names=("a", "b"), verdicts={"b": "volatile"})
    alone = a_replay(names=("b",), verdicts={"b": "volatile"})
    _, first, second = replays.page([mixed, alone], view(160), NOW)
    assert "identical, volatile" in first and "volatile" in second and "identical" not in second


def test_reasons_are_below_and_hostile_text_is_shown_as_text() -> None:
    hostile = a_replay("p0000000000000001", verdict="divergent", why=("loss \x1b[31m differs",), statement="a\n\x1b[2Jb", names=("\x07x",))
    lines = replays.page([a_replay(), hostile], view(100), NOW)
    assert any("divergent" in line for line in lines[3:]) and any("\\x1b[31m differs" in line for line in lines)
    assert not any("\x1b" in line or "\x07" in line for line in lines)


@pytest.mark.parametrize("width", [30, 50, 80])
def test_narrow_screens_keep_what_counts(width: int) -> None:
    lines = replays.page([a_replay()], view(width), NOW)
    assert all(len(line) <= width for line in lines) and "grad" in lines[1] and "ident" in lines[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreBuilder:
    builder = StoreBuilder(tmp_path)
    process = builder.run("r000000000000").process()
    for epoch in process.loop("epoch", range(2)):
        process.log("loss", float(epoch))
    process.end()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REARVIEW_DIR", raising=False)
    return builder


def publish(builder: StoreBuilder, replay: Replay) -> None:
    """One value for the first epoch under each of its names."""
    writer = JournalWriter(stored.begin(builder.store, replay.run, replay.id), "0")
    writer.open_part(frames.fact_body("hello", format=1, run=replay.run, writer="0", attempt=1, part=1))
    for number, name in enumerate(("epoch", *replay.names), 1):
        writer.append([frames.NAME_HEAD.pack(frames.NAME, number) + name.encode()])
    writer.append([frames.BLOCK_HEAD.pack(frames.BLOCK, 1, 0, 0, 1, 0, 1, 0, 1)])
    for number, _ in enumerate(replay.names, 2):
        writer.append([frames.RECORD_HEAD.pack(frames.RECORD, 0, number, 1, 0, 0, 0) + encode(2.5)])
    writer.close()
    stored.publish(builder.store, replay)


def test_json_and_exit_codes(project: StoreBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["replays"]) == EXIT_NOTHING_MATCHED and "rearview replay NAME" in capsys.readouterr().err
    assert main.main(["replays", "last"]) == EXIT_NOTHING_MATCHED
    replay = a_replay(verdicts={"grad_norm": "volatile"}, volatile=("t0",))
    publish(project, replay)
    capsys.readouterr()
    assert main.main(["replays", "--json"]) == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "rearview.replays/1" and said["replays"][0]["id"] == replay.id
    assert said["replays"][0]["verdicts"] == {"grad_norm": "volatile"} and said["replays"][0]["covers"] == [["iterations", 0, 0, 9]]
    assert main.main(["replays", "last"]) == EXIT_OK and "grad_norm" in capsys.readouterr().out
    path = stored.folder_of(project.store, replay.run, replay.id) / stored.FILE
    path.write_text(path.read_text().replace("volatile", "Volatile"))
    assert main.main(["replays"]) == EXIT_DIFFERENCES and replay.id in capsys.readouterr().err
    stored.forget(project.store, replay.run, replay.id)


def test_forgetting(project: StoreBuilder) -> None:
    publish(project, a_replay(names=("a", "b")))
    gone = replays.forget(["a"])
    assert [(name, one.names) for name, one in gone] == [("a", ("a", "b"))]
    assert [one.names for one in stored.list_of(project.store, RunId("r000000000000"))] == [("b",)]
    with pytest.raises(LookupError, match="rearview replays"):
        replays.forget(["a"])


def test_a_name_that_was_not_replayed_is_said(project: StoreBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    publish(project, a_replay(names=("a",)))
    assert main.main(["replay", "--forget", "a", "nope"]) == EXIT_OK
    said = capsys.readouterr()
    assert "forgot a of run" in said.out and said.err == "nothing was replayed as nope\n"


def test_provenance_in_df(project: StoreBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    publish(project, a_replay(names=("g",), verdict="close"))
    assert main.main(["df", "loss", "g", "--provenance", "--json"]) == EXIT_OK
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["g"], row["g.origin"], row["g.verdict"], row["loss.origin"]) for row in rows] == [
        (2.5, "replayed", "close", "recorded"), (None, None, None, "recorded"),
    ]  # fmt: skip
    assert main.main(["df", "loss", "nothing", "--provenance"]) == EXIT_DIFFERENCES
    assert main.main(["df", "loss", "g", "--provenance", "--csv"]) == EXIT_OK
    said = capsys.readouterr().out
    assert "loss.origin,loss.verdict," in said and ",g,g.origin,g.verdict" in said
    assert main.main(["df", "loss", "g", "--provenance"]) == EXIT_OK
    assert {"loss.origin", "g.origin", "g.verdict"} <= set(capsys.readouterr().out.splitlines()[0].split())


def test_show_marks_what_was_replayed(project: StoreBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    publish(project, a_replay(names=("g",), verdict="close"))
    assert main.main(["show", "last", "--json"]) == EXIT_OK
    metrics = {one["name"]: one["replayed"] for one in json.loads(capsys.readouterr().out)["metrics"]}
    assert metrics["g"] == "close" and metrics["loss"] is None
    assert main.main(["show", "last"]) == EXIT_OK
    assert "g (replayed, close)" in capsys.readouterr().out


def test_provenance_in_python(project: StoreBuilder) -> None:
    import rearview as rv

    publish(project, a_replay(names=("g",)))
    rows = rv.dataframe("g", as_="rows", provenance=True)
    assert [(row["epoch"], row["g"], row["g.origin"], row["g.verdict"]) for row in rows] == [(0, 2.5, "replayed", "identical")]
