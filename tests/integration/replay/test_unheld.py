"""What a stored state does not hold, or holds otherwise than the program had it: a statement that reads it is answered by running.

One toy program, many statements; each is asked by itself and compared with a run that had it from the start.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.replay.hindsight import Story

TOOLS = """
import json
import os

def where():
    return int(os.path.basename(os.getcwd()) == "deeper")

def setting():
    return os.environ.get("RV_TOY", "none")

def borrowed():
    return getattr(json, "flavour", "plain")
"""

PROGRAM = """
import json
import logging
import os
import random
import rearview as rv
import tools

random.seed(2)
os.makedirs("deeper", exist_ok=True)
HOME = os.getcwd()


class Forgets:
    def __init__(self):
        self.kept, self.dropped = 0, 0

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.dropped = -1


def loud():
    return 2.0


def soft():
    return 0.5


order = set()
one = Forgets()
spare = 1.0
voice = soft
log = logging.getLogger("toy")
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(5)):
            order.update(random.randrange(10**6) for _ in range(20))
            for item in sorted(order)[: 19 if step % 2 else 12]:
                order.discard(item)
            one.kept += 1
            one.dropped += 2
            os.environ["RV_TOY"] = f"{epoch}.{step}"
            os.chdir("deeper" if epoch % 2 and os.getcwd() == HOME else HOME)
            json.flavour = f"f{epoch}{step}"
            log.custom = epoch * 10 + step
            vars(random)["tone"] = epoch * 5 + step
            voice = loud if epoch > 1 else soft
            if epoch == 1 and step == 2:
                del spare
        rv.log("sum", sum(order))
        rv.log("order", repr(list(order)[:8]))  #?
        rv.log("dropped", one.dropped)  #?
        rv.log("where", tools.where())  #?
        rv.log("setting", tools.setting())  #?
        rv.log("borrowed", tools.borrowed())  #?
        rv.log("custom", log.custom)  #?
        rv.log("voice", voice())  #?
        rv.log("tone", random.tone)  #?
        rv.log("spare", 1 if "spare" in dir() else 0)  #?
        try:  #?
            gone = spare  #?
        except NameError:  #?
            gone = None  #?
        rv.log("gone", str(gone))  #?
os.chdir(HOME)
"""
NAMES = ("order", "dropped", "where", "setting", "borrowed", "custom", "voice", "tone", "spare", "gone")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Story:
    files = {"train.py": PROGRAM, "tools.py": TOOLS}
    story = Story(tmp_path_factory.mktemp("unheld"), files, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.truth(*NAMES)
    return story


@pytest.mark.parametrize("name", NAMES)
def test_it_comes_out_as_it_was(toy: Story, name: str) -> None:
    toy.climb(name)
    found = toy.rows(toy.project, name)
    truth = toy.truth(name)
    assert found == truth and found


FUNCTION = """
import random
import rearview as rv

def loud():
    return 2.0

def soft():
    return 0.5

class Base:
    kind = "base"
    def size(self):
        return 1

class Other:
    kind = "other"

def larger(self):
    return 7

def main():
    random.seed(2)
    voice, spare, total, kind = soft, 1.0, 0.0, Base
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(4)):
            for step in rv.loop("step", range(3)):
                import math
                from os.path import join as put
                total += math.sqrt(random.random())
                voice = loud if epoch > 1 else soft
                kind = Other if epoch % 2 else Base
                if epoch == 2:
                    Base.size = larger
                if epoch == 1 and step == 2:
                    del spare
            rv.log("total", total)
            rv.log("voice", voice() + kind.kind.count("o") + Base().size())  #?
            rv.log("root", math.floor(total) + len(put("a", "b")))  #?
            rv.log("spare", int("spare" in dir()))  #?
    rv.log("end", voice() + Base().size())  #?
main()
"""


def test_names_in_functions_and_methods_of_classes_too(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": FUNCTION}, env={"REARVIEW_EVERY": "1"})
    story.record()
    names = ("voice", "root", "spare", "end")
    for name in names:
        story.climb(name)
    assert story.rows(story.project, *names) == story.truth(*names)


GIVEN = """
import csv
import functools
import hashlib
import random
import rearview as rv

