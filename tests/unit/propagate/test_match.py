"""Which statement of one version is which of another."""

from __future__ import annotations

from rearview.propagate.likeness import Likeness
from rearview.propagate.match import Matching
from rearview.propagate.tree import File, Node


def matched(new: str, old: str) -> dict[str, str]:
    """The first line of each statement that has a counterpart -> the first line of that."""
    matching = Matching(File(new), File(old))
    return {text(one): text(other) for one, other in matching.old_of.items() if one.owner is not None}


def text(node: Node) -> str:
    return node.file.lines[node.line - 1].strip()


def test_equal_statements_however_they_are_laid_out() -> None:
    assert File("f(a,\n  'b',)\n").nodes[0].key == File('f(a, "b")\n').nodes[0].key
    assert File("f(a)\n").nodes[0].key != File("f(b)\n").nodes[0].key


def test_functions_by_their_name_wherever_they_stand() -> None:
    new = "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x + 1\n"
    old = "def g(y):\n    return y - 1\n\n\ndef f(z):\n    return g(z)\n"
    found = matched(new, old)
    assert found["def f(x):"] == "def f(z):"
    assert found["def g(x):"] == "def g(y):"


def test_a_renamed_function_by_what_it_contains() -> None:
    body = "    a = load(x)\n    b = clean(a)\n    return check(b)\n"
    assert matched(f"def new(x):\n{body}", f"def old(x):\n{body}")["def new(x):"] == "def old(x):"


def test_loops_by_the_name_they_were_given() -> None:
    new = 'import rearview as rv\nfor i in rv.loop("epoch", range(9)):\n    train(i)\nfor j in rv.loop("fold", rows):\n    test(j)\n'
    old = 'import rearview as rv\nfor k in rv.loop("fold", data):\n    other(k)\nfor i in rv.loop("epoch", range(3)):\n    fit(i)\n'
    found = matched(new, old)
    assert found['for i in rv.loop("epoch", range(9)):'] == 'for i in rv.loop("epoch", range(3)):'
    assert found['for j in rv.loop("fold", rows):'] == 'for k in rv.loop("fold", data):'


def test_a_block_put_around_statements() -> None:
    found = matched("with lock:\n    a = load(path)\n    save(a, where)\n", "a = load(path)\nsave(a, where)\n")
    assert found["a = load(path)"] == "a = load(path)"
    assert found["save(a, where)"] == "save(a, where)"


def test_a_branch_added_in_the_middle_of_a_chain() -> None:
    new = "if a:\n    one()\nelif b:\n    two()\nelif c:\n    three()\n"
    old = "if a:\n    one()\nelif c:\n    three()\n"
    found = matched(new, old)
    assert found["elif c:"] == "elif c:"
    assert "elif b:" not in found


def test_variables_of_one_version_alone_may_be_the_same() -> None:
    new, old = File("loss = net(x)\nuse(loss)\n"), File("err = net(x)\nuse(err)\n")
    alike = Likeness(new, old)
    assert alike.of(new.nodes[0], old.nodes[0]) > 0.9
    assert alike.of(new.nodes[0], old.nodes[1]) < 0.45


def test_a_block_is_known_by_its_head_in_its_function() -> None:
    new = "def f(n):\n    if n > 3:\n        if n % 2:\n            go(n)\n            if steps_of(n) % 100 == 0:\n                go()\n"
    old = "def f(n):\n    if n > 3 and n % 2:\n        go(n)\n        if steps_of(n) % 100 == 0:\n            pass\n"
    assert matched(new, old)["if steps_of(n) % 100 == 0:"] == "if steps_of(n) % 100 == 0:"


def test_a_statement_that_tells_the_same_by_other_means() -> None:
    new = "def f(a):\n    work(a)\n\n\ndef g(a):\n    logger.info(f'rows {len(a)}, done {a.done}')\n    return a\n"
    old = "def f(a):\n    work(a)\n    print(f'rows {len(a)}, done {a.done}')\n\n\ndef g(a):\n    return a\n"
    assert matched(new, old)["logger.info(f'rows {len(a)}, done {a.done}')"] == "print(f'rows {len(a)}, done {a.done}')"
    assert "keep.store" not in str(matched(new.replace("logger.info", "keep.store"), old)), "it may do something else"
