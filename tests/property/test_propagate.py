"""Laws of placing a statement, over programs made by chance."""

from __future__ import annotations

import ast
import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rearview.propagate.carry import carry
from rearview.propagate.place import Placed, Refused, propagate
from tests.laws import examples

NAMES = ["alpha", "beta", "gamma", "delta", "omega", "sigma"]


def expression(chance: random.Random, known: list[str]) -> str:
    one = chance.choice(known)
    number = chance.randrange(90)
    return chance.choice([f"{one} + {number}", f"work({one}, {chance.choice(known)})", f"{one}.size[{number}]", f"model({one})"])


def block(chance: random.Random, known: list[str], depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(chance.randrange(2, 6)):
        kind = chance.randrange(8 if depth < 3 else 5)
        if kind < 4:
            name = chance.choice(NAMES)
            lines.append(f"{name} = {expression(chance, known)}")
            known = [*known, name]
        elif kind == 4:
            lines.append(f"update_{chance.randrange(30)}({chance.choice(known)})" + chance.choice(["", "  # why"]))
        elif kind == 5:
            lines += [f"if {chance.choice(known)} > {chance.randrange(50)}:", *indented(block(chance, known, depth + 1))]
        elif kind == 6:
            name = chance.choice(NAMES)
            lines += [f"for {name} in rows({chance.choice(known)}):", *indented(block(chance, [*known, name], depth + 1))]
        else:
            lines += ["with guard():", *indented(block(chance, known, depth + 1)), ""]
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def program(chance: random.Random) -> list[str]:
    lines = ['"""A program."""', "", "import tools", ""]
    for number in range(chance.randrange(1, 4)):
        lines += [f"def part_{number}(data, model):", *indented(block(chance, ["data"], 0)), ""]
    return [*lines, *block(chance, ["tools"], 1)]


def places(lines: list[str]) -> list[tuple[int, str]]:
    """(number of a line, its indentation) of each statement that a statement can follow."""
    tree = ast.parse("\n".join(lines) + "\n")
    simple = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.Expr) and node.lineno > 1]
    return [(node.lineno, " " * node.col_offset) for node in simple]


seeds = st.integers(0, 10**9)
slow = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def asked(seed: int) -> tuple[random.Random, list[str], int, str]:
    """A program, where in it a statement is added, and the program with it."""
    chance = random.Random(seed)
    lines = program(chance)
    at, indent = chance.choice(places(lines))
    assigned = lines[at - 1].strip().partition(" = ")[0] if " = " in lines[at - 1] else "1"
    new = [*lines[:at], f'{indent}rv.log("value_{seed % 97}", {assigned})', *lines[at:]]
    return chance, lines, at + 1, "\n".join(new) + "\n"


@slow
@given(seeds)
def test_into_the_same_version_it_is_the_identity(seed: int) -> None:
    _, lines, at, new = asked(seed)
    found = propagate(new, at, None, "\n".join(lines) + "\n")
    if isinstance(found, Refused):  # only where the program itself has two such places
        assert "two places" in found.why
    else:
        assert found.text == new
    again = propagate(new, at, None, new)
    assert isinstance(again, Refused) or (again.text == new and not again.lines)


def changed(chance: random.Random, lines: list[str]) -> list[str]:
    """Another version: lines dropped, doubled, other numbers, other endings."""
    text = list(lines)
    for _ in range(chance.randrange(6)):
        at = chance.randrange(4, len(text))
        if text[at].strip().endswith(":") or not text[at].strip():
            continue
        way = chance.randrange(3)
        if way == 0:
            text[at] = text[at][: len(text[at]) - len(text[at].lstrip())] + "pass"
        elif way == 1:
            text.insert(at, text[at])
        else:
            text[at] = text[at].replace("1", "7") + "  # changed"
    return text


def odd(chance: random.Random, lines: list[str]) -> list[str]:
    """The same program in another dress: tabs, form feeds, letters of Latin-1, continued lines, blanks at the end of lines."""
    found = []
    for number, line in enumerate(lines):
        text = line.replace("    ", "\t")
        way = chance.randrange(8) if text.strip() and number > 3 else 7
        if way == 0:
            found.append("\x0c")
        elif way == 1:
            found.append("# \xe9\xdf\xb5")
        elif way == 2 and " + " in text:
            text = text.replace(" + ", " + \\\n\t\t", 1)
        found.append(text + (" \t" if way == 3 else ""))
    return found


