"""TensorBoard's SummaryWriter in the background: the same events, with the time of the call, from less work.

Two things dominate what histograms cost there: NumPy's way to count into 1,548 buckets (with a dot product over several threads)
and a checksum computed byte by byte, which holds the interpreter. Both are replaced by equal ones (`histograms`,
`records`). Everything is guarded: a writer that looks different inside is used as it is.

Loads nothing: torch, NumPy and TensorBoard are there if there is a SummaryWriter.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rearview.record.background.arguments import Copier
from rearview.record.background.calls import CALL_BYTES, Asked, Kept, Plain, moment
from rearview.record.background.checksum import Checksum
from rearview.record.background.histograms import Buckets, Histogram
from rearview.record.background.records import histogram_event, quicken, write_out
from rearview.record.checkpoints.staging import memcpy

MADE_AT_ONCE = frozenset({"add_graph", "add_onnx_graph", "add_figure"})
"""They run the model, or draw: that belongs to the thread that asks."""
POOLED_FROM = 1 << 14
"""Smaller arrays are not worth keeping for the next time."""


def summary_writer(target: Any) -> bool:
    """Whether it is torch's SummaryWriter, with the histograms that it came with."""
    module = sys.modules.get("torch.utils.tensorboard.writer")
    known = getattr(module, "SummaryWriter", None)
    kind = type(target)
    return (
        known is not None
        and isinstance(target, known)
        and kind.add_histogram is known.add_histogram
        and kind.add_histogram_raw is known.add_histogram_raw
    )


@dataclass(slots=True)
class Made:
    """A histogram on its way: its values, until they are counted."""

    values: Any
    arrivals: list[Callable[[], None]]
    histogram: Histogram | None = None
    readers: int = 0
    """Threads that count right now: the memory is used again when there is none."""


