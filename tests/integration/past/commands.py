"""Commands run in this process, and a run made by hand that they are about."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from rearview.testing.checkpoints import epoch, keep
from rearview.testing.stores import RunBuilder, StoreBuilder

ACC = [0.1, 0.9, 0.3, 0.2, 0.5, 0.6]
MB = 1_000_000

Says = Callable[..., tuple[int, str, str]]


def asked(says: Says, *words: str) -> Any:
    code, out, err = says(*words, "--json")
    assert code == 0, err
    return json.loads(out)


def train(builder: StoreBuilder, name: str, *, ends: bool = True, size: int = MB, **facts: Any) -> RunBuilder:
    """A run of six epochs called 1 to 6, a checkpoint in two parts after each, `acc` logged between the parts."""
    run = builder.run(name=name, **facts)
    process = run.process()
    for k, _ in enumerate(process.loop("epoch", range(1, 7))):
        for _ in process.loop("step", range(3)):
            process.log("loss", 1.0 / (k + 1))
        weights = os.urandom(size)
        process.clock_us = 60_000_000 * k + 40_000_000
        keep(run, k + 1, epoch(k, None, ["step", 0, 2, 2]), {"w": weights}, part="block", at_s=60 * k + 40)
        process.log("acc", ACC[k])
        keep(run, k + 1, epoch(k), {"w": weights, "h": bytes([k]) * 10}, at_s=60 * k + 41)
    if ends:
        process.end()
    else:
        process.stop()
    return run


def kept(says: Says, run: str = "last") -> list[str]:
    found = asked(says, "checkpoints", run)["checkpoints"]
    return list(dict.fromkeys(one["at"] for one in found if one["thinned"] is None))
