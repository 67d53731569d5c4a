"""What reads files meets files that were sound once: it reads them, or refuses them in our words; nothing else happens."""

from __future__ import annotations

import ast
import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rearview import config
from rearview.errors import ConfigError, Damaged, NotFound, UsageError
from rearview.instrument import place_at
from rearview.instrument.added import Added, Changed, added
from rearview.instrument.rewrite import compile_rewritten
from rearview.model import ProcessNumber, RunId
from rearview.propagate.place import Placed, Refused, propagate
from rearview.replay.question.sources import decoded
from rearview.store import frames, layout, manifests, probes, replays, runs
from tests.property.mutants import changed, mutants

COUNT = int(os.environ.get("REARVIEW_TEST_FUZZ", "2000"))
RUN = RunId("r0123456789ab")
Tally = Callable[[str, int], None]


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)  # a file that is emptied and written again is brought to the disk at once by ext4
    path.write_bytes(data)


# -- journals ----------------------------------------------------------------------------------------------------------------

_BODIES = [
    frames.NAME_HEAD.pack(frames.NAME, 1) + b"loss",
    frames.RECORD_HEAD.pack(frames.RECORD, 0, 1, 0, 0, 0, 5) + b"f" + bytes(8),
    frames.LEAVE_HEAD.pack(frames.LEAVE, 1, 3, 1, 90),
]
_JOURNAL = frames.MAGIC + b"".join(frames.frame(k, body) for k, body in enumerate(_BODIES * 3))


def test_a_changed_journal_is_a_journal_or_damage(tally: Tally) -> None:
    written = list(frames.walk(_JOURNAL, frames.Reading()))
    for data in mutants([_JOURNAL], [b"\0", b"\xff" * 4, frames.MAGIC, _BODIES[0]], COUNT, 1):
        reading = frames.Reading()
        found = list(frames.walk(data, reading))
        assert set(found) <= set(written), "a frame that nobody wrote"
        assert 0 <= reading.good_bytes <= len(data)
    tally("journals changed at random and read", COUNT)


# -- manifests, replays, probes, runs ------------------------------------------------------------------------------------------


def _manifest() -> manifests.Manifest:
    buffers = (manifests.Buffer(64, "ab" * 16, False, "net", ("cd" * 16,)),)
    return manifests.Manifest(
        run=RUN, process=ProcessNumber("0"), attempt=1, number=1, part="block", path=[["epoch", 0, 3, 3]], tree="xxh3-" + "0" * 32,
        tree_bytes=12, buffers=buffers, roots={"given/net": ["4" * 32, 5, "module"]}, missing=[["sock", "socket.socket", "cannot"]],
    )  # fmt: skip


def _replay() -> replays.Replay:
    return replays.Replay(
        id="p" + "0" * 16, run=RUN, created="2026-06-23T00:00:00+00:00", names=("norm",), verdict="identical",
        covers=[["iterations", 0, 0, 9], ["end"]], probes=({"file": "train.py", "line": 3},), compared={"records": 4, "states": 2},
    )  # fmt: skip


def _probe() -> probes.Probe:
    return probes.Probe(
        id="q" + "0" * 12, created="2026-06-23T00:00:00+00:00", names=("norm",), statements=("rv.log('norm', n)",), source="v1",
        cannot={"v0": "no `n`"}, corrected={"v2": ["train.py", 4]},
    )  # fmt: skip


def test_changed_manifests_and_the_like_are_read_or_refused(tmp_path: Path, tally: Tally) -> None:
    store = layout.create(tmp_path / "store")
    runs.write_run(store, RUN, {"tstamp": "2026-06-23T00:00:00+00:00", "argv": ["train.py"]})
    manifests.write(store, _manifest())
    replays.publish(store, _replay())
    probes.write(store, _probe())
    name, ident, question = _manifest().name, _replay().id, _probe().id
    kinds: list[tuple[Path, Callable[[], object], Callable[[Any], bytes]]] = [
        (manifests.path_of(store, name), lambda: manifests.read(store, name), manifests.encode),
        (replays.folder_of(store, RUN, ident) / replays.FILE, lambda: replays.read(store, RUN, ident), replays.encode),
        (store.probes / f"{question}.json", lambda: probes.read(store, question), replays.encode),
        (store.run(RUN) / "run.json", lambda: runs.read_run(store, RUN), replays.encode),
    ]
    chance, each = random.Random(2), COUNT // len(kinds)
    for path, read, encode in kinds:
        sound = path.read_bytes()
        facts = {key: value for key, value in json.loads(sound).items() if key != "checksum"}
        whole = read()
        for data in mutants([sound], [b"\0", b"[" * 3000, b'"', b"{}", b"1e999", b"\xff", b"null"], each, 3):
            _write(path, data)
            try:
                found = read()
            except (Damaged, NotFound):
                continue
            assert found is None or found == whole or path.name == "run.json", "a changed file that reads as if it were sound"
        for _ in range(each):
            other = changed(facts, chance)
            _write(path, encode(other) if isinstance(other, dict) and other else b"[]")
            try:
                read()
            except (Damaged, NotFound):
                pass
    tally("manifests, replays, probes and run files changed at random and read", 2 * len(kinds) * each)


