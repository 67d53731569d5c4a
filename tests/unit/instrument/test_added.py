"""Is the current file the recorded one with statements added?"""

from __future__ import annotations

import textwrap

import pytest

from rearview.instrument.added import Added, Changed, added, added_in_project

RECORDED = '''\
"""A script."""
import torch
import rearview as rv

LR = 0.1

class Net:
    """A net."""

    def forward(self, x):
        return x

def norm(net):
    # how large
    total = 0
    for p in net:
        total += p
    return total

def main():
    net = Net()
    with rv.checkpointing(net=net):
        for epoch in rv.loop("epoch", range(3)):
            for step in rv.loop("step", range(4)):
                loss = net.forward(step)
                if step % 2:
                    rv.log("loss", loss)
            try:
                check(net)
            except ValueError as problem:
                pass
    print(net)

if __name__ == "__main__":
    main()
'''


def edit(*changes: tuple[str, str]) -> str:
    text = RECORDED
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def after(line: str, new: str) -> tuple[str, str]:
    """`new` on lines of its own behind a line, with its indentation."""
    text = next(one for one in RECORDED.splitlines() if line in one)
    indent = text[: len(text) - len(text.lstrip())]
    return text + "\n", text + "\n" + textwrap.indent(textwrap.dedent(new).strip("\n"), indent) + "\n"


def found(text: str) -> Added:
    result = added(RECORDED, text)
    assert isinstance(result, Added), str(result)
    return result


@pytest.mark.parametrize(
    ("change", "function", "loops"),
    [
        (after("LR = 0.1", "rv.log('n', LR)"), "", ()),
        (after("net = Net()", "rv.log('n', norm(net))"), "main", ()),
        (after("loss = net.forward", "rv.log('n', loss)"), "main", ("epoch", "step")),
        (after("loss)", "rv.log('n', loss)"), "main", ("epoch", "step")),
        (after("print(net)", "rv.log('n', 1)"), "main", ()),
        (("    main()\n", "    main()\nrv.log('n', 1)"), "", ()),
        (("    main()\n", "    main()\nelse:\n    rv.log('n', 1)"), "", ()),
        (("        return x\n", "        rv.log('n', x); return x\n"), "Net.forward", ()),
        (("                pass\n", "                rv.log('n', 1)\n"), "main", ("epoch",)),
        (("                pass\n", "                pass\n            finally:\n                rv.log('n', 1)\n"), "main", ("epoch",)),
        (after("loss = net.forward", "if loss > 3:\n    with torch.no_grad():\n        rv.log('n', loss)"), "main", ("epoch", "step")),
        (after("loss = net.forward", "for q in net:\n    rv.log('n', q)\n    if q: break"), "main", ("epoch", "step")),
        (after("loss = net.forward", "value = norm(net)\nrv.log('n', value)\ndel value"), "main", ("epoch", "step")),
        (after("loss = net.forward", "sums = {}\nfor k, q in net:\n    sums[k] = q\nrv.log('n', sums)"), "main", ("epoch", "step")),
        (after("loss = net.forward", "import math as m\nrv.log('n', m.sqrt(loss))"), "main", ("epoch", "step")),
        (after("loss = net.forward", "try:\n    rv.log('n', loss)\nexcept Exception as e:\n    print(e)"), "main", ("epoch", "step")),
        (after("loss = net.forward", "[rv.log('n', q) for q in net]"), "main", ("epoch", "step")),
        (after("loss = net.forward", "__import__('rearview').log('n', q)"), "main", ("epoch", "step")),
        (after("loss = net.forward", "seen = rv.log('n', loss)"), "main", ("epoch", "step")),
        (after("loss = net.forward", "for part in rv.loop('part', net):\n    rv.log('n', part)"), "main", ("epoch", "step", "part")),
    ],
)  # fmt: skip
def test_one_log_more(change: tuple[str, str], function: str, loops: tuple[str, ...]) -> None:
    text = edit(change)
    (log,) = found(text).logs
    assert (log.name, log.function, log.loops) == ("n", function, loops)
    assert "log('n'" in text.splitlines()[log.line - 1]
    assert "log('n'" in log.text
    (group,) = found(text).groups
    assert group.runs
    assert group.place[0] <= log.line <= group.place[2]


