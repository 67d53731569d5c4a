"""States put into live objects: other shapes, dtypes and structures are refused, each by name, and nothing is touched."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from rearview import past
from rearview.errors import RestoreRefused
from rearview.testing.checkpoints import epoch, keep_state
from rearview.testing.stores import RunBuilder

np = pytest.importorskip("numpy")


def recorded(run: RunBuilder, **given: object) -> past.State:
    keep_state(run, 0, epoch(0), {("given", name): thing for name, thing in given.items()})
    return past.checkpoint("first")


def refused(state: past.State, live: Mapping[str, Any]) -> list[str]:
    """The reasons; what was given has to be what it was."""
    before = pickle.dumps(live)
    with pytest.raises(RestoreRefused) as problem:
        state.restore(**live)
    assert pickle.dumps(live) == before, "something was touched"
    return problem.value.reasons


class Holder:
    """A class of the user's program."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


# Arrays


def test_an_array_of_another_shape_or_dtype_says_both(run: RunBuilder) -> None:
    state = recorded(run, arr=np.arange(4.0), other=np.arange(3))
    reasons = refused(state, {"arr": np.zeros(5), "other": np.zeros(3, np.int16)})
    assert reasons == [
        "arr: recorded as float64 array of shape (4,), here float64 array of shape (5,)",
        "other: recorded as int64 array of shape (3,), here int16 array of shape (3,)",
    ]


def test_an_array_inside_an_object_is_as_strict(run: RunBuilder) -> None:
    state = recorded(run, held=Holder(w=np.arange(4.0), n=3, seen=[np.zeros(2)], best=np.zeros(2)))
    reasons = refused(state, {"held": Holder(w=np.zeros((2, 2)), n=0, seen=[np.zeros(3)], best=None)})
    assert [reason.partition(":")[0] for reason in reasons] == ["held.w", "held.seen[0]"]


def test_an_array_laid_out_otherwise_says_so(run: RunBuilder) -> None:
    reasons = refused(recorded(run, arr=np.arange(6.0).reshape(2, 3)), {"arr": np.zeros((3, 2)).T})
    assert reasons == ["arr: recorded as float64 array of shape (2, 3) with strides (24, 8), here with (8, 16)"]


def test_one_array_in_two_places_is_not_two(run: RunBuilder) -> None:
    one = np.arange(3.0)
    state = recorded(run, held=Holder(a=one, b=one))
    assert refused(state, {"held": Holder(a=np.zeros(3), b=np.zeros(3))}) == [
        "held.a: recorded as one object in several places, here they hold different ones"
    ]


def test_plain_attributes_lists_and_what_is_not_there_yet_may_differ(run: RunBuilder) -> None:
    state = recorded(run, held=Holder(n=3, name="a", best=np.arange(2.0), seen=[np.arange(2.0), np.arange(3.0)]))
    live = Holder(n=0, name=None, best=None, seen=[], more=1)
    state.restore(held=live)
    assert (live.n, live.name, live.best.tolist(), len(live.seen)) == (3, "a", [0.0, 1.0], 2)


def test_all_reasons_are_given_at_once(run: RunBuilder) -> None:
    state = recorded(run, arr=np.arange(4.0), held=Holder(w=np.arange(4.0)), n=5)
    reasons = refused(state, {"arr": np.zeros(5), "held": [], "n": 5})
    assert len(reasons) == 3
    assert {reason.split()[0].rstrip(":") for reason in reasons} == {"arr", "held", "n"}


# Models


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def trained(torch: Any, *layers: Any, make: str = "Adam") -> tuple[Any, Any]:
    net = torch.nn.Sequential(*layers)
    opt = getattr(torch.optim, make)(net.parameters(), lr=0.1)
    net(torch.randn(5, layers[0].in_features)).sum().backward()
    opt.step()
    return net, opt


@pytest.mark.torch
def test_a_module_of_another_shape_or_dtype(run: RunBuilder, torch: Any) -> None:
    net, opt = trained(torch, torch.nn.Linear(3, 3))
    state = recorded(run, net=net, opt=opt)
    for other, said in (
        (torch.nn.Linear(3, 4), "here float32 Parameter of shape (4, 3)"),
        (torch.nn.Linear(3, 3).half(), "here float16 Parameter of shape (3, 3)"),
    ):
        live = torch.nn.Sequential(other)
        reasons = refused(state, {"net": live, "opt": torch.optim.Adam(live.parameters())})
        assert reasons[0] == f"net.0.weight: recorded as float32 Parameter of shape (3, 3), {said}"
        assert [reason.partition(":")[0] for reason in reasons] == ["net.0.weight", "net.0.bias"]


@pytest.mark.torch
def test_a_module_with_other_parts(run: RunBuilder, torch: Any) -> None:
    def make(*more: Any) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), *more)

    state = recorded(run, net=make(torch.nn.ReLU()))
    assert refused(state, {"net": make(torch.nn.ReLU(), torch.nn.Linear(3, 2))}) == [
        "net: here with the submodule '3', which is not recorded"
    ]
    assert refused(state, {"net": make()}) == ["net: recorded with the submodule '2', which is not here"]
    assert refused(state, {"net": make(torch.nn.Tanh())}) == ["net.2: recorded as ReLU, here Tanh"]
    without = make(torch.nn.ReLU())
    without[0] = torch.nn.Linear(3, 3, bias=False)
    without[1].register_buffer("more", torch.zeros(2))
    assert refused(state, {"net": without}) == [
        "net.0: recorded with the parameter 'bias', which is not here",
        "net.1: here with the buffer 'more', which is not recorded",
    ]


