"""Placing a statement: where it goes, what travels with it, when it is refused."""

from __future__ import annotations

import pytest

from rearview.propagate.place import Placed, Refused, propagate

OLD = """\
import torch


def train(net, data, epochs):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in data:
            opt.zero_grad()
            loss = net(x, y)
            loss.backward()
            opt.step()
        print(epoch)
    return net
"""


def placed(new: str, mark: str, old: str, lines: int = 1) -> Placed:
    at = next(number for number, line in enumerate(new.splitlines(), 1) if mark in line)
    found = propagate(new, at, at + lines - 1, old)
    assert isinstance(found, Placed), found
    return found


def refused(new: str, mark: str, old: str) -> Refused:
    at = next(number for number, line in enumerate(new.splitlines(), 1) if mark in line)
    found = propagate(new, at, None, old)
    assert isinstance(found, Refused), found
    return found


def with_lines(text: str, after: str, *lines: str) -> str:
    rows = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(rows) if after in line)
    indent = rows[at][: len(rows[at]) - len(rows[at].lstrip())]
    return "".join([*rows[: at + 1], *(indent + line + "\n" for line in lines), *rows[at + 1 :]])


def test_between_its_neighbours() -> None:
    new = with_lines(OLD, "loss = net", 'rv.log("loss", loss)')
    found = placed(new, "rv.log", OLD.replace("0.1", "0.2"))
    assert found.text == new.replace("0.1", "0.2")
    assert found.certain
    assert found.lines == (10, 10)
    assert not found.renamed
    assert not found.carried


def test_a_renamed_variable() -> None:
    old = OLD.replace("loss", "err")
    found = placed(with_lines(OLD, "loss = net", 'rv.log("loss", loss.item())'), "rv.log", old)
    assert found.renamed == {"loss": "err"}
    assert found.text == with_lines(old, "err = net", 'rv.log("loss", err.item())')


def test_a_name_in_an_f_string_is_renamed() -> None:
    old = OLD.replace("loss", "err")
    found = placed(with_lines(OLD, "loss = net", "rv.log(f'at {epoch}', f\"{loss:.3f}\")"), "rv.log", old)
    assert "rv.log(f'at {epoch}', f\"{err:.3f}\")" in found.text


def test_spelling_is_no_evidence() -> None:
    """`losses` looks like `loss`, but nothing says that it is."""
    old = OLD.replace("            loss = net(x, y)\n            loss.backward()\n", "            step(net)\n")
    old = old.replace("print(epoch)", "losses = 1")
    assert "`loss`" in refused(with_lines(OLD, "loss = net", 'rv.log("loss", loss)'), "rv.log", old).why


def test_several_lines_and_several_statements() -> None:
    new = with_lines(OLD, "loss = net", "rv.log(", '    "loss",', "    loss,", ")", 'rv.log("epoch", epoch)')
    assert placed(new, "rv.log(", OLD, 4).text == new.replace('            rv.log("epoch", epoch)\n', "")
    assert placed(new, "rv.log(", OLD, 5).text == new


def test_a_new_import_travels() -> None:
    new = with_lines(with_lines(OLD, "import torch", "import math"), "loss = net", 'rv.log("loss", math.exp(loss))')
    found = placed(new, "rv.log", OLD)
    assert found.carried == ("import math",)
    assert "import math\n" in found.text
    assert "import math" not in found.bare


def test_one_name_of_an_import_of_many_travels() -> None:
    new = with_lines(with_lines(OLD, "import torch", "from math import exp, floor as f"), "loss = net", 'rv.log("loss", f(loss))')
    found = placed(new, "rv.log", OLD)
    assert "\nfrom math import floor as f\n" in found.text
    compile(found.text, "x", "exec")


def test_a_new_helper_travels_with_what_it_needs() -> None:
    helpers = "SCALE = 2\n\n\ndef inner(x):\n    return SCALE * x\n\n\n"
    helpers += 'def norm(net):\n    """Its size."""\n    return inner(math.sqrt(net))\n\n\n'
    new = "import math\n" + OLD.replace("def train", helpers + "def train")
    found = placed(with_lines(new, "loss = net", 'rv.log("norm", norm(net))'), "rv.log", OLD)
    for piece in ("import math", "SCALE = 2", "def inner(x):", "def norm(net):", '    """Its size."""'):
        assert piece in found.text
    assert found.text.index("def norm") < found.text.index("def train")


