"""Keeping to a policy while the run goes on: checkpoints that it does not keep lose their bytes, on the writing thread.

The decision is `plan.retention`'s, the removal `store.gc`'s. Done seldom enough that it costs a small part of the time; what is left is
done by `rearview gc`, and so is a budget, which is about all runs. One process alone: ranks leave it to gc.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rearview.errors import RearviewError
from rearview.plan import policies
from rearview.store.manifests import Manifest, ManifestName

if TYPE_CHECKING:
    from rearview.plan.retention import Item
    from rearview.record.recorder import Recorder

_SHARE = 20.0
"""A round is followed by this many times its duration without one."""


class Thinning:
    """The checkpoints of one run as its policy sees them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._policy = policies.parse(recorder.settings["keep"], recorder.settings["peak"])
        self.is_needed = not self._policy.keeps_all and (recorder.world or 1) == 1
        self._items: dict[ManifestName, Item] = {}
        self._metrics: dict[str, float] = {}
        self._not_before = 0.0
        if self.is_needed and self._policy.peak is not None:
            self._watch(self._policy.peak.metric)

    def _watch(self, metric: str) -> None:
        """See the values of the metric that says which checkpoint is the best, as they are logged."""
        log = self._recorder.log

        def seeing(name: str, value: object, volatile: bool) -> None:
            log(name, value, volatile)
            if name == metric:
                try:
                    self._metrics[name] = float(value)  # type: ignore[arg-type]
                except (TypeError, ValueError, RuntimeError):
                    pass  # not a number: it says nothing about the best

        self._recorder.log = seeing  # type: ignore[method-assign]

    def metrics(self) -> dict[str, float]:
        """What was logged of it up to now; on the training thread, when a state is taken."""
        return dict(self._metrics)

    def written(self, manifest: Manifest, metrics: dict[str, float]) -> None:
        """A checkpoint is there."""
        if self.is_needed:
            from rearview.plan.retention import Item

            pieces = {chunk: ref.size for buffer in manifest.buffers for chunk, ref in zip(buffer.chunks, buffer.refs(), strict=True)}
            place = (manifest.run, manifest.attempt, manifest.number, manifest.part, "", manifest.wall, manifest.size_bytes)
            self._items[manifest.name] = Item(*place, pieces, metrics=metrics)

    def keep_to_it(self, *, last: bool = False) -> None:
        """Drop what the policy does not keep, if it is time."""
        now = time.monotonic()
        if not self.is_needed or (now < self._not_before and not last):
            return
        from rearview.plan import retention  # most runs keep everything
        from rearview.store import gc

        store, run = self._recorder.store, self._recorder.run
        facts: dict[str, retention.RunFacts] = {run: retention.RunFacts(running=not last, finished=last, policy=self._policy)}
        names = list(self._items)
        verdicts = retention.choose([self._items[name] for name in names], self._policy, time.time(), facts)
        drop = [name for name, verdict in zip(names, verdicts, strict=True) if not verdict.keep]
        if drop:
            try:
                gc.execute(store, gc.plan(store, drop, why=f"the run keeps {self._policy}", only_packs=True), wait_s=0.0)
            except (OSError, RearviewError):
                pass  # another gc is at work, or the disk fails: `rearview gc` does it later
            else:
                for name in drop:
                    del self._items[name]
        self._not_before = time.monotonic() + _SHARE * (time.monotonic() - now)
