"""The child of `rearview run` and `resume`: prepares recording, then becomes the script, so that the script cannot tell the difference.

Run as a file, never imported as a package module: `python launch.py WISHES SCRIPT ARGS...`. argv, `__main__`, sys.path and
tracebacks are those of `python SCRIPT ARGS...`. When a run is resumed, the source is that of its version.
"""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the folder of this file, before anything else is imported

import atexit
import importlib
import json
import os
import signal
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

_UNIT = "REARVIEW_UNIT"
"""Set for a worker of a replay."""
_interrupted = False
_leaves = False
"""A worker whose program is over: what a process with torch does after that takes a while and answers nothing."""
_inside: Any = str
"""Where the program finds a path of the recorded run: a replay may give it copies."""
_code: Any = None
"""The recorded source that runs, if it is not that on disk."""


def _last_of_all() -> None:
    """A program that Ctrl-C ended dies of SIGINT, as it does under plain Python; a worker of a replay ends without taking itself apart."""
    if not _interrupted and not _leaves:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    if _leaves:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _main_module(file: str | None, loader: Any = None) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={}, __spec__=None, __package__=None)
    if file is not None:
        module.__dict__.update(__file__=file, __cached__=None, __loader__=loader or SourceFileLoader("__main__", file))
    sys.modules["__main__"] = module
    return module


def _trim(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _report(error: BaseException) -> None:
    """Print an uncaught exception as the interpreter would."""
    trace = _trim(error.__traceback__)
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined,unused-ignore]
    try:
        if _code is not None and sys.excepthook is sys.__excepthook__:
            import traceback

            traceback.print_exception(error)  # the interpreter's own way shows lines of the files as they are now
        else:
            sys.excepthook(type(error), error, trace)
    except BaseException:  # noqa: BLE001 (the user's hook is broken: say what happened all the same)
        sys.__excepthook__(type(error), error, trace)


