"""A process that has imported once what programs import, and forks a child for each that a test wants to run.

Started as a program by `forked.Nursery` with the names of modules to import: `python nursery.py SOCKET torch ...`. Each connection is one
program: it sends its files and a line of JSON, and is told the process and later its exit code. A child is what `python SCRIPT ARGS` is,
except that imports are quick: nothing of rearview is imported until the program does it.
"""

from __future__ import annotations

import atexit
import copy
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import socket
import subprocess
import sys
import threading
import traceback
import types
from importlib.machinery import ModuleSpec
from typing import Any

FILES = 8
"""How many open files one program may be given."""
_PACKAGES = ("record", "state", "store", "instrument", "versions")
_MODULES = ("rearview.replay.worker.becoming", "rearview.replay.worker.texts", "rearview.replay.worker.isolating")


class Kept:
    """Finds modules of rearview that were loaded before, as if they were loaded now: parents first, and the package itself anew."""

    def __init__(self) -> None:
        os.environ["REARVIEW"] = "off"  # the import looks at nothing: the program that imports it has its own first look
        for package in _PACKAGES:
            module = importlib.import_module(f"rearview.{package}")
            for found in pkgutil.walk_packages(module.__path__, f"rearview.{package}."):
                if not found.name.endswith(".launch"):
                    importlib.import_module(found.name)
        for name in _MODULES:
            importlib.import_module(name)
        self._modules = {name: module for name, module in sys.modules.items() if name.startswith("rearview.")}
        self._specs = {name: module.__spec__ for name, module in self._modules.items()}
        for name in ("rearview", *self._modules):
            del sys.modules[name]
        for name, module in self._modules.items():  # not bound in its package either, or `from package import name` would not import it
            package, _, last = name.rpartition(".")
            if package in self._modules and getattr(self._modules[package], last, None) is module:
                delattr(self._modules[package], last)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        spec = copy.copy(self._specs[name])
        assert spec is not None
        spec.loader = self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._specs[module.__name__]
        if module.__name__ == "rearview.record.firsts":
            module.reserved = os.urandom(8)  # the one thing that is made by being imported


def main() -> None:
    """Serve until stdin ends."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    address, *names = sys.argv[1:]
    for name in names:
        importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    kept = Kept()
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    print("ready", flush=True)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, listening], [], [], 0.002 if children else None)
        if 0 in ready:
            return
        if listening in ready:
            connection, _ = listening.accept()
            pid = os.fork()
            if pid == 0:
                listening.close()
                for other in children.values():
                    other.close()
                _run(connection, kept)
            children[pid] = connection
            connection.sendall(f"{pid}\n".encode())
        for pid in list(children):
            waited, status = os.waitpid(pid, os.WNOHANG)
            if waited:
                with children.pop(pid) as connection:
                    try:
                        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                    except OSError:
                        continue  # whoever asked is gone


def _run(connection: socket.socket, kept: Kept) -> None:
    """In the child: be `python script args`, or `python -m module args`."""
    try:
        os.setsid()
        request = _request(connection)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    if request.get("module"):
        _spare(kept)
    _be(request, kept)


def _be(request: dict[str, Any], kept: Kept) -> None:
    code = 1
    try:
        sys.meta_path.insert(0, kept)  # type: ignore[arg-type]
        main_module = types.ModuleType("__main__")
        main_module.__builtins__ = __builtins__  # type: ignore[attr-defined]
        sys.modules["__main__"] = main_module
        if request.get("module"):
            sys.argv = ["-m", *request["args"]]
            sys.orig_argv = [sys.executable, "-m", request["module"], *request["args"]]
            sys.path.insert(0, os.getcwd())
            program = compile(f"import runpy; runpy._run_module_as_main({request['module']!r})", "<nursery>", "exec")
        else:
            script = str(request["script"])
            sys.argv = [script, *request["args"]]
            sys.orig_argv = [sys.executable, *sys.argv]
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            main_module.__file__ = script
            with open(script, "rb") as file:
                program = compile(file.read(), script, "exec", dont_inherit=True)
        before = request.get("before")
        if before:
            exec(before, {"__name__": "before"})
        code = _code_of(program, main_module)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _spare(kept: Kept) -> None:
    """A child in which nothing has happened yet becomes the program that this command starts: its child, in its group, as if started."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _, handles, _, _ = socket.recv_fds(theirs, 1, FILES)
        with theirs.makefile("rb") as file:
            line = file.readline()
        if not line:
            os._exit(0)  # it starts none
        theirs.close()
        request = json.loads(line)
        _take(handles, request["numbers"], request["cwd"], request["env"])
        _be(request, kept)
    theirs.close()
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def instead(self: Any, args: Any, executable: Any, preexec: Any, close: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any) -> None:
        if ours.fileno() < 0 or len(args) < 3 or not str(args[1]).endswith("launch.py"):
            execute(self, args, executable, preexec, close, pass_fds, cwd, env, *rest)
            return
        number = json.loads(args[2])["tell"]
        request = {"script": args[1], "args": args[2:], "cwd": str(cwd or os.getcwd()), "env": dict(env), "numbers": [number]}
        socket.send_fds(ours, [b"."], [number])
        ours.sendall(json.dumps(request).encode() + b"\n")
        ours.close()
        self.pid, self._child_created = pid, True

    subprocess.Popen._execute_child = instead  # type: ignore[attr-defined]


def _request(connection: socket.socket) -> dict[str, Any]:
    """What to be; with its folder, environment and open files, the first three of which are the streams."""
    _, handles, _, _ = socket.recv_fds(connection, 1, FILES)
    with connection.makefile("rb") as file:
        request: dict[str, Any] = json.loads(file.readline())
    connection.close()
    _take(handles, [0, 1, 2, *request["numbers"]], request["cwd"], request["env"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    return request


def _take(handles: list[int], numbers: list[int], cwd: str, env: dict[str, str]) -> None:
    away = [_above(handle, 64) for handle in handles]  # first: a file may have got the number that another is to have
    for handle, number in zip(away, numbers, strict=True):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))


def _above(handle: int, least: int) -> int:
    moved = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(handle)
    return moved


def _code_of(program: types.CodeType, main_module: types.ModuleType) -> int:
    try:
        exec(program, main_module.__dict__)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        sys.stderr.write(f"{ending.code}\n")
        return 1
    except BaseException as error:
        sys.last_exc = sys.last_value = error
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()
