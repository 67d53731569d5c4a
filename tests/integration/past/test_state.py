"""Past states: looked at without the program they came from, put into live objects, refused with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview import past
from rearview.errors import Damaged, NoCheckpoint, NotFound, RestoreRefused, UsageError
from rearview.store import manifests
from rearview.testing.checkpoints import epoch, keep, keep_state
from rearview.testing.stores import RunBuilder

np = pytest.importorskip("numpy")


class Counter:
    """A class of the user's program."""

    def __init__(self) -> None:
        self.count = 3
        self.seen = {"a": [1, 2]}


def test_names_given_come_first_then_variables(run: RunBuilder) -> None:
    given, other = [1, 2], [3]
    roots = {("given", "best"): given, ("local", 0, "total"): 7, ("local", 1, "total"): 8, ("local", 1, "best"): given,
             ("global", "__main__", "w"): np.arange(3.0), ("global", "lib", "w"): other, ("class", "lib", "Net", "calls"): 5,
             ("stream", "global"): {"python": b"abc"}, ("position", 0): {"count": 3}}  # fmt: skip
    keep_state(run, 0, epoch(0), roots)
    state = past.checkpoint("first", epoch=1)
    assert list(state) == ["best", "total", "total@0", "w", "lib.w", "lib.Net.calls"]
    assert (state["total"], state["total@0"], state["lib.Net.calls"]) == (8, 7, 5)
    assert state["best"] == [1, 2]
    assert state["w"].tolist() == [0.0, 1.0, 2.0]
    assert state.streams == {"python": b"abc"}
    assert len(state) == 6
    assert "best" in state
    assert "position" not in state
    assert state.get("nothing", 1) == 1
    assert dict(state).keys() == set(state)


def test_a_name_that_is_not_there_names_the_nearest(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "net"): {"w": 1}})
    with pytest.raises(NotFound, match="did you mean 'net'"):
        past.checkpoint()["nett"]


def test_the_table_of_a_state_shows_names_kinds_and_bytes(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): np.zeros(1000), ("given", "counter"): Counter(), ("given", "x\x1b[31m"): 1})
    shown = repr(past.checkpoint("first"))
    assert "state of run" in shown.splitlines()[0]
    assert "epoch=1" in shown.splitlines()[0]
    assert ["w", "array", "8.0", "kB"] in [line.split() for line in shown.splitlines()]
    assert any(line.split()[:2] == ["counter", "Counter"] for line in shown.splitlines())
    assert "\x1b" not in shown


# Which one


def places(run: RunBuilder) -> None:
    """Epochs called 1, 2, 3: the first two with both parts, the third with the end of its nested block only; and one inside."""
    for k in range(3):
        keep_state(run, k, epoch(k, None, ["step", 0, 9, 9]), {("given", "at"): f"block {k + 1}"}, part="block", at_s=60 * k + 30)
        if k < 2:
            keep_state(run, k, epoch(k), {("given", "at"): f"iteration {k + 1}"})
    keep_state(run, 3, epoch(3, None, ["step", 0, 4, 4]), {("given", "at"): "inside 4"}, part="inside", at_s=300)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"epoch": 1}, "iteration 1"),
        ({"epoch": 2}, "iteration 2"),
        ({"epoch": 3}, "block 3"),
        ({"at": "epoch#0"}, "iteration 1"),
        ({"at": "epoch#2"}, "block 3"),
        ({"at": "epoch=2"}, "iteration 2"),
        ({"epoch": 4, "step": 4}, "inside 4"),
        ({"step": 4, "epoch": 4}, "inside 4"),
        ({"epoch": 2, "step": 9}, "block 2"),
        ({}, "inside 4"),
    ],
)
def test_the_state_at_a_place(run: RunBuilder, asked: dict[str, Any], found: str) -> None:
    places(run)
    assert past.checkpoint("first", **asked)["at"] == found