def test_a_new_temporary_travels() -> None:
    new = with_lines(OLD, "loss = net", "size = loss.abs()", 'rv.log("size", size)')
    found = placed(new, "rv.log", OLD)
    assert found.text == new
    assert found.carried == ("size = loss.abs()",)


def test_a_temporary_made_elsewhere_goes_to_its_own_place() -> None:
    new = with_lines(with_lines(OLD, "for epoch in", "    begun = clock()"), "opt.step()", 'rv.log("took", clock() - begun)')
    new = new.replace("import torch\n", "import torch\nfrom time import time as clock\n")
    found = placed(new, "rv.log", OLD)
    assert found.text.index("begun = clock()") < found.text.index("for x, y")


def test_a_temporary_that_the_program_reads_does_not_travel() -> None:
    new = with_lines(OLD, "loss = net", "scale = f(x)", 'rv.log("scale", scale)').replace("loss.backward()", "loss.backward(scale)")
    assert "`scale`" in refused(new, "rv.log", OLD).why


def test_what_the_program_computes_its_own_values_with_does_not_travel() -> None:
    old = "w = 0\nfor e in data:\n    w += e\n    loss = (w - e) ** 2\n    show(loss)\n"
    new = "criterion = Loss()\n" + old.replace("(w - e) ** 2", "criterion(w, e)") + "    rv.log('far', criterion(w, 5))\n"
    assert refused(new, "rv.log", old).why == "this version has no `criterion`"
    mine = new.replace("loss = criterion(w, e)", "loss = (w - e) ** 2").replace("rv.log", "half = criterion(w, e)\n    rv.log")
    assert placed(mine, "rv.log", old).carried == ("criterion = Loss()",)


def test_a_container_that_is_filled_does_not_travel_empty() -> None:
    old = "w = 0\nfor e in data:\n    w += e\n    loss = (w - e) ** 2\n    show(loss)\n    last = loss\n"
    new = "hist = []\n" + old.replace("    show", "    hist.append(loss)\n    show") + "    rv.log('sum', sum(hist))\n"
    assert placed(new, "rv.log", old).carried == ("hist = []", "hist.append(loss)")
    other = new.replace("hist.append(loss)", "keep(loss)").replace("w = 0\n", "def keep(x):\n    hist.append(x)\nw = 0\n", 1)
    assert "`hist` needs" in refused(other, "rv.log", old).why


def test_what_a_temporary_lacks_is_said_with_its_name() -> None:
    lines = "other = f(x)", "size = other + 1", 'rv.log("size", size)'
    new = with_lines(OLD, "loss = net", *lines).replace("loss.backward()", "loss.backward(other)")
    assert refused(new, "rv.log", OLD).why == "this version has no `other`, which `size` needs"


def test_a_temporary_made_together_with_a_variable_of_the_program_does_not_travel() -> None:
    new = with_lines(OLD, "loss = net", "loss, size = f(loss)", 'rv.log("size", size)')
    assert "no `size`" in refused(new, "rv.log", OLD).why
    both = with_lines(OLD, "loss = net", "low, high = f(loss)", 'rv.log("high", high)')
    assert placed(both, "rv.log", OLD).text == both


@pytest.mark.parametrize("around", ["if epoch % 10 == 0:", "with torch.no_grad():", "for p in net.parameters():"])
def test_a_block_around_nothing_else_travels(around: str) -> None:
    new = with_lines(OLD, "loss = net", around, '    rv.log("loss", loss)')
    assert placed(new, "rv.log", OLD).text == new


def test_a_block_with_other_new_code_does_not() -> None:
    new = with_lines(OLD, "loss = net", "if epoch % 10 == 0:", "    opt.reset()", '    rv.log("loss", loss)')
    assert "block" in refused(new, "rv.log", OLD).why


def test_a_function_called_from_the_loop() -> None:
    old = OLD + "\n\ndef evaluate(net, data):\n    total = 0\n    for x, y in data:\n        total += net(x, y)\n    return total\n"
    new = with_lines(old, "total += net", 'rv.log("total", total)').replace("0.1", "0.3")
    assert placed(new, "rv.log", old).text == with_lines(old, "total += net", 'rv.log("total", total)')


def test_a_method() -> None:
    old = "class Trainer:\n    def fit(self):\n        for x in self.data:\n            self.step(x)\n"
    new = with_lines(old, "self.step", 'rv.log("n", self.count)').replace("self.data", "self.rows")
    assert placed(new, "rv.log", old).text == with_lines(old, "self.step", 'rv.log("n", self.count)')