def test_helpers_and_imports_come_with_it() -> None:
    text = edit(
        after("import torch", "import math"),
        after("LR = 0.1", "def gnorm(net):\n    rv.log('inner', 1)\n    return math.sqrt(sum(net))"),
        after("loss = net.forward", "rv.log('n', gnorm(net))\ngnorm(net)"),
    )
    result = found(text)
    assert [(log.name, log.function, log.group) for log in result.logs] == [("inner", "gnorm", 1), ("n", "main", 2)]
    assert [group.runs for group in result.groups] == [False, False, True]
    assert result.names == ("inner", "n")


def test_a_computed_name() -> None:
    (log,) = found(edit(after("loss = net.forward", "rv.log(f'n{step}', loss)"))).logs
    assert log.name is None


@pytest.mark.parametrize(
    "change",
    [
        ("# how large", "# how very large\n"),
        ('"""A script."""', '"""Another text."""'),
        ('    """A net."""\n', ""),
        ("LR = 0.1", "\n\nLR   =    (0.1)"),
        ("    print(net)", "    print(\n        net\n    )"),
    ],
)
def test_layout_is_nothing(change: tuple[str, str]) -> None:
    assert found(edit(change)) == Added()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("LR = 0.1", "LR = 0.2"), ["LR = 0.1", "line 5"]),
        (("            for step in rv.loop", "            rv.log('a', 1)\n            for step, _ in rv.loop"), ["for step in rv.loop"]),
        (("    print(net)\n", ""), ["print(net)"]),
        (('rv.log("loss", loss)', 'rv.log("loss", 2 * loss)'), ["rv.log('loss', loss)"]),
        (("total += p", "total -= p"), ["total += p"]),
        (after("loss = net.forward", "net.eval()"), ["net.eval()", "something else than log"]),
        (after("loss = net.forward", "loss = 3"), ["binds `loss`"]),
        (after("loss = net.forward", "for step in net:\n    rv.log('n', step)"), ["binds `step`"]),
        (after("loss = net.forward", "net.seen = 1"), ["net.seen"]),
        (after("loss = net.forward", "if loss > 3:\n    break"), ["ends a loop"]),
        (after("loss = net.forward", "assert loss"), ["can end"]),
        (after("loss = net.forward", "rv.log('n', (loss := 3))"), ["binds `loss`"]),
        (after("loss = net.forward", "rv.log('n', (yield))"), ["yields"]),
        (after("loss = net.forward", "def bump():\n    nonlocal net\n    net = 1\nrv.log('n', bump())"), ["can change `net`"]),
        (after("LR = 0.1", "def print(x): pass"), ["binds `print`"]),
        (after("LR = 0.1", "from math import *"), ["names of the recorded program"]),
        (("import torch", "import torch as t"), ["import torch"]),
        (("class Net:", "class Net(list):"), ["class Net"]),
        (("        return x\n", "        return x\n    def __call__(self): rv.log('n', 1)\n"), ["Python calls by itself"]),
        (("    def forward(self, x):", "    @torch.no_grad()\n    def forward(self, x):"), ["def forward"]),
        (("    with rv.checkpointing(net=net):", "    with rv.checkpointing(net=net, a=1):"), ["rv.checkpointing"]),
        (("    print(net)\n", "    with rv.checkpointing():\n        rv.log('n', 1)\n    print(net)\n"), ["rv.checkpointing"]),
    ],
)  # fmt: skip
def test_anything_else_is_another_version(change: tuple[str, str], words: list[str]) -> None:
    result = added(RECORDED, edit(change), file="train.py")
    assert isinstance(result, Changed)
    for word in words:
        assert word in str(result), str(result)


def test_where_a_change_is_said() -> None:
    result = added(RECORDED, edit(("total += p", "total -= p")))
    assert isinstance(result, Changed)
    assert result.line == 17