def test_a_later_attempt_goes_first_and_the_end_of_the_iteration_before_that_of_the_block(run: RunBuilder) -> None:
    places(run)
    keep_state(run, 0, epoch(1), {("given", "at"): "again"}, attempt=2)
    assert past.checkpoint("first", epoch=2)["at"] == "again"
    keep_state(run, 1, epoch(0, None, ["step", 0, 9, 9]), {("given", "at"): "block again"}, attempt=2, part="block")
    assert past.checkpoint("first", epoch=1)["at"] == "iteration 1"


def test_nothing_there_names_the_nearest(run: RunBuilder) -> None:
    with pytest.raises(NoCheckpoint, match="rv.checkpointing"):
        past.checkpoint("first")
    places(run)
    with pytest.raises(NoCheckpoint, match=r"no checkpoint at epoch=9; the nearest are epoch=4/step=4 and epoch=3;"):
        past.checkpoint("first", epoch=9)
    with pytest.raises(NoCheckpoint, match=r"at epoch=4/step=9; the nearest are epoch=4/step=4"):
        past.checkpoint("first", at="epoch=4/step=9")
    with pytest.raises(NoCheckpoint, match="range"):
        past.checkpoint("first", at="epoch=1..2")


def test_a_loop_that_no_checkpoint_is_in_is_named_with_those_that_are(run: RunBuilder) -> None:
    places(run)
    said = r"run \w+ has no checkpoint in a loop called {}: they are in epoch and step; `rearview checkpoints"
    wrong: list[tuple[dict[str, Any], str]] = [({"nope": 3}, "nope"), ({"at": "bogus=="}, "bogus"), ({"at": "epoch=1/stap=2"}, "stap")]
    for asked, loop in [*wrong, ({"at": "step[2]=9"}, r"step\[2\]")]:
        with pytest.raises(NoCheckpoint, match=said.format(loop)) as problem:
            past.checkpoint("first", **asked)
        assert "nearest" not in str(problem.value)


@pytest.mark.parametrize("at", [3, ["epoch=3"], 1.5])
def test_a_place_that_is_no_text_is_refused(run: RunBuilder, at: Any) -> None:
    places(run)
    with pytest.raises(UsageError, match=r"at=.* is no place in a run: it is text, such as at=\"epoch=3\""):
        past.checkpoint("first", at=at)


def test_a_rank_may_be_a_number(run: RunBuilder) -> None:
    for rank in range(2):
        keep_state(run, 0, epoch(0), {("given", "rank"): rank}, process=str(rank), rank=rank, world=2)
    assert past.checkpoint("first", process=1)["rank"] == 1


def test_a_thinned_one_says_so_and_names_the_nearest_whole_one(run: RunBuilder) -> None:
    made = [keep_state(run, k, epoch(k), {("given", "at"): k}) for k in range(4)]
    manifests.put_mark(run.store, made[1].name, manifests.THINNED, when=1.0, why="keep = newest:1")
    with pytest.raises(NoCheckpoint, match=r"epoch=2 was thinned \(keep = newest:1\).*the nearest are epoch=1 and epoch=3"):
        past.checkpoint("first", epoch=2)
    assert past.checkpoint("first", epoch=3)["at"] == 2


def test_ranks_are_one_checkpoint_and_each_has_its_state(run: RunBuilder) -> None:
    for rank in range(2):
        keep_state(run, 0, epoch(0), {("given", "rank"): rank}, process=str(rank), rank=rank, world=2)
    keep_state(run, 1, epoch(1), {("given", "rank"): 0}, rank=0, world=2)
    assert past.checkpoint("first")["rank"] == 0, "the one that lacks a rank's part is no checkpoint"
    assert past.checkpoint("first", epoch=1, process="1")["rank"] == 1
    with pytest.raises(NoCheckpoint, match="it has 0, 1"):
        past.checkpoint("first", process="7")
    with pytest.raises(NoCheckpoint, match=r"not whole: the part of rank 1 is missing; the nearest is epoch=1"):
        past.checkpoint("first", epoch=2)


