"""Past states of a run, to look at and to use: `rv.checkpoint("last", epoch=3)["net"]`.

Brings together where checkpoints are (catalog), their bytes (store) and what they mean (state). Looking verifies every byte it
reads, imports no class of the run's program and unpickles nothing; `rebuild` and `restore` do what their names say, when asked.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview import config, session
from rearview.catalog import checkpoints, paths
from rearview.catalog.catalog import Catalog
from rearview.errors import CheckpointError, Damaged, NoCheckpoint, NotFound, UsageError
from rearview.model import MAIN_PROCESS
from rearview.state import restore as restoring
from rearview.state import tree as trees
from rearview.state.look import look
from rearview.state.strict import misfits
from rearview.store import layout, objects, packs

if TYPE_CHECKING:
    from rearview.catalog.checkpoints import CheckpointInfo
    from rearview.state.tree import RootKey, Tree
    from rearview.store.layout import Store
    from rearview.store.manifests import Manifest

_SHOWN = 40
"""Names in the table of a `repr`."""


def checkpoint(run: str = "last", *, at: str | None = None, process: str | int | None = None, **place: Any) -> State:
    """The state of a run at a place, in the store of this program if it records, else of the current folder."""
    store = getattr(session.active, "store", None) or layout.locate(Path.cwd())
    with Catalog(store, timeout_s=config.load(store.project)["query_timeout"]) as catalog:
        return find(catalog, run, paths.wishes_of(place, at), process=process)


def find(catalog: Catalog, run_ref: str, wishes: Sequence[paths.Wish], *, process: str | int | None = None) -> State:
    """The state of a run at a place; without one, at its newest whole checkpoint."""
    if not isinstance(run_ref, str):
        raise UsageError(f"rv.checkpoint takes a run as text first (an id, a name, `last`), not {type(run_ref).__name__}")
    number = None if process is None else str(process)  # a rank may be given as the number it is
    run = catalog.run(run_ref).run
    damage: list[str] = []
    listed = checkpoints.of_process(catalog.checkpoints(run, damage), number)
    try:
        info = checkpoints.find(listed, run, wishes)
    except NoCheckpoint as problem:
        if damage:
            raise NoCheckpoint("; ".join([str(problem), *damage])) from problem
        raise
    if lost := checkpoints.in_place_of(catalog.store, listed, info, wishes):
        said = damage or [f"checkpoint {lost[-1]} of run {run} cannot be read"]
        raise Damaged("; ".join([*said, f"another state is at {info.place}: ask for it by that name"]))
    return State(catalog.store, info, _member(info, number), listed)


def _member(info: CheckpointInfo, process: str | None) -> Manifest:
    """The part of one rank: the main one's unless told."""
    wanted = MAIN_PROCESS if process is None else process
    found = next((one for one in info.members if one.process == wanted), None)
    if found is None and process is not None:
        known = ", ".join(one.process for one in info.members)
        raise NoCheckpoint(f"the checkpoint of run {info.run} at {info.named} has no part of process {process}: it has {known}")
    return found or info.members[0]


