"""The rules of the house that no linter knows: one address for each danger, light imports, sizes and names.

Each exception stands in a table here with its reason, so that adding one is a decision somebody reads.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "rearview"
MODULES = tuple(path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))

MAY_WRITE_FILES = {
    "store/atomic.py": "publishes whole files",
    "store/journal.py": "appends frames",
    "store/direct.py": "temporary files of packs, past the page cache; atomic gives them their names",
    "store/gc.py": "renames the index of a pack that it looks at, and back; it writes no bytes",
    "store/sweeping.py": "takes an unused object away by its name, or puts it back; it writes no bytes",
    "store/check_checkpoints.py": "repair sets damaged manifests aside by name; it writes no bytes",
    "store/check.py": "repair puts damaged files and removed runs aside by name; it writes no bytes",
    "record/recorder.py": "the hot path: the journal's own write call for a float, without the call around it (bench: log)",
    "record/resume/undoing.py": "gives output files back the times that they had, with their content",
    "record/resume/aside.py": "copies the user's output files aside, and rewrites them in place when their run is resumed",
    "catalog/tables/export.py": "a Parquet file the user named, whole or not there",
    "catalog/sealing/seal.py": "lines for DuckDB to read, in the store's tmp/; the segments made of them are published by atomic",
    "versions/read.py": "exports source to a folder the user named, never into the store",
    "record/files/inputs.py": "a forked child tells its parent through a pipe",
    "replay/running/pool.py": "what a worker prints, in its scratch folder",
    "replay/sandbox/protection.py": "a forked child tells its parent through a pipe",
    "replay/sandbox/linux.py": "sets the names of user and group in a namespace, in /proc",
    "replay/sandbox/layers.py": "gives a folder in scratch the mode of the one it stands for",
    "replay/sandbox/owners.py": "copies files of others to scratch, where a replay may write them",
    "replay/sandbox/copies.py": "makes the private work folder in scratch, where there are no overlays",
    "replay/sandbox/files.py": "puts output files to an earlier state, in a sandbox where that alters nothing of the user's",
    "state/put/functions.py": "opens the null device, to make a closed file of the program anew",
}
"""Modules below the faces that write files. What `cli` writes are files the user named."""

MAY_START_PROGRAMS = {
    "versions/git.py": "starts git",
    "cli/starting.py": "starts the user's script",
    "replay/running/interpreters.py": "asks another interpreter what is installed there",
    "replay/running/pool.py": "starts the recorded program in a worker",
}

MAY_RUN_CODE = {
    "record/launch.py": "becomes the user's script, as told to",
}

HEAVY = {"torch", "numpy", "pandas", "duckdb", "click", "rich", "polars", "pyarrow", "matplotlib", "PIL", "tensorflow", "jax", "IPython"}
LONGEST_MODULE = 400
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "core", "base"}

WRITING_OS = {"write", "writev", "pwrite", "pwritev", "rename", "replace", "link", "symlink", "truncate", "ftruncate", "sendfile"}
WRITING_PATH = {"write_text", "write_bytes", "hardlink_to", "symlink_to"}
STARTING_OS = {"system", "popen", "posix_spawn", "posix_spawnp", "startfile"}
UNPICKLING = {
    ("torch", "load"),
    ("pickle", "load"),
    ("pickle", "loads"),
    ("np", "load"),
    ("numpy", "load"),
    ("pandas", "read_pickle"),
    ("pd", "read_pickle"),
}


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@functools.cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(module)))


@functools.cache
def calls_of(module: str) -> tuple[tuple[str, str, ast.Call], ...]:
    return tuple(calls(nodes_of(module)))


def calls(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, ast.Call]]:
    """(what it is called on, name, call): `os.write(...)` is ("os", "write"), `open(...)` is ("", "open")."""
    for node in nodes:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield "", node.func.id, node
            elif isinstance(node.func, ast.Attribute):
                yield node.func.value.id if isinstance(node.func.value, ast.Name) else "?", node.func.attr, node


def opens_for_writing(call: ast.Call, mode_at: int) -> bool:
    """Whether an `open` has a mode that writes, or one that cannot be seen here."""
    mode = next((keyword.value for keyword in call.keywords if keyword.arg == "mode"), None)
    if mode is None and len(call.args) > mode_at:
        mode = call.args[mode_at]
    if mode is None:
        return False
    return not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)) or bool(set(mode.value) & set("wax+"))


def writes_a_file(on: str, name: str, call: ast.Call) -> bool:
    if (on, name) == ("os", "open"):
        flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        return any(flag in flags for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"))
    if name == "open" and on in ("", "io", "gzip", "bz2", "lzma"):
        return opens_for_writing(call, 1)
    if name == "open":  # Path.open
        return opens_for_writing(call, 0)
    return (on == "os" and name in WRITING_OS) or name in WRITING_PATH or (on == "shutil" and name.startswith(("copy", "move")))


def starts_a_program(on: str, name: str, _call: ast.Call) -> bool:
    return (
        (on == "os" and (name in STARTING_OS or name.startswith(("exec", "spawn"))))
        or on in ("subprocess", "pty")
        or "create_subprocess" in name
    )


def writing_by_another_name(module: str) -> Iterator[tuple[str, str, ast.Attribute]]:
    """`_write = os.write`: a writing function taken along to be called later."""
    called = {id(call.func) for _, _, call in calls_of(module)}
    for node in nodes_of(module):
        of_os = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
        if of_os and id(node) not in called and node.attr in WRITING_OS:
            yield "os", node.attr, node


def places(predicate: object, allowed: dict[str, str], under: tuple[str, ...] = ("",)) -> list[str]:
    """`module:line` of every call that a rule is about, outside the modules that may."""
    assert callable(predicate)
    return [
        f"{module}:{call.lineno} {on}.{name}"
        for module in MODULES
        if module.startswith(under) and module not in allowed
        for on, name, call in calls_of(module)
        if predicate(on, name, call)
    ]


def test_the_rules_see_something() -> None:
    """A rule that matches nothing anywhere is a rule that no longer works."""
    assert any(writes_a_file(*found) for found in calls_of("store/atomic.py"))
    assert any(writes_a_file(*found) for found in calls_of("store/journal.py"))
    for text in ("open(p, 'wb')", "p.open('a')", "open(p, mode)", "p.write_text('')", "os.open(p, os.O_RDWR)", "os.rename(a, b)"):
        assert any(writes_a_file(*found) for found in calls(ast.walk(ast.parse(text)))), text
    for text in ("open(p)", "open(p, 'rb')", "p.open()", "os.open(p, os.O_RDONLY)", "text.replace('a', 'b')", "sys.stderr.write('')"):
        assert not any(writes_a_file(*found) for found in calls(ast.walk(ast.parse(text)))), text
    for text in ("os.system('ls')", "subprocess.run([])", "os.execvp('a', [])", "asyncio.create_subprocess_exec('a')"):
        assert any(starts_a_program(*found) for found in calls(ast.walk(ast.parse(text)))), text


def test_only_atomic_and_journal_write_store_files() -> None:
    below = tuple({module.split("/")[0] for module in MODULES} - {"cli", "testing"})
    assert not places(writes_a_file, MAY_WRITE_FILES, below)
    assert not [
        f"{module}:{node.lineno} {on}.{name}"
        for module in MODULES
        if module.startswith(below) and module not in MAY_WRITE_FILES
        for on, name, node in writing_by_another_name(module)
    ]


def test_only_one_module_starts_git_and_one_the_users_script() -> None:
    assert not places(starts_a_program, MAY_START_PROGRAMS)


def test_git_is_named_as_a_command_in_one_module_only() -> None:
    """A list that begins with "git" is a command line."""
    found = [
        f"{module}:{node.lineno}"
        for module in MODULES
        if module != "versions/git.py"
        for node in nodes_of(module)
        if isinstance(node, ast.List) and node.elts and isinstance(node.elts[0], ast.Constant) and node.elts[0].value == "git"
    ]
    assert not found


def test_nothing_unpickles() -> None:
    assert not places(lambda on, name, call: (on, name) in UNPICKLING and not safe_load(call), {})


def safe_load(call: ast.Call) -> bool:
    """`weights_only=True` or `allow_pickle=False`, said in so many words."""
    said = {keyword.arg: keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)}
    return said.get("weights_only") is True or said.get("allow_pickle") is False


def runs_code(on: str, name: str, _call: ast.Call) -> bool:
    return (on == "" and name in ("eval", "exec")) or on == "runpy"


def test_code_is_run_in_one_place() -> None:
    assert not places(runs_code, MAY_RUN_CODE)


def imported_at_import(module: str) -> set[str]:
    """What importing a module imports: statements at module level, not those in functions or for type checkers."""
    found: set[str] = set()
    package = ["rearview", *module.removesuffix(".py").removesuffix("/__init__").split("/")]
    pending: list[ast.AST] = [tree_of(module)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) - node.level + module.endswith("__init__.py")]) + "." if node.level else ""
            base = (above + (node.module or "")).rstrip(".")
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))
    return found


def closure(start: str) -> dict[str, list[str]]:
    """Every module of ours that importing `start` loads, with the heavy ones each loads."""
    loaded: dict[str, list[str]] = {}
    pending = [start]
    while pending:
        module = pending.pop()
        if module in loaded or module not in MODULES:
            continue
        names = imported_at_import(module)
        loaded[module] = sorted(name for name in names if name.split(".")[0] in HEAVY)
        for name in names:
            path = name.removeprefix("rearview").lstrip(".").replace(".", "/")
            if name.split(".")[0] == "rearview":
                pending += [f"{path}.py", f"{path}/__init__.py".lstrip("/")]
    return loaded


@pytest.mark.skipif("__init__.py" not in MODULES, reason="not written yet")
def test_importing_rearview_loads_nothing_heavy() -> None:
    loaded = closure("__init__.py")
    assert len(loaded) > 1, "the walk found no import at all"
    assert not {module: heavy for module, heavy in loaded.items() if heavy}


def test_a_module_has_one_concept() -> None:
    lines = {module: (PACKAGE / module).read_text(encoding="utf-8").count("\n") for module in MODULES}
    assert not {module: count for module, count in lines.items() if count > LONGEST_MODULE}, "look for the second concept"
    vague = [module for module in MODULES if set(Path(module).with_suffix("").parts) & VAGUE_NAMES]
    assert not vague, "a module is a noun of the domain, or one step"


def test_nothing_happens_at_import() -> None:
    """No call at module level but those that make plain values: no files, no git, no argv, no threads."""
    acts = {"open", "print", "input", "start", "run", "Popen", "getcwd", "listdir", "mkdir", "fork", "connect", "register", "signal"}
    found = [
        f"{module}:{node.lineno} {on}.{name}"
        for module in MODULES
        for statement in tree_of(module).body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.If)
        for on, name, node in calls(ast.walk(statement))
        if name in acts and on != "re"
    ]
    assert not found


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    if source.exists():
        assert source.read_text().count("__version__ =") == 1


def test_each_exception_is_still_needed() -> None:
    """An exception whose module is gone, or which no longer does the thing, is deleted."""
    for table, rule in ((MAY_WRITE_FILES, writes_a_file), (MAY_START_PROGRAMS, starts_a_program), (MAY_RUN_CODE, runs_code)):
        for module in [module for module in table if module in MODULES]:
            does_it = any(rule(*found) for found in calls_of(module))
            takes_it_along = table is MAY_WRITE_FILES and any(writing_by_another_name(module))
            assert does_it or takes_it_along, f"{module} no longer needs its exception"
