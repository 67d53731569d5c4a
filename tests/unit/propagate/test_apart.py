"""Which functions of two versions cannot decide where a statement goes."""

from __future__ import annotations

import pytest

from rearview.propagate import place
from rearview.propagate.apart import apart
from rearview.propagate.hidden import LeftOut
from rearview.propagate.place import Placed, propagate

ASIDE = """\
def helper(values, factor={factor}):
    total = 0.0
    for value in values:
        total += value * factor
    return total


"""
MAIN = """\
def main():
    weight = 1.0
    for epoch in rv.loop("epoch", range(3)):
        weight = weight * helper([1, 2], 3)
        rv.log("loss", weight * weight)
{added}

main()
"""
NEW = "import rearview as rv\n" + ASIDE.format(factor=2) + MAIN.format(added='        rv.log("weight", weight)\n')
LINE = NEW.splitlines().index('        rv.log("weight", weight)') + 1


def old(factor: int = 5, **words: str) -> str:
    text = "import rearview as rv\n" + ASIDE.format(factor=factor) + MAIN.format(added="")
    for one, other in words.items():
        text = text.replace(one, other)
    return text


def left_out(new: str, line: int, then: str) -> set[str]:
    files = apart(new, (line, line), then)
    return set() if files is None else {node.syntax.name for node in files[1].nodes if node.left_out}  # type: ignore[attr-defined]


def test_a_function_of_its_own_is_left_out_and_the_place_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_out(NEW, LINE, old()) == {"helper"}
    alone = propagate(NEW, LINE, None, old())
    monkeypatch.setattr(place, "both", lambda *_: pytest.fail("both files were compared as a whole"))
    found = propagate(NEW, LINE, None, old(), many=True)
    assert found == alone
    assert isinstance(found, Placed)
    assert found.certain
    assert found.text == old(factor=5).replace("weight * weight)\n\n", 'weight * weight)\n        rv.log("weight", weight)\n\n')


@pytest.mark.parametrize(
    "then",
    [
        old(helper="renamed"),  # another name: which of them it is has to be found
        old() + "def helper(x):\n    return x\n",  # twice
        old(total="weight").replace("weight += value * factor", "weight = weight * helper([1, 2], 3)"),  # a statement of the loop is in it
        old().replace("    return total", '    print("loss", weight * weight)'),  # tells the same as a statement of the loop
        old().replace("    return total", "    yield total"),
        old().replace("    return total", "    return rv.arg('total', total)"),
    ],
)
def test_what_could_matter_is_not_left_out(then: str) -> None:
    assert left_out(NEW, LINE, then) == set()
    assert propagate(NEW, LINE, None, then, many=True) == propagate(NEW, LINE, None, then)


def test_the_function_that_the_statement_is_in_is_not_left_out() -> None:
    new = NEW.replace("        total += value * factor\n", "        total += value * factor\n        print(total)\n")
    line = new.splitlines().index("        print(total)") + 1
    assert left_out(new, line, old()) == set()


def test_a_name_that_is_mentioned_there_is_looked_up_in_the_whole_files() -> None:
    new = NEW.replace("as rv\n", "as rv\nscale = 2\n").replace("* factor", "* factor * scale")
    new = new.replace('"weight", weight)', '"weight", scale * weight)')
    then = old().replace("as rv\n", "as rv\nscaled = 2\n").replace("* factor", "* factor * scaled")
    line = LINE + 1
    files = apart(new, (line, line), then)
    assert files is not None
    with pytest.raises(LeftOut):
        place._placed(*files, line, None, None)
    found = propagate(new, line, None, then, many=True)
    assert found == propagate(new, line, None, then)
    assert isinstance(found, Placed)
    assert found.renamed == {"scale": "scaled"}
