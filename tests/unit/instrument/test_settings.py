"""Calls that may change what belongs to a library are found where they run in the loops, and nowhere else."""

from __future__ import annotations

import textwrap

import pytest

from rearview.instrument.settings import settings


def found(step: str, head: str = "") -> list[tuple[str, bool]]:
    text = textwrap.dedent(f"""
        import csv, locale, os, random, torch
        import numpy as np
        import rearview as rv
        from csv import field_size_limit
        from mine import set_mine
        {head}
        with rv.checkpointing():
            for epoch in rv.loop("epoch", range(3)):
                for step in rv.loop("step", range(2)):
                    {step}
        np.set_printoptions(precision=3) if False else None
    """)
    files = {"train.py": text, "mine.py": "import locale\nlocale.setlocale(0, 'C')\ndef set_mine(x):\n    pass\n"}
    return [(one.text, one.sets) for one in settings(files, "train.py") if one.line < text.count("\n")]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("np.set_printoptions(precision=step)", [("np.set_printoptions", True)]),
        ("locale.setlocale(0, 'C') if step else None", [("locale.setlocale", True)]),
        ("before = torch.set_grad_enabled(False)", [("torch.set_grad_enabled", True)]),
        ("field_size_limit(9)", [("field_size_limit", False)]),
        ("csv.field_size_limit(9)", [("csv.field_size_limit", False)]),
        ("limit = csv.field_size_limit()", []),
        ("set_mine(3)", []),
        ("random.setstate(random.getstate())", []),
        ("os.set_blocking(1, True)", []),
        ("both = np.setdiff1d([1], [2])", []),
    ],
)
def test_what_is_called_in_the_loops(step: str, told: list[tuple[str, bool]]) -> None:
    assert found(step) == told


def test_not_before_the_loop_nor_where_it_is_put_back() -> None:
    assert found("pass", head="locale.setlocale(0, 'C')") == []
    with_ = "with torch.set_grad_enabled(step > 0):\n                        pass"
    assert found(with_) == []


def test_in_functions_of_other_modules() -> None:
    train = "import rearview as rv, mine\nwith rv.checkpointing():\n    for e in rv.loop('e', range(3)):\n        mine.Kind().go()\n"
    mine = "import locale\nif True:\n    locale.setlocale(0, 'C')\nclass Kind:\n    def go(self):\n        locale.setlocale(0, 'D')\n"
    assert [(one.file, one.line) for one in settings({"train.py": train, "mine.py": mine}, "train.py")] == [("mine.py", 6)]
