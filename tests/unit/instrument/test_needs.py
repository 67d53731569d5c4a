"""What a replay must run for added statements, above all for those that carry something along."""

from __future__ import annotations

import pytest

from rearview.instrument.added import Added, added_in_project
from rearview.instrument.depth import Depth
from rearview.instrument.needs import Needs, needs

RECORDED = """\
import rearview as rv
net = 1
# prefix
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        start = 1
        # before
        for step in rv.loop("step", range(3)):
            loss = 1
            # nested
        acc = 1
        # after
end = 1
# suffix
"""


def asked(**put: str) -> Needs:
    text = RECORDED
    for where, statement in put.items():
        line = next(one for one in RECORDED.splitlines() if one.strip() == f"# {where}")
        indent = line[: len(line) - len(line.lstrip())]
        text = text.replace(line + "\n", "".join(indent + one + "\n" for one in statement.split("\n")))
    found = added_in_project({"train.py": RECORDED}, {"train.py": text})
    assert isinstance(found, Added), str(found)
    return needs({"train.py": text}, found)


@pytest.mark.parametrize(
    ("put", "depth"),
    [
        ({"prefix": "rv.log('a', net)"}, Depth(prefix=True)),
        ({"before": "rv.log('a', net)"}, Depth(before=True)),
        ({"nested": "rv.log('a', net)"}, Depth(nested=frozenset(["step"]))),
        ({"after": "rv.log('a', net)"}, Depth(after=True)),
        ({"suffix": "rv.log('a', net)"}, Depth(suffix=True)),
        ({"after": "value = net + 1\nrv.log('a', value)"}, Depth(after=True)),
        ({"after": "total = 0\nfor p in [1]:\n    total += p\nrv.log('a', total)"}, Depth(after=True)),
        ({"prefix": "def f(x):\n    rv.log('a', x)", "after": "f(1)", "suffix": "f(2)"}, Depth(after=True, suffix=True)),
        ({"prefix": "K = 3", "after": "rv.log('a', K)"}, Depth(after=True)),
        ({"prefix": "w0 = net", "nested": "rv.log('a', net - w0)\nrv.log('w0', w0)"}, Depth(nested=frozenset(["step"]))),
        ({"before": "b = net", "after": "rv.log('a', net - b)"}, Depth(before=True, after=True)),
        ({"before": "n = 0", "nested": "n += 1", "after": "rv.log('a', n)"}, Depth(before=True, after=True, nested=frozenset(["step"]))),
        ({"before": "ls = []", "nested": "ls.append(loss)", "after": "rv.log('a', sum(ls))"},
         Depth(before=True, after=True, nested=frozenset(["step"]))),
        ({"before": "for part in rv.loop('part', []):\n    rv.log('a', part)\nrv.log('b', 1)"}, Depth(before=True)),
        ({"nested": "rv.log('a', [rv.log('b', q) for q in rv.loop('part', [])])"}, Depth(nested=frozenset(["step"]))),
        ({"prefix": "import math", "after": "rv.log('a', math.pi)"}, Depth(after=True)),
        ({"prefix": "other = nn.MSELoss()", "after": "rv.log('a', other(acc, 0))"}, Depth(after=True)),
        ({"prefix": "w0 = [p.clone() for p in net.parameters()]", "after": "rv.log('a', sum(far(p, q) for p, q in zip(net.all(), w0)))"},
         Depth(after=True)),
        ({"prefix": "w0 = copy.deepcopy(net)", "after": "rv.log('a', w0.sub(net).norm())"}, Depth(after=True)),
        ({"prefix": "at = Settings()", "after": "rv.log('a', acc * at.scale)"}, Depth(after=True)),
    ],
)  # fmt: skip
def test_where_they_run_and_nothing_is_carried(put: dict[str, str], depth: Depth) -> None:
    found = asked(**put)
    assert (found.depth, found.from_start, found.why) == (depth, False, "")


