"""Finding, making, opening and publishing: a store is whole or not there."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rearview.errors import Damaged, NewerFormat, NoStore, NotFound, StoreError
from rearview.model import RunId
from rearview.store import atomic, layout, objects, runs


def test_run_ids() -> None:
    made = {layout.derived_run_id(str(k)) for k in range(1000)}
    assert len(made) == 1000
    assert all(len(run) == 13 and run[0] == "r" and run.isalnum() and run.islower() for run in made)
    assert layout.derived_run_id("a") == layout.derived_run_id("a") != layout.derived_run_id("b")


def test_create_is_safe_for_many_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: layout.create(tmp_path / ".rearview"), range(32)))
    assert len({json.loads(store.store_json.read_text())["id"] for store in stores}) == 1
    assert (tmp_path / ".rearview/.gitignore").read_text() == "*\n"
    assert list((tmp_path / ".rearview/tmp").iterdir()) == []


@pytest.mark.parametrize(("text", "error"), [
    ("{", Damaged), ("[]", Damaged), ("{}", Damaged), ("", Damaged), ('{"format": 99}', NewerFormat), ('{"format": "x"}', NewerFormat),
])  # fmt: skip
def test_stores_that_cannot_be_opened(tmp_path: Path, text: str, error: type[Exception]) -> None:
    store = layout.create(tmp_path / ".rearview")
    store.store_json.write_text(text)
    with pytest.raises(error) as raised:
        layout.open_store(store.root)
    assert str(store.root) in str(raised.value)
    if error is NewerFormat:
        assert "upgrade" in str(raised.value)


def test_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("REARVIEW_DIR", raising=False)
    with pytest.raises(NoStore) as raised:
        layout.locate(tmp_path)
    assert isinstance(raised.value, LookupError)
    with pytest.raises(NoStore):
        layout.open_store(tmp_path / ".rearview")


def test_which_folder_is_the_project(tmp_path: Path) -> None:
    home = tmp_path / "home"
    deep = home / "a/b/c"
    deep.mkdir(parents=True)

    def find(start: Path = deep, chosen: str | None = None) -> Path:
        return layout.find_project(start, chosen, home)[0]

    assert find() == deep
    (home / "pyproject.toml").touch()
    (home / ".git").mkdir()
    assert find() == deep, "not all of home"
    (tmp_path / ".git").mkdir()
    assert find() == deep, "not past home"
    (home / "a/pyproject.toml").touch()
    assert find() == home / "a"
    (home / "a/b/.git").write_text("gitdir: elsewhere")  # a worktree or submodule has a file
    assert find() == home / "a/b"
    layout.create(home / ".rearview")
    assert find() == home, "a store that somebody made in home on purpose"
    layout.create(home / "a/.rearview")
    assert layout.find_project(deep, None, home) == (home / "a", True)
    assert find(chosen=str(tmp_path / "x")) == tmp_path / "x"
    assert find(chosen=str(tmp_path / "x/.rearview")) == tmp_path / "x"


def test_where_the_store_goes_when_the_folder_cannot_be_written(tmp_path: Path) -> None:
    one = layout.fallback_root(tmp_path / "a/same", {"XDG_DATA_HOME": "/data"})
    two = layout.fallback_root(tmp_path / "b/same", {"XDG_DATA_HOME": "/data"})
    assert one != two
    assert str(one).startswith("/data/rearview/same-")
    assert one.name == ".rearview"


def test_publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, tmp = tmp_path / "folder/file", tmp_path / "tmp"
    assert atomic.publish(path, b"one", tmp=tmp)
    assert not atomic.publish(path, b"two", tmp=tmp, replace=False)
    assert path.read_bytes() == b"one"
    assert atomic.publish(path, b"two", tmp=tmp)
    assert path.read_bytes() == b"two"

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for name in ("fsync", "write", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError):
                atomic.publish(path, b"three", tmp=tmp)
        assert path.read_bytes() == b"two"
        assert list(tmp.iterdir()) == [], "nothing is left behind"


def test_publishing_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    path = tmp_path / "file"
    assert atomic.publish(path, b"one", tmp=tmp_path / "tmp", replace=False)
    assert not atomic.publish(path, b"two", tmp=tmp_path / "tmp", replace=False)
    assert path.read_bytes() == b"one"


def test_objects(tmp_path: Path) -> None:
    store = layout.create(tmp_path / ".rearview")
    key = objects.put(store, b"bytes")
    assert objects.put(store, b"bytes") == key
    assert objects.get(store, key) == b"bytes"
    assert len([path for path in store.objects.rglob("*") if path.is_file()]) == 1
    with pytest.raises(NotFound):
        objects.get(store, objects.key_of(b"other"))
    for wrong in ("", "xxh3-", "xxh3-" + "g" * 32, "xxh3-../../../../etc/passwd", "../x", "xxh3-" + "A" * 32):
        with pytest.raises(Damaged):
            objects.path_of(store, wrong)


def test_runs(tmp_path: Path) -> None:
    store = layout.create(tmp_path / ".rearview")
    assert runs.list_runs(store) == []
    run = RunId("r1")
    assert runs.write_run(store, run, {"name": "a\ud800"})
    assert not runs.write_run(store, run, {"name": "b"})
    assert runs.read_run(store, run)["name"] == "a\ud800"
    (store.runs / "r2").mkdir()
    assert runs.list_runs(store) == [run], "a folder without run.json is not a run"
    for text in ("", "{", "[]", '{"run": "r9"}', "null"):
        (store.runs / "r2/run.json").write_text(text)
        with pytest.raises((Damaged, StoreError)):
            runs.read_run(store, RunId("r2"))
    assert runs.size_of(store.run(run)) > 10
