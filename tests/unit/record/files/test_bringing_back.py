"""Output files when a run is resumed: cut back, put back, set aside, or said to be lost."""

from __future__ import annotations

import mmap
import os
import shutil
import time

import pytest

import rearview  # noqa: F401  (its import watches files)
from rearview.record import firsts
from rearview.record.files import outputs
from rearview.record.resume import aside, undoing
from rearview.store.layout import Store
from tests.unit.record.files.noted import follow, resume, rows, survey


def test_rows_after_the_checkpoint_are_cut_and_an_emptied_file_continues(store: Store) -> None:
    path = store.project / "log.csv"
    path.write_text("epoch,loss\n0,1\n")
    noted = rows(follow(store), store)
    with open(path, "a") as more:
        more.write("1,0.5\n")
    plans = survey(store, noted)
    assert plans["log.csv"].what == aside.CUT
    live = []

    def before_loop() -> None:
        live.append(open(path, "w"))  # noqa: SIM115
        live[0].write("epoch,loss\n")

    inode = path.stat().st_ino
    assert resume(store, plans, before_loop) == []
    live[0].write("1,0.25\n")
    live[0].close()
    assert path.read_text() == "epoch,loss\n0,1\n1,0.25\n"
    assert path.stat().st_ino == inode
    assert (store.root / "aside" / "00000").read_text() == "epoch,loss\n0,1\n1,0.5\n", "what was there is kept"


def test_a_file_that_is_opened_under_another_name_is_said(store: Store) -> None:
    """A folder named by the time: the code before the loop opens another file, and rows would go there in silence."""
    followed = follow(store)
    with open(store.project / "at-1.csv", "w") as file:
        followed.loop_begins()
        file.write("1\n")
        noted = rows(followed, store)
    with open(store.project / "at-2.csv", "w"):
        said = resume(store, survey(store, noted))
    assert len(said) == 1
    assert said[0].startswith("at-1.csv was open at the checkpoint and is not now")


def test_an_appending_handle_of_the_code_before_the_loop(store: Store) -> None:
    path = store.project / "log.txt"
    path.write_text("begin\nstep 0\n")
    noted = rows(follow(store), store)
    path.write_text("begin\nstep 0\nstep 1\n")
    live = []

    def before_loop() -> None:
        live.append(open(path, "a"))  # noqa: SIM115
        live[0].write("begin\n")  # stays in the buffer: it must not come out later

    resume(store, survey(store, noted), before_loop)
    live[0].write("step 1\n")
    live[0].close()
    assert path.read_text() == "begin\nstep 0\nstep 1\n"


def test_a_file_written_anew_gets_its_content_back(store: Store) -> None:
    path = store.project / "best.json"
    path.write_text("at the checkpoint")
    noted = rows(follow(store), store)
    path.write_text("later, and longer than it was")
    plans = survey(store, noted)
    assert plans["best.json"].what == aside.PUT_BACK
    resume(store, plans)
    assert path.read_text() == "at the checkpoint"


def test_a_deleted_file_is_made_again(store: Store) -> None:
    path = store.project / "out" / "table.txt"
    path.parent.mkdir()
    path.write_text("rows")
    noted = rows(follow(store), store)
    shutil.rmtree(path.parent)
    plans = survey(store, noted)
    assert plans["out/table.txt"].what == aside.MADE
    resume(store, plans)
    assert path.read_text() == "rows"


def test_the_code_before_the_loop_deletes_the_folder(store: Store) -> None:
    path = store.project / "out" / "large.bin"
    path.parent.mkdir()
    content = os.urandom(outputs.SMALL_BYTES + 10)
    path.write_bytes(content)
    noted = rows(follow(store), store)
    assert noted["out/large.bin"][3] is None
    plans = survey(store, noted, removed=["out"])
    assert plans["out/large.bin"].what == aside.SAME
    assert plans["out/large.bin"].is_emptied()
    resume(store, plans, lambda: shutil.rmtree(path.parent))
    assert path.read_bytes() == content


