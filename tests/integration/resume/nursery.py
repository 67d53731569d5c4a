"""A process that has imported torch once and forks a child for each program that a test wants to run: a second instead of five.

Started as a program by `training.Nursery`; reads one request a line and answers `started PID`, later `ended PID CODE`, in whatever order
children end. A child imports rearview itself, runs the script as `__main__`, and ends as an interpreter does.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import sys
import threading
import traceback
import types


def main() -> None:
    """Serve until stdin ends."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
    import numpy  # noqa: F401
    import torch
    import torch._dynamo
    import torch.optim.swa_utils
    import torch.utils.data
    import tqdm  # noqa: F401

    assert "rearview" not in sys.modules
    torch.set_num_threads(1)
    children: set[int] = set()
    read = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.005 if children else None)
        if ready:
            more = os.read(0, 1 << 20)
            if not more:
                return
            *lines, read = (read + more).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    _run(json.loads(line))
                children.add(pid)
                print("started", pid, flush=True)
        for pid in list(children):
            waited, status = os.waitpid(pid, os.WNOHANG)
            if waited:
                children.discard(pid)
                print("ended", pid, os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, object]) -> None:
    """In the child: be `python script args`."""
    code = 1
    try:
        os.setsid()
        _redirect(request)
        for number in request.get("unused", ()):  # type: ignore[attr-defined]
            os.dup2(1, number, inheritable=False)  # a descriptor that the program expects, and nobody reads from
        script = str(request["script"])
        sys.argv = [script, *request["args"]]  # type: ignore[misc]
        sys.orig_argv = [sys.executable, *sys.argv]
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        main_module = types.ModuleType("__main__")
        main_module.__file__ = script
        main_module.__builtins__ = __builtins__  # type: ignore[attr-defined]
        sys.modules["__main__"] = main_module
        with open(script, "rb") as file:
            program = compile(file.read(), script, "exec")
        before = request.get("before")
        if before:
            exec(str(before), {"__name__": "before"})
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


def _redirect(request: dict[str, object]) -> None:
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    if request.get("joined"):
        request["stderr"] = request["stdout"]
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, request["stdout"], os.O_WRONLY), (2, request["stderr"], os.O_WRONLY)):
        handle = os.open(str(name), flags | (os.O_CREAT | (os.O_APPEND if request.get("joined") else os.O_TRUNC) if number else 0))
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


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
