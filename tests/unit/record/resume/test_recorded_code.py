"""The recorded source runs, whatever became of the files."""

from __future__ import annotations

import importlib
import inspect
import linecache
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rearview.record import firsts
from rearview.record.resume import recorded_code
from rearview.record.resume.recorded_code import RecordedCode
from rearview.store import layout
from rearview.store.layout import Store
from rearview.versions import snapshot


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A project whose folder is importable; nothing of what is imported or installed outlives the test."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(firsts, "sources", {})
    before = set(sys.modules)
    yield layout.create(project / layout.FOLDER)
    for name in set(sys.modules) - before:
        del sys.modules[name]
    for file in [file for file in linecache.cache if file.startswith(str(tmp_path))]:
        del linecache.cache[file]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def write(store: Store, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = store.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def record(store: Store) -> Callable[..., RecordedCode]:
    """Take a version of some files, change what lies there, and give what serves the version."""

    def do(
        files: dict[str, str], change: Callable[[], object], extra: dict[str, bytes] | None = None, install: bool = True
    ) -> RecordedCode:
        write(store, files)
        taken = snapshot.take(store, store.project, script=None, script_source=None, extra=extra or {}, limit_bytes=1 << 20)
        change()
        code = RecordedCode(store, taken.version, store.project)
        if install:
            code.install()
        return code

    return do


def test_nothing_is_needed_where_nothing_differs(record: Callable[..., RecordedCode]) -> None:
    assert not record({"a.py": "x = 1"}, lambda: None, install=False).is_needed


def test_an_edited_module_is_loaded_as_it_was(store: Store, record: Callable[..., RecordedCode]) -> None:
    record({"model_a.py": "def f():\n    return 'recorded'\n"}, lambda: write(store, {"model_a.py": "def f():\n    return 'edited'\n"}))
    module = importlib.import_module("model_a")
    assert module.f() == "recorded"
    assert module.__file__ == str(store.project / "model_a.py")
    assert inspect.getsource(module.f) == "def f():\n    return 'recorded'\n"
    assert firsts.sources[module.__file__] == b"def f():\n    return 'recorded'\n"


def test_no_compiled_cache_is_used_or_written(store: Store, record: Callable[..., RecordedCode]) -> None:
    write(store, {"model_b.py": "x = 'recorded'"})
    edited = "x = 'edited!!'"

    def edit_and_compile() -> None:
        write(store, {"model_b.py": edited})
        importlib.import_module("py_compile").compile(str(store.project / "model_b.py"))

    record({"model_b.py": "x = 'recorded'"}, edit_and_compile)
    cached = next((store.project / "__pycache__").glob("model_b*.pyc"))
    before = cached.read_bytes()
    assert importlib.import_module("model_b").x == "recorded"
    assert cached.read_bytes() == before


def test_deleted_modules_packages_and_folders(store: Store, record: Callable[..., RecordedCode]) -> None:
    files = {
        "pkg_c/__init__.py": "from . import inner\nname = 'pkg'",
        "pkg_c/inner.py": "x = 1",
        "plain_c/deep/mod.py": "x = 2",
        "alone_c.py": "x = 3",
    }

    def delete() -> None:
        shutil.rmtree(store.project / "pkg_c")
        shutil.rmtree(store.project / "plain_c")
        os.unlink(store.project / "alone_c.py")

    record(files, delete)
    package = importlib.import_module("pkg_c")
    assert (package.name, package.inner.x) == ("pkg", 1)
    assert list(package.__path__) == [str(store.project / "pkg_c")]
    assert importlib.import_module("plain_c.deep.mod").x == 2
    assert importlib.import_module("alone_c").x == 3


def test_an_edited_package_keeps_its_other_modules(store: Store, record: Callable[..., RecordedCode]) -> None:
    record({"pkg_d/__init__.py": "x = 'recorded'", "pkg_d/same.py": "y = 1"}, lambda: write(store, {"pkg_d/__init__.py": "x = 'edited'"}))
    assert importlib.import_module("pkg_d").x == "recorded"
    same = importlib.import_module("pkg_d.same")
    assert same.y == 1
    assert not isinstance(same.__spec__.loader, recorded_code.RecordedLoader)


def test_a_module_that_became_a_package(store: Store, record: Callable[..., RecordedCode]) -> None:
    def change() -> None:
        os.unlink(store.project / "thing_e.py")
        write(store, {"thing_e/__init__.py": "x = 'later'"})

    record({"thing_e.py": "x = 'recorded'"}, change)
    assert importlib.import_module("thing_e").x == "recorded"


def test_a_deleted_module_is_not_replaced_by_one_further_on(store: Store, record: Callable[..., RecordedCode], tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "tools_f.py").write_text("x = 'another'")
    sys.path.append(str(tmp_path / "later"))
    record({"tools_f.py": "x = 'recorded'"}, lambda: os.unlink(store.project / "tools_f.py"))
    assert importlib.import_module("tools_f").x == "recorded"


def test_modules_from_outside_the_project(store: Store, record: Callable[..., RecordedCode], tmp_path: Path) -> None:
    lib = tmp_path / "lib" / "lib_g"
    lib.mkdir(parents=True)
    (lib / "__init__.py").write_text("")
    (lib / "mod.py").write_text("x = 'edited'")
    sys.path.append(str(tmp_path / "lib"))
    extra = {"external/lib_g/__init__.py": b"", "external/lib_g/mod.py": b"x = 'recorded'", "external/gone_g.py": b"x = 'gone'"}
    record({"a.py": ""}, lambda: None, extra=extra)
    module = importlib.import_module("lib_g.mod")
    assert (module.x, module.__file__) == ("recorded", str(lib / "mod.py"))
    assert importlib.import_module("gone_g").x == "gone"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("never_there_g")


def test_a_project_reached_through_a_link(store: Store, record: Callable[..., RecordedCode], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.project)
    sys.path[0] = str(tmp_path / "link")
    record({"model_h.py": "x = 'recorded'"}, lambda: write(store, {"model_h.py": "x = 'edited'"}))
    module = importlib.import_module("model_h")
    assert (module.x, module.__file__) == ("recorded", str(tmp_path / "link" / "model_h.py"))


def test_a_module_that_is_a_link(store: Store, record: Callable[..., RecordedCode]) -> None:
    (store.project / "link_h.py").symlink_to("real_h.py")
    code = record({"real_h.py": "x = 'recorded'"}, lambda: write(store, {"real_h.py": "x = 'edited'"}))
    assert code.script(str(store.project / "link_h.py")) == b"x = 'recorded'"
    assert [importlib.import_module(name).x for name in ("link_h", "real_h")] == ["recorded", "recorded"]


def test_tracebacks_show_the_recorded_lines(store: Store, record: Callable[..., RecordedCode]) -> None:
    text = "def f():\n    raise ValueError  # as recorded\n"
    record({"fails_i.py": text}, lambda: write(store, {"fails_i.py": "def f():\n    pass  # edited\n\n\n\n\n"}))
    with pytest.raises(ValueError) as caught:
        importlib.import_module("fails_i").f()
    assert "# as recorded" in "".join(traceback.format_exception(caught.value))


def test_other_files_are_named(store: Store, record: Callable[..., RecordedCode]) -> None:
    code = record({"config.yaml": "lr: 1", "a.py": ""}, lambda: write(store, {"config.yaml": "lr: 2"}), install=False)
    assert (code.others, code.files) == (["config.yaml"], {})
    assert recorded_code.differences(store, code.version, store.project) == ["config.yaml"]


def test_what_was_loaded_is_compared_with_the_version(store: Store, record: Callable[..., RecordedCode]) -> None:
    code = record({"edited_j.py": "x = 1"}, lambda: write(store, {"new_j.py": "x = 1"}), install=False)
    write(store, {"edited_j.py": "x = 2"})
    for name in ("edited_j", "new_j"):
        importlib.import_module(name)
        firsts.sources[str(store.project / f"{name}.py")] = (store.project / f"{name}.py").read_bytes()
    found = dict(recorded_code.deviations(code.blobs, store.project))
    assert "other source" in found["edited_j.py"]
    assert "not in the recorded version" in found["new_j.py"]


def test_the_script_comes_from_the_version(store: Store, record: Callable[..., RecordedCode]) -> None:
    code = record({"train.py": "print(1)"}, lambda: os.unlink(store.project / "train.py"), install=False)
    assert code.script(str(store.project / "train.py")) == b"print(1)"
    assert code.script(str(store.project / "other.py")) is None