def test_what_is_there_already_is_not_added() -> None:
    new = with_lines(OLD, "loss = net", 'rv.log("loss", loss)')
    found = placed(new, "rv.log", new.replace("0.1", "0.2"))
    assert found.text == new.replace("0.1", "0.2")
    assert found.lines == ()
    assert "already" in found.why


def test_a_missing_name_is_said() -> None:
    new = OLD.replace("data, epochs", "data, epochs, criterion").replace("net(x, y)", "criterion(net(x), y)")
    new = with_lines(new, "loss.backward", 'rv.log("c", criterion)')
    assert refused(new, "rv.log", OLD).why == "this version has no `criterion`"


def test_a_missing_attribute_is_said_where_a_variable_is_called_so() -> None:
    new = "class T:\n    def __init__(self):\n        self.w = 0\n    def fit(self, w):\n        self.w += w\n        rv.log('w', self.w)\n"
    old = new.replace("self.w", "self.weight").replace("        rv.log('w', self.weight)\n", "")
    assert refused(new, "rv.log", old).why == "this version has no `self.w`"
    assert placed(new, "rv.log", new.replace("        rv.log('w', self.w)\n", "")).certain


def test_a_function_without_counterpart() -> None:
    new = OLD + "\n\ndef evaluate(net):\n    value = net.test()\n    rv.log('value', value)\n    return value\n"
    assert "evaluate" in refused(new, "rv.log", OLD).why


def test_a_version_that_is_no_program() -> None:
    assert "cannot be read" in refused(OLD, "loss = net", "def f(:\n").why
    assert "no statement" in refused("# only this\n", "only", OLD).why


def test_a_block_on_one_line_is_left_alone() -> None:
    old = "for x in data: step(x)\n"
    new = "for x in data:\n    step(x)\n    rv.log('x', x)\n"
    assert "shares a line" in refused(new, "rv.log", old).why


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_tabs_and_a_missing_last_one_are_kept(ending: str) -> None:
    old = "def f(x):\n\ty = g(x)   # why\n\n\treturn y".replace("\n", ending)
    new = "def f(x):\n    y = g(x)\n    rv.log('y', y)\n    return y\n"
    found = placed(new, "rv.log", old)
    assert found.text == f"def f(x):{ending}\ty = g(x)   # why{ending}\trv.log('y', y){ending}{ending}\treturn y"


def test_at_the_end_of_a_file_without_a_last_line_end() -> None:
    found = placed("a = f()\nrv.log('a', a)\n", "rv.log", "a = f()")
    assert found.text == "a = f()\nrv.log('a', a)"


def test_a_string_of_several_lines_keeps_its_lines() -> None:
    old = "if go:\n    a = f()\n    b = g()\n"
    new = 'if go:\n        a = f()\n        rv.log("a", """x\n  y""" + a)\n        b = g()\n'
    assert placed(new, "rv.log", old, 2).text == 'if go:\n    a = f()\n    rv.log("a", """x\n  y""" + a)\n    b = g()\n'


def test_a_value_that_comes_later_is_missing() -> None:
    old = "def f(x):\n    a = g(x)\n    use(a)\n    b = h(x)\n    return b\n"
    new = "def f(x):\n    b = h(x)\n    a = g(x)\n    rv.log('b', b)\n    use(a)\n    return b\n"
    assert "`b` has no value there yet" in refused(new, "rv.log", old).why
    loop = "for i in x:\n    a = g(i)\n    use(a)\n    b = h(i)\n"
    new = "for i in x:\n    b = h(i)\n    a = g(i)\n    rv.log('b', b)\n    use(a)\n"
    assert "`b` gets its value only behind" in refused(new, "rv.log", loop).why  # it would be that of the time before
    new = "for i in x:\n    a = g(i)\n    rv.log('b', b)\n    use(a)\n    b = h(i)\n"
    assert "rv.log" in placed(new, "rv.log", loop).text  # as it is here


def test_a_way_to_print_is_the_builtin_where_there_is_none() -> None:
    new = "def tell(*args):\n    if first():\n        print(*args)\n\n\na = f()\ntell('a', a)\nuse(a)\n"
    found = placed(new, "tell('a'", "a = f()\nuse(a)\n")
    assert found.text == "a = f()\nprint('a', a)\nuse(a)\n"
    assert not found.certain