def test_the_same_head_twice() -> None:
    """A new `if` with the recorded one's condition before it, and something added inside that too."""
    before = "import rearview as rv\nif debug:\n    f()\n"
    now = "import rearview as rv\nif debug:\n    rv.log('a', 1)\nif debug:\n    f()\n    rv.log('b', 1)\n"
    result = added(before, now)
    assert isinstance(result, Added)
    assert [log.name for log in result.logs] == ["a", "b"]


def test_a_statement_that_was_there_is_not_added() -> None:
    before = "import rearview as rv\nfor x in y:\n    rv.log('a', x)\n"
    now = "import rearview as rv\nfor x in y:\n    rv.log('a', x)\n    rv.log('a', x)\n"
    result = added(before, now)
    assert isinstance(result, Added)
    assert len(result.logs) == 1


def test_a_name_local_elsewhere_is_new_here() -> None:
    before = "def f():\n    total = 1\n    return [q for q in total]\nx = 1\n"
    now = before + "import rearview as rv\ntotal = 0\nfor q in y:\n    total += q\nrv.log('t', total)\n"
    assert isinstance(added(before, now), Added)


def test_what_is_no_python() -> None:
    for pair in ((RECORDED, "def f(:\n"), ("def f(:\n", RECORDED), ("x = 1\n", "x = '\0'\n")):
        result = added(*pair)
        assert isinstance(result, Changed)
        assert "cannot be read as Python" in result.why


# -- projects ------------------------------------------------------------------------------------------------------------

PROJECT = {
    "train.py": "import rearview as rv\nfrom pkg import model\nx = model.f()\n",
    "pkg/__init__.py": "",
    "pkg/model.py": "def f():\n    return 1\n",
}


def test_several_files_and_a_new_one() -> None:
    now = {
        **PROJECT,
        "train.py": PROJECT["train.py"] + "from probes.norms import norm, report\nimport probes.norms as norms\n"
        "rv.log('n', norm(x))\nreport(x)\nnorms.report(1)\n",
        "pkg/model.py": "import rearview as rv\ndef f():\n    rv.log('f', 1)\n    return 1\n",
        "probes/norms.py": '"""New."""\nimport math\nimport rearview as rv\nfrom . import deeper\nK = 3\n'
        'def norm(x):\n    return x\ndef report(x):\n    rv.log("r", x)\n',
        "probes/__init__.py": "",
        "probes/deeper.py": "D = 1\n",
        "unrelated.py": "print('never imported')\n",
    }  # fmt: skip
    result = added_in_project(PROJECT, now)
    assert isinstance(result, Added), str(result)
    assert result.files is not None
    assert set(result.files) == {"train.py", "pkg/model.py", "probes/norms.py", "probes/__init__.py", "probes/deeper.py"}
    assert {(log.file, log.name) for log in result.logs} == {("train.py", "n"), ("pkg/model.py", "f"), ("probes/norms.py", "r")}
    assert all(result.groups[log.group].file == log.file for log in result.logs)


def test_another_script_of_the_project_may_change() -> None:
    before = {**PROJECT, "plot.py": "x = 1\n"}
    now = {**before, "plot.py": "x = 2\n", "train.py": before["train.py"] + "rv.log('x', x)\n"}
    assert isinstance(added_in_project(before, now), Changed)
    result = added_in_project(before, now, "train.py")
    assert isinstance(result, Added)
    assert result.names == ("x",)
    assert isinstance(added_in_project(before, {**before, "pkg/model.py": "def f(): return 2\n"}, "train.py"), Changed)


def test_a_new_file_that_does_something() -> None:
    script = PROJECT["train.py"] + "import probes\nrv.log('n', probes.f())\n"
    now = {**PROJECT, "train.py": script, "probes.py": "import os\nos.remove('x')\n"}
    result = added_in_project(PROJECT, now)
    assert isinstance(result, Changed)
    assert (result.file, result.line) == ("probes.py", 2)


def test_a_removed_file_and_files_that_are_no_code() -> None:
    result = added_in_project(PROJECT, {path: text for path, text in PROJECT.items() if path != "pkg/model.py"})
    assert isinstance(result, Changed)
    assert result.file == "pkg/model.py"
    assert added_in_project({**PROJECT, "README.md": "a"}, {**PROJECT, "README.md": "b"}) == Added(files={})


