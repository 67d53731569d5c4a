"""A state looked at without the program it came from."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from rearview.errors import NoCheckpoint
from rearview.state import tree as trees
from rearview.state.capture import capture
from rearview.state.look import look
from rearview.testing.states import Kept, roots


class Mode(enum.Enum):
    FAST = "fast"


class Holder:
    __slots__ = ("__dict__", "held")

    def __init__(self) -> None:
        self.held, self.mode, self.items = (1, "a"), Mode.FAST, {"k": [1.5, None]}
        self.me = self


def seen(value: Any) -> Any:
    kept = Kept(capture(roots(x=value)))
    return look(kept.tree, ("given", "x"), kept)


def test_plain_values_are_themselves() -> None:
    value = {
        "a": [1, 2.5, None, True, "ü", b"x"], (1, 2): {3, 4}, "d": collections.deque([1], 3), "big": list(range(500)),
        "long": "x" * 70_000, "table": {str(k): k for k in range(100)}, "range": range(3), "n": 10**40,
    }  # fmt: skip
    assert seen(value) == value


def test_objects_are_their_attributes_and_code_is_its_name() -> None:
    holder = seen(Holder())
    assert holder["held"] == (1, "a")
    assert holder["mode"] == "FAST"
    assert holder["items"] == {"k": [1.5, None]}
    assert holder["me"] is holder
    *named, function, module = seen([Holder, len, lambda: 1, types])
    assert named == [f"{__name__}.Holder", "builtins.len"]
    assert function.startswith(f"{__name__}.test_objects")
    assert module == "types"
    assert seen({Holder: 1, Mode.FAST: 2}) == {f"{__name__}.Holder": 1, "FAST": 2}
    assert seen(dt.date(2020, 1, 2))["class"] == "datetime.date"
    table = seen({Holder(): 1})
    assert list(table.values()) == [1]


def test_cycles_and_sharing() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    back = seen(loop)
    assert back[1] is back
    inner = [1]
    pair = seen([inner, inner])
    assert pair[0] is pair[1]


def test_what_is_not_there_is_said_with_what_is() -> None:
    kept = Kept(capture(roots(net=1, opt=2)))
    with pytest.raises(NoCheckpoint, match=r"nothing called ema; it holds net, opt"):
        look(kept.tree, ("given", "ema"), kept)


def test_looking_imports_nothing_of_the_programs(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("open('ran', 'w').close()\nclass Net:\n    def __init__(self):\n        self.w = [1, 2]\n")
    code = f"""
import sys, os
sys.path[:0] = [{str(tmp_path)!r}, {str(Path(trees.__file__).parents[2])!r}]
import secret
os.remove("ran")
from rearview.state.capture import capture
from rearview.state.tree import encode
assert "numpy" not in sys.modules and "torch" not in sys.modules, "a program without them stays without them"
open("tree", "wb").write(encode(capture({{("given", "net"): secret.Net(), ("given", "kind"): secret.Net}}).tree))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    tree = trees.decode((tmp_path / "tree").read_bytes())
    kept = Kept(capture({}))
    assert look(tree, ("given", "net"), kept) == {"w": [1, 2]}
    assert look(tree, ("given", "kind"), kept) == "secret.Net"
    assert "secret" not in sys.modules
    assert not (tmp_path / "ran").exists()


@pytest.mark.torch
def test_state_dicts_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
            self.head = nn.Linear(4, 2, bias=False)
            self.free = nn.Parameter(torch.ones(2))
            self.register_buffer("fleeting", torch.zeros(2), persistent=False)
            self.register_parameter("none", None)
            self.head_again = self.head
            self.register_buffer("lasting", torch.ones(2))

    net = Net()
    groups = [{"params": net.body.parameters(), "lr": 0.1}, {"params": net.head.parameters()}]
    opt = torch.optim.Adam(groups, lr=0.01)
    net.head(net.body(torch.randn(5, 3))).sum().backward()
    opt.step()
    back, want = seen(net), net.state_dict()
    assert list(back) == list(want)
    assert all(torch.equal(back[name], want[name]) and type(back[name]) is torch.Tensor for name in want)
    assert back["head.weight"] is back["head_again.weight"]
    assert not back["head.weight"].requires_grad
    found, state = seen(opt), opt.state_dict()
    assert found["param_groups"] == state["param_groups"]
    assert found["state"].keys() == state["state"].keys()
    assert all(torch.equal(found["state"][k][name], state["state"][k][name]) for k in state["state"] for name in state["state"][k])
    Net().load_state_dict(back)
    torch.optim.Adam([{"params": net.body.parameters()}, {"params": net.head.parameters()}]).load_state_dict(found)
    nested = seen({"model": net, "epoch": 3})
    assert nested["epoch"] == 3
    assert list(nested["model"]) == list(want)
    values = {"sparse": torch.eye(3).to_sparse(), "conj": torch.tensor([1j]).conj(), "half": torch.ones(2, dtype=torch.bfloat16)}
    odd = seen({**values, "size": torch.Size([1]), "kind": torch.float16})
    assert torch.equal(odd["sparse"].to_dense(), torch.eye(3))
    assert odd["conj"].tolist() == [-1j]
    assert odd["half"].dtype is torch.bfloat16
    assert (odd["size"], odd["kind"]) == ((1,), "float16")


def test_arrays_are_plain_arrays() -> None:
    np = pytest.importorskip("numpy")
    record = np.array([(1, 2.0)], [("a", int), ("b", float)])
    masked = np.ma.masked_array([1, 2], [True, False])
    back = seen({"a": np.arange(6).reshape(2, 3).T, "r": record, "m": masked, "s": np.float32(2), "o": np.array([1, None])})
    assert back["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert back["r"].tolist() == [(1, 2.0)]
    assert type(back["m"]) is np.ndarray
    assert back["s"] == np.float32(2)
    assert back["o"].tolist() == [1, None]
    assert seen(np.random.default_rng(3))["bit_generator"] == "PCG64"