def test_a_large_file_written_anew_cannot_be_brought_back_and_stays(store: Store) -> None:
    path = store.project / "last.pt"
    path.write_bytes(os.urandom(outputs.SMALL_BYTES + 1))
    noted = rows(follow(store), store)
    now = os.urandom(outputs.SMALL_BYTES + 1)
    path.write_bytes(now)
    plans = survey(store, noted)
    assert plans["last.pt"].what == aside.LOST
    assert "not kept" in aside.in_words(plans["last.pt"])
    resume(store, plans)
    assert path.read_bytes() == now


def test_an_equal_end_does_not_prove_a_large_file_that_was_written_anew(store: Store) -> None:
    path, end = store.project / "best.bin", b"z" * outputs.TAIL_BYTES
    with open(path, "wb") as file:
        file.truncate(20 << 20)  # too large for its content to be kept
        file.seek(0, os.SEEK_END)
        file.write(b"old" + end)
    noted = rows(follow(store), store)
    size = path.stat().st_size
    with open(path, "wb") as file:
        file.write(b"another beginning")
        file.seek(size - len(end))
        file.write(end)
    assert path.stat().st_size == size and noted["best.bin"][3] is None
    assert survey(store, noted)["best.bin"].what == aside.LOST


@pytest.mark.parametrize(("size", "what"), [(4096, aside.PUT_BACK), (outputs.SMALL_BYTES, aside.PUT_BACK), (4 << 20, aside.LOST)])
def test_what_is_written_through_memory_is_never_taken_for_unchanged(store: Store, size: int, what: str) -> None:
    path, followed = store.project / "buffer.bin", follow(store)
    path.write_bytes(bytes(size))
    facts = path.stat()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as memory:
        file.close()
        memory[7] = 1
        rows(followed, store, [str(path)])
        memory[7] = 2
        noted = rows(followed, store, [str(path)])
        memory[7] = 3
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # as a system may that has not written it to the disk
    plans = survey(store, noted)
    assert plans["buffer.bin"].what == what
    resume(store, plans)
    assert path.read_bytes()[7] == (2 if what == aside.PUT_BACK else 3)


def test_a_large_file_that_grew_is_cut_by_its_tail(store: Store) -> None:
    path = store.project / "big.log"
    content = os.urandom(outputs.SMALL_BYTES + 100)
    path.write_bytes(content)
    noted = rows(follow(store), store)
    with open(path, "ab") as file:
        file.write(b"more")
    assert survey(store, noted)["big.log"].what == aside.CUT
    resume(store, survey(store, noted))
    assert path.read_bytes() == content


def test_what_was_begun_after_the_checkpoint_begins_anew(store: Store) -> None:
    (store.project / "new.csv").write_text("rows of the attempt that was killed")
    (store.project / "shared.csv").write_text("older\nrows of the attempt that was killed")
    plans = survey(store, {}, later=[["new.csv", "a", None], ["shared.csv", "a", 6], ["never.csv", "w", None]])
    assert {path: plan.what for path, plan in plans.items()} == {"new.csv": aside.BEGUN, "shared.csv": aside.CUT}
    resume(store, plans)
    assert not (store.project / "new.csv").exists()
    assert (store.project / "shared.csv").read_text() == "older\n"
    assert (store.root / "aside" / "00000").read_text() == "rows of the attempt that was killed"


def test_somebody_elses_change_is_left_alone(store: Store) -> None:
    path = store.project / "results.csv"
    path.write_text("mine\n")
    noted = rows(follow(store), store)
    path.write_text("mine\nof another run, later\n")
    plans = survey(store, noted, ended=time.time() - 3600)
    assert plans["results.csv"].what == aside.LEFT
    resume(store, plans)
    assert path.read_text() == "mine\nof another run, later\n"


def test_each_process_brings_back_its_own(store: Store) -> None:
    for name in ("mine", "theirs"):
        (store.project / name).write_text("1")
    noted = rows(follow(store), store)
    for name in ("mine", "theirs"):
        (store.project / name).write_text("1 and more")
    plans = survey(store, {path: [*row, str(int(path == "theirs"))] for path, row in noted.items()})
    files = aside.set_aside(store, list(plans.values()), store.root / "aside")
    aside.bring_back(store.root / "aside", files, "0")
    assert [(store.project / name).read_text() for name in ("mine", "theirs")] == ["1", "1 and more"]