def test_cells_of_a_notebook_are_one_module() -> None:
    before = {"cells/0001.py": "import rearview as rv\nx = 1\n", "cells/0002.py": "y = x\n"}
    result = added_in_project(before, {**before, "cells/0002.py": "y = x\nrv.log('y', y)\n"})
    assert isinstance(result, Added)
    assert result.names == ("y",)
    result = added_in_project(before, {**before, "cells/0002.py": "y = x\nx = 2\n"})
    assert isinstance(result, Changed)
    assert "`x`" in result.why


def test_a_model_may_be_switched_around_a_log() -> None:
    recorded = "import rearview as rv\nnet = make()\nnet.fit()\n"
    result = added(recorded, recorded + "net.eval()\nrv.log('a', net(1))\nnet.train()\n")
    assert isinstance(result, Added)
    assert [log.name for log in result.logs] == ["a"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["loss = loss + 7", "rv.log('n', loss)"], ["line 26", "`loss = loss + 7`", "choose another name", "`n` reads `loss`"]),
        (["net.seen = 1", "rv.log('n', net.seen)"], ["`net.seen = 1`", "put the value into a new variable", "`n` reads `net.seen`"]),
        (["net.seen = 1", "twice = 2 * net.seen", "rv.log('n', twice)"], ["`net.seen = 1`"]),
        (["rv.log('n', net.seen)", "net.seen = 1"], ["`net.seen = 1`"]),
        (["net.append(1)", "rv.log('n', len(net))", "net.pop()"], ["`net.append(1)`", "`n` reads `net`"]),
        (["for k in range(2):", "    net[k] = 1", "rv.log('n', net[0])"], ["`net[k] = 1`"]),
        (["if step:", "    loss = 5", "    rv.log('n', loss)"], ["`loss = 5`"]),
        (["last = net.pop()", "net.seen = 1", "rv.log('n', len(net))"], ["`last = net.pop()`", "it may change `net`"]),
        (["rv.log('other', step)", "loss = 3", "rv.log(f'{step}', loss)"], None),
    ],
)
def test_a_log_is_not_taken_without_what_was_added_with_it(lines: list[str], words: list[str] | None) -> None:
    result = added(RECORDED, edit(after("loss = net.forward", "\n".join(lines))), file="train.py")
    assert isinstance(result, Changed) and result.spoiled is not None
    assert list(result.spoiled) == (["n"] if words else [None])
    for word in words or []:
        assert word in result.spoiled["n"], result.spoiled["n"]


@pytest.mark.parametrize(
    "change",
    [
        after("loss = net.forward", "net.seen = 1\nrv.log('n', loss)"),  # it reads something else
        after("loss = net.forward", "rv.log('n', loss)\ncheck(epoch)"),
        ("            for step in rv.loop", "            net.seen = 1\n            rv.log('a', 1)\n            for step in rv.loop"),
        after("loss = net.forward", "def look(net):\n    net = 3\n    rv.log('n', net)\nloss = 4"),
    ],
)
def test_a_program_that_was_gone_on_with_is_another_version(change: tuple[str, str]) -> None:
    result = added(RECORDED, edit(change), file="train.py")
    assert isinstance(result, Changed) and result.spoiled == {}


def test_the_log_and_another_change_may_be_in_two_files() -> None:
    recorded = {"a.py": "x = 1\n", "train.py": "import a\nimport rearview as rv\nnet = a\n"}
    current = {"a.py": "x = 1\nx = 2\n", "train.py": recorded["train.py"] + "net.x = 3\nrv.log('n', net.x)\n"}
    result = added_in_project(recorded, current)
    assert isinstance(result, Changed) and result.file == "a.py"
    assert "train.py line 4" in (result.spoiled or {})["n"]
    changed = added_in_project(recorded, current | {"a.py": "x = 2\n"})
    assert isinstance(changed, Changed) and changed.spoiled is None