@pytest.mark.parametrize(
    ("put", "name"),
    [
        ({"prefix": "ls = []", "after": "ls.append(acc)\nrv.log('a', sum(ls))"}, "ls"),
        ({"prefix": "ls = []", "nested": "ls.append(loss)", "suffix": "rv.log('a', ls)"}, "ls"),
        ({"prefix": "seen = {}", "nested": "seen[step] = loss\nrv.log('a', len(seen))"}, "seen"),
        ({"prefix": "n = 0", "after": "n += 1\nrv.log('a', n)"}, "n"),
        ({"prefix": "last = 0", "after": "rv.log('a', acc - last)\nlast = acc"}, "last"),
        ({"before": "rv.log('a', 1 if epoch == 0 else last)", "after": "last = acc"}, "last"),
        ({"before": "if epoch == 0:\n    n = 0", "after": "n += 1\nrv.log('a', n)"}, "n"),
        ({"after": "final = acc", "suffix": "rv.log('a', final)"}, "final"),
        ({"prefix": "seen = []\ndef note(x):\n    seen.append(x)\n    return len(seen)", "after": "rv.log('a', note(acc))"}, "seen"),
        ({"prefix": "def note(x, seen=[]):\n    seen.append(x)\n    return len(seen)", "after": "rv.log('a', note(acc))"}, "seen"),
        ({"prefix": "def note():\n    note.n += 1\n    return note.n\nnote.n = 0", "after": "rv.log('a', note())"}, "note"),
        ({"prefix": "class M:\n    n = 0", "after": "M.n += 1\nrv.log('a', M.n)"}, "M"),
        ({"prefix": "gen = iter(range(9))", "after": "rv.log('a', next(gen))"}, "gen"),
        ({"prefix": "class Meter:\n    pass\nmeter = Meter()", "nested": "meter.update(loss)", "after": "rv.log('a', meter.avg)"}, "meter"),
        ({"prefix": "n = 0\ndef note():\n    global n\n    n += 1\n    return n", "after": "rv.log('a', note())"}, "n"),
        ({"prefix": "meter = Meter()", "after": "rv.log('a', meter(acc))"}, "meter"),
        ({"prefix": "meter = Meter()\ndef f():\n    return meter(1)", "after": "rv.log('a', f())"}, "meter"),
        ({"prefix": "meters = [Meter() for _ in 'ab']", "after": "rv.log('a', meters[0](acc))"}, "meters"),
        ({"prefix": "meter = Meter()", "nested": "rv.log('a', meter.smooth(loss))"}, "meter"),
        ({"prefix": "meter = Meter()", "after": "rv.log('a', smooth(meter, acc))"}, "meter"),
        ({"prefix": "count = counter()", "after": "rv.log('a', count())"}, "count"),
    ],
)  # fmt: skip
def test_what_is_carried_is_only_right_from_the_start(put: dict[str, str], name: str) -> None:
    found = asked(**put)
    assert found.from_start
    assert f"`{name}`" in found.why


@pytest.mark.parametrize(
    ("put", "unparted"),
    [
        ({"nested": "rv.log('a', net)"}, False),
        ({"nested": "twice = 2 * net\nrv.log('a', twice)"}, False),
        ({"before": "rv.log('a', net)", "nested": "rv.log('b', net)", "after": "rv.log('c', net)"}, False),
        ({"prefix": "import math\nK = 3\ndef f(x):\n    return x + K", "nested": "rv.log('a', f(net))"}, False),
        ({"before": "ls = []", "nested": "ls.append(loss)", "after": "rv.log('a', sum(ls))"}, True),
        ({"before": "n = 0", "nested": "n += 1\nrv.log('a', n)"}, True),
        ({"before": "last = 0", "nested": "last = loss", "after": "rv.log('a', last)"}, True),
        ({"nested": "last = loss", "after": "rv.log('a', last)"}, True),
        ({"before": "b = net", "after": "rv.log('a', net - b)"}, True),
        ({"prefix": "other = nn.MSELoss()", "nested": "rv.log('a', other(loss))"}, True),
        ({"prefix": "seen = []", "nested": "seen.append(loss)\nrv.log('a', len(seen))"}, True),
    ],
)
def test_what_is_carried_through_an_iteration_keeps_it_in_one_piece(put: dict[str, str], unparted: bool) -> None:
    assert asked(**put).unparted == unparted