random.seed(2)
total = 0.0
opaque = hashlib.md5()

@functools.lru_cache
def baseline(split):
    return total

def report(x):
    y = x
    rv.log("given", y)  #?

def tell(x):
    str(x)
    rv.log("cached", x)  #?

def show(x):
    str(x)
    rv.log("set", x)  #?

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(6)):
        for step in rv.loop("step", range(3)):
            total += random.random()
            opaque.update(str(total).encode())
            csv.field_size_limit(1000 + epoch)
        rv.log("total", total)
        report(opaque.hexdigest())
        tell(total - baseline("val"))
        show(csv.field_size_limit())
        spoken = opaque.hexdigest()
        rv.log("overwritten", spoken)  #?
        spoken = ""
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(tmp_path_factory.mktemp("given"), {"train.py": GIVEN}, env={"REARVIEW_EVERY": "1"})
    story.record()
    return story


@pytest.mark.parametrize("name", ["given", "cached", "set", "overwritten"])
def test_what_a_function_is_given_by_what_no_state_holds(given: Story, name: str) -> None:
    given.climb(name)
    assert given.rows(given.project, name) == given.truth(name) != {}


REMEMBERS = """
import functools
import random
import rearview as rv

random.seed(2)
total = 0.0

@functools.lru_cache
def length(text):
    return len(text)

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(3)):
            total += length("a" * random.randrange(3)) + random.random()
        rv.log("total", total)
        rv.log("twice", total * 2)  #?
"""


