"""Output files as a checkpoint notes them and a resume brings them back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rearview.record.files import outputs
from rearview.record.resume import aside
from rearview.store import objects
from rearview.store.layout import Store


def rows(followed: outputs.Outputs, store: Store, mapped: Sequence[str] = ()) -> dict[str, list[Any]]:
    """The files of a checkpoint taken now, as a manifest has them."""
    noted = followed.note(followed.at_boundary(mapped), lambda data: objects.put(store, data))
    return {row[0]: row for row in json.loads(json.dumps(noted))}


def follow(store: Store) -> outputs.Outputs:
    return outputs.Outputs(store.project, store.root)


Plans = dict[str, aside.Plan]


def survey(store: Store, noted: dict[str, list[Any]], later: Any = (), removed: Any = (), ended: float | None = None) -> Plans:
    plans = aside.survey(store, store.project, noted.values(), later, removed, ended)
    return {plan.path: plan for plan in plans}


def resume(store: Store, plans: Plans, before_loop: Any = lambda: None) -> list[str]:
    """Set aside, run the code before the loop, bring back."""
    folder = store.root / "aside"
    files = aside.set_aside(store, list(plans.values()), folder)
    before_loop()
    return aside.bring_back(folder, json.loads(json.dumps(files)))
