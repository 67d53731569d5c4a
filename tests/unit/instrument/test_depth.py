"""Where statements run: marked lines `# @ expected` in small programs."""

from __future__ import annotations

import re
import sys
import textwrap

import pytest

from rearview.instrument.depth import Depth, depths, union

_MARK = re.compile(r"# @ (.*)$")


def shown(depth: Depth) -> str:
    if depth.whole:
        return "whole"
    kinds = [kind for kind in ("prefix", "before", "after", "suffix") if getattr(depth, kind)]
    return " ".join([*kinds, *(f"nested:{name}" for name in sorted(depth.nested))])


def check(files: dict[str, str], entry: str | None = None) -> None:
    """Every marked line has the depth that stands there, and says why if it is not known."""
    texts = {path: textwrap.dedent(text) for path, text in files.items()}
    marked = [
        (path, number, found.group(1).strip())
        for path, text in texts.items() for number, line in enumerate(text.splitlines(), 1) if (found := _MARK.search(line))
    ]  # fmt: skip
    assert marked
    answers = depths(texts, [(path, number) for path, number, _ in marked], entry)
    assert {(path, number): shown(answer) for (path, number, _), answer in zip(marked, answers, strict=True)} == {
        (path, number): expected for path, number, expected in marked
    }
    assert all(answer.why for answer in answers if answer.whole)


def test_at_module_level() -> None:
    check({"train.py": """
        import rearview as rv
        a = 1  # @ prefix
        with rv.checkpointing(a=a):
            b = 1  # @ prefix
            for epoch in rv.loop("epoch", range(3)):
                c = 1  # @ before
                for step in rv.loop("step", range(3)):
                    d = 1  # @ nested:step
                    if d:
                        e = 1  # @ nested:step
                    for x in rv.loop("deep", []):
                        f = 1  # @ nested:step
                    for x in []:
                        f = 1  # @ nested:step
                g = 1  # @ after
                for i in rv.loop("val", range(3)):
                    h = 1  # @ nested:val
                j = 1  # @ after
            k = 1  # @ suffix
        m = 1  # @ suffix
    """})  # fmt: skip


def test_in_functions_and_where_they_are_called() -> None:
    check({"train.py": """
        import rearview as rv
        from lib import norm, once, tools
        import lib

        def both(net):
            return net  # @ after nested:step

        def never(net):
            return net  # @ whole

        def train(net):
            x = 1  # @ before
            for step in rv.loop("step", range(3)):
                both(net)
                norm(net)
            return x  # @ after

        def main():
            net = 1  # @ prefix
            with rv.checkpointing(net=net):
                for epoch in rv.loop("epoch", range(3)):
                    once()
                    train(net)
                    both(net)
                    lib.report(net)
            lib.report(net)

        if __name__ == "__main__":
            main()
    """, "lib.py": """
        T = 1  # @ prefix
        def norm(net):
            return helper(net)
        def helper(net):
            return net  # @ nested:step
        def once():
            return 1  # @ before
        def report(net):
            return 1  # @ after suffix
        if __name__ == "__main__":
            norm(1)
    """}, "train.py")  # fmt: skip


def test_a_trainer_whose_model_has_the_same_method() -> None:
    check({"train.py": """
        import rearview as rv
        from tqdm import tqdm
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                self.a = 1  # @ prefix
            def forward(self, x):
                return x  # @ whole
            def loss(self, x):
                return x  # @ nested:step

        class Trainer:
            def __init__(self, model):
                self.model = model  # @ prefix
            def train(self):
                with rv.checkpointing(trainer=self):
                    for self.epoch in rv.loop("epoch", range(3)):
                        self.model.train()  # @ before
                        self.train_epoch()
                        self.test()  # @ after
            def train_epoch(self):
                bar = tqdm(rv.loop("step", enumerate(self.loader)), total=3)
                for i, x in bar:
                    self.step(x)
                    self.optimizer.step()
                    self.model.loss(x)
            def step(self, x):
                return x  # @ nested:step
            def test(self):
                return sum(self.one(x) for x in self.loader)  # @ after
            def one(self, x):
                return x  # @ after
            def on_end(self):
                return 1  # @ whole

        trainer = Trainer(Net())
        trainer.train()
        done = 1  # @ suffix
    """})  # fmt: skip


