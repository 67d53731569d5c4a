"""Code that runs in a resumed program before its script: one thing stays as the code before the loop made it, as if nobody had kept it.

`WITHOUT[name]()` is called by the test, in the program's process.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable
from typing import Any

from rearview.record.resume import kept, reaching
from rearview.state import streams
from rearview.state.iterating.adapter import Iterators


def program() -> Any:
    return sys.modules["__main__"]


def unrestored(get: Callable[[Any], Any], put: Callable[[Any, Any], None]) -> Callable[[], None]:
    """A thing inside an object: what it was before the state was put back, it is afterwards."""

    def drop() -> None:
        original = kept.Kept.put_back

        def put_back(self: kept.Kept, scope: Any) -> Any:
            was = get(program())
            values = original(self, scope)
            put(program(), was)
            return values

        kept.Kept.put_back = put_back  # type: ignore[method-assign]

    return drop


def attribute(path: str) -> Callable[[], None]:
    """`net.calls`."""
    *way, name = path.split(".")

    def holder(main: Any) -> Any:
        for step in way:
            main = getattr(main, step)
        return main

    return unrestored(lambda main: copy.deepcopy(getattr(holder(main), name)), lambda main, was: setattr(holder(main), name, was))


def tensors(find: Callable[[Any], list[Any]]) -> Callable[[], None]:
    """What is in some tensors."""

    def put(main: Any, was: list[Any]) -> None:
        for tensor, value in zip(find(main), was, strict=True):
            tensor.data.copy_(value)

    return unrestored(lambda main: [tensor.detach().clone() for tensor in find(main)], put)


def forgotten(*ends: str) -> Callable[[], None]:
    """A variable: its root is not in the state."""

    def drop() -> None:
        original = kept.Kept.__init__

        def init(self: Any, *args: Any) -> None:
            original(self, *args)
            found = [key for key in self._tree.roots if tuple(str(part) for part in key[-len(ends) :]) == ends]
            assert found, f"there is no root {ends} among {list(self._tree.roots)}"
            for key in found:
                del self._tree.roots[key]

        kept.Kept.__init__ = init  # type: ignore[method-assign]

    return drop


def stream(name: str) -> Callable[[], None]:
    """A global random stream goes on from wherever it is."""

    def drop() -> None:
        kept.streams = types.SimpleNamespace(  # type: ignore[assignment]
            put_back=lambda states: streams.put_back({key: state for key, state in states.items() if key != name})
        )

    return drop


def position(change: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """Something in the position of the nested loop's loader."""

    def drop() -> None:
        original = kept.Kept.position

        def changed(self: kept.Kept, depth: int) -> dict[str, Any]:
            found = original(self, depth)
            if found.get("shape", {}).get("kind") == "loader":
                change(found["shape"])
            return found

        kept.Kept.position = changed  # type: ignore[method-assign]

    return drop


def from_the_beginning() -> None:
    """The loop over the loader begins anew."""
    original = reaching.positions.put_back

    def put_back(source: Any, position: Any) -> Any:
        return iter(source) if hasattr(source, "num_workers") else original(source, position)

    changed = types.ModuleType("positions")
    changed.__dict__.update(vars(reaching.positions), put_back=put_back)
    reaching.positions = changed  # type: ignore[attr-defined]


def unsettled(kind: str) -> Callable[[], None]:
    """An iterator in a variable stays where it is."""

    def drop() -> None:
        original = Iterators.settle

        def settle(self: Any) -> list[str]:
            self._waiting = [pair for pair in self._waiting if pair[1]["kind"] != kind]
            return original(self)

        Iterators.settle = settle  # type: ignore[method-assign]

    return drop


def _cell(main: Any, name: str) -> Any:
    return dict(zip(main.augment.__code__.co_freevars, main.augment.__closure__, strict=True))[name]


def _gradients(main: Any, was: list[Any]) -> None:
    for parameter, grad in zip(main.net.parameters(), was, strict=True):
        parameter.grad = grad


def _flags(main: Any, was: list[bool]) -> None:
    for parameter, flag in zip(main.net.parameters(), was, strict=True):
        parameter.requires_grad_(flag)