def test_nothing_is_put_behind_a_jump() -> None:
    new = "for x in rows:\n    if x:\n        rv.log('x', x)\n"
    old = "for x in rows:\n    if x:\n        break\n"
    assert placed(new, "rv.log", old).text == "for x in rows:\n    if x:\n        rv.log('x', x)\n        break\n"


def test_with_the_neighbour_it_is_next_to_in_the_text() -> None:
    """The old version has something between the two neighbours: it stays with the one that no blank line parts it from."""
    new = "a = f()\nrv.log('a', a)\n\nb = g()\n"
    assert placed(new, "rv.log", "a = f()\nwork(1)\nb = g()\n").text == "a = f()\nrv.log('a', a)\nwork(1)\nb = g()\n"
    new = "a = f()\n\nrv.log('n', 1)\nb = g()\n"
    assert placed(new, "rv.log", "a = f()\nwork(1)\nb = g()\n").text == "a = f()\nwork(1)\nrv.log('n', 1)\nb = g()\n"
    assert "equally good" in refused("a = f()\nrv.log('a', a)\nb = g()\n", "rv.log", "a = f()\nwork(1)\nb = g()\n").why


def test_among_log_statements_any_order_is_as_good() -> None:
    found = placed("a = f()\nrv.log('a', a)\nb = g()\n", "rv.log", "a = f()\nprint('one')\nprint('two')\nb = g()\n")
    assert not found.certain
    old = "a = f()\nif verbose:\n    print('one')\nb = g()\n"
    assert "equally good" in refused("a = f()\nprint('a', a)\nb = g()\n", "print('a'", old).why


def test_behind_what_a_block_imports() -> None:
    new = "if go:\n    rv.log('n', 1)\n\n    a = f()\n"
    found = placed(new, "rv.log", "if go:\n    import x\n    import y\n\n    a = f()\n")
    assert found.text == "if go:\n    import x\n    import y\n\n    rv.log('n', 1)\n    a = f()\n"


def test_into_an_empty_block_that_is_surely_the_same() -> None:
    new = "if rows is None:\n    rv.log('n', 0)\n    total = None\nelse:\n    use(rows)\n"
    old = "if rows is None:\n    pass\nelse:\n    use(rows)\n"
    assert "    rv.log('n', 0)\n" in placed(new, "rv.log", old).text


def test_statements_next_to_it_tell_by_what_to_print() -> None:
    tell = "def tell(*args):\n    if first():\n        print(*args)\n\n\n"
    new = tell + "a = f()\ntell('the first', a)\ntell('a', a)\nb = g(a)\n"
    old = tell + "tell('begin')\na = f()\nprint('the first', a)\nb = g(a)\n"
    found = placed(new, "tell('a'", old)
    assert "\nprint('a', a)\n" in found.text
    assert found.renamed == {"tell": "print"}
    assert not found.certain


def test_the_logger_of_the_old_version_stands_for_one_it_lacks() -> None:
    new = "import logging\nLOGGER = logging.getLogger('x')\na = f()\nLOGGER.info('a %s', a)\nuse(a)\n"
    found = placed(new, "LOGGER.info", "import logging\nlog = logging.getLogger('x')\na = f()\nuse(a)\n")
    assert "\nlog.info('a %s', a)\n" in found.text
    found = placed(new, "LOGGER.info", "import logging\na = f()\nuse(a)\n")
    assert "\nlogging.info('a %s', a)\n" in found.text
    assert not found.certain
    two = "import tools\nif go:\n    log, out = 1, 2\n    log = tools.get_logger(3)\n    out = tools.get_logger(4)\na = f()\nuse(a)\n"
    assert "`LOGGER`" in refused(new, "LOGGER.info", two).why


def test_a_neighbour_that_went_to_another_block() -> None:
    new = "for k in range(n):\n    y = model.generate(k)\n    show(decode(y[0].tolist()), width)\n    rv.log('k', k)\n"
    old = "for k in range(n):\n    y = model.generate(k)\nshow(enc.decode(y[0].tolist()), width)\n"
    refused(new, "rv.log", old)


def test_certain_at_the_edge_of_a_block_only_if_the_file_is_hardly_changed() -> None:
    rest = "".join(f"v{number} = w{number}(1)\n" for number in range(9))
    other = "".join(f"v{number} = [z{number}, {number}]\n" for number in range(9))
    body = "def f(x):\n    a = g(x)\n    b = h(a)\n"
    new = body + "    rv.log('b', b)\n\n\n" + rest
    assert placed(new, "rv.log", body + "\n\n" + rest).certain
    changed = placed(new, "rv.log", body + "\n\n" + other)
    assert not changed.certain
    assert "edge of its block" in changed.why