def test_what_is_missing_is_said(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): 1}, missing=[["log", "TextIOWrapper", "an open file"]], complete=False)
    state = past.checkpoint("first")
    assert state.missing == ["log: an open file (TextIOWrapper)"]
    assert "missing: log" in repr(state)


# Looking runs nothing


TRAP = """
import sys
sys.modules["trap_was_imported"] = sys

class Thing:
    def __init__(self):
        self.n = 4
    def __setstate__(self, state):
        sys.modules["trap_was_run"] = sys
        self.__dict__.update(state)
    def __reduce__(self):
        return Thing, (), self.__dict__
"""


@pytest.fixture
def trap(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (project / "trap_module.py").write_text(TRAP)
    monkeypatch.syspath_prepend(str(project))
    import trap_module  # type: ignore[import-not-found]

    yield trap_module
    for name in ("trap_module", "trap_was_imported", "trap_was_run"):
        sys.modules.pop(name, None)


def test_looking_imports_nothing_of_the_program_and_runs_nothing(run: RunBuilder, trap: Any) -> None:
    keep_state(run, 0, epoch(0), {("given", "thing"): trap.Thing(), ("given", "things"): [trap.Thing()], ("given", "kind"): trap.Thing})
    for name in ("trap_module", "trap_was_imported"):
        del sys.modules[name]
    state = past.checkpoint("first")
    repr(state)
    values = {name: state[name] for name in state}
    assert "trap_module" not in sys.modules
    assert "trap_was_run" not in sys.modules
    assert "4" in str(values["thing"])
    assert "trap_module.Thing" in str(values["kind"])
    made = state.rebuild("thing")
    assert made.n == 4
    assert "trap_was_run" in sys.modules


def two_loops(run: RunBuilder) -> None:
    """Two loops called epoch, one after the other, in the second of which two are called step."""
    for k in range(2):
        keep_state(run, k, epoch(k), {("given", "phase"): f"pre {k}"})
    for k in range(2):
        for nth in range(2):
            path = [["epoch", 1, k, k + 1], ["step", nth, 4, 4]]
            keep_state(run, 2 + 3 * k + nth, path, {("given", "phase"): f"inside {k} {nth}"}, part="inside")
        keep_state(run, 4 + 3 * k, [["epoch", 1, k, k + 1]], {("given", "phase"): f"fine {k}"})


def test_two_loops_of_one_name_are_told_apart(run: RunBuilder) -> None:
    two_loops(run)
    with pytest.raises(NoCheckpoint, match=r"epoch=1 is in 2 loops of run .* called alike: say which: epoch\[1\]=1 or epoch\[2\]=1"):
        past.checkpoint("first", epoch=1)
    with pytest.raises(NoCheckpoint, match=r"epoch\[2\]=2/step\[1\]=4 or epoch\[2\]=2/step\[2\]=4"):
        past.checkpoint("first", epoch=2, step=4)
    phases = {"epoch[1]=1": "pre 0", "epoch[2]=1": "fine 0", "epoch[1]#1": "pre 1", "epoch[2]=2": "fine 1"}
    for at, phase in phases.items():
        assert past.checkpoint("first", at=at)["phase"] == phase
    assert past.checkpoint("first", at="epoch=2/step[1]=4")["phase"] == "inside 1 0"
    assert past.checkpoint("first", at="epoch[1]=1").path == "epoch[1]=1" and past.checkpoint("first").path == "epoch[2]=2"
    with pytest.raises(NoCheckpoint, match=r"no checkpoint at epoch\[1\]=3; the nearest are epoch\[1\]=2 and"):
        past.checkpoint("first", at="epoch[1]=3")


def test_one_loop_of_a_name_needs_no_count(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0, None, ["step", 0, 4, 4]), {("given", "a"): 1}, part="inside")
    keep_state(run, 1, epoch(1, None, ["step", 0, 4, 4]), {("given", "a"): 2}, part="inside")
    assert past.checkpoint("first", epoch=1, step=4).path == "epoch=1/step=4"