@pytest.mark.parametrize(("first", "unparted"), [("import math\n", True), ("from lib import other\n", False)])
def test_a_module_of_the_project_that_no_state_has_keeps_iterations_in_one_piece(first: str, unparted: bool) -> None:
    lib = "n = 0\ndef other():\n    return 1\ndef note(x):\n    globals()['n'] += 1\n    return n\n"
    then = first + RECORDED
    now = then.replace("net = 1\n", "net = 1\nfrom lib import note\n")
    now = now.replace("            # nested\n", "            rv.log('a', note(1))\n")
    found = added_in_project({"train.py": then, "lib.py": lib}, {"train.py": now, "lib.py": lib})
    assert isinstance(found, Added), str(found)
    assert needs({"train.py": now, "lib.py": lib}, found).unparted == unparted
    library = now.replace("from lib import note", "from torch import note")
    found = added_in_project({"train.py": then, "lib.py": lib}, {"train.py": library, "lib.py": lib})
    assert isinstance(found, Added) and not needs({"train.py": library, "lib.py": lib}, found).unparted


@pytest.mark.parametrize(
    "value",
    [
        "locals().get('last', 0) + 1", "globals().get('last', 0) + 1", "vars().get('last', 0) + 1", "last + 1 if 'last' in dir() else 1",
        "eval('last + 1' if epoch else '1')", "inspect.currentframe().f_locals.get('last', 0) + 1",
    ],
)  # fmt: skip
def test_what_looks_at_all_variables_may_carry_any(value: str) -> None:
    found = asked(after=f"last = {value}\nrv.log('a', last)")
    assert found.from_start and "of train.py" in found.why
    defined = f"def look(epoch):\n    return {value.replace('last + 1 if', '2 if')}"
    helper = asked(prefix=defined, after="last = look(epoch)\nrv.log('a', last)")
    assert helper.from_start


def test_the_same_name_in_two_functions_is_two_variables() -> None:
    text = RECORDED.replace("net = 1\n", "def f():\n    return 1\ndef g():\n    return 1\nnet = f() + g()\n")
    text = text.replace("acc = 1\n", "acc = f()\n        acc = g()\n")
    now = text.replace("def f():\n", "def f():\n    t = 1\n    rv.log('f', t)\n")
    now = now.replace("def g():\n", "def g():\n    t = 2\n    rv.log('g', t)\n")
    found = added_in_project({"train.py": text}, {"train.py": now})
    assert isinstance(found, Added)
    assert needs({"train.py": now}, found) == Needs(Depth(prefix=True, after=True))


@pytest.mark.parametrize(
    ("expression", "from_start"),
    [
        ("(setattr(math, 'n', getattr(math, 'n', 0) + 1), math.n)[1]", True), ("(vars(math).setdefault('n', []), math.n)[1]", True),
        ("(step.__dict__.update(n=1), step.n)[1]", True), ("(math.__setattr__('n', epoch), math.n)[1]", True),
        ("len(vars(args))", False), ("str(net.__dict__)", False), ("getattr(net, 'n', 0)", False), ("history.update(n=1)", False),
    ],
)  # fmt: skip
def test_what_is_set_where_no_checkpoint_has_it_is_run_from_the_start(expression: str, from_start: bool) -> None:
    assert asked(after=f"rv.log('a', {expression})").from_start == from_start


@pytest.mark.parametrize(
    ("lib", "carried"),
    [
        ("from __future__ import annotations\nimport math\nK = 3\nNAMES = ['a']\ndef note(x):\n    return x + K + len(NAMES)\n", False),
        ("def note(x):\n    seen = []\n    seen.append(x)\n    return seen\n", False),
        ("seen = []\ndef note(x):\n    seen.append(x)\n    return len(seen)\n", True),
        ("n = 0\ndef note(x):\n    global n\n    n += 1\n    return n\n", True),
    ],
)
@pytest.mark.parametrize("new", [True, False])
def test_helpers_in_another_file(lib: str, carried: bool, new: bool) -> None:
    script = RECORDED if new else RECORDED.replace("net = 1\n", "net = 1\nimport lib\n")
    now = script.replace("        # after\n", "        rv.log('a', lib.note(acc))\n")
    now = now.replace("net = 1\n", "net = 1\nimport lib\n") if new else now
    if not new:
        lib = lib.replace("from __future__ import annotations\n", "")
    files = {"train.py": now, "lib.py": lib}
    before = {"train.py": script} if new else {"train.py": script, "lib.py": "import os\n"}
    found = added_in_project(before, files if new else files | {"lib.py": "import os\n" + lib})
    assert isinstance(found, Added), str(found)
    files |= found.files or {}
    asked = needs(files, found, "train.py")
    assert asked.from_start == carried
    assert asked.depth == Depth(after=True)
    assert [group.runs for group in found.groups if group.file == "lib.py"] == [False] or not new