def test_cells_that_wait_outside_of_functions_take_what_travels_along() -> None:
    old = "import rv\nawait soon()\n\n\ndef step(w):\n    g = w - 1\n    return w - g\n"
    new = old.replace("import rv", "import math\nimport rv").replace("    return", "    rv.log('size', math.sqrt(g))\n    return")
    found = propagate(new, 8, None, old)
    assert isinstance(found, Placed), found
    assert found.carried == ("import math",)
    assert found.text.replace("import math\n", "", 1) == new.replace("import math\n", "", 1)


def test_apart_from_its_neighbours_where_there_is_one_gap() -> None:
    new = "def f(a):\n    x = read(a)\n    if a.fast:\n        y = quick(x)\n\n    rv.log('x', x)\n\n    return finish(x)\n"
    old = "def f(a):\n    x = read(a)\n    return finish(x)\n"
    assert placed(new, "rv.log", old).text == "def f(a):\n    x = read(a)\n    rv.log('x', x)\n    return finish(x)\n"
    with_another = "def f(a):\n    x = read(a)\n    count = 0\n    return finish(x)\n"
    assert "apart" in refused(new, "rv.log", with_another).why
    headed = new.replace("    rv.log", "    # what was read\n    rv.log")
    assert "apart" in refused(headed, "rv.log", old).why, "a paragraph with a heading belongs to neither neighbour"


def test_a_neighbour_in_a_block_of_its_own_decides_only_if_it_is_the_next() -> None:
    old = "for e in range(9):\n    m = score(e)\n    if rank == 0:\n        table.flush()\n"
    new = "for e in range(9):\n    m = score(e)\n    rv.log('m', m)\n    table.write(m)\n    table.flush()\n"
    assert placed(new, "rv.log", old).text == old.replace("    if", "    rv.log('m', m)\n    if")
    assert "block of its own" in refused(new.replace("    table.write(m)\n", ""), "rv.log", old).why


def test_at_the_edge_of_another_block_behind_what_is_the_same() -> None:
    new = "def report(m):\n    total = summarise(m, 'all')\n    rv.log('total', total)\n    send(total)\n\n\ndef main(m):\n    report(m)\n"
    old = "def main(m):\n    total = summarise(m, 'all')\n    close(m)\n"
    assert placed(new, "rv.log", old).text == old.replace("    close", "    rv.log('total', total)\n    close")


def test_behind_a_jump_with_no_other_neighbour() -> None:
    new = "while True:\n    wait(1)\n    value = 3\n    break\n    rv.log('x', 1)\n"
    assert "nothing runs behind" in refused(new, "rv.log", "while True:\n    wait(1)\n    break\n").why


def test_next_to_neither_of_two_neighbours() -> None:
    new = "def f(a):\n    x = read(a)\n\n    rv.log('t', time.time())\n    # the rest\n    return finish(x)\n"
    old = "def f(a):\n    x = read(a)\n    count = 0\n    return finish(x)\n"
    assert "equally good" in refused("import time\n" + new, "rv.log", "import time\n" + old).why
    next_to_it = new.replace("(a)\n\n", "(a)\n")
    assert placed("import time\n" + next_to_it, "rv.log", "import time\n" + old).text.splitlines()[3].strip().startswith("rv.log")


def test_a_way_to_print_of_its_own_is_never_certain() -> None:
    both = "def print0(s, quiet=False):\n    if not quiet:\n        print(s)\n\n\ndef f(a):\n    x = read(a)\n    return x\n"
    found = placed(with_lines(both, "x = read", "print0(x)"), "print0(x)", both)
    assert not found.certain
    assert "whether it tells by `print0`" in found.why
    assert not placed(with_lines(both, "x = read", "print(x)"), "print(x)", both).certain
    assert placed(with_lines(both, "x = read", "rv.log('x', x)"), "rv.log", both).certain
    title = both.replace("print(s)", "print('now', s)")
    assert placed(with_lines(title, "x = read", "print(x)"), "print(x)", title).certain, "a function that prints is no way to print"


def test_what_tells_in_a_row_stays_together() -> None:
    new = "with ctx:\n    for k in range(9):\n        y = draw(k, 'all')\n    print(y.text)\n    print('-' * 9)\n"
    old = "for k in range(9):\n    with ctx:\n        y = draw(k, 'all')\n    print(y.text)\n"
    assert placed(new, "'-' * 9", old).text == old + "    print('-' * 9)\n"
    apart = new.replace("    print('-'", "\n    print('-'")
    assert isinstance(propagate(apart, 6, None, old), Refused), "a blank line parts them"


