"""Versions without git: what is in them, that ids repeat, and that nothing damaged is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rearview.errors import Damaged, NotFound, UsageError, VersionError
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import git, read, snapshot
from rearview.versions.snapshot import Snapshot
from rearview.versions.walk import Bounds


@pytest.fixture
def store(project: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(git, "binary", lambda: None)  # as on a machine without git
    return layout.create(project / ".rearview")


def take(store: Store, **options: object) -> Snapshot:
    settings: dict[str, object] = {"script": None, "script_source": None, "extra": {}, "limit_bytes": 1 << 20, **options}
    return snapshot.take(store, store.project, **settings)  # type: ignore[arg-type]


def object_path(store: Store, id_: str) -> Path:
    return store.code / "objects" / id_[:2] / id_[2:]


def test_a_version_reads_back(store: Store) -> None:
    (store.project / "train.py").write_bytes(b"print(1)\r\n")
    (store.project / "pkg").mkdir()
    (store.project / "pkg" / "größe.py").write_text("x = 1\n")
    taken = take(store)
    assert set(taken.files) == {"train.py", "pkg/größe.py"}
    assert read.files(store, taken.version) == taken.files
    assert read.source(store, taken.version, "train.py") == b"print(1)\r\n"
    assert taken.files["train.py"] == snapshot.blob_id(b"print(1)\r\n")
    assert taken.git is None
    assert taken.version.startswith("v")
    assert len(taken.version) == 41


def test_the_same_source_is_the_same_version(store: Store) -> None:
    (store.project / "a.py").write_text("1")
    first = take(store)
    assert first.written
    again = take(store)
    assert (again.version, again.written) == (first.version, [])
    (store.project / "a.py").write_text("2")
    assert take(store).version != first.version
    (store.project / "a.py").write_text("1")
    assert take(store).version == first.version


def test_an_edit_that_keeps_size_and_time_is_seen(store: Store) -> None:
    path = store.project / "a.py"
    path.write_text("x = 1")
    times = path.stat()
    first = take(store)
    path.write_text("x = 2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert take(store).version != first.version


def test_secrets_data_binaries_and_large_files_are_left_out(store: Store) -> None:
    for name in (".env", "secrets.yaml", "a.csv", "weights.pt", "id_rsa"):
        (store.project / name).write_text("x")
    (store.project / "bin.json").write_bytes(b"a\0b")
    (store.project / "key.md").write_text("-----BEGIN RSA PRIVATE KEY-----\nMIIE")
    (store.project / "large.json").write_text("x" * 101)
    (store.project / "a.py").write_text("1")
    taken = take(store, limit_bytes=100)
    assert list(taken.files) == ["a.py"]
    assert any("large.json" in note for note in taken.notes)
    assert any("key.md" in note for note in taken.notes)


def test_include_takes_ignored_files_and_data_but_no_secrets_and_nothing_large(store: Store) -> None:
    (store.project / ".gitignore").write_text("conf/\n*.csv\n")
    (store.project / "conf").mkdir()
    for name in ("conf/labels.csv", "conf/.env", "conf/tiny.npy", "conf/x.dat"):
        (store.project / name).write_text("1")
    (store.project / "conf" / "large.csv").write_text("1" * 101)
    taken = take(store, include=["conf/*", "../**"], limit_bytes=100)
    assert set(taken.files) == {".gitignore", "conf/labels.csv", "conf/tiny.npy", "conf/x.dat"}
    assert any("leads out" in note for note in taken.notes)


def test_exclude(store: Store) -> None:
    for name in ("a.py", "b.ipynb", "third/c.py"):
        (store.project / name).parent.mkdir(exist_ok=True)
        (store.project / name).write_text("1")
    assert list(take(store, exclude=["*.ipynb", "third/"]).files) == ["a.py"]


def test_the_script_is_always_taken_with_the_bytes_that_ran(store: Store) -> None:
    script = store.project / "secrets_demo.py"
    script.write_text("on disk")
    (store.project / ".gitignore").write_text("*.py\n")
    taken = take(store, script=script, script_source=None, limit_bytes=10, exclude=["*"])
    assert (taken.script, list(taken.files)) == ("secrets_demo.py", ["secrets_demo.py"])
    (store.project / ".gitignore").unlink()
    script.rename(store.project / "demo.py")
    taken = take(store, script=store.project / "demo.py", script_source=b"ran")
    assert read.source(store, taken.version, "demo.py") == b"ran"
    assert any("changed on disk" in note for note in taken.notes)


def test_a_script_that_vanished_or_lies_outside(store: Store, tmp_path: Path) -> None:
    gone = take(store, script=store.project / "gone.py", script_source=b"ran")
    assert read.source(store, gone.version, "gone.py") == b"ran"
    unread = take(store, script=store.project / "gone.py")
    assert unread.script is None
    assert any("gone.py" in note for note in unread.notes)
    (tmp_path / "tool.py").write_text("1")
    outside = take(store, script=tmp_path / "tool.py")
    assert outside.script == "external/tool.py"
    assert read.source(store, outside.version, outside.script) == b"1"


def test_a_script_reached_through_a_link(store: Store, tmp_path: Path) -> None:
    (store.project / "real.py").write_text("1")
    (store.project / "link.py").symlink_to("real.py")
    (tmp_path / "alias").symlink_to(store.project)
    assert take(store, script=store.project / "link.py").script == "real.py"
    assert take(store, script=tmp_path / "alias" / "real.py").script == "real.py"
    (tmp_path / "far.py").write_text("2")
    (store.project / "far_link.py").symlink_to(tmp_path / "far.py")
    taken = take(store, script=store.project / "far_link.py")
    assert taken.script == "far_link.py"
    assert read.source(store, taken.version, "far_link.py") == b"2"


def test_modes_and_links(store: Store, tmp_path: Path) -> None:
    run = store.project / "run.sh"
    run.write_text("#!/bin/sh\n")
    run.chmod(0o755)
    (store.project / "near.sh").symlink_to("run.sh")
    (store.project / "absolute.sh").symlink_to(run)
    (store.project / "out.sh").symlink_to("/etc/passwd")
    taken = take(store)
    assert taken.modes == {"absolute.sh": 0o120000, "near.sh": 0o120000, "run.sh": 0o100755}
    assert read.source(store, taken.version, "absolute.sh") == b"#!/bin/sh\n"
    assert read.links(store, taken.version) == {"absolute.sh": "run.sh", "near.sh": "run.sh"}
    assert "out.sh" not in taken.files
    to = tmp_path / "copy"
    read.export(store, taken.version, None, to)
    assert (to / "near.sh").readlink() == (to / "absolute.sh").readlink() == Path("run.sh")
    assert os.access(to / "run.sh", os.X_OK)


def test_links_that_lead_to_no_file_of_the_version(store: Store) -> None:
    for name, to in {"a.py": "b.py", "b.py": "a.py", "c.py": "gone.py"}.items():
        (store.project / name).symlink_to(to)
    taken = take(store)
    assert read.links(store, taken.version) == {}
    assert {path: read.source(store, taken.version, path) for path in taken.files if path == "c.py"} in ({}, {"c.py": b"gone.py"})


def test_extra_files_go_in_as_they_are_but_no_secrets_and_no_impossible_paths(store: Store) -> None:
    (store.project / "a").mkdir()
    (store.project / "a" / "b.py").write_text("1")
    extra = {"external/lib.py": b"\0x", "cells/0001.py": b"y", ".env": b"s", "../up": b"n", "a": b"n", "a/b.py/c": b"n", "\ud800": b"n"}
    taken = take(store, extra=extra)
    assert set(taken.files) == {"a/b.py", "external/lib.py", "cells/0001.py"}
    assert read.source(store, taken.version, "external/lib.py") == b"\0x"
    assert taken.refused == {".env", "../up", "a", "a/b.py/c", "\ud800"}
    assert len(taken.notes) == 5
    again = snapshot.amend(store, taken, {".env": b"s", "b.py": b"1"}, "imported late")
    assert again.refused == taken.refused
    assert ".env" not in again.files


def test_amend_replaces_and_adds_and_leaves_the_base(store: Store) -> None:
    run = store.project / "a.sh"
    run.write_text("1")
    run.chmod(0o755)
    base = take(store)
    more = snapshot.amend(store, base, {"a.sh": b"2", "late/b.py": b"3"}, "imported later")
    assert read.source(store, more.version, "a.sh") == b"2"
    assert read.source(store, base.version, "a.sh") == b"1"
    assert more.modes == {"a.sh": 0o100755}
    assert "imported later" in more.notes[-1]
    assert snapshot.amend(store, base, {}, "nothing").version == base.version
    run.write_text("2")
    (store.project / "late").mkdir()
    (store.project / "late" / "b.py").write_text("3")
    assert take(store).version == more.version


def test_bounds_are_said(store: Store) -> None:
    for k in range(20):
        (store.project / f"m{k:02}.py").write_text("1" * 10)
    taken = take(store, script=store.project / "m19.py", bounds=Bounds(files=5))
    assert set(taken.files) == {*(f"m{k:02}.py" for k in range(5)), "m19.py"}
    assert any("past the bounds" in note and "15 files" in note for note in taken.notes)
    assert len(take(store, bounds=Bounds(total_bytes=30)).files) == 3
    assert len(take(store, bounds=Bounds(new_files=4)).files) == 4


def test_unreadable_special_and_vanishing_files(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.project / "a.py").write_text("1")
    (store.project / "gone.py").write_text("1")
    (store.project / "closed.py").write_text("1")
    os.mkfifo(store.project / "pipe.py")
    really_open = os.open

    def stumbling(path: bytes, flags: int, mode: int = 0o777) -> int:
        if path.__class__ is bytes and path.endswith(b"/gone.py"):
            raise FileNotFoundError(2, "No such file or directory")
        if path.__class__ is bytes and path.endswith(b"/closed.py"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", stumbling)
    taken = take(store)
    assert list(taken.files) == ["a.py"]
    assert any("closed.py" in note and "Permission denied" in note for note in taken.notes)


def test_a_disk_that_fails_is_a_version_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.project / "a.py").write_text("1")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(VersionError, match="No space left"):
        take(store)
    monkeypatch.undo()
    assert read.versions(store) == []
    assert read.verify(store, take(store).version) == []


def test_a_snapshot_stopped_part_way_is_completed_by_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(10):
        (store.project / f"m{k}.py").write_text(str(k))
    really_link = os.link
    left = [7]

    def link(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        really_link(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(KeyboardInterrupt):
        take(store)
    monkeypatch.setattr(os, "link", really_link)
    assert read.verify(store, take(store).version) == []


def test_a_file_left_empty_by_a_power_loss_is_written_again(store: Store) -> None:
    (store.project / "a.py").write_text("1")
    taken = take(store)
    for path in taken.written:
        if "objects" in path.parts or "versions" in path.parts:
            path.write_bytes(b"")
    again = take(store)
    assert again.version == taken.version
    assert read.verify(store, taken.version) == []


@pytest.mark.damages_store
def test_damage_is_named(store: Store) -> None:
    (store.project / "a.py").write_text("hello")
    (store.project / "b.py").write_text("there")
    taken = take(store)
    blob = object_path(store, taken.files["a.py"])
    good = blob.read_bytes()
    for bad in (b"", good[:-3], good[:5] + bytes([good[5] ^ 1]) + good[6:], object_path(store, taken.files["b.py"]).read_bytes()):
        blob.write_bytes(bad)
        with pytest.raises(Damaged, match=taken.files["a.py"]):
            read.source(store, taken.version, "a.py")
        assert len(read.verify(store, taken.version)) == 1
    blob.unlink()
    with pytest.raises(Damaged, match="missing"):
        read.source(store, taken.version, "a.py")
    assert read.source(store, taken.version, "b.py") == b"there"


def test_resolve(store: Store) -> None:
    ids = []
    for k in range(20):
        (store.project / "a.py").write_text(str(k))
        ids.append(take(store).version)
    assert read.versions(store) == sorted(ids)
    assert read.resolve(store, ids[0]) == ids[0]
    assert read.resolve(store, ids[0][:20]) == ids[0]
    with pytest.raises(NotFound, match="20 versions"):
        read.resolve(store, "v")
    with pytest.raises(NotFound):
        read.resolve(store, "v" + "0" * 40)
    for bad in ("r123", "vxyz", "../x", ""):
        with pytest.raises(UsageError):
            read.resolve(store, bad)
    with pytest.raises(UsageError):
        read.files(store, "v../../x")  # type: ignore[arg-type]


def test_export_writes_over_nothing_and_leads_nowhere(store: Store, tmp_path: Path) -> None:
    for name in ("a.py", "pkg/b.py", "pkg2/c.py"):
        (store.project / name).parent.mkdir(exist_ok=True)
        (store.project / name).write_text(name)
    version = take(store).version
    assert read.export(store, version, "pkg", tmp_path / "one") == [tmp_path / "one" / "pkg" / "b.py"]
    assert {p.name for p in read.export(store, version, None, tmp_path / "all")} == {"a.py", "b.py", "c.py"}
    assert (tmp_path / "all" / "pkg2" / "c.py").read_text() == "pkg2/c.py"
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "a.py").write_text("mine")
    with pytest.raises(VersionError, match="already"):
        read.export(store, version, None, tmp_path / "half")
    assert [p.name for p in (tmp_path / "half").iterdir()] == ["a.py"]
    (tmp_path / "led").mkdir()
    (tmp_path / "led" / "pkg").symlink_to(tmp_path / "half")
    with pytest.raises(VersionError, match="link"):
        read.export(store, version, None, tmp_path / "led")
    with pytest.raises(NotFound):
        read.export(store, version, "nothing", tmp_path / "none")
    with pytest.raises(NotFound, match="pkg/b.py"):
        read.source(store, version, "pkg/bb.py")
