"""A small training program, in a process of its own: `program.py record|resume FOLDER SCENARIO...`.

Recording runs each scenario twice, once as torch alone would do it and once watched, and keeps positions on the way; resuming, in a
later process, goes on from each of them. Every run happens in a forked child, so that torch is imported once. What a run saw (a digest
of each item, and draws from the three global streams in between) is written down as JSON and compared by the test.
"""

from __future__ import annotations

import copy
import hashlib
import json
import multiprocessing
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearview.state import loaders, positions, streams
from rearview.store import encoding
from tests.integration.loaders.scenarios import SCENARIOS, Scenario

torch.set_num_threads(1)
multiprocessing.set_forkserver_preload(["torch.utils.data", "numpy.random"])


def digest(item: Any) -> str:
    text = repr(item.tolist() if hasattr(item, "tolist") else [digest(part) for part in item] if isinstance(item, (list, tuple)) else item)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Training:
    """One run of a scenario."""

    def __init__(self, name: str, folder: Path) -> None:
        random.seed(1)
        np.random.seed(2)
        torch.manual_seed(3)
        self.scenario: Scenario = SCENARIOS[name]()
        self.name = name
        self.folder = folder
        self.log: dict[str, list[Any]] = {}
        self.keep = False

    def run(self, start: list[Any] | None = None) -> None:
        first, done, items = start or (0, 0, None)
        if start:
            start.clear()  # nothing but the loop holds its iterator
        for epoch in range(first, self.scenario.epochs):
            self.epoch(epoch, done, items)
            done, items = 0, None
        self.scenario.close()

    def epoch(self, epoch: int, done: int, items: Any) -> None:
        scenario = self.scenario
        if items is None:
            source = scenario.source(epoch)
            birth = positions.begin(source) if self.keep else None
            items = iter(source)
        else:
            held = items
            items, birth = held
            held.clear()
        count = done
        for item in items:
            count += 1
            self.log[f"{epoch}.{count}"] = [digest(item), random.random(), float(np.random.standard_normal()), torch.rand(1).item()]
            if count in scenario.stops_in(epoch):
                self.save(epoch, count, positions.take(items, birth, count) if self.keep else None)
            if count == scenario.breaks_at:
                break
        del items
        if scenario.stops_after(epoch):
            self.save(epoch, 0, None)

    def save(self, epoch: int, count: int, position: Any) -> None:
        if self.keep:
            held = [positions.take_live(iterator) for iterator in self.scenario.held()]
            kept = {"epoch": epoch, "count": count, "position": position, "held": held}
            kept |= {"state": self.scenario.state(), "streams": streams.take()}
            (self.folder / f"{self.name}-{epoch}-{count}").write_bytes(encoding.encode(kept))


def resume(training: Training, kept: dict[str, Any], inexact: list[str]) -> list[Any]:
    scenario = training.scenario
    scenario.set_state(kept["state"])
    epoch, count, position = kept["epoch"], kept["count"], kept.pop("position")
    start: list[Any] = [epoch + 1, 0, None]
    birth = None
    if position is not None:
        told = copy.deepcopy(position)
        source = scenario.source(epoch)
        items, birth = positions.put_back(source, position), positions.born_as(source, position)
        start = [epoch, count, [items, birth]]
        inexact += position["inexact"]
    else:
        for loader, held in zip(scenario.loaders(), kept["held"], strict=False):
            loaders.put_back(loader, held)
            inexact += held["inexact"]
    streams.put_back(kept["streams"])  # last
    if birth is not None:
        inexact += [f"{what} is told otherwise than it was" for what in _otherwise(positions.take(start[2][0], birth, count), told)]
    return start


def _otherwise(now: Any, then: Any, where: str = "position") -> list[str]:
    """What of a position differs from what it was: a replay proves itself by that."""
    if isinstance(now, dict) and isinstance(then, dict) and now.keys() == then.keys():
        return [found for key in now for found in _otherwise(now[key], then[key], f"{where}.{key}")]
    if isinstance(now, (list, tuple)) and isinstance(then, (list, tuple)) and len(now) == len(then):
        return [found for at, pair in enumerate(zip(now, then, strict=True)) for found in _otherwise(*pair, f"{where}.{at}")]
    return [] if repr(now) == repr(then) else [where]


def in_child(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("a run failed")


def children() -> list[str]:
    """Processes that this one left."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def record(name: str, folder: Path, watched: bool) -> None:
    training = Training(name, folder)
    training.keep = watched
    if watched:
        loaders.watch()
    training.run()
    loaders.unwatch()
    write(folder / f"{name}.{'watched' if watched else 'bare'}.json", training, [])


def go_on(path: Path) -> None:
    kept = encoding.decode(path.read_bytes())
    training = Training(path.name.rsplit("-", 2)[0], path.parent)
    if path.name.endswith("-0-3") or path.name.endswith("-0-2"):  # what is kept after this resume is resumed once more
        training.keep = True
        training.folder = path.parent / "second"
        training.folder.mkdir(exist_ok=True)
    loaders.watch()
    inexact: list[str] = []
    training.run(resume(training, kept, inexact))
    write(path.with_name(path.name + ".resumed.json"), training, inexact)


def write(path: Path, training: Training, inexact: list[str]) -> None:
    left = children()
    path.write_text(json.dumps({"log": training.log, "inexact": inexact, "left": left}))


def main(mode: str, folder: Path, names: list[str]) -> None:
    for name in names:
        if mode == "record":
            in_child(lambda: record(name, folder, False))  # noqa: B023 (it runs at once)
            in_child(lambda: record(name, folder, True))  # noqa: B023
        else:
            for path in sorted(folder.glob(f"{name}-*-*")):
                if not path.name.endswith(".json"):
                    in_child(lambda: go_on(path))  # noqa: B023


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