class State(Mapping[str, Any]):
    """What a run's variables were at one place. Names given to `rv.checkpointing` come first, then the program's variables.

    A module or optimizer is its state dict, an array or plain value itself, any other object the dict of its attributes.
    """

    def __init__(self, store: Store, info: CheckpointInfo, manifest: Manifest, beside: Sequence[CheckpointInfo] = ()) -> None:
        """`beside` are the checkpoints of the run that it is one of: an older one is offered where it is damaged."""
        self._store = store
        self._info = info
        self._beside = beside
        self._manifest = manifest
        self._known = packs.Known(store)
        self._tree: Tree | None = None
        self._keys: dict[str, RootKey] | None = None

    # What it is

    @property
    def run(self) -> str:
        """The id of the run."""
        return self._info.run

    @property
    def path(self) -> str:
        """Where in the loops: `epoch=3`."""
        return self._info.place

    @property
    def boundary(self) -> str:
        """What had just ended there: `iteration`, `block` (the nested loop), or `inside` (an iteration of it)."""
        return self._info.boundary

    @property
    def size_bytes(self) -> int:
        """Of the whole state of this process."""
        return self._manifest.size_bytes

    @property
    def missing(self) -> list[str]:
        """What it does not hold, a sentence each; empty if it is complete."""
        return [f"{where}: {why} ({kind})" for where, kind, why in (entry[:3] for entry in self._manifest.missing)]

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each part of the state: equal for equal states, on any machine."""
        return {root: str(facts[0]) for root, facts in self._manifest.roots.items()}

    @property
    def streams(self) -> dict[str, Any]:
        """The random streams as they were: `python`, `numpy`, `torch` and devices, as plain data."""
        found = {key: self._look(key) for key in self._whole_tree().roots if key[0] == "stream"}
        merged: dict[str, Any] = {}
        for key, value in found.items():
            merged.update(value if isinstance(value, dict) else {str(key[-1]): value})
        return merged

    # The mapping

    def __getitem__(self, name: str) -> Any:
        key = self._key(name)
        tree = self._whole_tree()
        if tree.nodes[tree.roots[key]][0] == "pickle":  # what is only put back by its own code can be looked at
            raise CheckpointError(f"{name} is kept as a pickle, which looking never opens: `.rebuild({name!r})` does, if you trust the run")
        return self._look(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def get(self, name: str, default: Any = None) -> Any:
        """The state of a name, or the default if there is none."""
        return self[name] if name in self._names() else default

    def _names(self) -> dict[str, RootKey]:
        if self._keys is None:
            self._keys = names_of(self._whole_tree())
        return self._keys

    def _key(self, name: str) -> RootKey:
        names = self._names()
        if name in names:
            return names[name]
        near = difflib.get_close_matches(str(name), names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it holds {', '.join(list(names)[:10])}{' ...' if len(names) > 10 else ''}"
        raise NotFound(f"the state of run {self.run} at {self.path} has nothing called {name!r}: {hint}")

    # Use

    def restore(self, **live: Any) -> None:
        """Put the recorded states into live objects, in place: `state.restore(net=net, opt=opt)`.

        `RestoreRefused` names every reason if they do not fit, before anything is touched: tensors, arrays and parameters have to have
        the recorded shape and dtype, modules the recorded parts.
        """
        if not live:
            raise UsageError("restore needs objects to put the state into: state.restore(net=net)")
        keys = {name: self._key(name) for name in live}

        def unlike(plan: restoring.Plan) -> Iterator[str]:
            found = misfits(plan, plan.met or ())
            yield from found.values()
            for name, thing in live.items():
                root = plan.tree.roots[keys[name]]
                if root not in found and plan.pairs.get(root) is not thing:
                    yield self._unlike(name, keys[name], thing)

        self._applied(self._plan({keys[name]: thing for name, thing in live.items()}, also=unlike))

    def _unlike(self, name: str, key: RootKey, thing: object) -> str:
        recorded = self._described(key)[0]
        if recorded in (type(thing).__name__, _CALLED.get(type(thing).__name__)):
            return f"{name} cannot be changed in place ({recorded}): take the value state[{name!r}] instead"
        return f"{name} was of type {recorded}, not {type(thing).__name__}"

    def rebuild(self, name: str) -> Any:
        """The object as it was, made anew. This imports its classes and runs what they need to be made: only for runs you trust."""
        key = self._key(name)
        return self._applied(self._plan({}, only=[key]))[key]

    def _applied(self, plan: restoring.Plan) -> Mapping[RootKey, Any]:
        try:
            return plan.apply()
        except Damaged as problem:
            raise self._damaged(problem) from problem

    def _plan(
        self, live: Mapping[RootKey, Any], only: list[RootKey] | None = None, also: Callable[[restoring.Plan], Iterator[str]] | None = None
    ) -> restoring.Plan:
        return restoring.plan(self._whole_tree(), live, self._reader(), only=list(live) if only is None else only, also=also)

    # Bytes

    def _whole_tree(self) -> Tree:
        if self._tree is None:
            try:
                self._tree = trees.decode(objects.get(self._store, self._manifest.tree))
            except (Damaged, NotFound) as problem:
                raise self._damaged(problem) from problem
        return self._tree

    def _reader(self) -> packs.PackReader:
        return packs.PackReader(self._store, self._known, [buffer.refs() for buffer in self._manifest.buffers])

    def _look(self, key: RootKey) -> Any:
        reader = self._reader()
        try:
            return look(self._whole_tree(), key, reader)
        except Damaged as problem:
            raise self._damaged(problem) from problem
        finally:
            reader.close()

    def _damaged(self, problem: Exception) -> Damaged:
        return Damaged(f"the checkpoint of run {self.run} at {self.path} is damaged: {problem}; {self._next_older()}")

    def _next_older(self) -> str:
        """The newest one before it whose bytes are what was written, by the place that finds it. Reads them all: this is said once."""
        from rearview.record.resume.restore_points import RestorePoint, problem_of

        older = [one for one in self._beside if one.usable and one.order < self._info.order]
        for info in sorted(older, key=lambda one: one.order, reverse=True):
            place = checkpoints.address(self._beside, info)
            point = RestorePoint(info.run, info.attempt, info.number, info.boundary, info.members)
            if place is not None and problem_of(self._store, point) is None:
                return f"the next older one that is whole is {place}"
        return "there is no older one that is whole"

    # Shown

    def __repr__(self) -> str:
        head = f"state of run {self.run} at {self.path or 'its beginning'} ({self.boundary}), {_size(self.size_bytes)}"
        rows = [(name, *self._described(key)) for name, key in list(self._names().items())[:_SHOWN]]
        wide = max((len(name) for name, _, _ in rows), default=0)
        lines = [f"  {name:<{wide}}  {kind:<10}  {size}".rstrip() for name, kind, size in rows]
        rest = len(self) - len(rows)
        lines += [f"  ... {rest} more names"] if rest else []
        lines += [f"  missing: {sentence}" for sentence in self.missing]
        return "\n".join(["".join(sign if sign.isprintable() else "?" for sign in line) for line in [head, *lines]])

    def _described(self, key: RootKey) -> tuple[str, str]:
        """What kind of thing a root is, and the bytes it brought in."""
        tree = self._whole_tree()
        facts = self._manifest.roots.get("/".join(map(str, key)))
        size = facts[1] if isinstance(facts, list) and len(facts) > 1 and isinstance(facts[1], int) else 0
        return _kind(tree, tree.roots[key]), _size(size) if size else ""


_CALLED = {"ndarray": "array", "Tensor": "tensor", "Parameter": "tensor"}
"""Classes that are called otherwise in a state."""


def _kind(tree: Tree, number: int) -> str:
    """`torch.nn.Linear` for an object, `tensor`, `int` ... for the rest: names only, nothing is imported."""
    kind, payload = tree.nodes[number]
    if kind == "obj":
        name, parts = tree.nodes[payload[0]]
        return str(tree.nodes[parts[1]][1]) if name == "ref" else "object"
    return {"nparray": "array", "true": "bool", "false": "bool", "bigint": "int"}.get(kind, kind)


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


_RANK = {"given": 0, "local": 1, trees.OUTER: 2, trees.CALLER: 3, "global": 4, "class": 5}

_OF_FRAMES = ("local", trees.OUTER, trees.CALLER)


def names_of(tree: Tree) -> dict[str, RootKey]:
    """What people call the roots: given names, then variables from the innermost frame outwards, then those of modules.

    Two different things of one name are told apart by where they are: the second is `name@1`, `name@module`.
    """
    found: dict[str, RootKey] = {}
    for key in sorted((key for key in tree.roots if key[0] in _RANK), key=_order):
        name = ".".join(str(part) for part in key[1:] if part != "__main__") if key[0] not in _OF_FRAMES else str(key[-1])
        if name not in found:
            found[name] = key
        elif tree.roots[found[name]] != tree.roots[key]:
            found.setdefault(f"{name}@{key[1]}", key)
    return found


def _order(key: RootKey) -> tuple[Any, ...]:
    depth = -int(key[1]) if key[0] == "local" else int(key[1]) if key[0] in _OF_FRAMES else 0
    return _RANK[str(key[0])], depth, key[0] == "global" and key[1] != "__main__"