def test_a_place_that_was_thinned_in_one_loop_is_still_in_two(run: RunBuilder) -> None:
    """Else somebody would get the state of the other loop."""
    first = keep_state(run, 0, epoch(0), {("given", "phase"): "pre"})
    keep_state(run, 1, [["epoch", 1, 0, 1]], {("given", "phase"): "fine"})
    manifests.put_mark(run.store, first.name, manifests.THINNED, why="newest 1")
    with pytest.raises(NoCheckpoint, match="2 loops"):
        past.checkpoint("first", epoch=1)
    with pytest.raises(NoCheckpoint, match=r"at epoch\[1\]=1 was thinned"):
        past.checkpoint("first", at="epoch[1]=1")


@pytest.mark.damages_store
def test_a_damaged_byte_is_refused_by_name(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): np.arange(5000.0)})
    pack = next((run.store.objects / "packs").glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[1000] ^= 1
    pack.write_bytes(bytes(data))
    state = past.checkpoint("first")
    with pytest.raises(Damaged, match=r"run r000000000000 at epoch=1 is damaged: chunk .* in pack"):
        state["w"]


def numbers(k: int) -> Any:
    return np.arange(5000.0) + 10 * k


def spoil(run: RunBuilder, *which: int) -> None:
    """Flip a bit of the numbers of some checkpoints."""
    for pack in (run.store.objects / "packs").glob("*.pack"):
        data = bytearray(pack.read_bytes())
        for k in which:
            at = data.find(numbers(k).tobytes())
            if at >= 0:
                data[at + 1000] ^= 1
        pack.write_bytes(bytes(data))


@pytest.mark.damages_store
def test_the_next_older_one_is_offered(run: RunBuilder) -> None:
    """Whole means that its bytes are what was written; what is offered is what finds it."""
    for k in range(4):
        step = epoch(k, None, ["step", 0, 9, 9])
        keep_state(run, k, step, {("given", "w"): numbers(2 * k)}, part="block", at_s=60 * k + 1)
        keep_state(run, k, epoch(k), {("given", "w"): numbers(2 * k + 1)}, at_s=60 * k + 2)
    spoil(run, 7)
    state = past.checkpoint("first")
    with pytest.raises(Damaged, match=r"at epoch=4 is damaged: .*; the next older one that is whole is epoch=4/step=9$"):
        state["w"]
    assert past.checkpoint("first", at="epoch=4/step=9")["w"][0] == 60
    spoil(run, 6, 5, 4)
    for use in (lambda: state["w"], lambda: state.restore(w=np.zeros(5000)), lambda: state.rebuild("w")):
        with pytest.raises(Damaged, match=r"at epoch=4 is damaged: .*; the next older one that is whole is epoch=2$"):
            use()
    spoil(run, *range(4))
    with pytest.raises(Damaged, match="there is no older one that is whole"):
        state["w"]


@pytest.mark.damages_store
def test_a_damaged_manifest_is_named(run: RunBuilder) -> None:
    made = keep(run, 0, epoch(0), {"w": b"w"})
    path = manifests.path_of(run.store, made.name)
    path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    with pytest.raises(NoCheckpoint, match="0-a1-000000-iteration of run r000000000000 is damaged"):
        past.checkpoint("first")


@pytest.mark.damages_store
def test_nothing_stands_in_for_a_damaged_manifest_unless_it_is_asked_for(run: RunBuilder) -> None:
    for k in range(3):
        step = epoch(k, None, ["step", 0, 9, 9])
        keep_state(run, k, step, {("given", "w"): 10 * k}, part="block", at_s=60 * k + 1)
        made = keep_state(run, k, epoch(k), {("given", "w"): 10 * k + 1}, at_s=60 * k + 2)
        if k > 0:
            path = manifests.path_of(run.store, made.name)
            path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    for place, instead in (({}, "epoch=3/step=9"), ({"epoch": 3}, "epoch=3/step=9"), ({"epoch": 2}, "epoch=2/step=9")):
        with pytest.raises(Damaged, match=f"0-a1-00000[12]-iteration of run .* is damaged.* another state is at {instead}:"):
            past.checkpoint("first", **place)
    assert past.checkpoint("first", at="epoch=2/step=9")["w"] == 10
    assert past.checkpoint("first", epoch=1)["w"] == 1, "another one's damage is nothing to it"


# Into live objects


def test_into_live_objects_in_place(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): np.arange(4.0), ("given", "counter"): Counter(), ("given", "n"): 5})
    w, counter = np.zeros(4), Counter()
    counter.count, seen = 0, counter.seen
    seen["a"].append(9)
    view = w[1:]
    past.checkpoint("first").restore(w=w, counter=counter)
    assert view.tolist() == [1.0, 2.0, 3.0]
    assert (counter.count, counter.seen) == (3, {"a": [1, 2]})
    assert counter.seen is seen