# -- settings ------------------------------------------------------------------------------------------------------------------

_SETTINGS = b'[tool.rearview]\nkeep = "every:2"\nquiet = true\nvolatile = ["t0"]\neps = 0.05\nexclude = ["data/*"]\n'


def test_changed_settings_are_settings_or_an_error(tmp_path: Path, tally: Tally) -> None:
    pieces = [b'"', b"[", b"]", b"=", b"\n", b"{", b"1e999", b"inf", b"\xff", b"\0", b"-1", b"2026-01-01", b"true", b"'''", b"[tool]"]
    for data in mutants([_SETTINGS], pieces, COUNT, 4):
        _write(tmp_path / "pyproject.toml", data)
        try:
            config.load(tmp_path, {})
        except ConfigError:
            pass
    tally("settings changed at random and read", COUNT)


# -- programs --------------------------------------------------------------------------------------------------------------------

_FUNCTIONS = """\
import rearview as rv
from tools import work


def train(net, data):
    total = 0
    for epoch in rv.loop('epoch', range(3)):
        for x in rv.loop('step', data):
            loss = net(x)
            total += loss  # so far
        rv.log('loss', total)
    return total


train(work, [1, 2])
"""
_TABS = """\
import rearview as rv
class Trainer:
\t@property
\tdef rate(self):
\t\treturn 1

\tasync def fit(self, *, data=(), **more):
\t\twhile (n := self.next()):
\t\t\tmatch n:
\t\t\t\tcase [a, *_]:
\t\t\t\t\tself.w -= a
\t\t\t\tcase _: pass
\t\t\ttry:
\t\t\t\trv.log(f'n{n}', n)
\t\t\tfinally:
\t\t\t\tdel n


if __name__ == '__main__':
\tTrainer()
"""
_ODD = """\
# -*- coding: latin-1 -*-
\x0cimport rearview as rv; x = 1
for i in rv.loop('i', range(2)): x += i; rv.log('x', x)
else:
  y = '''a
 b'''
"""
_OLD = [_FUNCTIONS, _TABS, _ODD]
_ADDED = "rv.log('new', 7)"
_SIGNS = "\n|\n\t|(|)|[|]|{|}|:|;|=|:=|->|@|#|'|\"|'''|\\|\x0c|\0|\r|\r\n|*a, |**k|f'{x'|0x|1e9|é|\ufeff".split("|")
_KEYWORDS = "def class for while if else: yield await async lambda match case try: except* finally: with as import del".split()
_WORDS = [word.encode() for word in (*_SIGNS, *_KEYWORDS, "rv.log('a', 1)", "rv.loop(")]


def _probed(text: str) -> tuple[str, int]:
    """A program with a statement behind its last log, and its line."""
    lines = text.splitlines(keepends=True)
    at = max(k for k, line in enumerate(lines) if line.lstrip().startswith("rv.log(") or "; rv.log(" in line)
    if "; rv.log(" in lines[at]:
        return text.replace(lines[at], f"for i in rv.loop('i', range(2)):\n  x += i\n  rv.log('x', x)\n  {_ADDED}\n"), at + 4
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "".join([*lines[: at + 1], f"{indent}{_ADDED}\n", *lines[at + 1 :]]), at + 2


def test_changed_programs_take_a_statement_or_say_why_not(tally: Tally) -> None:
    sound = [text.encode("latin-1") for text in _OLD]
    wanted = [_probed(text) for text in _OLD]
    chance = random.Random(6)
    placed = 0
    for data in mutants(sound, _WORDS, COUNT, 5):
        text = decoded(data)
        new, line = chance.choice(wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            found = propagate(new, line, None, text)
            assert isinstance(found, Placed | Refused)
            if isinstance(found, Placed):
                placed += 1
                _look_at(found, text)
    tally("programs changed at random that were given a statement", COUNT)
    assert placed


def _look_at(found: Placed, text: str) -> None:
    ast.parse(found.text)
    left, at = [], 0
    for begin, end in sorted(found.inserted):
        left.append(found.text[at:begin])
        at = end
    assert "".join([*left, found.text[at:]]) == text, "what was not inserted is not the old file"


def test_changed_programs_are_compared_rewritten_or_refused(tally: Tally) -> None:
    sound = [text.encode("latin-1") for text in _OLD]
    chance = random.Random(8)
    for data in mutants(sound, _WORDS, COUNT, 7):
        text, other = decoded(data), chance.choice(_OLD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            assert isinstance(added(other, text), Added | Changed)
            try:
                compile_rewritten(data, "train.py")
            except (SyntaxError, ValueError, RecursionError):
                pass
            try:
                place_at.place(text, chance.randrange(1, 20), "x + 1", "new")
            except UsageError:
                pass
    tally("programs changed at random, compared and rewritten", COUNT)
