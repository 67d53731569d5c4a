"""Definitions carried into a version that lacks them: what goes along, what stays the old file's own, when it is refused."""

from __future__ import annotations

import pytest

from rearview.propagate.carry import carry
from rearview.propagate.place import Placed, Refused

NEW = """\
from __future__ import annotations

import math
import re
from os import path, sep as separator

try:
    import fast
except ImportError:
    fast = None

SCALE = 2
WORD = re.compile(r"[a-z]+")
NET = build()
TABLE = {}
TABLE["a"] = 1


class Base:
    unit = SCALE


class Size(Base):
    def of(self, x):
        return inner(x) if fast is None else fast.of(x)


def inner(x):
    return math.sqrt(x)


@mark(SCALE)
def words(text):
    return [separator + one for one in WORD.findall(text)]


def of_net(x):
    return NET(x)


def of_table(x):
    return TABLE[x]


def mark(number):
    return lambda function: function
"""


def carried(names: list[str], old: str, new: str = NEW) -> Placed:
    found = carry(new, names, old)
    assert isinstance(found, Placed), found
    rest, end = "", 0
    for begin, stop in found.inserted:
        rest += found.text[end:begin]
        end = stop
    assert rest + found.text[end:] == old
    return found


def run(text: str, **given: object) -> dict[str, object]:
    space: dict[str, object] = {"__name__": "carried", **given}
    exec(compile(text, "carried", "exec"), space)
    return space


def test_a_function_with_what_it_needs() -> None:
    found = carried(["inner"], "a = 1\n")
    assert found.text == "a = 1\nimport math\n\n\ndef inner(x):\n    return math.sqrt(x)\n"
    assert found.carried == ("import math", "def inner(x):")
    assert found.lines == (2, 6)
    assert run(found.text)["inner"](9) == 3  # type: ignore[operator]


def test_a_class_with_its_base_a_choice_of_imports_and_functions_that_stand_behind_it() -> None:
    space = run(carried(["Size"], "").text)
    assert space["Size"]().of(16) == 4  # type: ignore[operator]
    assert space["Base"].unit == 2  # type: ignore[attr-defined]


def test_what_the_old_file_binds_is_its_own() -> None:
    old = "def inner(x):\n    return -x\n\n\nfast = None\n"
    found = carried(["Size", "inner"], old)
    assert found.text.count("def inner") == 1
    assert run(found.text)["Size"]().of(5) == -5  # type: ignore[operator]


def test_nothing_if_all_is_there() -> None:
    found = carried(["inner", "math"], "import math\ninner = abs\n")
    assert found.text == "import math\ninner = abs\n"
    assert not found.lines
    assert not found.carried


def test_one_name_of_an_import_of_many() -> None:
    new = NEW.replace("@mark(SCALE)\n", "")
    assert "\nfrom os import sep as separator\n" in carried(["words"], "a = 1\n", new).text


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_old_text_is_kept(ending: str, mark: str) -> None:
    old = mark + ending.join(["# é", "\tif_not = 1\x0c".strip("\t"), "if 1:", "\tb = 2"])
    found = carried(["SCALE"], old)
    assert found.text == old + ending + "SCALE = 2"


def test_a_module_of_itself_is_unchanged() -> None:
    assert carried(["Size", "words", "TABLE"], NEW).text == NEW


@pytest.mark.parametrize(
    ("names", "old", "why"),
    [
        (["gone"], "", "no `gone`"),
        (["of_net"], "", "`NET` is made by statements"),
        (["of_table"], "", "`TABLE` is filled"),
        (["words"], "", "`mark`"),
        (["inner"], "from tools import *\n", "`import *`"),
        (["inner"], "def f(:\n", "cannot be read"),
    ],
)
def test_refused(names: list[str], old: str, why: str) -> None:
    found = carry(NEW.replace("def mark(number)", "mark = get()\n\n\ndef _(number)"), names, old)
    assert isinstance(found, Refused)
    assert why in found.why


def test_a_name_that_would_replace_a_builtin_which_the_old_version_uses() -> None:
    new = "def max(a, b):\n    return a\n\n\ndef best(rows):\n    return max(rows, 1)\n"
    found = carry(new, ["best"], "def top(rows):\n    return max(rows)\n")
    assert isinstance(found, Refused)
    assert "builtin `max`" in found.why
    assert "def max" in carried(["best"], "a = 1\n", new).text


def test_names_for_type_checkers_travel_only_where_annotations_are_not_evaluated() -> None:
    new = "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shapes import Shape\n"
    new += "\n\ndef area(one: Shape):\n    return 1\n"
    assert isinstance(carry(new, ["area"], "a = 1\n"), Refused)
    assert run(carried(["area"], "from __future__ import annotations\n", new).text)["area"](2) == 1  # type: ignore[operator]