def test_a_class_of_the_program_that_is_imported_now(run: RunBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a script it was `__main__.Counter`, and whoever looks back imports it from there."""
    monkeypatch.setattr(Counter, "__module__", "__main__")
    keep_state(run, 0, epoch(0), {("given", "counter"): Counter()})
    monkeypatch.setattr(Counter, "__module__", __name__)
    live = Counter()
    live.count, live.seen["a"] = 9, []
    past.checkpoint().restore(counter=live)
    assert (live.count, live.seen) == (3, {"a": [1, 2]})


def test_what_does_not_fit_is_refused_before_anything_is_touched(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): np.arange(4.0), ("given", "counter"): Counter(), ("given", "n"): 5})
    state = past.checkpoint("first")
    w = np.zeros(4)
    with pytest.raises(RestoreRefused, match="counter was of type Counter, not list"):
        state.restore(w=w, counter=[])
    with pytest.raises(RestoreRefused, match=r"n cannot be changed in place \(int\)"):
        state.restore(w=w, n=5)
    with pytest.raises(NotFound, match="nothing called 'q'"):
        state.restore(w=w, q=[])
    assert not w.any()
    with pytest.raises(UsageError, match="net=net"):
        state.restore()


@pytest.mark.torch
def test_a_model_and_its_optimizer(run: RunBuilder) -> None:
    import torch

    torch.manual_seed(0)

    def make() -> tuple[Any, Any]:
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())
        return net, torch.optim.AdamW(net.parameters(), lr=0.1)

    net, opt = make()
    net(torch.randn(5, 4)).sum().backward()
    opt.step()
    keep_state(run, 0, epoch(0), {("given", "net"): net, ("given", "opt"): opt})
    state = past.checkpoint("first", epoch=1)
    wanted = net.state_dict()
    assert list(state["net"]) == list(wanted)
    assert all(torch.equal(state["net"][name], value) for name, value in wanted.items())
    assert state["opt"]["param_groups"] == opt.state_dict()["param_groups"]
    other, its_opt = make()
    held = other[0].weight
    state.restore(net=other, opt=its_opt)
    assert other[0].weight is held
    assert all(torch.equal(other.state_dict()[name], value) for name, value in wanted.items())
    assert torch.equal(its_opt.state[held]["exp_avg"], opt.state[net[0].weight]["exp_avg"])
    third, third_opt = make()
    third.load_state_dict(state["net"])
    third_opt.load_state_dict(state["opt"])
    assert torch.equal(third[0].weight, net[0].weight)


def test_a_run_is_named_as_everywhere(run: RunBuilder) -> None:
    keep_state(run, 0, epoch(0), {("given", "w"): 1})
    assert past.checkpoint("r0000")["w"] == 1
    assert past.checkpoint()["w"] == 1
    with pytest.raises(NotFound):
        past.checkpoint("nobody")
    with pytest.raises(UsageError, match="run as text"):
        past.checkpoint(3)  # type: ignore[arg-type]