@pytest.mark.torch
def test_a_tensor_of_another_shape_keeps_its_views(run: RunBuilder, torch: Any) -> None:
    live = torch.zeros(5, 5)
    view = live[1]
    state = recorded(run, w=torch.ones(3, 2))
    assert refused(state, {"w": live}) == ["w: recorded as float32 tensor of shape (3, 2), here float32 tensor of shape (5, 5)"]
    live += 1
    assert view.tolist() == [1.0] * 5, "still the same memory"
    assert refused(state, {"w": np.zeros((3, 2))})[0].endswith("here float64 array of shape (3, 2)")


@pytest.mark.torch
def test_tied_weights_are_not_two_and_two_not_tied(run: RunBuilder, torch: Any) -> None:
    def make(tied: bool) -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
        if tied:
            net[1].weight = net[0].weight
        return net

    keep_state(run, 0, epoch(0), {("given", "net"): make(True)})
    keep_state(run, 1, epoch(1), {("given", "net"): make(False)})
    assert refused(past.checkpoint("first", epoch=1), {"net": make(False)}) == [
        "net.0.weight: recorded as one object in several places, here they hold different ones"
    ]
    assert refused(past.checkpoint("first", epoch=2), {"net": make(True)}) == [
        "net.1.weight: here the same object as net.0.weight, recorded as another one"
    ]
    tied = make(True)
    held = tied[0].weight
    past.checkpoint("first", epoch=1).restore(net=tied)
    assert tied[0].weight is held and tied[1].weight is held


@pytest.mark.torch
def test_an_optimizer_over_other_parameters(run: RunBuilder, torch: Any) -> None:
    net, opt = trained(torch, torch.nn.Linear(3, 3))
    state = recorded(run, net=net, opt=opt)
    live = torch.nn.Sequential(torch.nn.Linear(3, 3))
    stranger = torch.nn.Sequential(torch.nn.Linear(3, 3))
    reasons = refused(state, {"net": live, "opt": torch.optim.Adam(stranger.parameters())})
    shared = "recorded as one object in several places, here they hold different ones"
    assert reasons == [f"net.0.weight: {shared}", f"net.0.bias: {shared}"]
    longer = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    assert refused(state, {"opt": torch.optim.Adam(longer.parameters())}) == [
        "opt: param_groups[0] recorded with 2 parameters, here with 4: give the model that has them as well"
    ]
    assert refused(state, {"opt": torch.optim.Adam(list(live.parameters())[:1])}) == [
        "opt: param_groups[0] recorded with 2 parameters, here with 1: give the model that has them as well"
    ]
    assert refused(state, {"net": live, "opt": torch.optim.SGD(live.parameters())}) == ["opt: recorded as Adam, here SGD"]


@pytest.mark.torch
def test_state_made_late_gradients_and_groups_added_may_differ(run: RunBuilder, torch: Any) -> None:
    net, opt = trained(torch, torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    head = torch.nn.Linear(3, 1)
    opt.add_param_group({"params": list(head.parameters()), "lr": 0.5})
    state = recorded(run, net=net, head=head, opt=opt)
    live, its_head = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)), torch.nn.Linear(3, 1)
    live.eval()
    fresh = torch.optim.Adam(live.parameters(), lr=9.0)
    held = list(live.parameters())
    state.restore(net=live, head=its_head, opt=fresh)
    assert all(a is b for a, b in zip(live.parameters(), held, strict=True))
    assert live.training
    assert torch.equal(fresh.state[held[0]]["exp_avg"], opt.state[net[0].weight]["exp_avg"])
    assert torch.equal(held[0].grad, net[0].weight.grad)
    assert [group["lr"] for group in fresh.param_groups] == [0.1, 0.5]
    assert fresh.param_groups[1]["params"][0] is its_head.weight
    fresh.step()


@pytest.mark.torch
def test_a_lazy_module_that_has_no_shapes_yet_takes_them(run: RunBuilder, torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.LazyLinear(2))
    net(torch.zeros(1, 3))
    live = torch.nn.Sequential(torch.nn.LazyLinear(2))
    recorded(run, net=net).restore(net=live)
    assert torch.equal(live[0].weight, net[0].weight)


@pytest.mark.torch
def test_what_is_not_put_into_in_place_may_differ(run: RunBuilder, torch: Any) -> None:
    """Values with a history, parts that are made again, buffers that are None."""

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
            self.rnn = torch.nn.LSTM(2, 2)
            self.register_buffer("nothing", None)
            self.register_buffer("sparse", torch.eye(2).to_sparse())
            self.seen = None

        def forward(self, x: Any) -> Any:
            self.seen = self.rnn(self.fc(x))[0]
            return self.seen

    net, live = Net(), Net()
    net(torch.ones(4, 3)).sum().backward()
    live(torch.ones(2, 3)).sum().backward()
    held = list(live.parameters())
    recorded(run, net=net).restore(net=live)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), live.parameters(), strict=True))
    assert all(a is b for a, b in zip(held, live.parameters(), strict=True))


def test_a_table_may_be_longer(run: RunBuilder) -> None:
    pandas = pytest.importorskip("pandas")
    live = Holder(table=pandas.DataFrame({"loss": [9.0]}))
    recorded(run, held=Holder(table=pandas.DataFrame({"loss": [1.0, 2.0]}))).restore(held=live)
    assert live.table["loss"].tolist() == [1.0, 2.0]