def test_a_cache_with_a_limit_that_a_statement_has_nothing_to_do_with(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": REMEMBERS}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.ask("twice")
    assert story.rows(story.project, "twice") == story.truth("twice") != {}
    [told] = [json.loads(path.read_text()) for path in story.project.glob(".rearview/runs/*/replays/*/replay.json")]
    assert told["rung"] == "resume"


INSIDE = """
import json
import random
import rearview as rv

random.seed(2)
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(3)):
            class Pair:
                scale = epoch + 1
                def __init__(self, left):
                    self.left = left
                def both(self):
                    return self.left * self.scale
            total += random.random()
            pair = Pair(total)
        rv.log("total", total)
        rv.log("made", Pair(2).both())  #?
        rv.log("held", pair.both())  #?
        rv.log("wrong", json.toon if epoch == 2 else 1)  #?
"""


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Story:
    story = Story(tmp_path_factory.mktemp("inside"), {"train.py": INSIDE}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.write(story.folder / "truth", probed=True)
    text = (story.folder / "truth" / "train.py").read_text()
    (story.folder / "truth" / "train.py").write_text(text.replace("json.toon", "epoch"))
    return story


@pytest.mark.parametrize("name", ["made", "held"])
def test_what_a_skipped_block_defines_is_run_for(inside: Story, name: str) -> None:
    inside.climb(name)
    assert inside.rows(inside.project, name) == inside.truth(name) != {}


def test_a_mistake_of_the_statement_is_reported_after_a_run_without_states(inside: Story) -> None:
    done = inside.ask("wrong", code=4)
    assert "toon" in done.stderr
    assert len(inside.rows(inside.project, "wrong")) == 2


ELSEWHERE = """
import csv, mimetypes, random
import rearview as rv
import mod

random.seed(2)
total, extra, other, third = 0.0, 1.0, 2.0, 3.0

def have(name):
    try:
        return {"extra": lambda: extra, "other": lambda: other, "third": lambda: third}[name]()
    except NameError:
        return -1.0

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += random.random()
            if epoch == 1:
                globals().pop("extra", None)
                exec("other = None; del other")
                mod.drop()
            SETS
        rv.log("total", total)
        rv.log("popped", have("extra") + have("other") + mod.have())  #?
        rv.log("set", READS)  #?
"""
MODULE = """
here = 5.0
def drop():
    vars(__import__("sys").modules[__name__]).pop("here", None)
def have():
    return globals().get("here", -1.0)
"""


@pytest.mark.parametrize(
    ("sets", "reads"),
    [
        ("csv.field_size_limit(1000 + epoch)", "csv.field_size_limit()"),
        ("mimetypes.add_type(f'x/{epoch}', '.zz')", "mimetypes.types_map['.zz']"),
    ],
)
def test_names_that_are_taken_out_of_namespaces_and_settings_of_libraries(tmp_path: Path, sets: str, reads: str) -> None:
    text = ELSEWHERE.replace("SETS", sets).replace("READS", reads)
    story = Story(tmp_path, {"train.py": text, "mod.py": MODULE}, env={"REARVIEW_EVERY": "1"})
    story.record()
    for name in ("popped", "set"):
        story.climb(name)
    assert story.rows(story.project, "popped", "set") == story.truth("popped", "set") != {}


AWAY = """
import os
import random
import rearview as rv

random.seed(2)
os.makedirs("out/deep", exist_ok=True)
os.chdir("out/deep")
total = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += random.random()
            with open("log.txt", "a") as file:
                file.write(f"{total}\\n")
        rv.log("total", total)
        rv.log("twice", total * 2)  #?
        rv.log("lines", len(open("log.txt").read().split()))  #?
"""


def test_a_program_that_went_elsewhere_before_its_run_began(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": AWAY}, env={"REARVIEW_EVERY": "1"})
    story.record()
    for name in ("twice", "lines"):
        story.climb(name)
    assert story.rows(story.project, "twice", "lines") == story.truth("twice", "lines") != {}
    assert "identical" in story.cli("verify", "--yes").stdout


WEAKLY = """
import random
import weakref
import rearview as rv

class Node:
    def __init__(self, value):
        self.value = value

random.seed(2)
alive, keys, values, keep = weakref.WeakSet(), weakref.WeakKeyDictionary(), weakref.WeakValueDictionary(), []
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(3)):
            keep.append(Node(random.randrange(3)))
            alive.add(keep[-1])
            keys[keep[-1]] = values[f"{epoch}.{step}"] = keep[-1]
            if step == 2:
                alive.discard(keep.pop(random.randrange(len(keep))))
        rv.log("last", keep[-1].value)
        rv.log("alive", len(alive))  #?
        rv.log("keys", " ".join(values) + str(keys[keep[0]].value))  #?
"""


def test_what_is_held_weakly(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": WEAKLY}, env={"REARVIEW_EVERY": "1"})
    story.record()
    for name in ("alive", "keys"):
        story.climb(name)
    assert story.rows(story.project, "alive", "keys") == story.truth("alive", "keys") != {}
    assert "identical" in story.cli("verify", "--yes").stdout


UNSEEDED = """
import numpy as np
import rearview as rv

rng, given = np.random.default_rng(), np.random.default_rng(7)
total = rng.random()
old = np.random.RandomState()
child = rng.spawn(1)[0]
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            total += rng.random() + given.random() + old.rand() + child.random() + np.random.rand()
            rv.log("total", total)
            rv.log("same", total + np.random.default_rng().random() * 0)  #?
"""


def test_generators_that_nobody_seeded(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    story = Story(tmp_path, {"train.py": UNSEEDED}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.climb("same")
    same, total = ({key[1]: bits for key, bits in story.rows(story.project, name).items()} for name in ("same", "total"))
    assert len(same) == 6 and same == total
    assert "identical" in story.cli("verify", "--yes").stdout


WRITES_A_LINE = """
import rearview as rv

w = 0.0
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            w += 1.5
        with open("lines.txt", "a", encoding="latin-1") as file:
            file.write(f"{w}\\n")
        rv.log("w", w)
rv.log("last", w) #?
rv.log("encoded", file.encoding) #?
"""


def test_a_file_that_was_closed_is_no_difference_and_a_statement_that_reads_it_is_run_for(tmp_path: Path) -> None:
    story = Story(tmp_path, {"train.py": WRITES_A_LINE}, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.ask("last")
    story.fill("encoded")
    assert story.truth("last", "encoded") == story.rows(story.project, "last", "encoded")
    rungs = [json.loads(path.read_text())["rung"] for path in story.project.glob(".rearview/runs/*/replays/*/replay.json")]
    assert rungs == ["resume", "resume"]