@slow
@given(seeds, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans(), st.sampled_from(["", "\ufeff"]))
def test_the_result_parses_and_without_what_was_put_in_it_is_the_old_file(
    seed: int, ending: str, last: bool, dressed: bool, mark: str
) -> None:
    chance, lines, at, new = asked(seed)
    text = changed(chance, lines)
    old = mark + "\n".join(odd(chance, text) if dressed else text).replace("\n", ending) + (ending if last else "")
    found = propagate(new, at, None, old)
    if isinstance(found, Placed):
        ast.parse(found.text.removeprefix(mark))
        assert without(found) == old
        if found.lines:
            assert "rv.log" in found.text.split(ending)[found.lines[0] - 1]


def aside(chance: random.Random) -> list[str]:
    """Functions that have little to do with the rest."""
    lines: list[str] = []
    for number in range(chance.randrange(1, 4)):
        names = [chance.choice(["data", "tools", f"given_{number}"])]
        lines += [f"def aside_{number}({names[0]}, more=1):", *indented(block(chance, names, 1)), f"    return more + {number}", "", ""]
    return lines


@settings(slow, max_examples=examples(150))
@given(seeds, st.booleans(), st.booleans())
def test_into_many_versions_it_is_placed_as_into_one(seed: int, dressed: bool, renamed: bool) -> None:
    chance, lines, at, new = asked(seed)
    more = aside(chance)
    text = [*changed(chance, lines), *changed(chance, ["", "", "", "", *more])]
    old = "\n".join(odd(chance, text) if dressed else text) + "\n"
    old = re.sub(r"\balpha\b", "alef", old) if renamed else old
    new += "\n".join(["", *more]) + "\n"
    assert propagate(new, at, None, old, many=True) == propagate(new, at, None, old)


def without(found: Placed) -> str:
    """The text of a result without what was put in."""
    rest, end = "", 0
    for begin, stop in found.inserted:
        rest += found.text[end:begin]
        end = stop
    return rest + found.text[end:]


@slow
@given(seeds)
def test_another_dress_of_the_old_version_does_not_change_the_place(seed: int) -> None:
    chance, lines, at, new = asked(seed)
    plain = propagate(new, at, None, "\n".join(lines) + "\n")
    other = propagate(new, at, None, "\n".join(odd(chance, lines)) + "\n")
    if isinstance(plain, Placed) and isinstance(other, Placed):
        assert ast.dump(ast.parse(plain.text)) == ast.dump(ast.parse(other.text))
        assert plain.certain == other.certain


@slow
@given(seeds)
def test_renaming_all_locals_of_the_old_version_does_not_change_the_verdict(seed: int) -> None:
    _, lines, at, new = asked(seed)
    old = "\n".join(lines) + "\n"

    class Renaming(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(f"old_{node.id}", node.ctx) if node.id in NAMES else node

    other = ast.unparse(Renaming().visit(ast.parse(old))) + "\n"
    plain, renamed = propagate(new, at, None, ast.unparse(ast.parse(old)) + "\n"), propagate(new, at, None, other)
    assert type(plain) is type(renamed)
    if isinstance(plain, Placed) and isinstance(renamed, Placed):
        assert plain.lines == renamed.lines
        assert set(renamed.renamed.values()) <= {f"old_{name}" for name in NAMES}
        assert ast.dump(Renaming().visit(ast.parse(plain.text))) == ast.dump(ast.parse(renamed.text))


@pytest.mark.parametrize("seed", range(5))
def test_the_programs_are_programs(seed: int) -> None:
    _, lines, _, new = asked(seed)
    ast.parse(new)
    assert len(lines) > 8


@slow
@given(seeds)
def test_what_is_carried_is_there_afterwards_and_the_old_file_as_before(seed: int) -> None:
    chance, lines, _, _ = asked(seed)
    new = "\n".join(lines) + "\n"
    functions = [node.name for node in ast.parse(new).body if isinstance(node, ast.FunctionDef)]
    names = chance.sample(functions, chance.randrange(1, len(functions) + 1))
    old = chance.choice(["", "a = 1", "def part_0(x):\n    return x\r\n", "\ufeffimport tools\n\n\n"])
    found = carry(new, names, old)
    if isinstance(found, Refused):  # a part reads what the module computes
        assert "made by" in found.why
        return
    assert without(found) == old
    bound = {node.name for node in ast.parse(found.text.removeprefix("\ufeff")).body if isinstance(node, ast.FunctionDef)}
    assert set(names) <= bound
    again = carry(new, names, found.text)
    assert isinstance(again, Placed)
    assert again.text == found.text
    assert not again.lines
