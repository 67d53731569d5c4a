"""Public training programs with `rv.checkpointing()` added by hand: killed and resumed, do they come to what they come to undisturbed?

    python scripts/corpus.py --tools FOLDER --mirror FOLDER --work FOLDER --python VENV_PYTHON [--kills 2] [--json] [ids...]

`--tools` has the descriptions of the programs (`programs.py`, `run_corpus.py`, `synth.py`), `--mirror` one bare git directory for each
repository. Programs are copied into `--work` and changed there: which loop of which function is the main one, and which are nested, is all
that is said here about them (and the random streams of Python and NumPy get a seed, where a program gives them none: two runs are
compared). Each is run once without recording and once with it, then killed at random moments and resumed. Compared are the output
(times masked) and the digests of everything that the last checkpoint holds.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
PATIENCE_S = 600.0
VOLATILE = ("time", "t0", "t1", "dt", "elapsed", "mfu", "tnow", "start")
"""Parts of names of variables that hold clocks: they differ from run to run."""
ANEW = ("run_name", "env_fns", "_np_random")
"""A name with the time in it and functions that close over that; generators of spaces that nobody seeds or draws from."""


@dataclass(frozen=True)
class Loop:
    """A loop of a program: the n-th `for` or `while` of a function, or of the module itself."""

    function: str
    index: int
    name: str
    main: bool = False
    """`rv.checkpointing()` goes around it."""


@dataclass(frozen=True)
class Change:
    """What is added to one file of a program."""

    file: str
    loops: tuple[Loop, ...]


CHANGES: dict[str, tuple[int, tuple[Change, ...]]] = {
    "mnist": (1, (Change("mnist/main.py", (Loop("main", 0, "epoch", main=True), Loop("train", 0, "batch"))),)),
    "vae": (1, (Change("vae/main.py", (Loop("", 0, "epoch", main=True), Loop("train", 0, "batch"))),)),
    "word_lm": (1, (Change("word_language_model/main.py", (Loop("", 0, "epoch", main=True), Loop("train", 0, "batch"))),)),
    "time_seq": (1, (Change("time_sequence_prediction/train.py", (Loop("", 0, "step", main=True),)),)),
    "reinforce": (10, (Change("reinforcement_learning/reinforce.py", (Loop("main", 0, "episode", main=True), Loop("main", 1, "t"))),)),
    "dcgan": (1, (Change("dcgan/main.py", (Loop("", 0, "epoch", main=True), Loop("", 1, "batch"))),)),
    "nanogpt": (10, (Change("train.py", (Loop("", 3, "iter", main=True),)),)),
    "mingpt_adder": (50, (Change("mingpt/trainer.py", (Loop("run", 0, "iter", main=True),)),)),
    "siamese": (1, (Change("siamese_network/main.py", (Loop("main", 0, "epoch", main=True), Loop("train", 0, "batch"))),)),
    "cleanrl_ppo": (1, (Change("cleanrl/ppo.py", (Loop("", 0, "iteration", main=True), Loop("", 1, "step"))),)),
    "cleanrl_dqn": (500, (Change("cleanrl/dqn.py", (Loop("", 0, "step", main=True),)),)),
}
"""By program: the period of its checkpoints in iterations of the main loop, and what is added."""
ARGUMENTS = {
    "mnist": "--epochs 4 --batch-size 160 --test-batch-size 1000 --log-interval 4",
    "vae": "--epochs 4 --no-accel --batch-size 400 --log-interval 4",
    "time_seq": "--steps 2",
    "mingpt_adder": "--trainer.max_iters=201 --trainer.batch_size=16 --data.ndigit=1 --trainer.num_workers=0",
    "dcgan": "--dataset mnist --dataroot mn --batchSize 64 --ngf 8 --ndf 8 --niter 3 --outf out --workers 2 --manualSeed 7",
    "nanogpt": (
        "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 --eval_interval=20 --log_interval=2 --block_size=32 "
        "--batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --max_iters=60 --lr_decay_iters=60 --dropout=0.1 --gradient_accumulation_steps=2"
    ),
    "cleanrl_ppo": "--total-timesteps 3072 --no-cuda",
    "cleanrl_dqn": "--total-timesteps 2500 --learning-starts 500 --buffer-size 2000 --no-cuda",
}
"""Shorter than the descriptions have them: each is run four times here."""


# -- adding the calls ----------------------------------------------------------------------------------------------------


def loops_of(tree: ast.Module, function: str) -> list[ast.For | ast.While]:
    """The loops of a function, in the order of the text; without those of functions inside it."""
    body: list[ast.stmt] = tree.body
    if function:
        body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function)
    found: list[ast.For | ast.While] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return
        if isinstance(node, (ast.For, ast.While)):
            found.append(node)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in body:
        visit(statement)
    return found


_SEEDED = "import random as _rv_random, numpy as _rv_numpy; _rv_random.seed(20); _rv_numpy.random.seed(20)"


def added(text: str, loops: tuple[Loop, ...], seeded: bool) -> str:
    """The text of a program with our calls in it."""
    tree = ast.parse(text)
    lines = text.split("\n")
    edits = sorted(((loops_of(tree, loop.function)[loop.index], loop) for loop in loops), key=lambda pair: -pair[0].lineno)
    for node, loop in edits:
        lines[node.lineno - 1] = _header(lines[node.lineno - 1], node, loop.name)
        if loop.main:
            end = node.end_lineno or node.lineno
            block = [("    " + line if line.strip() else line) for line in lines[node.lineno - 1 : end]]
            lines[node.lineno - 1 : end] = [" " * node.col_offset + "with rv.checkpointing():", *block]
    return "\n".join([*lines[: _first_line(tree)], _SEEDED if seeded else "", "import rearview as rv", *lines[_first_line(tree) :]])


def _header(line: str, node: ast.For | ast.While, name: str) -> str:
    if isinstance(node, ast.While):
        return " " * node.col_offset + f'for _rv_{name} in rv.loop("{name}"):'
    assert node.iter.end_lineno == node.lineno, "the header of the loop is one line"
    raw = line.encode()  # offsets count bytes
    begin, end = node.iter.col_offset, node.iter.end_col_offset
    return (raw[:begin] + f'rv.loop("{name}", '.encode() + raw[begin:end] + b")" + raw[end:]).decode()


def _first_line(tree: ast.Module) -> int:
    """Behind the docstring and imports from the future."""
    last = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    return last


# -- running -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """The last state of a run."""

    digests: dict[str, str]
    """By root; and `place`."""
    tree: Any
    buffers: list[str]
    """The digest of each."""

    def leaves(self, root: str) -> dict[str, str]:
        """Everything that a root reaches: a path of names and places -> what is there."""
        key = next((key for key in self.tree.roots if "/".join(map(str, key)) == root), None)
        found: dict[str, str] = {}
        seen: set[int] = set()
        waiting = [] if key is None else [(self.tree.roots[key], "")]
        for number, path in waiting:
            kind, payload = self.tree.nodes[number]
            if not isinstance(payload, tuple):
                found[path] = self.buffers[payload] if kind == "buffer" else f"{kind} {payload!r}"
            elif number not in seen:
                seen.add(number)
                found[path] = kind
                kinds = [self.tree.nodes[child] for child in payload]
                names = [one[1] if one[0] == "str" else None for one in [("", None), *kinds]]  # a name stands before what it names
                waiting += [(child, f"{path}/{names[k] or k}") for k, child in enumerate(payload)]
        return found


class Copy:
    """One program in a folder of its own."""

    def __init__(self, program: dict[str, Any], base: Path, folder: Path, python: str, more: tuple[Change, ...] = ()) -> None:
        self.program, self.folder, self.python = program, folder, python
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base, folder)
        self.every, changes = CHANGES[program["id"]]
        for change in changes:
            path = folder / change.file
            loops = change.loops + tuple(loop for one in more if one.file == change.file for loop in one.loops)
            path.write_text(added(path.read_text(), loops, seeded=change.file == program["script"]))
        if program["script"] not in [change.file for change in changes]:
            path = folder / program["script"]
            path.write_text(added(path.read_text(), (), seeded=True))
        (folder / "pyproject.toml").touch()
        self.cwd = folder / program["cwd"]

    def _environment(self, record: bool = True) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("REARVIEW")}
        env |= {"CORPUS_SYNTH": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
        env |= {"REARVIEW_EVERY": str(self.every), "REARVIEW_DIR": str(self.folder / ".rearview"), "CUDA_VISIBLE_DEVICES": ""}
        env |= {} if record else {"REARVIEW": "off"}
        paths = [str(SOURCE)]
        for name, value in self.program.get("env", {}).items():
            if name == "PYTHONPATH":
                paths.append(str((self.cwd / value).resolve()))
            else:
                env[name] = value.replace("{work}", str(self.folder))
        return {**env, "PYTHONPATH": os.pathsep.join(paths)}

    def start(self, record: bool = True) -> Running:
        """The program itself."""
        script = os.path.relpath(self.folder / self.program["script"], self.cwd)
        return Running([self.python, script, *self.program["args"].split()], self.cwd, self._environment(record))

    def resume(self) -> Running:
        """`rearview resume`."""
        return Running([self.python, "-m", "rearview", "resume", "--yes"], self.cwd, self._environment())

    def rearview(self, *words: str) -> tuple[int, str, str]:
        """A command that is waited for: its code, output and errors."""
        return Running([self.python, "-m", "rearview", *words], self.cwd, self._environment()).wait()

    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.folder.glob(".rearview/runs/*/checkpoints/*-iteration.json"))

    def ends(self) -> End:
        """The newest checkpoint: where it was taken, and what it holds."""
        found = sorted(self.folder.glob(".rearview/runs/*/checkpoints/*.json"), key=lambda path: path.stat().st_mtime_ns)
        facts = json.loads(found[-1].read_bytes()) if found else {"roots": {}, "path": None, "buffers": []}
        digests = {"place": json.dumps(facts["path"]), **{name: row[0] for name, row in facts["roots"].items()}}
        return End(digests, _tree(self.folder / ".rearview", facts["tree"]) if found else None, [row[1] for row in facts["buffers"]])


def _tree(store: Path, key: str) -> Any:
    if str(SOURCE) not in sys.path:
        sys.path.insert(0, str(SOURCE))
    from rearview.state.tree import decode
    from rearview.store import objects
    from rearview.store.layout import Store

    return decode(objects.get(Store(store), key))


class Running:
    """A process, its output in files."""

    def __init__(self, words: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._out, self._err = cwd / ".corpus.out", cwd / ".corpus.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )  # fmt: skip

    def kill_after(self, lines: int, ready: Callable[[], bool]) -> tuple[int, str, str]:
        """SIGKILL once it has printed so many lines, and `ready` says so."""
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._out.read_bytes().count(b"\n") >= lines and ready():
                break
            time.sleep(0.002)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it was quicker
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        """Code, output, errors."""
        code = self._process.wait(PATIENCE_S)
        return code, self._out.read_text(errors="replace"), self._err.read_text(errors="replace")


# -- comparing -----------------------------------------------------------------------------------------------------------


def is_clock(path: str) -> bool:
    """Whether something holds a time, by the names on the way to it, or is drawn anew in every run."""
    parts = path.split("/")
    return any(word in VOLATILE for part in parts for word in part.lower().split("_")) or any(part in ANEW for part in parts)


def verdict(whole: list[str], killed: list[str], resumed: list[str], alone: End, again: End) -> dict[str, Any]:
    """What a resume came to, against the run that was left alone."""
    ends, now = alone.digests, again.digests
    common = 0
    while common < min(len(whole), len(resumed)) and whole[-1 - common] == resumed[-1 - common]:
        common += 1
    roots = sorted(name for name in ends.keys() | now.keys() if ends.get(name) != now.get(name))
    differing = [name for root in roots for name in _inside(root, alone, again)]
    return {
        "output": common >= len(whole) - len(killed),
        "lines_again": common - (len(whole) - len(killed)),
        "roots": len(ends) - 1,
        "differing": [name for name in differing if not is_clock(name)],
        "clocks": [name for name in differing if is_clock(name)],
    }


def _inside(root: str, alone: End, again: End) -> list[str]:
    """Where two roots differ: what in them does, or the root itself."""
    if alone.tree is None or again.tree is None:
        return [root]
    before, after = alone.leaves(root), again.leaves(root)
    return [root + path for path in before.keys() | after.keys() if before.get(path) != after.get(path)] or [root]


def ours(text: str) -> list[str]:
    """What rearview said, without its table before a resume."""
    return sorted({line for line in text.splitlines() if line.startswith("rearview: ")})


def row(name: str, found: dict[str, Any]) -> list[str]:
    """A program in the table, and below it what differs and what was said about it."""
    resumes = found["resumes"]
    told = [found["why"]] if "why" in found else []
    for one in resumes:
        told += [one["why"]] if "why" in one else []
        told += [] if one["output"] else ["the output differs"]
        told += [f"differs: {root}" for root in one["differing"][:6]]
    said = {line for one in [found, *resumes] for line in one.get("said", ()) if " partial" in line or "may not go on" in line}
    again = ", ".join(f"{one['lines_again']} lines printed again" for one in resumes if not one["code"])
    roots = max((one["roots"] for one in resumes), default=0)
    head = f"{name:16} {'yes' if found['right'] else 'no':6} {found.get('lines', 0):5} {roots:5}  {again}"
    return [head.rstrip(), *(f"    {' '.join(line.split())[:180]}" for line in [*told, *sorted(said)])]


def over_programs(
    told: str,
    more: Mapping[str, int],
    head: str,
    trial: Callable[[dict[str, Any], Path, argparse.Namespace], dict[str, Any]],
    lines: Callable[[str, dict[str, Any]], list[str]],
) -> None:
    """The command line of a script over the programs: those that are named are tried; a table, or JSON. Exit code 1 if one is not `right`.

    `told`: what the script is; `more`: options of its own, whole numbers, with their defaults.
    """
    parser = argparse.ArgumentParser(description=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", help="programs; all that are known here if none is named")
    for folder in ("--tools", "--mirror", "--work"):
        parser.add_argument(folder, type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    for option, default in more.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="an object a program instead of the table")
    chosen = parser.parse_args()
    sys.path.insert(0, str(chosen.tools))
    import run_corpus  # type: ignore[import-not-found]
    from programs import PROGRAMS  # type: ignore[import-not-found]

    if not chosen.json:
        print(head)
    failed = 0
    for program in PROGRAMS:
        name = program["id"]
        if name not in (chosen.ids or CHANGES) or name not in CHANGES:
            continue
        program = {**program, "args": ARGUMENTS.get(name, program["args"])}
        base = chosen.work / "prepared" / name
        if not base.is_dir():
            run_corpus.prepare(program, str(chosen.mirror), str(chosen.work), chosen.python)
        found = trial(program, base, chosen)
        failed += not found["right"]
        print(json.dumps({"program": name, **found}) if chosen.json else "\n".join(lines(name, found)), flush=True)
    sys.exit(1 if failed else 0)


def program_resumed(program: dict[str, Any], base: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """One program: left alone, then killed and resumed as often as asked for."""
    from run_corpus import mask

    luck = random.Random(f"{chosen.seed} {program['id']}")
    folder = chosen.work / "resumed" / program["id"] / "w"  # paths are part of what programs print and hold
    code, text, errors = Copy(program, base, folder, chosen.python).start(record=False).wait()
    if code:
        return {"right": False, "why": f"not recorded, it ended with {code}: {errors[-400:]}", "resumes": []}
    unrecorded = mask(text)
    alone = Copy(program, base, folder, chosen.python)
    code, text, errors = alone.start().wait()
    if code or mask(text) != unrecorded:
        why = f"recorded, it ended with {code}" if code else "recorded, it printed something else"
        return {"right": False, "why": f"{why}: {errors[-400:]}", "resumes": []}
    whole, ends, said = mask(text), alone.ends(), ours(errors)
    verdicts = []
    for _ in range(chosen.kills):
        copy = Copy(program, base, folder, chosen.python)
        lines = luck.randrange(text.count("\n") // 3, max(text.count("\n") * 9 // 10, 2))
        _, before, _ = copy.start().kill_after(lines, copy.has_checkpoint)
        code, after, errors = copy.resume().wait()
        found = verdict(whole, mask(before), mask(after), ends, copy.ends())
        verdicts.append({"code": code, **found, "said": ours(errors)} | ({"why": errors[-400:]} if code else {}))
    equal = all(one["code"] == 0 and one["output"] and not one["differing"] for one in verdicts)
    return {"right": equal, "lines": len(whole), "said": said, "resumes": verdicts}


if __name__ == "__main__":
    heading = f"{'program':16} {'equal':6} {'lines':>5} {'roots':>5}  resumed, or why not"
    over_programs(str(__doc__), {"kills": 2, "seed": 1}, heading, program_resumed, row)