def _optimizer_state(main: Any, was: dict[Any, Any]) -> None:
    main.opt.state.clear()
    main.opt.state.update(was)


def _loaders_generator() -> None:
    """It is an object of the program, and part of the position in the loader."""
    unrestored(lambda m: m.loader.generator.get_state(), lambda m, was: m.loader.generator.set_state(was))()
    position(lambda shape: shape.update(samplers=[shape["samplers"][0], {}]))()


WITHOUT: dict[str, Callable[[], None]] = {
    "Python's random stream": stream("python"),
    "NumPy's global stream": stream("numpy"),
    "torch's global stream": stream("torch"),
    "a NumPy generator": unrestored(lambda m: m.noise.bit_generator.state, lambda m, was: setattr(m.noise.bit_generator, "state", was)),
    "a NumPy generator in a dataset's transform": unrestored(
        lambda m: m.side_loader.dataset.transform.rng.bit_generator.state,
        lambda m, was: setattr(m.side_loader.dataset.transform.rng.bit_generator, "state", was),
    ),
    "a generator in a sampler": unrestored(lambda m: m.sampler.random.getstate(), lambda m, was: m.sampler.random.setstate(was)),
    "a generator in a closure": unrestored(
        lambda m: _cell(m, "own").cell_contents.get_state(), lambda m, was: _cell(m, "own").cell_contents.set_state(was)
    ),
    "a torch generator": unrestored(lambda m: m.jitter.get_state(), lambda m, was: m.jitter.set_state(was)),
    "the loader's generator": _loaders_generator,
    "parameters": tensors(lambda m: list(m.net.parameters())),
    "buffers": tensors(lambda m: [m.net.norm.running_mean, m.net.norm.running_var]),
    "a buffer that is not persistent": tensors(lambda m: [m.net.drift]),
    "an attribute of a module": attribute("net.calls"),
    "requires_grad": unrestored(lambda m: [p.requires_grad for p in m.net.parameters()], _flags),
    "train and eval": attribute("net.drop.training"),
    "gradients between micro-batches": unrestored(lambda m: [p.grad for p in m.net.parameters()], _gradients),
    "the optimizer's state": unrestored(lambda m: dict(m.opt.state), _optimizer_state),
    "the optimizer's groups": unrestored(
        lambda m: [dict(group) for group in m.opt.param_groups], lambda m, was: m.opt.param_groups.__setitem__(slice(None), was)
    ),
    "the scheduler": unrestored(lambda m: m.sched.state_dict(), lambda m, was: m.sched.load_state_dict(was)),
    "the gradient scaler": unrestored(lambda m: m.scaler.state_dict(), lambda m, was: m.scaler.load_state_dict(was)),
    "the averaged model": tensors(lambda m: list(m.ema.module.parameters())),
    "the count of the average": tensors(lambda m: [m.ema.n_averaged]),
    "a NumPy array": forgotten("__main__", "table"),
    "a container": forgotten("__main__", "seen"),
    "a dataclass": forgotten("__main__", "plan"),
    "an object with __getstate__": forgotten("__main__", "smoothed"),
    "an iterator of itertools": forgotten("__main__", "turns"),
    "a cycle": forgotten("__main__", "letters"),
    "a variable of the module": forgotten("__main__", "shown"),
    "a variable of another module": forgotten("settings", "warmup"),
    "an attribute of a class": forgotten("settings", "Counter", "calls"),
    "a counter in a function": forgotten("total"),
    "the best value in a function": forgotten("worst"),
    "a deque in a function": forgotten("recent"),
    "a cell of a closure": unrestored(
        lambda m: _cell(m, "count").cell_contents, lambda m, was: setattr(_cell(m, "count"), "cell_contents", was)
    ),
    "the place of a generator": unsettled("generator"),
    "the place of a loader's iterator": unsettled("loader"),
    "the place in the loader": from_the_beginning,
    "the streams at the beginning of the epoch": position(lambda shape: shape.update(streams=streams.take(), samplers=[{}, {}])),
    "the streams of the workers": position(lambda shape: shape.update(states=[[{}, {}] for _ in shape["states"]])),
}  # fmt: skip