@pytest.mark.parametrize(
    ("definition", "use"),
    [
        ("def f(x):", "net.register_hook(f)"),
        ("def f(x):", "threading.Thread(target=f)"),
        ("def f(x):", "g = functools.partial(f, 1)"),
        ("def f(x):", "table = {'f': f}"),
        ("def f(x):", "getattr(net, 'f')(1)"),
        ("def f(x):", "h = lambda: f(1)"),
        ("def f(x):", "items = (f(y) for y in net)"),
        ("def f(x):", "eval(text)"),
        ("@register\ndef f(x):", "1"),
        ("def f(x):\n    yield 1\n    if x: yield x", "list(f(1))"),
        ("async def f(x):", "1"),
    ],
)
def test_what_may_run_at_any_time(definition: str, use: str) -> None:
    text = f"import rearview as rv\n{definition}\n    probe = 1  # @ whole\n{use}\nwith rv.checkpointing():\n"
    text += "    for epoch in rv.loop('epoch', range(3)):\n        f(1)\n        ok = 1  # @ before\n"
    check({"train.py": text})


GENERATOR = """
import rearview as rv
def batches():
    for b in rv.loop('b', []):
        yield b
with rv.checkpointing():
    for e in rv.loop('e', []):
        for b in batches():
            x = 1  # @ whole
"""
HOOK = """
import rearview as rv
def hook():
    for b in rv.loop('b', []): pass
register(hook)
with rv.checkpointing():
    for e in rv.loop('e', []):
        x = 1  # @ whole
"""


@pytest.mark.parametrize(
    "text",
    [
        "import rearview as rv\nfor e in rv.loop('e', range(3)):\n    x = 1  # @ whole",
        "import rearview as rv\nwith rv.checkpointing():\n    for e in range(3):\n        x = 1  # @ whole",
        "import rearview as rv\nwith rv.checkpointing():\n    for e in prefetch(rv.loop('e', range(3))):\n        x = 1  # @ whole",
        "import rearview as rv\nwith rv.checkpointing():\n    it = rv.loop('e')\n    while next(it):\n        x = 1  # @ whole",
        "import rearview as rv\nwith rv.checkpointing():\n    f(rv.loop('e', range(3)))\n    x = 1  # @ whole",
        "import rearview as rv\nstack.enter_context(rv.checkpointing())\nfor e in rv.loop('e', range(3)):\n    x = 1  # @ whole",
        "import ours\nwith ours.checkpointing():\n    for e in ours.loop('e', range(3)):\n        x = 1  # @ whole",
        GENERATOR,
        HOOK,
    ],
)
def test_loops_that_cannot_be_followed(text: str) -> None:
    check({"train.py": text})


def test_methods_of_classes_that_come_from_each_other() -> None:
    check({"train.py": """
        import rearview as rv
        class Base:
            def fit(self):
                with rv.checkpointing():
                    for epoch in rv.loop("epoch", []):
                        self.epoch()
            def epoch(self):
                return 1  # @ before
        class Mine(Base):
            def fit(self):
                a = 1  # @ prefix
                super().fit()
                b = 1  # @ suffix
            def epoch(self):
                return 2  # @ before
        class Other:
            def epoch(self):
                return 3  # @ whole
        build(Mine).fit()
        """})  # fmt: skip


def test_a_function_that_calls_itself() -> None:
    check({"train.py": """
        import rearview as rv
        def count(n):
            a = 1  # @ after
            return count(n - 1) if n else 0
        with rv.checkpointing():
            for epoch in rv.loop("epoch", []):
                for step in rv.loop("step", []):
                    pass
                count(3)
    """})  # fmt: skip
    check({"train.py": """
        import rearview as rv
        def count(n):
            a = 1  # @ whole
            steps()
            return count(n - 1) if n else 0
        def steps():
            for step in rv.loop("step", []):
                pass
        with rv.checkpointing():
            for epoch in rv.loop("epoch", []):
                count(3)
    """})  # fmt: skip


def test_files_that_import_each_other() -> None:
    train = "import rearview as rv\nimport lib\nA = 1  # @ prefix\nif __name__ == '__main__':\n    with rv.checkpointing():\n"
    train += "        for e in rv.loop('e', []):\n            lib.f()\n            net.eval()\n            b = 1  # @ before\n"
    lib = "def f():\n    from train import A\n    return A  # @ before\n"
    answers = {"train.py": train.replace("A = 1  # @ prefix", "A = 1  # @ prefix before"), "lib.py": lib}
    check(answers, "train.py")


def test_files_that_the_program_does_not_reach_do_not_matter() -> None:
    check({
        "train.py": "import rearview as rv\nwith rv.checkpointing():\n    for e in rv.loop('e', []):\n        x = 1  # @ before\n",
        "other.py": "import rearview as rv\nconsume(rv.loop('e', []))\n",
        "broken.py": "def f(:\n",
    }, "train.py")  # fmt: skip


def test_a_loop_in_what_is_called_by_a_computed_name() -> None:
    check({
        "train.py": "import rearview as rv, importlib\ntask = importlib.import_module(name)\nwith rv.checkpointing():\n"
        "    for e in rv.loop('e', []):\n        task.run()\n        x = 1  # @ whole\n",
        "task.py": "import rearview as rv\ndef run():\n    for s in rv.loop('s', []):\n        pass\n",
    }, "train.py")  # fmt: skip