class TensorBoard(Plain):
    """The calls of a SummaryWriter."""

    def __init__(self, target: Any, wait: Iterable[str], pool_bytes: int) -> None:
        super().__init__(target, wait)
        self._np = sys.modules["numpy"]
        self._torch = sys.modules["torch"]
        self._narrow = {self._torch.float16, self._torch.bfloat16}
        self._walltime_at: dict[str, int | None] = {}
        self._pool_bytes = pool_bytes
        self._checksum: Checksum | None = None
        self.forget()

    def forget(self) -> None:
        self._pool = Pool(self._np, self._pool_bytes)
        self._buckets: Buckets | None = None
        self._bins: object = None
        self._counting = threading.Lock()

    def is_queued(self, name: str) -> bool:
        return name.startswith("add_") and name not in MADE_AT_ONCE and name not in self.waits

    def idle(self) -> None:
        for file in (self.target.all_writers or {}).values():
            write_out(file)

    def closed(self) -> None:
        self._pool.clear()

    def ask(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        if name == "add_histogram":
            return self._ask_histogram(method, *args, **kwargs)
        at = self._where_walltime_stands(name, method)
        if at is not None and len(args) <= at and kwargs.get("walltime") is None:
            kwargs = {**kwargs, "walltime": moment()}
        return super().ask(name, method, args, kwargs)

    def _where_walltime_stands(self, name: str, method: Callable[..., Any]) -> int | None:
        if name not in self._walltime_at:
            names = list(inspect.signature(method).parameters)
            self._walltime_at[name] = names.index("walltime") if "walltime" in names else None
        return self._walltime_at[name]

    # -- histograms ----------------------------------------------------------------------------------------------------------

    def _ask_histogram(
        self,
        method: Callable[..., Any],
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> Asked:
        """Takes what `SummaryWriter.add_histogram` takes."""
        walltime = moment() if walltime is None else walltime
        usual = isinstance(bins, str) and bins == "tensorflow" and max_bins is None
        if not (usual and self._is_float(values)):
            return super().ask("add_histogram", method, (tag, values, global_step, bins, walltime, max_bins), {})
        size: int = values.numel() if isinstance(values, self._torch.Tensor) else values.size

        def staged() -> Kept:
            # The step may be a tensor or an array too; tag and time cannot change.
            step = global_step if type(global_step) is int else Copier().of(global_step)
            made = Made(*self._stage(values, size))
            return Kept(lambda: self._add(tag, made, step, walltime), lambda: self._count(made))

        return Asked(CALL_BYTES + size * 4, staged)

    def _is_float(self, values: Any) -> bool:
        """Whether the values are float32, or become it without loss, in memory of their own order."""
        if isinstance(values, self._torch.Tensor):
            known = values.dtype is self._torch.float32 or values.dtype in self._narrow
            return known and values.layout is self._torch.strided and values.device.type in ("cpu", "cuda")
        return type(values) is self._np.ndarray and values.dtype == self._np.float32

    def _stage(self, values: Any, size: int) -> tuple[Any, list[Callable[[], None]]]:
        """The values as they are now, in order, as float32."""
        torch = self._torch
        if not isinstance(values, torch.Tensor):
            array = self._pool.get(size)
            self._np.copyto(array.reshape(values.shape), values)
            return array, []
        plain = values.detach()
        if plain.dtype is torch.bfloat16:
            plain = plain.to(torch.float16)  # as TensorBoard does, and what then is too large is infinite
        if plain.device.type != "cpu":
            copier = Copier()
            host = copier.of(plain.to(torch.float32).contiguous())
            return host.numpy().reshape(-1), copier.arrivals
        array = self._pool.get(size)
        kept = torch.from_numpy(array)
        if plain.dtype is torch.float32 and plain.is_contiguous() and not plain.is_neg():
            memcpy(kept.data_ptr(), plain.data_ptr(), 4 * size)  # a third of the time that torch's own takes, on all its threads
        else:
            kept.view(plain.shape).copy_(plain)
        return array, []

    def _count(self, made: Made) -> None:
        """Runs later, on any thread, or on two if one is slow: everything but writing."""
        for arrived in made.arrivals:
            arrived()
        with self._counting:
            limits, values = self.target.default_bins, made.values
            if self._buckets is None or self._bins is not limits:
                self._bins, self._buckets = limits, Buckets(limits, self._np)
            buckets = self._buckets
            made.readers += 1
        histogram = buckets.histogram(values) if values is not None else made.histogram
        with self._counting:
            made.readers -= 1
            made.histogram = histogram
            if made.readers == 0 and histogram is not None and made.values is not None:
                self._pool.put(made.values)
                made.values = None

    def _add(self, tag: str, made: Made, step: Any, walltime: float) -> None:
        """Runs later, in its turn: let the writer write."""
        writer, histogram = self.target, made.histogram
        if histogram is None:  # nothing in it, or no number: let TensorBoard say what it says then
            writer.add_histogram(tag, made.values, step, walltime=walltime)
            return
        write = self._quick_write(writer)
        if write is not None and (event := histogram_event(tag, histogram, step, walltime)) is not None:
            write(event)
            return
        limits, counts = histogram.bucket_limits.tolist(), histogram.bucket_counts.tolist()
        writer.add_histogram_raw(tag, *histogram[:5], limits, counts, step, walltime)

    def _quick_write(self, writer: Any) -> Callable[[bytes], None] | None:
        """What writes an event into the writer's main file, unless that looks different inside."""
        if self._checksum is None:
            self._checksum = Checksum(self._np)
        if not hasattr(writer, "_get_file_writer"):
            return None
        return quicken(writer._get_file_writer(), self._checksum)


class Pool:
    """Float32 arrays to copy into, kept for the next time: fresh memory costs more than the copy.

    The same tensors are logged again and again, so sizes match.
    """

    def __init__(self, numpy: Any, limit_bytes: int) -> None:
        self._np = numpy
        self._limit = limit_bytes
        self._held = 0
        self._free: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def get(self, size: int) -> Any:
        """An array of that size; what is in it is anybody's guess."""
        with self._lock:
            free = self._free.get(size)
            if free:
                array = free.pop()
                self._held -= array.nbytes
                return array
        return self._np.empty(size, self._np.float32)

    def put(self, array: Any) -> None:
        """It is not needed any more."""
        if len(array) < POOLED_FROM:
            return
        with self._lock:
            if self._held + array.nbytes <= self._limit:
                self._held += array.nbytes
                self._free.setdefault(len(array), []).append(array)

    def clear(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._free = {}
            self._held = 0