def test_reading_a_file_from_the_future_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.project / "ckpt.txt"
    path.write_text("of the attempt that was killed")
    monkeypatch.setattr(firsts, "opened", {})  # the resumed program is another process
    plans = survey(store, {}, later=[["ckpt.txt", "w", None]])
    said = resume(store, plans, lambda: path.read_text())
    assert len(said) == 1
    assert "ckpt.txt" in said[0]


def test_setting_aside_changes_nothing(store: Store) -> None:
    path = store.project / "log.csv"
    path.write_text("1\n")
    noted = rows(follow(store), store)
    with open(path, "a") as more:
        more.write("2\n")
    before = path.stat()
    aside.set_aside(store, list(survey(store, noted).values()), store.root / "aside")
    assert (path.read_text(), path.stat().st_mtime_ns) == ("1\n2\n", before.st_mtime_ns)


def test_a_file_that_is_open_through_a_link(store: Store) -> None:
    followed = follow(store)
    link, file = store.project / "latest.txt", store.project / "real.txt"
    link.symlink_to("real.txt")
    with open(link, "w") as handle:
        rows(followed, store)
        handle.write("epoch 0\n")
        noted = rows(followed, store)
        handle.write("epoch 1\n")
    assert noted["latest.txt"][1] == 8
    plans = survey(store, noted)
    assert plans["latest.txt"].what == aside.CUT
    live = []
    assert resume(store, plans, lambda: live.append(open(link, "w"))) == []  # noqa: SIM115
    live[0].write("epoch 1\n")
    live[0].close()
    assert link.is_symlink()
    assert file.read_text() == "epoch 0\nepoch 1\n"


def test_two_names_of_one_file(store: Store) -> None:
    """Opened by one name, written through the other: both are noted as the file is."""
    followed = follow(store)
    (store.project / "real.txt").write_text("begin\n")
    (store.project / "link.txt").symlink_to("real.txt")
    rows(followed, store)
    with open(store.project / "link.txt", "a") as handle:
        handle.write("epoch 0\n")
        assert {path: row[1] for path, row in rows(followed, store).items()} == {"real.txt": 14, "link.txt": 14}
        handle.write("epoch 1\n")
    noted = rows(followed, store)
    assert {path: row[1] for path, row in noted.items()} == {"real.txt": 22, "link.txt": 22}
    (store.project / "real.txt").write_text("another")
    resume(store, survey(store, noted))
    assert (store.project / "real.txt").read_text() == "begin\nepoch 0\nepoch 1\n"
    os.remove(store.project / "real.txt")
    assert rows(followed, store) == {}


def test_a_link_that_leads_elsewhere_later(store: Store) -> None:
    followed, link = follow(store), store.project / "latest.txt"
    for epoch in range(2):
        link.unlink(missing_ok=True)
        link.symlink_to(f"epoch-{epoch}.txt")
        with open(link, "w") as handle:
            handle.write(f"{epoch}" * (epoch + 1))
            assert rows(followed, store)["latest.txt"][1] == epoch + 1


def test_what_was_begun_through_a_link_begins_anew_through_it(store: Store) -> None:
    link = store.project / "log.txt"
    link.symlink_to("elsewhere.txt")
    link.write_text("rows of the attempt that was killed")
    resume(store, survey(store, {}, later=[["log.txt", "a", None]]))
    assert link.is_symlink()
    assert not (store.project / "elsewhere.txt").exists()


def test_a_large_file_behind_a_link_is_set_aside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_LARGE_BYTES", 10)
    followed = follow(store)
    (store.project / "link.bin").symlink_to("real.bin")
    followed.loop_begins()
    (store.project / "link.bin").write_bytes(b"x" * 100)
    resume(store, survey(store, rows(followed, store)))
    assert (store.root / "aside" / "00000").read_bytes() == b"x" * 100


def test_a_file_that_several_attempts_left_is_named_once(store: Store) -> None:
    (store.project / "a.log").write_text("now")
    plan = aside.Plan("a.log", aside.CUT, 3, 3, full=str(store.project / "a.log"), aside="00000")
    left = []
    for name, content in (("a3", "later"), ("a2", "first")):
        (store.root / name).mkdir()
        (store.root / name / "00000").write_text(content)
        left.append(undoing.Left(plan, store.root / name))
    assert undoing.put_back(left) == ["as before that attempt again, from copies: a.log"]
    assert (store.project / "a.log").read_text() == "first"
