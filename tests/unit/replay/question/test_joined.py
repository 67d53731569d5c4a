"""Cells as one text and back: nothing of them is lost, and a cell that was executed again stands there once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rearview.propagate.project import Site
from rearview.replay.question import joined

CELL = st.sampled_from(["x = 1", "x = 1\n", "def f():\n    return 1\n", "# only this\n", "y = '''\n# the next cell\n'''", "a\f = 2\n"])


@given(st.lists(CELL, max_size=5))
def test_joined_and_split_it_is_what_it_was(texts: list[str]) -> None:
    every = dict(enumerate(texts, 1))
    whole = joined.join(every)
    assert whole.split(whole.text) == {key: every[key] for key in whole.keys} if whole.keys else not whole.text


def test_lines_are_told_by_their_cells() -> None:
    whole = joined.join({3: "a = 1\nb = 2", 4: "no Python (", 5: "", 7: "c = 3\n\nd = 4\n"})
    assert whole.keys == (3, 7)
    assert whole.line(7, 3) is not None and whole.cell(whole.text, whole.line(7, 3) or 0) == (7, 3)
    assert whole.line(3, 3) is None and whole.line(4, 1) is None
    longer = whole.text.replace("b = 2\n", "b = 2\nlog(b)\n")
    assert whole.split(longer) == {3: "a = 1\nb = 2\nlog(b)", 7: "c = 3\n\nd = 4\n"}
    site = Site(joined.PATH, (3, 3), "b = 2", whole.mark.strip(), True, "")
    assert joined.site_in_cell(site, whole, longer) == Site("cells/0003.py", (3, 3), "b = 2", "", True, "")


def test_a_cell_that_was_executed_again_stands_once_where_it_was_first() -> None:
    train, edited = "w = 0\nfor k in x:\n    w += k\nlog(w)", "w = 0\nfor k in x:\n    w += 2 * k\nlog(w)"
    executed = {1: "import a", 2: train, 3: "look(w)", 4: "import a", 5: edited}
    found = joined.standing(executed, ["import a", edited, "look(w)"])
    assert list(found.last.items()) == [(4, "import a"), (5, edited), (3, "look(w)")]
    assert found.before == {4: {1: "import a"}, 5: {2: train}, 3: {}}


def test_cells_that_are_alike_and_both_in_the_notebook_are_two() -> None:
    one, other = "w = 0\nlr = 1\ntrain(w, lr)", "w = 0\nlr = 2\ntrain(w, lr)"
    assert list(joined.standing({1: one, 2: other}, [one, other]).last) == [1, 2]
    assert list(joined.standing({1: "a = 1\nb = 2", 2: "c = 3\nd = 4"}, ["a = 1\nb = 2\nc = 3\nd = 4"]).last) == [1, 2], "joined since"
