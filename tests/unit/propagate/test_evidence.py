"""Where a statement goes when what is around it was rewritten: conditions turned round, other ways to give a variable its value."""

from __future__ import annotations

from rearview.propagate.place import Placed, Refused, propagate

GUARD = """\
def play(env, steps):
    for step in range(steps):
        infos = env.step(step)
        for info in infos:
            if info is None:
                continue
            rv.log("return", info["episode"])
        env.render()
"""
NESTED = """\
def play(env, steps):
    for step in range(steps):
        infos = env.step(step)
        for info in infos:
            if "episode" in info:
                rv.log("return", info["episode"])
                break
        env.render()
"""


def asked(new: str, old: str, mark: str = "rv.log") -> Placed | Refused:
    return propagate(new, 1 + next(k for k, line in enumerate(new.splitlines()) if mark in line), None, old)


def without(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "rv.log" not in line)


def placed(new: str, old: str) -> Placed:
    """The old version with its `rv.log` cut out gets it back, where it was."""
    found = asked(new, without(old))
    assert isinstance(found, Placed), found
    assert found.text == old
    assert not found.certain
    return found


def test_behind_a_guard_that_was_a_condition() -> None:
    found = placed(GUARD, NESTED)
    assert "line 5" in found.why


def test_in_a_condition_that_was_a_guard() -> None:
    placed(NESTED, GUARD)


def test_behind_a_guard_the_variable_of_the_loop_has_another_name() -> None:
    old = NESTED.replace("info in infos", "item in infos").replace("in info:", "in item:").replace('info["', 'item["')
    assert placed(GUARD, old).renamed == {"info": "item"}


def test_no_condition_is_turned_round_that_asks_about_something_else() -> None:
    old = without(NESTED).replace('"episode" in info', "env.closed")
    assert isinstance(asked(GUARD, old), Refused)


def test_what_gives_the_variable_its_value_is_a_neighbour_however_it_is_written() -> None:
    new = """\
def fit(model, opt):
    for epoch in range(3):
        loader = make_iter(lazily(opt.train), opt)
        stats = model.trainer.train(loader, epoch, report)
        rv.log("ppl", stats.ppl())
        valid = model.trainer.validate(make_iter(lazily(opt.valid), opt))
"""
    old = """\
def fit(model, opt):
    for epoch in range(3):
        stats = one_epoch(epoch)
        rv.log("ppl", stats.ppl())
        score = evaluate(model, opt.data)
"""
    placed(new, old)


def test_one_of_several_statements_that_give_the_value_is_no_such_neighbour() -> None:
    new = "def show(model, z):\n    x = model.decode(z)\n    rv.log('shape', x.shape)\n    im = picture(x)\n    im.save('a')\n"
    old = "def show(model, z):\n    x = model.stage.conv(0.5 * z)\n    x = model.stage.out(x)\n    x = x / 2\n    im = picture(x)\n"
    found = asked(new, old)
    assert isinstance(found, Refused) or found.lines[0] > 4


def test_only_the_whole_condition_gives_the_value() -> None:
    new = "def main(args):\n    trainer = Trainer(args, args.batch)\n    rv.log('gpus', args.gpus)\n    steps = trainer.load(args.path)\n"
    old = """\
def main(args):
    if args.fp16:
        trainer = HalfTrainer(args)
    else:
        trainer = Trainer(args)
    rv.log('gpus', args.gpus)
    count = load(args.path, trainer)
"""
    placed(new, old)


def test_where_a_name_is_imported_does_not_matter() -> None:
    new = """\
def score(self, data):
    if self.wanted:
        from tools.judging import Judge
        rv.log("size", len(data))
        self.judge = Judge(data, self.size)
"""
    old = """\
from tools.judging import Judge


def score(self, data):
    if self.wanted:
        rv.log("size", len(data))
        self.judge = Judge(data, self.size)
"""
    placed(new, old)


def test_a_variable_that_gets_its_value_there_only_later_in_the_loop_is_waited_for() -> None:
    new = """\
def run(data):
    for i, batch in enumerate(data):
        rate = speed(batch)
        text = " ".join(f"{n}: {m}" for n, m in batch.items())
        rv.log("line", (rate, text))
        send(i, batch.done)
"""
    old = """\
def run(data):
    for i, batch in enumerate(data):
        text = " ".join(f"{n}: {m}" for n, m in batch.items())
        rate = speed(batch, i)
        rv.log("line", (rate, text))
"""
    placed(new, old)


def test_it_is_not_placed_before_a_variable_gets_its_value_in_the_loop() -> None:
    new = "for batch in data:\n    rate = speed(batch)\n    prepare(batch, 1)\n    rv.log('rate', rate)\n    finish(batch, 2)\n"
    old = "for batch in data:\n    prepare(batch, 1)\n    finish(batch, 2)\n    end(batch)\n    rate = speed(batch)\n"
    found = asked(new, old)
    assert isinstance(found, Refused)
    assert "`rate` gets its value only behind" in found.why


def test_without_what_changes_it_and_into_another_gap_it_is_refused() -> None:
    new = """\
def save(net, args):
    path = join(args.out, net.name)
    if args.several:
        path = split(path, net)
        store(net.module, path)
    rv.log("path", path)
    end = clock(args.start)
"""
    old = """\
def save(net, args):
    path = join(args.out, net.name)
    keep(args.more)
    check(net)
    end = clock(args.start)
"""
    found = asked(new, old)
    assert isinstance(found, Refused)
    assert "line 3 of the new version" in found.why


