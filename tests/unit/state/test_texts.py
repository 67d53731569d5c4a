"""Functions made of text: those that were there before the loops are left alone, those that loops made are named."""

from __future__ import annotations

from typing import Any

from rearview.state.capture import capture
from rearview.state.take.texts import WHY, Texts
from rearview.testing.states import roots


def _missing(texts: Texts, **held: Any) -> list[tuple[str, str]]:
    return [(one.where, one.why) for one in capture(roots(**held), texts=texts).missing]


def test_what_a_loop_makes_of_text_is_named() -> None:
    texts, before, bound = Texts(), eval("lambda x: x + 1"), {"k": 2}
    assert _missing(texts, f=before) == []
    other = eval("lambda x: x + 2")
    assert _missing(texts, f=before, many=[len, other]) == [("many[1]", WHY)]
    exec("def made(): return k", bound)
    assert _missing(texts, f=other, g=bound["made"]) == [("f", WHY), ("g", WHY)]


def test_what_files_have_is_not() -> None:
    texts = Texts()
    assert _missing(texts) == []
    assert _missing(texts, f=lambda x: x + 1, g=_missing) == []
    cell = eval(compile("lambda x: x + 3", "<ipython-input-4-abc>", "eval"))
    assert _missing(texts, f=cell) == []