def test_a_loop_that_a_variable_holds_stays_open_when_it_is_left_early() -> None:
    text = "import rearview as rv\nwith rv.checkpointing():\n    held = enumerate(rv.loop('e', []))\n    for e in held:\n        {}\n"
    check({"train.py": text.format("x = 1  # @ before")})
    check({"train.py": text.format("x = 1  # @ whole\n        if x: break")})


def test_a_file_that_is_no_python() -> None:
    (depth,) = depths({"a.py": "x = 1\n", "b.py": "def f(:\n"}, [("a.py", 1)])
    assert depth.whole
    assert "b.py" in depth.why


def test_several_main_loops() -> None:
    check({"train.py": """
        import rearview as rv
        a = 1  # @ prefix
        with rv.checkpointing():
            for epoch in rv.loop("warm", range(3)):
                b = 1  # @ before
            c = 1  # @ whole
            for epoch in rv.loop("epoch", range(3)):
                d = 1  # @ before
            e = 1  # @ suffix
        f = 1  # @ suffix
    """})  # fmt: skip


def test_folds_around_it() -> None:
    check({"train.py": """
        import rearview as rv
        a = 1  # @ prefix
        for fold in rv.loop("fold", range(5)):
            b = 1  # @ whole
            with rv.checkpointing():
                for epoch in rv.loop("epoch", range(3)):
                    c = 1  # @ before
            d = 1  # @ whole
        e = 1  # @ whole
    """})  # fmt: skip


def test_branches_plain_loops_and_ways_out() -> None:
    check({"train.py": """
        import rearview as rv
        def main():
            with rv.checkpointing():
                for epoch in rv.loop("epoch", range(3)):
                    if epoch:
                        for step in rv.loop("step", range(3)):
                            if step == 2:
                                return stop()
                    a = 1  # @ before after
                    for part in range(2):
                        b = 1  # @ before after
                        for step in rv.loop("part", range(3)):
                            pass
                    try:
                        c = 1  # @ after before
                    finally:
                        d = 1  # @ after before
        def stop():
            return 1  # @ nested:step
        try:
            main()
            g = 1  # @ suffix
        except KeyboardInterrupt:
            h = 1  # @ prefix suffix
        i = 1  # @ suffix prefix
    """.replace("# @ after before", "# @ before after").replace("# @ suffix prefix", "# @ prefix suffix")})  # fmt: skip


def test_comprehensions_that_are_loops() -> None:
    check({"train.py": """
        import rearview as rv
        def f(x):
            return x  # @ nested:val
        def g(x):
            return x  # @ before
        with rv.checkpointing():
            for epoch in rv.loop("epoch", range(3)):
                all_g = [g(x) for x in range(3)]
                acc = sum(f(x) for x in rv.loop("val", range(3)))
                a = 1  # @ after
    """})  # fmt: skip


def test_blocks_that_may_be_skipped_count_as_nested() -> None:
    check({"train.py": """
        import rearview as rv
        with rv.checkpointing():
            for epoch in rv.loop("epoch", range(3)):
                block = rv.skip_block("train")
                if block.step_into():
                    a = 1  # @ before nested:*
                block.end()
                b = 1  # @ before
    """})  # fmt: skip


def test_cells_run_one_after_the_other() -> None:
    check({
        "cells/0001.py": "import rearview as rv\nfrom lib import f\ndef g():\n    return 1  # @ suffix\n",
        "cells/0002.py": "with rv.checkpointing():\n    for e in rv.loop('e', []):\n        f()\n        x = 1  # @ before\n",
        "cells/0003.py": "g()\ny = 1  # @ suffix\n",
        "lib.py": "def f():\n    return 1  # @ before\n",
    })  # fmt: skip


def test_a_union() -> None:
    total = union([Depth(prefix=True), Depth(nested=frozenset("a")), Depth(nested=frozenset("b"), after=True)])
    assert total == Depth(prefix=True, after=True, nested=frozenset("ab"))


@pytest.mark.parametrize(("functions", "is_followed"), [(150, True), (5000, False)])
def test_calls_that_go_deep(functions: int, is_followed: bool) -> None:
    chain = "".join(f"def f{k}(x):\n    if x:\n        return f{k + 1}(x) + 1\n" for k in range(functions))
    text = (
        f"import rearview as rv\n{chain}def f{functions}(x):\n    return x\n"
        "with rv.checkpointing():\n    for epoch in rv.loop('epoch', range(3)):\n        f0(1)\n"
    )
    limit = sys.getrecursionlimit()
    (found,) = depths({"train.py": text}, [("train.py", text.count("\n"))], "train.py")
    assert found.whole is not is_followed
    assert is_followed or "deeper than can be followed" in found.why
    assert sys.getrecursionlimit() == limit