def _die_with_parent() -> None:
    """A kill of `rearview run` is a kill of the program, as it would be without it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _execute(mode: str, target: str, arguments: list[str]) -> None:
    """Run the script or module in this interpreter."""
    from rearview.record import arguments as given
    from rearview.record import firsts

    wishes = json.loads(sys.argv[1])
    is_module = mode == "module"
    if mode not in ("module", "script", "pipe"):
        _execute_text(mode, wishes)
        return
    target = _inside(target) if mode == "script" else target
    sys.argv[:] = ["-m" if is_module else target, *arguments]
    sys.orig_argv[:] = wishes.pop("interpreter") + (["-m", target] if is_module else [target]) + arguments
    given.hand_over(wishes.pop("arg"))
    firsts.launcher = wishes.pop("launcher")
    _use_recorded(wishes)
    if is_module:
        import runpy

        _first_in_path(os.getcwd())
        _main_module(None)
        spec = _find_spec(target)
        sys.modules["__main__"].__dict__.update(__spec__=spec, __file__=getattr(spec, "origin", None))
        firsts.script_path = firsts.script_source = None
        firsts.module = target
        _prepare(wishes)
        runpy._run_module_as_main(target, alter_argv=True)  # type: ignore[attr-defined]
        return
    if mode == "pipe":
        _execute_piped(wishes)
        return
    _first_in_path(os.path.dirname(os.path.realpath(target)))
    path = os.path.abspath(target)
    source, loader = _source(path)
    module = _main_module(path, loader)
    firsts.take_script(path, source)
    _prepare(wishes)
    compiled = compile(source, path, "exec", dont_inherit=True) if loader is None else loader.source_to_code(source, path)
    exec(compiled, module.__dict__)  # noqa: S102


def _execute_piped(wishes: dict[str, Any]) -> None:
    """Run what comes through standard input, as `python -` does, and keep it: nobody can read it again."""
    from rearview.record import firsts

    _first_in_path("")
    firsts.script_path = firsts.script_source = None
    firsts.piped = sys.stdin.buffer.read()
    module = _main_module("<stdin>")
    _prepare(wishes)
    exec(compile(firsts.piped, "<stdin>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102


def _execute_text(mode: str, wishes: dict[str, Any]) -> None:
    """Run what was no file: cells, `python -c`, standard input. Only a replay starts those again."""
    from rearview.record import arguments as given
    from rearview.record import firsts

    sys.argv[:], sys.orig_argv[:] = wishes.pop("argv"), wishes.pop("orig_argv")
    given.hand_over(wishes.pop("arg"))
    firsts.launcher = wishes.pop("launcher")
    del wishes["interpreter"]
    _use_recorded(wishes)
    _first_in_path("")
    firsts.script_path = firsts.script_source = None
    module = _main_module(None)
    program = importlib.import_module("rearview.replay.worker.texts").program(mode, _code, module)  # by name, as below
    _prepare(wishes)
    if callable(program):
        program()
    else:
        exec(program, module.__dict__)  # noqa: S102


def _use_recorded(wishes: dict[str, Any]) -> None:
    """From here on modules come from the version that a resumed run recorded."""
    global _code  # noqa: PLW0603
    if wishes.get("version"):
        from pathlib import Path

        from rearview.record.resume import recorded_code, spawned_code
        from rearview.store.layout import Store

        store = Store(Path(wishes["store"]))
        _code = recorded_code.RecordedCode(store, wishes["version"], Path(_inside(wishes.pop("project"))))
        if _code.is_needed:
            _code.install()
            spawned_code.pass_on(_code, store)


def _source(path: str) -> tuple[bytes, Any]:
    """What the script holds, and what loads it where that is not its file."""
    recorded = _code.script(path) if _code is not None else None
    if recorded is None:
        with open(path, "rb") as file:
            return file.read(), None
    from rearview.record.resume import recorded_code

    recorded_code.show_source(path, recorded)
    return recorded, recorded_code.RecordedLoader("__main__", path, recorded)


def _compare_with_recorded() -> None:
    """What was really loaded, against the version."""
    if _code is None:
        return
    from rearview.record import lifecycle
    from rearview.record.resume import recorded_code
    from rearview.record.say import say

    run = lifecycle.current()
    for path, why in recorded_code.deviations(_code.blobs, _code.project):
        say(f"{path} {why}")
        if run is not None:
            run.recorder.fact("source", path=path, why=why)


def _first_in_path(folder: str) -> None:
    if not sys.flags.safe_path:  # `python -P` keeps it out
        sys.path.insert(0, folder)


def _prepare(wishes: dict[str, Any]) -> None:
    """Take the source, and tell the supervisor where the store is."""
    from rearview.record import lifecycle
    from rearview.store import atomic

    tell = wishes.pop("tell")
    try:
        root = lifecycle.prepare(wishes)
        if root is not None:
            atomic.write_all(tell, os.fsencode(root))
    finally:
        os.close(tell)


def _find_spec(name: str) -> Any:
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, AttributeError, ValueError):
        return None  # runpy says what is wrong, in the words people know
    return spec


def main() -> None:
    """Become the script."""
    global _interrupted, _inside, _leaves  # noqa: PLW0603
    atexit.register(_last_of_all)  # first, so that it runs last
    _die_with_parent()
    from rearview.record import endings, lifecycle  # importing rearview looks at what cannot be learned later

    is_worker = _UNIT in os.environ
    if is_worker:  # by name: recording must not know of replays
        _inside = importlib.import_module("rearview.replay.worker.becoming").enter(lambda: _code)
    mode, target, *arguments = sys.argv[2:]
    try:
        try:
            _execute(mode, target, arguments)
        finally:
            _compare_with_recorded()
    except SystemExit as stop:
        lifecycle.script_ended(None, endings.exit_code(stop))
        raise
    except BaseException as error:  # noqa: BLE001
        lifecycle.script_ended(error, 1)
        _report(error)
        _interrupted = isinstance(error, KeyboardInterrupt)
        sys.exit(1)
    lifecycle.script_ended(None, 0)
    _leaves = is_worker


if __name__ == "__main__":
    main()
