"""What a stored state does not hold, or holds otherwise than the program had it: a statement that reads it is answered by running.

One toy program, many statements; each is asked by itself and compared with a run that had it from the start.
"""

from __future__ import annotations

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
        rv.log("spare", 1 if "spare" in dir() else 0)  #?
        try:  #?
            gone = spare  #?
        except NameError:  #?
            gone = None  #?
        rv.log("gone", str(gone))  #?
os.chdir(HOME)
"""
NAMES = ("order", "dropped", "where", "setting", "borrowed", "custom", "voice", "spare", "gone")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Story:
    files = {"train.py": PROGRAM, "tools.py": TOOLS}
    story = Story(tmp_path_factory.mktemp("unheld"), files, env={"REARVIEW_EVERY": "1"})
    story.record()
    story.truth(*NAMES)
    return story


@pytest.mark.parametrize("name", NAMES)
def test_it_comes_out_as_it_was(toy: Story, name: str) -> None:
    toy.fill(name)
    found = toy.rows(toy.project, name)
    truth = toy.truth(name)
    assert found == truth and found