def test_what_tells_in_a_row_is_not_parted_at_the_edge_of_a_block() -> None:
    new = "for row in rows['done']:\n    if row is None:\n        continue\n    print(row['size'])\n    print('name of it', row['name'])\n"
    old = "for item in row:\n    if 'name' in item.keys():\n        print('name of it', item['name'])\n        break\n"
    found = placed(new, "'size'", old)
    assert found.text == old.replace("        print(", "        print(item['size'])\n        print(", 1)
    assert not found.certain


def test_a_name_that_the_version_reads_and_nowhere_binds_is_given_from_outside() -> None:
    new = "table = open_table()\nfor e in range(9):\n    m = score(e)\n    table.add('m', m)\n    table.add('double of m', 2 * m)\n"
    old = "for e in range(9):\n    m = score(e)\n    table.add('m', m)\n"
    found = placed(new, "double", old)
    assert found.text == old + "    table.add('double of m', 2 * m)\n"
    assert not found.certain
    local = old + "\n\ndef other():\n    table = []\n    return table\n"
    assert "no `table`" in refused(new, "double", local).why, "it is another one's"


@pytest.mark.parametrize(
    "lines",
    [
        ["loss = loss + 7", 'rv.log("loss", loss)'],
        ["net.seen = 1", 'rv.log("seen", net.seen)'],
        ["net.eval()", 'rv.log("again", net(x, y))', "net.train()"],
        ["refresh()", 'rv.log("loss", loss)'],
        ["if loss > 5:", "    continue", 'rv.log("loss", loss)'],
        ['rv.log("seen", net.seen)', "net.seen = 1"],
    ],
)
def test_what_was_written_next_to_it_and_stays_behind_makes_it_doubtful(lines: list[str]) -> None:
    old = OLD.replace("0.1", "0.2")
    found = placed(with_lines(OLD, "loss = net", *lines), "rv.log", old)
    assert not found.certain
    assert "and is not there" in found.why, found.why
    line = next(number for number, text in enumerate(old.splitlines(), 1) if "loss = net" in text)
    new = with_lines(OLD, "loss = net", *lines)
    at = next(number for number, text in enumerate(new.splitlines(), 1) if "rv.log" in text)
    by_hand = propagate(new, at, None, old, line)
    assert isinstance(by_hand, Placed) and by_hand.certain, "somebody said so"


@pytest.mark.parametrize(
    "lines",
    [
        ["epoch_name = str(epoch)", 'rv.log("loss", loss)'],
        ["print(loss)", 'rv.log("loss", loss)'],
        ["twice = 2 * loss", 'rv.log("twice", twice)'],
        ['rv.log("loss", loss)', "opt.clip()"],
    ],
)
def test_what_changes_nothing_that_it_reads_does_not(lines: list[str]) -> None:
    found = placed(with_lines(OLD, "loss = net", *lines), "rv.log", OLD.replace("0.1", "0.2"))
    assert "is not there" not in found.why


def test_beside_a_line_of_statements_that_only_tell() -> None:
    old = "for i in x:\n    a = f(i)\n    rv.log('a', a); rv.log('i', i)\n    g(a)\n"
    last = placed("for i in x:\n    a = f(i)\n    rv.log('a', a)\n    rv.log('i', i)\n    rv.log('b', 2)\n    g(a)\n", "'b'", old)
    assert last.text == old.replace("    g(a)", "    rv.log('b', 2)\n    g(a)")
    between = placed("for i in x:\n    a = f(i)\n    rv.log('a', a)\n    rv.log('b', 2)\n    rv.log('i', i)\n    g(a)\n", "'b'", old)
    assert between.text == last.text
    new = "for i in x:\n    a = f(i)\n    rv.log('a', a)\n    rv.log('i', i)\n    rv.log('b', 2)\n"
    end = placed(new, "'b'", old.replace("    g(a)\n", ""))
    assert end.text.endswith("rv.log('i', i)\n    rv.log('b', 2)\n")


def test_in_a_line_of_statements_that_do_something_there_is_no_place() -> None:
    assert "shares a line" in refused("a = f()\nrv.log('a', a)\nb = g()\nh(b)\n", "rv.log", "a = f(); b = g()\nh(b)\n").why
