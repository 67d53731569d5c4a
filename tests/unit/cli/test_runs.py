"""The list of runs: what a row shows, what a narrow screen keeps."""

import datetime as dt
from dataclasses import replace

import pytest

from rearview.catalog.detail import RunDetail
from rearview.catalog.runs import RunInfo
from rearview.cli import runs, show
from rearview.cli.shown import screen
from rearview.model import RunId, VersionId

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
RUN = RunInfo(
    run=RunId("r3kd8f2q9xz4a"),
    name="baseline",
    tags=[],
    notes=None,
    projid="p",
    tstamp=NOW - dt.timedelta(days=40),
    filename="experiments/train_mnist.py",
    version=VersionId("v" + "ab12cd34" * 5),
    how="script",
    status="failed",
    detail="torch.cuda.OutOfMemoryError",
    duration_s=200.0,
    args={"lr": 0.001, "optimizer": "adamw"},
    last={"loss": 0.123456789, "acc": 0.91},
    records=100,
    size_bytes=1000,
    place=0,
    parent=None,
)


def view(width: int) -> screen.Screen:
    return screen.Screen(width, 24, terminal=False, colour=False)


def test_a_wide_screen_shows_everything() -> None:
    (_, row) = runs.listing([RUN], 0, view(180), NOW)
    for part in ("r3kd8f2", "Oct  6", "baseline", "experiments/train_mnist.py", "vab12cd3", "failed OutOfMemoryError", "3m20s"):
        assert part in row
    assert "lr=0.001 optimizer=adamw" in row and "loss=0.1235" in row


def test_a_narrow_screen_keeps_what_matters() -> None:
    (_, row) = runs.listing([RUN], 0, view(80), NOW)
    assert len(row) <= 80
    for part in ("r3kd8f2", "baseline", "failed OutOfMemoryError", "lr=0.001", "loss=0.1"):
        assert part in row


def test_how_it_ended_is_whole_while_values_are_shortened() -> None:
    many = {f"metric{k}": 0.5 for k in range(9)}
    run = replace(RUN, tstamp=NOW, detail="KeyboardInterrupt", last=many, args={"learning_rate": 0.001, "optimizer": "adamw"})
    (_, row) = runs.listing([run], 0, view(80), NOW)
    assert len(row) <= 80
    for part in ("r3kd8f2", "baseli", "failed KeyboardInterrupt", "3m20s", "learni", "metric0"):
        assert part in row


def test_values_are_readable_before_the_script_is_named() -> None:
    run = replace(RUN, tstamp=NOW, status="finished", detail="", filename="train.py")
    (_, row) = runs.listing([run], 0, view(80), NOW)
    assert "train.py" not in row and "lr=0.001 opti" in row and "loss=0.1235" in row
    assert "train.py" in runs.listing([run], 0, view(120), NOW)[1]


def test_a_long_exception_type_leaves_room_for_the_rest() -> None:
    (_, row) = runs.listing([replace(RUN, detail="E" * 300)], 0, view(80), NOW)
    assert len(row) <= 80
    for part in ("r3kd8f2", "baseli", "failed EEEEEEEEEEEE", "lr=0.0"):
        assert part in row


@pytest.mark.parametrize("width", [80, 140])
def test_a_long_name_leaves_room_for_the_rest(width: int) -> None:
    (_, row) = runs.listing([replace(RUN, name="n" * 5000)], 0, view(width), NOW)
    assert len(row) <= width
    assert "n" * 6 in row and "n" * (width // 4) not in row
    for part in ("r3kd8f2", "failed OutOfMemoryError", "lr=0.001 opt" if width > 80 else "lr=0.0"):
        assert part in row


def test_a_name_gives_no_more_than_it_must() -> None:
    run = replace(RUN, name="n" * 60, args={}, last={}, filename="", version=None)
    assert "n" * 60 in runs.listing([run], 0, view(140), NOW)[1]
    (_, row) = runs.listing([run], 0, view(100), NOW)
    assert len(row) == 100 and "n" * 40 in row


def test_a_run_that_lost_records_is_marked() -> None:
    run = replace(RUN, status="finished", detail="", lost=50_081)
    assert runs.how_it_ended(run) == "finished, 50,081 lost"
    for width in (80, 140):
        assert "finished, 50,081 lost" in runs.listing([run, RUN], 0, view(width), NOW)[1]
    assert runs.how_it_ended(RUN) == "failed torch.cuda.OutOfMemoryError"


def test_show_says_how_many_records_were_lost() -> None:
    run = replace(RUN, lost=50_081)
    page = "\n".join(show.page(run, RunDetail(run, {}, {}, None), [], view(100)))
    assert "100 records, 0 B on disk; 50,081 records could not be written" in page
    whole = "\n".join(show.page(RUN, RunDetail(RUN, {}, {}, None), [], view(100)))
    assert "could not be written" not in whole


def test_ids_are_never_cut_to_something_ambiguous() -> None:
    others = [replace(RUN, run=RunId("r3kd8f2q9xz4b")), replace(RUN, run=RunId("r3kd8f2q9xz4c"))]
    for width in (60, 80, 140):
        rows = runs.listing(others, 0, view(width), NOW)[1:]
        assert [row.split()[0] for row in rows] == ["r3kd8f2q9xz4b", "r3kd8f2q9xz4c"]


def test_empty_columns_are_left_out_and_earlier_runs_counted() -> None:
    (first, head, _) = runs.listing([replace(RUN, name=None, args={})], 980, view(140), NOW)
    assert first == "... 980 earlier runs, --limit 0 for all"
    assert "name" not in head.split() and "args" not in head.split()


def test_a_run_whose_start_is_unknown_is_listed() -> None:
    run = replace(RUN, tstamp=None)
    assert "unknown" in runs.listing([run], 0, view(80), NOW)[1].split()
    assert "began         unknown" in show.page(run, RunDetail(run, {}, {}, None), [], view(100))


def test_chosen_arguments_come_first() -> None:
    run = replace(RUN, args={"seed": 0, "lr": 0.1}, given=frozenset({"lr"}))
    assert list(runs.given_first(run)) == ["lr", "seed"]
