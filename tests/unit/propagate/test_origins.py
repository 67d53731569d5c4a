"""A place is not certain where a name of the statement means something else: its value comes from elsewhere, its function is another."""

from __future__ import annotations

import pytest

from rearview.propagate.place import Placed, propagate
from rearview.propagate.project import Spread, Statement, place_all

NEW = """\
import rearview as rv
LIMIT = 3
def gap(model, target):
    return 2 * model - target
w = 0.0
for epoch in rv.loop("epoch", range(3)):
    total = 0.0
    for x in rv.loop("step", range(5)):
        w += 0.1 * (x - w)
        total += w
    print(total)
    grad = w - 2
    rv.log("loss", w)
    rv.log("asked", VALUE)
"""
GAP = "def gap(model, target):\n    return 2 * model - target\n"
TOLD = 'rv.log("loss", w)'
OVERWRITTEN = f"total = 0.0\n    {TOLD}"


def told(value: str, *changes: tuple[str, str], new: str = NEW, certain: bool = False) -> str:
    """What is said of the place of a statement that logs a value, in the version before some changes."""
    old = "".join(line for line in new.splitlines(keepends=True) if "VALUE" not in line)
    for today, then in changes:
        assert today in old
        old = old.replace(today, then)
    text = new.replace("VALUE", value)
    line = 1 + next(k for k, one in enumerate(text.splitlines()) if '"asked"' in one)
    found = propagate(text, line, None, old)
    assert isinstance(found, Placed), found
    assert found.certain == certain, found.why
    return found.why


@pytest.mark.parametrize(
    ("value", "changes", "why"),
    [
        ("grad", [("    grad = w - 2\n", ""), ("w = 0.0\n", "w = 0.0\ngrad = 0.25\n")], "otherwise there, in line 6, `grad = 0.25`"),
        ("total", [(TOLD, OVERWRITTEN)], "`total` gets its value otherwise there, in line 13, `total = 0.0`"),
        ("total", [(TOLD, f"total /= 5\n    {TOLD}")], "`total /= 5`"),
        ("w * LIMIT", [("LIMIT = 3\n", ""), ("    total = 0.0\n", "    total = 0.0\n    LIMIT = w\n")], "`LIMIT = w`"),
        ("gap(w, 3)", [(GAP, ""), (TOLD, f"gap = 2 * w\n    {TOLD}")], "`gap` is no function"),
        ("gap(w, 3)", [("gap(model, target)", "gap(target, model)")], "`gap` takes its arguments in another order there"),
        ("gap(w, 3)", [("gap(model, target)", "gap(model, scale, target)")], "`gap` takes its arguments in another order there"),
        ("gap(w, 3)", [("def gap(model, target)", "def \\\n\tgap (target, model)")], "`gap` takes its arguments in another order there"),
    ],
)  # fmt: skip
def test_another_thing_of_the_same_name(value: str, changes: list[tuple[str, str]], why: str) -> None:
    assert why in told(value, *changes)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ("grad", [("grad = w - 2", "grad = (w + 1) / 7")]),
        ("total", [("total += w", "total += w * w")]),
        ("w * LIMIT", [("LIMIT = 3", "LIMIT = int(rv.arg('limit', 4))")]),
        ("gap(w, 3)", [("2 * model - target", "target - model")]),
        ("gap(w, 3)", [("gap(model, target)", "gap(model, target, scale=1)")]),
        ("gap(model=w, target=3)", [("gap(model, target)", "gap(target, model)")]),
        ("gap(w, 3)", [(GAP, "from m import gap\n")]),
    ],
)
def test_how_it_is_computed_is_the_versions_own(value: str, changes: list[tuple[str, str]]) -> None:
    told(value, *changes, certain=True)


def test_a_helper_of_another_module() -> None:
    train = 'import rearview as rv\nfrom m import gap\nfor k in rv.loop("k", range(3)):\n    w = k * 2\n    rv.log("w", w)\n'
    new = {"train.py": train + '    rv.log("asked", gap(w, 3))\n', "m.py": "def gap(model, target):\n    return model - target\n"}
    wanted = [Statement("train.py", 6, 6)]
    same = place_all(wanted, new, {"train.py": train, "m.py": new["m.py"]}, ["train.py", "m.py"])
    assert isinstance(same, Spread) and same.certain
    before = {"train.py": train, "m.py": "def gap(target, model):\n    return model - target\n"}
    other = place_all(wanted, new, before, ["train.py", "m.py"])
    assert isinstance(other, Spread) and not other.certain
    assert [site.why for site in other.sites] == ["`gap` takes its arguments in another order there"]


