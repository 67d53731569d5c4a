"""What the state before held and still holds: taken over, taken anew in part, or walked again. Each time the state that a walk gives."""

from __future__ import annotations

import collections
import gc
import hashlib
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from rearview.state.capture import Captured, capture
from rearview.state.digests import root_digests
from rearview.state.take import levels
from rearview.state.take.again import Again

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch


class Layer(nn.Module):
    """With attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(10, 10)
        self.number, self.nothing, self.text = 0.0, None, "text"
        self.first: list[Any] = [1, 2, 3]
        self.second: list[Any] = [4]
        self.seen: set[int] = set()
        self.table = {"a": 1, "b": 2}
        self.counts: Any = collections.defaultdict(int)
        self.plain = torch.ones(100)


class Like(Layer):
    """Of the same attributes."""


class Slotted(Layer):
    """No plain object."""

    __slots__ = ("slot",)


class Program:
    """A model and its optimizer, whose state was remembered."""

    def __init__(self) -> None:
        self.net = nn.Sequential(*(Layer() for _ in range(8)))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.more: dict[str, Any] = {}
        self.again = Again()
        self.step()
        for _ in range(3):
            self.taken()
        assert self.again.taken_over == 1  # of three: the first is not remembered, the second is

    @property
    def layer(self) -> Any:
        """One of them."""
        return self.net[3]

    def step(self) -> None:
        """A step of training."""
        for layer in self.net:
            layer.fc(torch.randn(2, 10)).sum().backward()
        self.opt.step()

    def taken(self, again: Again | None = None) -> Captured:
        """Its state."""
        variables = {("local", 0, name): value for name, value in self.more.items()}
        roots: dict[Any, object] = {("given", "net"): self.net, ("given", "opt"): self.opt, **variables}
        return capture(roots, again=again or self.again)

    def is_right(self) -> bool:
        """Whether it is what a walk gives."""
        return digests(self.taken()) == digests(self.taken(Again()))


def digests(captured: Captured) -> dict[Any, str]:
    memory = [hashlib.blake2b(bytes(buffer.memory()), digest_size=16).digest() for buffer in captured.buffers]
    return root_digests(captured.tree, memory)


def _reversed_sign(program: Program) -> None:
    program.layer.number = -0.0


def _true_for_one(program: Program) -> None:
    program.layer.first[0] = True


def _key_renamed(program: Program) -> None:
    program.layer.table["c"] = program.layer.table.pop("b")


def _turned(program: Program) -> None:
    program.net.eval()


def _rate(program: Program) -> None:
    program.opt.param_groups[0]["lr"] = 0.05


def _from_nothing(program: Program) -> None:
    program.layer.nothing = torch.ones(100)


def _stepped(program: Program) -> None:
    program.step()


def _no_gradients(program: Program) -> None:
    program.opt.zero_grad()


def _uncounted(program: Program) -> None:
    program.layer.fc.weight.data[0, 0] = 7.0


def _factory(program: Program) -> None:
    program.layer.counts.default_factory = list


def _variables(program: Program) -> None:
    program.more = {"fc": program.layer.fc, "first": program.layer.first, "groups": program.opt.param_groups}


@pytest.mark.parametrize(
    "happens",
    [_reversed_sign, _true_for_one, _turned, _rate, _from_nothing, _stepped, _no_gradients, _uncounted, _variables],
)
def test_other_atoms_memory_and_gradients_are_taken_over(happens: Callable[[Program], None]) -> None:
    program = Program()
    happens(program)
    assert program.is_right()
    assert program.again.taken_over == 2


def _added(program: Program) -> None:
    program.layer.seen.add(3)


def _added_and_removed(program: Program) -> None:
    program.layer.seen.add(3)
    program.layer.seen.discard(3)


def _other_class(program: Program) -> None:
    program.layer.__class__ = Like


def _same_count_in_others(program: Program) -> None:
    program.layer.second.append(program.layer.first.pop())


def _other_list(program: Program) -> None:
    program.layer.first = list(program.layer.first)


def _attribute_named_otherwise(program: Program) -> None:
    program.layer.other = program.layer.text
    del program.layer.text


def _order(program: Program) -> None:
    text = program.layer.text
    del program.layer.text
    program.layer.text = text


def _elsewhere(program: Program) -> None:
    program.layer.plain.data = program.layer.plain.data.clone()


def _view(program: Program) -> None:
    program.layer.fc.weight.data = program.layer.fc.weight.data.t()


def _frozen(program: Program) -> None:
    program.layer.fc.weight.requires_grad_(False)


def _tensor_attribute(program: Program) -> None:
    program.layer.fc.weight.note = [1]


def _other_layer(program: Program) -> None:
    program.layer.fc = nn.Linear(10, 10)


def _two_exchanged(program: Program) -> None:
    program.net[0], program.net[1] = program.net[1], program.net[0]


def _group(program: Program) -> None:
    program.opt.add_param_group({"params": [nn.Parameter(torch.ones(100))]})


@pytest.mark.filterwarnings("ignore:grad and param do not obey")
@pytest.mark.parametrize(
    "happens",
    [
        _added, _added_and_removed, _other_class, _same_count_in_others, _other_list, _attribute_named_otherwise, _order, _elsewhere, _view,
        _frozen, _tensor_attribute, _other_layer, _two_exchanged, _group, _factory,
    ],
)  # fmt: skip
def test_what_changed_more_is_walked_and_remembered_as_it_is_then(happens: Callable[[Program], None]) -> None:
    program = Program()
    happens(program)
    assert program.is_right()
    assert program.again.taken_over == 1
    program.step()
    assert program.is_right()
    assert program.again.taken_over == 2


def test_keys_that_are_renamed_are_seen() -> None:
    program = Program()
    _key_renamed(program)
    assert program.is_right()


def test_what_is_reached_otherwise_as_well_stays_one_object() -> None:
    program = Program()
    _variables(program)
    tree = program.taken().tree
    assert program.again.taken_over == 2
    by_name = {str(key[-1]): number for key, number in tree.roots.items()}
    assert by_name["fc"] in {number for _, payload in tree.nodes if isinstance(payload, tuple) for number in payload}
    assert program.is_right()


def test_a_variable_that_means_another_part_each_time_changes_nothing() -> None:
    program = Program()
    for at in range(6):
        program.more = {"one": program.net[at]}
        assert program.is_right()
    assert program.again.taken_over == 7


def test_a_model_that_came_later_is_remembered_as_well() -> None:
    program = Program()
    program.more = {"other": Layer()}
    for _ in range(3):
        assert program.is_right()
    assert program.again.kept is not None
    assert len(program.again.kept.keys) == 3


def test_a_model_that_is_no_plain_object_is_walked_each_time() -> None:
    program = Program()
    other = Slotted()
    other.slot = 1
    program.more = {"other": other}
    for number in range(3):
        other.slot = number
        assert program.is_right()
    before = program.again.kept
    tree = program.taken().tree
    assert tree.nodes[tree.roots["local", 0, "other"]][0] == "obj"
    assert before is not None
    assert program.again.kept is before


def test_nothing_of_the_program_is_kept_but_atoms_and_classes() -> None:
    program = Program()
    objects: list[Any] = [program.layer, program.layer.fc, program.layer.fc.weight, program.opt]
    gone = [weakref.ref(one) for one in objects]
    again = program.again
    objects.clear()
    del program
    gc.collect()
    assert again.kept is not None
    assert [ref() for ref in gone] == [None] * len(gone)


def test_what_is_no_plain_object_is_taken_anew_each_time() -> None:
    program = Program()
    order = program.layer.order = collections.OrderedDict(a=1, b=2)
    seen = program.layer.counter = iter([1, 2, 3])
    program.layer.long = "x" * 100_000
    program.taken()
    order.move_to_end("a")
    next(seen)
    program.layer.long += "y"
    before = program.again.taken_over
    assert program.is_right()
    assert program.again.taken_over == before + 1


def act(x: Any) -> Any:
    """Made before the loops."""
    return x


def test_functions_that_a_loop_made_are_what_models_refer_to() -> None:
    program = Program()
    again, key = Again(), ("made", __name__, "act")
    program.layer.act = act
    for _ in range(3):
        tree = capture({("given", "net"): program.net, ("given", "opt"): program.opt, key: act}, again=again).tree
        held = [payload for kind, payload in tree.nodes if kind == "attrs" and tree.roots[key] in payload]
        assert tree.nodes[tree.roots[key]][0] == "func"
        assert len(held) == 1
    assert again.taken_over == 1


def test_what_keeps_changing_is_tried_less_often() -> None:
    program = Program()
    learned = []
    for _ in range(40):
        program.layer.fc = nn.Linear(10, 10)
        before = program.again.kept
        assert program.is_right()
        learned.append(program.again.kept is not None and program.again.kept is not before)
    assert any(learned[:5])
    assert sum(learned[20:]) < len(learned[20:])


def test_containers_that_may_be_packed_are_no_plain_ones() -> None:
    assert levels.is_packed([1] * 64, 64)
    assert not levels.is_packed([1] * 63, 64)
    assert not levels.is_packed([object(), *[1] * 64], 64)
    assert levels.is_packed(dict.fromkeys(range(64), 1), 64)
    assert levels.is_packed([(1, 2)] * 64, 64)
