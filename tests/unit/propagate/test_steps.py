"""Where a statement goes by other evidence than the words next to it: comments, what is called, what is told in a row, what is read."""

from __future__ import annotations

from rearview.propagate.place import Placed, Refused, propagate


def asked(new: str, old: str, mark: str = "rv.log") -> Placed | Refused:
    return propagate(new, 1 + next(k for k, line in enumerate(new.splitlines()) if mark in line), None, old)


def without(text: str, mark: str = "rv.log") -> str:
    return "".join(line for line in text.splitlines(keepends=True) if mark not in line)


def placed(new: str, old: str, mark: str = "rv.log") -> Placed:
    """The old version with a line cut out gets it back, where it was; none of this evidence makes a place certain."""
    found = asked(new, without(old, mark), mark)
    assert isinstance(found, Placed), found
    assert found.text == old
    assert not found.certain
    return found


def test_before_what_the_same_comment_heads() -> None:
    new = """\
def finish(run, total, wanted):
    print("it has come to its end", total)
    rv.log("total", total)

    # write the report of the whole run
    from report import writer
    writer().write(run)
"""
    old = """\
def finish(run, total, wanted):
    print("it has come to its end", total)
    rv.log("total", total)

    # write the report of the whole run
    if wanted:
        from report import writer
        writer().write(run)
"""
    placed(new, old)
    other = old.replace("# write the report of the whole run", "# what is left to do")
    assert isinstance(asked(new, without(other)), Refused)


def test_behind_what_the_same_comment_heads() -> None:
    new = """\
def begin(args):
    # the plan that all of the workers share
    shared_plan(args.path, workers=args.workers, seed=args.seed)
    rv.log("begins", args)
"""
    old = """\
def begin(args):
    # the plan that all of the workers share
    plan_of(args.file, args.seed)
    rv.log("begins", args)
"""
    placed(new, old)
    assert isinstance(asked(new, without(old.replace("    # the plan that all of the workers share\n", ""))), Refused)


def test_a_comment_that_heads_the_statement_itself_is_no_evidence() -> None:
    new = "def f(a):\n    b = first(a)\n    # how large the batch is by now\n    rv.log('size', len(a))\n    c = second(a)\n    return c\n"
    old = "def f(a):\n    other(a)\n    # how large the batch is by now\n    third(a)\n    return 3\n"
    assert isinstance(asked(new, old), Refused)


def test_behind_the_call_of_a_function_that_has_another_name() -> None:
    body = """\
    for epoch in range(3):
        for batch in data.batches(epoch):
            loss = model.loss(batch)
            loss.backward()
            model.step(batch)
        model.save(epoch)
"""
    new = f"""\
def fit(model, data, devices):
{body}

def main(args):
    begin = clock()
    fit(load(args.checkpoint), Loader(args.data, workers=4), devices=args.devices)
    rv.log("took", clock() - begin)
    write(args.out)
"""
    old = f"""\
def train(model, data):
{body}

def main(args):
    begin = clock()
    train(made, read)
    rv.log("took", clock() - begin)
    keep(args)
"""
    placed(new, old)


def test_in_front_of_the_statement_that_tells_with_it() -> None:
    new = """\
def main(args):
    if leader():
        rv.log("begin", args.seed)
        rv.log("batch size of all", args.batch)
    run(args)
"""
    old = """\
def main(args):
    files = sorted(args.files)
    count = len(files)
    rv.log("begin", args.seed)
    rv.log("batch size of all", args.batch)
    for one in files:
        work(one)
"""
    placed(new, old, '"begin"')


def test_under_the_condition_of_the_statement_that_tells_with_it() -> None:
    new = """\
def main(args):
    steps = args.total // args.each
    rv.log("total in all", args.total)
    rv.log("steps", steps)

    kind = kinds[args.kind]
    run(kind)
"""
    old = """\
def main(args):
    steps = args.total // args.each
    if leader():
        rv.log("total in all", args.total)
        rv.log("steps", steps)

    kind = kinds[args.kind]
    run(kind)
"""
    placed(new, old, '"steps"')


def test_the_first_of_its_block_is_the_first() -> None:
    new = """\
for i, node in enumerate(nodes):
    rv.log("node", node)
    made = combine(node, sizes)
    keep(made)
"""
    placed(new, new.replace("    made", "    ratio = node.ratio\n    made"))


