"""A script with the calls of the FlorDB paper (its Figure 3) runs with `import rearview as flor`; checkpointing comes later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rearview as rv

SCRIPT = """
import rearview as flor
from random import randint, random

hidden_size = flor.arg("hidden", 500)
learning_rate = flor.arg("lr", 1e-3)
batch_size = flor.arg("batch_size", 32)
seed = flor.arg("seed", randint(0, int(1e10)))
net = {"w": 1.0}
for e in flor.loop("epoch", range(3)):
    for x in flor.loop("step", [(k, k) for k in range(4)]):
        inputs, labels = x
        net["w"] -= learning_rate * net["w"]
        flor.log("loss", net["w"] ** 2)
    flor.log("accuracy", 1 - net["w"])
flor.log("f1_score", net["w"])
"""


def test_figure_3(project: Path, python: Callable[..., Any], monkeypatch: Any) -> None:
    (project / "train.py").write_text(SCRIPT)
    python(SCRIPT, "--kwargs", "lr=0.5", "batch_size=8", check=True)
    monkeypatch.chdir(project)
    rows = rv.dataframe("hidden", "lr", "batch_size", "seed", "loss", "f1_score", as_="rows")
    assert len(rows) == 12
    assert [(row["epoch"], row["step"]) for row in rows] == [(e, s) for e in range(3) for s in range(4)]
    assert {(row["hidden"], row["lr"], row["batch_size"]) for row in rows} == {(500, 0.5, 8)}
    weight = 1.0
    for row in rows:
        weight -= 0.5 * weight
        assert row["loss"] == weight**2
    assert {row["f1_score"] for row in rows} == {weight}
    (view,) = rv.sql("SELECT count(DISTINCT ctx_id) AS n FROM logs WHERE value_name = 'loss'")
    assert view["n"] == 12