def test_of_two_neighbours_that_changed_places_the_one_in_its_paragraph_decides() -> None:
    new = """\
def main(args):
    global data

    sound = Sound(args.audio, args.rate)

    rv.log("path", args.path)
    data = load(args.path, args.split)

    model = setup(args, sound)
"""
    old = """\
def main(args):
    global data

    rv.log("path", args.path)
    data = load(args.path, args.split)

    sound = Sound(args.audio, args.rate)

    model = setup(args, sound)
"""
    found = asked(new, without(old))
    assert isinstance(found, Placed)
    assert found.text.index("global") < found.text.index("rv.log") < found.text.index("data = load")


def test_at_the_end_of_another_block_it_may_as_well_stand_behind_it() -> None:
    new = "with guard():\n    for k in range(count):\n        y = model.generate(x, size, top=top)\n        rv.log('line', k)\n"
    old = "for k in range(1):\n    with guard():\n        with half(device):\n            y = model.generate(x, 300, top=200)\n"
    found = asked(new, old)
    assert isinstance(found, Refused)


def test_a_log_of_the_same_name_says_what_the_variable_is_called() -> None:
    new = """\
import rearview as rv


def train(net, data):
    for x in rv.loop("step", data):
        loss = net.step(x)
        rv.log("val", loss)
        rv.log("twice", loss * 2)
        net.end(x)
"""
    old = """\
import rearview as rv


def train(net, data):
    for x in rv.loop("step", data):
        loss = net.aux(x)
        total = net.step(x, loss)
        rv.log("val", total)
        net.end(x)
"""
    found = asked(new, old, '"twice"')
    assert isinstance(found, Placed)
    assert found.renamed == {"loss": "total"}
    against = asked(new, old.replace("net.step(x, loss)", "net.other(x)"), '"twice"')
    assert isinstance(against, Refused)
    assert "has `total` for `loss`" in against.why


def test_a_refusal_says_what_is_missing_and_where() -> None:
    new = "def f(a):\n    x = read(a)\n    rv.log('x', 1)\n    y = write(a)\n    return y\n"
    old = "def f(a):\n    first(a)\n    second(a)\n    return 3\n"
    found = asked(new, old)
    assert isinstance(found, Refused)
    assert "line 2, `x = read(a)`" in found.why or "line 1, `def f(a):`" in found.why
    between = asked("a = f()\nrv.log('a', a)\nb = g()\n", "a = f()\nwork(1)\nb = g()\n")
    assert isinstance(between, Refused)
    assert "before line 2 and before line 3" in between.why


END = """\
def train(loader):
    for batch in loader:
        step(batch)
        rv.log("batch", batch)
"""


def test_the_last_of_a_block_that_goes_on_in_the_old_version_may_be_its_last_there_too() -> None:
    old = END.replace('rv.log("batch", batch)', "schedule()")
    found = asked(END, old)
    assert isinstance(found, Refused)
    assert "equally good" in found.why
    assert found.candidates == (4, 5)


def test_the_last_of_a_block_stays_behind_what_gives_it_its_value() -> None:
    new = END.replace("step(batch)", "loss = step(batch)").replace("batch)\n", "loss)\n").replace("step(loss)", "step(batch)")
    placed(new, new + "        schedule()\n")


def test_the_last_of_a_block_stays_behind_what_it_tells_in_a_row_with() -> None:
    new = END.replace("        rv.log", '        print("a batch is done", batch)\n        rv.log')
    placed(new, new + "        schedule()\n")


def test_the_last_of_a_block_goes_in_front_of_nothing_but_the_return() -> None:
    new = 'def train(x):\n    step(x)\n    rv.log("x", x)\n'
    found = asked(new, "def train(x):\n    step(x)\n    return 1\n")
    assert isinstance(found, Placed), found
    assert found.text.splitlines()[2] == '    rv.log("x", x)'


def test_what_reads_nothing_is_not_certain_at_the_edge_of_its_block() -> None:
    """Its place is all that it tells, and one neighbour all that tells its place."""
    around = "def main(args):\n    if args.go:\n        rv.log('n', {0})\n        a = f(args)\n        g(a)\n    h(args)\n"
    for value, certain in (("1", False), ("args.n", True), ("size()", True)):
        new = around.format(value)
        found = asked(new, without(new))
        assert isinstance(found, Placed), found
        assert found.text == new
        assert found.certain == certain, (value, found.why)
    inner = "def main(args):\n    f(args)\n    rv.log('n', 1)\n    g(args)\n"
    between = asked(inner, without(inner))
    assert isinstance(between, Placed)
    assert between.certain


def test_in_one_of_several_loops_of_one_name_it_is_not_certain() -> None:
    loop = "    for epoch in rv.loop('epoch', range(3)):\n        total += step(epoch)\n        rv.log('n', total)\n        show(total)\n"
    head = "import rearview as rv\n\n\ndef train(total):\n"
    new, twice = head + loop, head + loop + loop.replace("3", "5")
    for old, certain in ((new, True), (twice, False)):
        found = asked(new, without(old))
        assert isinstance(found, Placed), found
        assert found.certain == certain
    assert "there are 2 loops `epoch` there" in str(found.why)
    again = asked(twice, without(twice))
    assert isinstance(again, Placed)
    assert again.certain
