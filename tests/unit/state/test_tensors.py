"""Tensors that share memory, have histories, gradients, subclasses; identities; what is not touched."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

from rearview.errors import RestoreRefused
from rearview.state.capture import capture
from rearview.state.restore import plan
from rearview.state.take.histories import PENDING
from rearview.testing.states import Kept, roots
from tests.unit.state.round_trip import put

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch


def taken(**named: Any) -> Kept:
    captured = capture(roots(**named))
    assert [lack for lack in captured.missing if lack.why != PENDING] == []
    return Kept(captured)


def test_views_stay_views_and_what_is_shared_stays_shared() -> None:
    base = torch.arange(12.0)
    o = {"base": base, "row": base.view(3, 4)[1], "again": base, "numpy": base.numpy(), "flat": base.view(torch.int32)}
    kept = taken(o=o)
    for live in (
        {},
        {"o": {"base": torch.zeros(12), "row": torch.zeros(4), "again": torch.zeros(12), "numpy": None, "flat": None}},
        {"o": o},
    ):
        back = put(kept, **live)["o"]
        assert back["again"] is back["base"]
        back["base"][5] = 99.0
        assert back["row"].tolist() == [4.0, 99.0, 6.0, 7.0]
        assert back["numpy"][5] == 99.0
        assert back["flat"].view(torch.float32)[5] == 99.0


def test_what_is_not_shared_is_not_shared_after_it_was_put_into_shared_objects() -> None:
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    kept = taken(a=a, b=b)
    want = a.weight.detach().clone(), b.weight.detach().clone()
    b.weight = a.weight
    back = put(kept, a=a, b=b)
    assert back["a"].weight is not back["b"].weight
    assert torch.equal(back["a"].weight, want[0])
    assert torch.equal(back["b"].weight, want[1])
    assert isinstance(back["b"].weight, nn.Parameter)
    aliased = torch.zeros(9)
    x, y = aliased[:], aliased[:]
    kept = taken(x=torch.ones(9), y=torch.full((9,), 2.0))
    back = put(kept, x=x, y=y)
    assert back["x"] is x
    assert back["y"] is y
    assert x.tolist() == [1.0] * 9
    assert y.tolist() == [2.0] * 9


def test_tied_again_after_it_was_put_into_untied_objects() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    kept = taken(net=net)
    fresh = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    back = put(kept, net=fresh)["net"]
    assert back is fresh
    assert back[0].weight is back[1].weight
    assert torch.equal(back[0].weight, net[0].weight)


def test_other_shape_and_dtype_into_the_same_parameter() -> None:
    net = nn.Linear(3, 3)
    kept = taken(net=net, n=torch.arange(4))
    weight = net.weight
    net.weight.data = torch.zeros(5, 7, dtype=torch.float64)
    n = torch.ones(2, requires_grad=True)
    n.grad = torch.ones(2)
    back = put(kept, net=net, n=n)
    assert net.weight is weight
    assert weight.shape == (3, 3)
    assert weight.dtype is torch.float32
    assert back["n"] is n
    assert not n.requires_grad
    assert n.grad is None


def test_tensors_with_history_come_back_as_values() -> None:
    w = torch.ones(3, requires_grad=True)
    loss = (w * 2).sum()
    captured = capture(roots(w=w, loss=loss, view=w.view(3, 1)))
    assert "view" not in [missing.where for missing in captured.missing]
    kept = Kept(captured)
    back = put(kept, w=w, loss=loss)
    assert back["w"] is w
    assert back["loss"].item() == 6.0
    assert back["loss"].requires_grad and "HistoryNotKept" in str(back["loss"].grad_fn)
    assert back["view"].data_ptr() == w.data_ptr()
    loss.backward()
    assert w.grad is not None, "the graph of the live tensor is as it was"


def test_grads_flags_and_attributes() -> None:
    w = nn.Parameter(torch.ones(3), requires_grad=False)
    w.tag = {"decay": False}
    v = torch.ones(2, requires_grad=True)
    (v * 3).sum().backward()
    kept = taken(w=w, v=v)
    w.requires_grad_(True)
    w.tag["decay"], w.other = True, 1
    tag, grad = w.tag, v.grad
    v.grad.zero_()
    back = put(kept, w=w, v=v)
    assert back["w"] is w
    assert (w.requires_grad, w.tag, hasattr(w, "other")) == (False, {"decay": False}, False)
    assert w.tag is tag
    assert v.grad is grad
    assert grad.tolist() == [3.0, 3.0]
    v.grad = None
    assert put(kept, v=v)["v"].grad.tolist() == [3.0, 3.0]
    fresh = put(taken(w=w, none=torch.zeros(2)))
    assert fresh["w"].tag == {"decay": False}
    assert fresh["none"].grad is None


def test_hooks_are_left_alone_and_state_dict_is_not_called() -> None:
    called: list[str] = []

    class Net(nn.Linear):
        @property
        def expensive(self) -> int:
            called.append("property")
            return 1

        def __getattr__(self, name: str) -> Any:
            called.append(name)
            return super().__getattr__(name)

    net = Net(2, 2)
    net.register_state_dict_pre_hook(lambda *_: called.append("state_dict"))
    net._register_state_dict_hook(lambda *_: called.append("state_dict"))
    handle = net.register_forward_hook(lambda *_: called.append("forward"))
    net.weight.register_hook(lambda g: called.append("grad") or g)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    opt.register_step_post_hook(lambda *_: called.append("step"))
    opt.register_state_dict_post_hook(lambda *_: called.append("state_dict"))
    called.clear()
    hooks = net._forward_hooks
    captured = capture(roots(net=net, opt=opt))
    assert called == []
    assert captured.missing == []
    kept = Kept(captured)
    plan(kept.tree, roots(net=net, opt=opt), kept).apply()
    assert called == []
    assert net._forward_hooks is hooks
    net(torch.ones(1, 2)).sum().backward()
    opt.step()
    assert [name for name in called if name in ("forward", "grad", "step")] == ["forward", "grad", "step"]
    handle.remove()
    assert not net._forward_hooks


def test_capture_leaves_no_trace() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    opt = torch.optim.Adam(net.parameters())
    loss = net(torch.randn(4, 3)).sum()
    versions = [p._version for p in net.parameters()]
    vars_before = {name: dict(vars(module)) for name, module in net.named_modules()}
    stream = torch.get_rng_state()
    capture(roots(net=net, opt=opt, loss=loss))
    assert [p._version for p in net.parameters()] == versions
    assert {name: dict(vars(module)) for name, module in net.named_modules()} == vars_before
    assert torch.equal(torch.get_rng_state(), stream)
    loss.backward()


def test_subclasses_of_tensor_are_not_asked() -> None:
    seen: list[Any] = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return super().__torch_function__(function, kinds, args, kwargs or {})

    x = torch.arange(4.0).as_subclass(Loud)
    seen.clear()
    captured = capture(roots(x=x))
    assert seen == []
    kept = Kept(captured)
    assert captured.missing == []
    with torch.no_grad():
        x.zero_()
    seen.clear()
    back = plan(kept.tree, roots(x=x), kept).apply()["given", "x"]
    assert seen == []
    assert back is x
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_lazy_modules_before_and_after_their_first_call() -> None:
    def build() -> Any:
        return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU())

    lazy = build()
    untouched = taken(net=lazy)
    parameter = lazy[0].weight
    lazy(torch.randn(2, 3))
    materialised = taken(net=lazy)
    want = lazy(torch.ones(2, 3))
    fresh = build()
    first = fresh[0].weight
    back = put(materialised, net=fresh)["net"]
    assert back is fresh
    assert fresh[0].weight is first
    assert type(fresh[0]) is nn.Linear
    lazy(torch.ones(2, 3))
    put(materialised, net=lazy)
    assert lazy[0].weight is parameter
    assert torch.equal(fresh(torch.ones(2, 3)), want)
    again = put(untouched, net=lazy)["net"]
    assert isinstance(again[0].weight, nn.UninitializedParameter)
    again(torch.randn(5, 7))
    assert again[0].weight.shape == (4, 7)


def test_rnn_weights_stay_flat() -> None:
    rnn = nn.GRU(3, 4, num_layers=2)
    kept = taken(rnn=rnn)
    fresh = nn.GRU(3, 4, num_layers=2)
    put(kept, rnn=fresh)
    assert all(a is b for a, b in zip(fresh._flat_weights, fresh.parameters(), strict=True))
    x = torch.randn(5, 2, 3)
    assert torch.equal(fresh(x)[0], rnn(x)[0])


def test_recorded_memory_that_is_not_there_refuses_before_anything_is_touched() -> None:
    net = nn.Linear(30, 30)
    kept = taken(net=net)
    with torch.no_grad():
        net.weight.fill_(7.0)
    kept.data[0] = kept.data[0][:-1]
    with pytest.raises(RestoreRefused, match=r"net\.\w+: its bytes are"):
        plan(kept.tree, roots(net=net), kept)
    assert bool((net.weight == 7.0).all())


def test_memory_is_named_and_counted_once() -> None:
    net = nn.Linear(100, 100)
    opt = torch.optim.Adam(net.parameters())
    net(torch.randn(2, 100)).sum().backward()
    opt.step()
    for p in net.parameters():
        p.requires_grad_(p.dim() == 1)
    captured = capture(roots(net=net, opt=opt))
    wheres = {buffer.where: buffer for buffer in captured.buffers}
    assert {"net.weight", "net.bias", "net.weight.grad", "opt.state[net.weight]['exp_avg']"} <= wheres.keys()
    assert wheres["net.weight"].constant_hint
    assert not wheres["net.bias"].constant_hint
    assert not wheres["net.weight.grad"].constant_hint
    assert captured.sizes()["given", "net"] == 2 * (10_000 + 100) * 4
    assert wheres["net.weight"].version == net.weight._version
    assert wheres["net.weight"].tensor().data_ptr() == net.weight.data_ptr()
    assert bytes(wheres["net.bias"].memory()) == bytes(net.bias.detach().view(torch.uint8).tolist())


def test_nothing_is_kept_alive() -> None:
    gc.disable()
    try:
        net = nn.Linear(3, 3)
        ref = weakref.ref(net)
        kept = taken(net=net)
        del net
        assert ref() is None
        net = nn.Linear(3, 3)
        ref = weakref.ref(net)
        plan(kept.tree, roots(net=net), kept).apply()
        del net
        assert ref() is None
    finally:
        gc.enable()


def test_deepcopies_and_ema_that_aliases() -> None:
    net = nn.Linear(3, 3)
    o = {"net": net, "ema": {name: p.data for name, p in net.named_parameters()}, "copy": copy.deepcopy(net)}
    kept = taken(**o)
    back = put(kept, net=nn.Linear(3, 3), copy=nn.Linear(3, 3))
    assert back["ema"]["weight"].data_ptr() == back["net"].weight.data_ptr()
    assert back["copy"].weight.data_ptr() != back["net"].weight.data_ptr()


def test_tensors_made_from_a_part_of_an_array_still_look_at_it() -> None:
    np = pytest.importorskip("numpy")

    def build() -> dict[str, Any]:
        data = np.arange(1000.0)
        return {"data": data, "part": torch.from_numpy(data[100:900]), "few": torch.from_numpy(data[3:6]), "whole": torch.from_numpy(data)}

    o = build()
    kept = taken(o=o)
    assert sum(len(data) for data in kept.data) == 8000
    for live in ({}, {"o": build()}, {"o": o}, {"o": {"data": np.zeros(1000)}}):
        back = put(kept, **live)["o"]
        back["data"][4] = back["data"][200] = -1.0
        assert back["few"].tolist() == [3.0, -1.0, 5.0]
        assert back["part"][100] == -1.0
        assert back["whole"][200] == -1.0
    assert [o[name].storage_offset() for name in ("part", "few", "whole")] == [0, 0, 0], "each through its own storage, where it is live"
    assert o["part"].untyped_storage().nbytes() == 6400


def test_tensors_over_overlapping_parts_of_an_array_that_nobody_else_holds() -> None:
    np = pytest.importorskip("numpy")
    data = np.arange(1000.0)
    o = [torch.from_numpy(data[:500]), torch.from_numpy(data[300:900]), torch.from_numpy(data[850:])]
    kept = taken(o=o)
    for live in ({}, {"o": o}, {"o": [torch.zeros(3)]}):
        back = put(kept, **live)["o"]
        back[0][400] = back[2][10] = -1.0
        assert back[1][100] == -1.0
        assert back[1][560] == -1.0
        back[0][400], back[2][10] = 400.0, 860.0