CLASSES = """\
class Encoder:
    def __init__(self):
        self.w = 1.0
    def forward(self, x):
        y = self.w * x
        rv.log("asked", y)
        return y
class Decoder:
    def __init__(self):
        self.w = 2.0
    def forward(self, x):
        y = self.w * x
        return y
"""


def test_of_two_classes_that_are_alike_neither_is_known_under_another_name() -> None:
    old = CLASSES.replace('        rv.log("asked", y)\n', "")
    assert propagate(CLASSES, 6, None, old).certain  # type: ignore[union-attr]
    exchanged = old.replace("Encoder", "Up").replace("Decoder", "Down").replace("1.0", "3.0").replace("2.0", "1.0").replace("3.0", "2.0")
    found = propagate(CLASSES, 6, None, exchanged)
    assert isinstance(found, Placed) and not found.certain
    assert "whether `Encoder` is `Up` or `Down` there" in found.why


ORDER = """\
import rearview as rv
g, s, hist = [0.0], S(), []
def zero_grad():
    g[0] = 0.0
def step():
    pass
for epoch in rv.loop("epoch", range(3)):
    for x in rv.loop("step", range(3)):
        zero_grad()
        g[0] = x - s.w
        s.total += s.w
        hist.append(x)
        step()
        rv.log("w", s.w)
        rv.log("asked", VALUE)
"""
LOGS = '        rv.log("w", s.w)\n'


@pytest.mark.parametrize(
    ("value", "changes", "why"),
    [
        ("g[0]", [("        zero_grad()\n", ""), (LOGS, f"        zero_grad()\n{LOGS}")], "`zero_grad()`, may change what it reads"),
        ("s.total", [(LOGS, f"        s.total = 0.0\n{LOGS}")], "`s.total` is set before it in this version only"),
        ("sum(hist)", [(LOGS, f"        hist.clear()\n{LOGS}")], "`hist` is set before it in this version only"),
        ("sum(hist)", [("        hist.append(x)\n", "")], "`hist` is set before it in the new version only"),
    ],
)  # fmt: skip
def test_what_is_done_before_it_to_the_objects_it_reads(value: str, changes: list[tuple[str, str]], why: str) -> None:
    assert why in told(value, *changes, new=ORDER)


@pytest.mark.parametrize(
    ("value", "changes"),
    [
        ("g[0]", [("        hist.append(x)\n", "        hist.append([y for y in range(x)])\n")]),
        ("s.total", [("s.total += s.w", "s.total += s.w ** 2")]),
        ("s.w", [(LOGS, f"        s.other = 0.0\n{LOGS}")]),
    ],
)
def test_what_is_done_to_others_does_not_matter(value: str, changes: list[tuple[str, str]]) -> None:
    told(value, *changes, new=ORDER, certain=True)


def test_what_begins_an_iteration_may_as_well_end_the_one_before() -> None:
    text = ORDER.replace("VALUE", "g[0]")
    new = text.replace("        step()\n", "") + "        step()\n"
    old = text.replace("        zero_grad()\n", "").replace("        step()\n", "") + "        step()\n        zero_grad()\n"
    asked = '        rv.log("asked", g[0])\n'
    found = propagate(new, 1 + new.splitlines().index(asked[:-1]), None, old.replace(asked, ""))
    assert isinstance(found, Placed)
    assert found.certain and found.text == old, found.why


def test_two_variables_that_exchanged_their_names() -> None:
    new = """\
import rearview as rv
for epoch in rv.loop("epoch", range(3)):
    total = 0.0
    count = 0
    for x in rv.loop("step", range(5)):
        total += x * x
        count += 1
    loss = total / count
    rv.log("loss", loss)
    rv.log("asked", VALUE)
"""
    exchanged = [("total", "?"), ("count", "total"), ("?", "count")]
    assert "whether `total` is `total` there" in told("total", *exchanged, new=new)
    told("total", ("x * x", "x * x * x"), new=new, certain=True)