def test_behind_the_last_statement_that_gives_its_value() -> None:
    new = """\
def device():
    if cuda():
        kind = "cuda"
    elif mps():
        kind = "mps"
    else:
        kind = "cpu"
    rv.log("kind", kind)
    return kind
"""
    old = """\
def device():
    if cuda():
        kind = "cuda"
    if mps():
        kind = "mps"
    kind = kind or "cpu"
    rv.log("kind", kind)
    return kind
"""
    placed(new, old)


def test_behind_a_block_of_the_same_head() -> None:
    new = """\
def save(images, folder):
    for i, image in enumerate(sorted(images)):
        write(image, folder / f"{i}.png", normal=True)
        with open(folder / "caption.txt", "w") as file:
            file.write(image.name)
    rv.log("folder", folder)
"""
    old = """\
def save(images, folder):
    for i, image in enumerate(sorted(images)):
        image.keep()
    rv.log("folder", folder)
"""
    placed(new, old)
    other = old.replace("enumerate(sorted(images))", "pairs(images)").replace("i, image", "image")
    assert isinstance(asked(new, without(other)), Refused)


def test_behind_what_gives_its_value_in_another_block() -> None:
    new = """\
def measure(model, size):
    with device("meta"):
        plain = Plain(model.config)
        flops = estimate(plain, training=True, parts=plain.parts) * size
        rv.log("flops", flops)
        x = noise(size)
        del x
    return 1
"""
    old = """\
def measure(model, size):
    check(model)
    flops = estimate(model) * size
    rv.log("flops", flops)
    if model.plain:
        keep(model)
    return 2
"""
    placed(new, old)


def test_what_stands_next_to_it_says_what_it_reads() -> None:
    new = """\
def train(net, data):
    for i, x in enumerate(data):
        loss = net(x)
        loss.backward()
        mean = backend.average(loss)
        if i % 10 == 0:
            rv.log("loss", mean.item())
            row = {"epoch": 1, "iter": i, "loss": mean.item()}
            send(row)
"""
    old = """\
def train(net, data):
    for i, x in enumerate(data):
        loss = net(x)
        loss.backward()
        if i % 10 == 0:
            rv.log("loss", loss.item())
            row = {"epoch": 1, "iter": i, "loss": loss.item(), "lr": net.lr}
            send(row)
"""
    assert placed(new, old).renamed == {"mean": "loss"}
    both = new.replace('"loss", mean.item()', '"both", mean.item(), loss.item()')
    assert isinstance(asked(both, without(old)), Refused)


def test_a_label_next_to_it_says_what_it_reads_where_nothing_there_gives_it() -> None:
    new = """\
def play(envs, step):
    step += 1
    for info in envs.infos():
        if "episode" in info:
            rv.log("return", info["r"], step)
            writer.add_scalar("charts/reward", info["r"], step)
            break
    return step
"""
    old = """\
def play(envs, step, done):
    step += 1
    for info in envs.infos():
        if "episode" in info:
            done += info["l"]
            rv.log("return", info["r"], done)
            writer.add_scalar("charts/reward", info["r"], done)
    return step
"""
    assert placed(new, old).renamed == {"step": "done"}


def test_operands_in_another_order_say_what_a_variable_is_called() -> None:
    new = """\
def update(args, batch):
    first = policy(batch).mean()
    extra = spread(batch)
    second = values(batch).clamp(1).mean()
    loss = first - args.spread_part * extra + second * args.value_part
    loss.backward()
    rv.log("value", second)
"""
    old = """\
def update(args, batch):
    one = batch.gain.sum()
    two = (batch.v - batch.r).pow(2)
    extra = spread(batch)
    loss = one + args.value_part * two + args.spread_part * extra
    loss.backward()
    rv.log("value", two)
"""
    assert placed(new, old).renamed == {"second": "two"}


def test_operands_that_share_nothing_are_taken_in_their_order() -> None:
    new = """\
def step(model, x, target):
    error = model.fit(x, target)
    rv.log("loss", error * error)
    rv.log("size", abs(error))
"""
    old = """\
def step(model, x, target):
    guess = w * x + b
    miss = guess - target
    rv.log("loss", miss * miss)
"""
    found = asked(new, old, "size")
    assert isinstance(found, Placed), found
    assert 'rv.log("size", abs(miss))' in found.text
