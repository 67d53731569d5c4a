"""A SummaryWriter in the background writes the events it would have written; its histograms and checksums are exact."""

from __future__ import annotations

import os
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rearview.record.background import records as background_records
from rearview.record.background.calls import Call
from rearview.record.background.checksum import Checksum
from rearview.record.background.histograms import PIECE, SORTED_UP_TO, Buckets
from rearview.record.background.wrapping import background, stats
from tests.integration.resume.training import Nursery

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
pytest.importorskip("tensorboard")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorBoard's and protobuf's own
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import make_histogram

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def events(folder: Path) -> list[Any]:
    """Every event below a folder in the order of its file, read by TensorBoard, without the times."""
    found = []
    for path in sorted(folder.rglob("events.*")):
        for raw in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(raw)
            event.wall_time = 0
            event.source_metadata.Clear()
            found.append((path.parent.relative_to(folder).as_posix(), event))
    return found


def same(one: list[Any], other: list[Any]) -> None:
    """Equal events; sums of squares may differ in their last digits, as they do with another number of BLAS threads."""
    assert len(one) == len(other) > 1
    for (where, a), (elsewhere, b) in zip(one, other, strict=True):
        assert where == elsewhere
        for value, its in zip(a.summary.value, b.summary.value, strict=True):
            if value.HasField("histo"):
                assert value.histo.sum_squares == pytest.approx(its.histo.sum_squares, rel=1e-12, nan_ok=True)
                its.histo.sum_squares = value.histo.sum_squares
        assert a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)


def both(tmp_path: Path, use: Callable[[Any], None]) -> tuple[list[Any], list[Any]]:
    """What a program writes without and with the background."""
    for name in ("plain", "behind"):
        torch.manual_seed(0)
        writer = SummaryWriter(str(tmp_path / name))
        writer = background(writer) if name == "behind" else writer
        use(writer)
        writer.close()
    return events(tmp_path / "plain"), events(tmp_path / "behind")


def test_all_kinds_of_events_are_the_same(tmp_path: Path) -> None:
    def use(writer: Any) -> None:
        running = torch.zeros(3)
        for step in range(5):
            running += step
            writer.add_scalar("loss", running.sum(), step)
            writer.add_scalar("plain", 0.25 * step, step, new_style=True)
            writer.add_scalars("both", {"a": step, "b": running[0]}, step)
            writer.add_histogram("running", running, step)
            writer.add_histogram("array", numpy.full(4, step, numpy.float32), step)
            writer.add_histogram("whole", torch.arange(step + 3), step)
            writer.add_histogram("fd", torch.randn(100), step, bins="fd")
            writer.add_histogram("few", torch.randn(5000), step, max_bins=20)
            writer.add_text("text", f"step {step}", step)
            writer.add_tensor("tensor", running, step)
            running.mul_(1.5)
        writer.add_pr_curve("pr", torch.randint(0, 2, (20,)), torch.rand(20), 1)
        writer.add_hparams({"lr": 0.1, "name": "x"}, {"acc": 0.5}, run_name="h")

    same(*both(tmp_path, use))


def test_histograms_of_a_training_are_the_same(tmp_path: Path) -> None:
    """Weights, gradients and activations, changed in place right after they were logged."""

    def use(writer: Any) -> None:
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
        kept: dict[str, Any] = {}
        net[1].register_forward_hook(lambda module, given, made: kept.__setitem__("relu", made))
        for step in range(4):
            optimizer.zero_grad(set_to_none=False)
            net(torch.randn(8, 3, 32, 32)).square().mean().backward()
            for name, parameter in net.named_parameters():
                writer.add_histogram(f"weights/{name}", parameter, step)
                writer.add_histogram(f"gradients/{name}", parameter.grad, step)
            writer.add_histogram("activations", kept["relu"], step)
            writer.add_histogram("turned", kept["relu"].permute(0, 2, 3, 1), step)
            optimizer.step()
            kept["relu"].data.fill_(-1)

    same(*both(tmp_path, use))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool"])
def test_every_type_of_number(tmp_path: Path, dtype: str) -> None:
    def use(writer: Any) -> None:
        values = (torch.randn(5000) * 100).to(getattr(torch, dtype))
        writer.add_histogram("x", values, 1)
        values.zero_()
        writer.add_histogram("x", values, 2)

    same(*both(tmp_path, use))


def test_the_time_is_that_of_the_call(tmp_path: Path) -> None:
    writer = background(SummaryWriter(str(tmp_path)))
    queue = writer._rearview.queue
    gate = threading.Event()
    queue.make_room(1)
    queue.put(Call(lambda: gate.wait(30), 1, "gate", ("x", 1)))
    before = time.time()
    writer.add_scalar("x", 1.0, 0)
    writer.add_histogram("h", torch.ones(3), 0)
    writer.add_scalar("given", 1.0, 0, 12345.0)
    after = time.time()
    time.sleep(0.05)
    gate.set()
    writer.close()
    times = {v.tag: e.wall_time for e in raw_events(tmp_path) for v in e.summary.value}
    assert before <= times["x"] <= after
    assert before <= times["h"] <= after
    assert times["given"] == 12345.0


def test_tensorboards_own_reader_sees_the_same(tmp_path: Path) -> None:
    def use(writer: Any) -> None:
        for step in range(3):
            writer.add_scalar("loss", 1.0 / (step + 1), step, walltime=float(step))
            writer.add_histogram("weights", torch.randn(300), step, walltime=float(step))

    both(tmp_path, use)
    plain, behind = (EventAccumulator(str(tmp_path / name), size_guidance={"histograms": 0}).Reload() for name in ("plain", "behind"))
    assert plain.Tags() == behind.Tags()
    assert plain.Scalars("loss") == behind.Scalars("loss")
    assert plain.Histograms("weights") == behind.Histograms("weights")
    assert len(plain.Histograms("weights")) == 3


def raw_events(folder: Path) -> list[Any]:
    return [Event.FromString(raw) for path in sorted(folder.rglob("events.*")) for raw in RawEventFileLoader(str(path)).Load()]


def test_values_are_those_at_the_call_even_of_inference_tensors(tmp_path: Path) -> None:
    values = torch.full((200_000,), 2.0)
    writer = background(SummaryWriter(str(tmp_path)))
    for step in range(6):
        with torch.inference_mode(step % 2 == 0):
            writer.add_histogram("x", values, step)
        values.fill_(100.0 + step)
    writer.close()
    assert [e.summary.value[0].histo.max for e in raw_events(tmp_path) if e.summary.value] == [2.0, 100.0, 101.0, 102.0, 103.0, 104.0]


def test_what_tensorboard_refuses_is_refused_with_its_words(tmp_path: Path) -> None:
    writer = background(SummaryWriter(str(tmp_path)))
    writer.add_histogram("empty", torch.empty(0), 1)
    with pytest.raises(ValueError, match="The input has no element"):
        writer.flush()
    writer.add_histogram("nothing", torch.full((10,), float("nan")), 1)
    with pytest.raises(ValueError, match="The histogram is empty"):
        writer.flush()
    with pytest.raises(TypeError, match="values"):
        writer.add_histogram("no values")
    writer.close()


@pytest.mark.parametrize("values", [[float("nan"), 1.0, -2.0], [float("inf"), 1.0], [1e30, 1.0], [-3e20, 1.0]])
def test_what_is_no_number_or_beyond_the_buckets(tmp_path: Path, values: list[float]) -> None:
    same(*both(tmp_path, lambda writer: writer.add_histogram("x", torch.tensor(values), 0)))


def test_methods_that_give_something_give_it(tmp_path: Path) -> None:
    writer = background(SummaryWriter(str(tmp_path)))
    assert isinstance(writer, SummaryWriter)
    assert writer.get_logdir() == str(tmp_path)
    assert writer.log_dir == str(tmp_path)
    writer.add_graph(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    assert stats(writer).calls == 0  # a model is traced where it is used
    with writer as entered:
        entered.add_scalar("x", 1.0)
    writer.add_scalar("after", 1.0)  # a SummaryWriter opens a new file
    writer.close()
    assert {v.tag for e in raw_events(tmp_path) for v in e.summary.value} == {"x", "after"}


def test_a_writer_of_another_make_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(SummaryWriter):  # type: ignore[misc]
        def add_histogram(self, tag: str, values: Any, *args: Any, **kwargs: Any) -> None:
            super().add_histogram("own/" + tag, values, *args, **kwargs)

    def use(writer: Any) -> None:
        writer.add_histogram("x", torch.arange(4.0), 0)

    writer = background(Own(str(tmp_path / "own")))
    use(writer)
    writer.close()
    assert [v.tag for e in raw_events(tmp_path / "own") for v in e.summary.value] == ["own/x"]
    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter", object)
    plain, behind = both(tmp_path / "two", use)
    same(plain, behind)


def test_the_inside_of_the_writer_was_found(tmp_path: Path) -> None:
    """If not, everything works, but slowly: a new TensorBoard looks different."""
    writer = SummaryWriter(str(tmp_path))
    behind = background(writer)
    behind.add_histogram("x", torch.ones(5), 0)
    behind.flush()
    assert type(writer.file_writer.event_writer._async_writer._writer) is background_records.Records
    assert behind._rearview.calls._buckets.exact
    behind.close()


def test_the_bytes_of_a_record_are_tensorboards(tmp_path: Path) -> None:
    """The whole file, byte by byte: header, lengths, checksums."""
    writer = background(SummaryWriter(str(tmp_path)))
    for step in range(10):
        writer.add_histogram("x", torch.randn(3000), step, walltime=1.0)
        writer.add_scalar("s", step, step)
    writer.close()
    data = next(tmp_path.glob("events.*")).read_bytes()
    count = 0
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        record = data[12 : 12 + length]
        assert struct.unpack("<I", data[8:12])[0] == masked_crc32c(data[:8])
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked_crc32c(record)
        data = data[16 + length :]
        count += 1
    assert count == 21


@pytest.mark.parametrize("length", [0, 1, 3, 4, 8, 255, 256, 257, 258, 260, 511, 512, 513, 1000, 4096, 25_000, 32_768, 32_769])
def test_the_checksum_is_tensorboards(length: int) -> None:
    checksum = Checksum(numpy)
    for data in (bytes(length), b"\xff" * length, os.urandom(length), os.urandom(length)):
        assert checksum.masked(data) == masked_crc32c(data)


# -- histograms, against the original ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bins() -> list[float]:
    """TensorBoard's buckets."""
    limits = [1e-12 * 1.0]
    while limits[-1] < 1e20:
        limits.append(limits[-1] * 1.1)
    limits.pop()
    return [-limit for limit in reversed(limits)] + [0.0] + limits


def kinds(rng: Any, size: int, buckets: Buckets) -> dict[str, Any]:
    """Values that are easy, hard, and exactly on or beside the limits."""
    limits = buckets._limits32[1:-1]
    below, above = (numpy.nextafter(limits, numpy.float32(far)) for far in (-1e30, 1e30))
    beside = numpy.concatenate([limits, below, above, -limits])
    return {
        "weights": rng.standard_normal(size) * 0.05,
        "activations": numpy.maximum(rng.standard_normal(size), 0),
        "everything": 10.0 ** rng.uniform(-44, 19.9, size) * rng.choice([-1, 1], size),
        "zeros": numpy.where(rng.random(size) < 0.5, 0.0, -0.0),
        "minus zero": numpy.full(size, -0.0),
        "one": numpy.full(size, 3.25),
        "limits": beside[rng.integers(0, len(beside), size)],
        "below zero": -numpy.abs(rng.standard_normal(size)) * 1e-12,
    }


@pytest.mark.parametrize("size", [1, 2, 9, 1000, SORTED_UP_TO, SORTED_UP_TO + 1, PIECE, PIECE + 1, 3 * PIECE + 17])
def test_histograms_are_exactly_tensorboards(bins: list[float], size: int) -> None:
    buckets = Buckets(bins, numpy)
    assert buckets.exact
    rng = numpy.random.default_rng(size)
    for name, values in kinds(rng, size, buckets).items():
        values = values.astype(numpy.float32)
        mine = buckets.histogram(values)
        theirs = make_histogram(values.astype(float), bins)
        assert mine is not None, name
        assert (mine.min, mine.max, mine.num, mine.sum) == (theirs.min, theirs.max, theirs.num, theirs.sum), name
        assert mine.sum_squares == pytest.approx(theirs.sum_squares, rel=1e-12), name
        assert mine.bucket_limits.tolist() == list(theirs.bucket_limit), name
        assert mine.bucket_counts.tolist() == list(theirs.bucket), name


@pytest.mark.parametrize("odd", [[0.0], [1.0, 1.0], [2.0, 1.0], [0.0, 1e-60, 1e-59, 1.0], [0.0, 1.0, 1.001, 1.002, 1.003]])
def test_limits_that_cells_cannot_tell_apart_are_left_to_numpy(odd: list[float]) -> None:
    buckets = Buckets(odd, numpy)
    assert not buckets.exact
    assert buckets.histogram(numpy.ones(3, numpy.float32)) is None


SLOW = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
import rearview as rv
from tensorboard.summary.writer import record_writer
from torch.utils.tensorboard import SummaryWriter

write = record_writer.RecordWriter.write
record_writer.RecordWriter.write = lambda self, data: (time.sleep(0.01), write(self, data))
writer = SummaryWriter("logs")
writer = rv.background(writer) if "behind" in sys.argv else writer
with rv.checkpointing():
    for epoch in rv.loop("epoch", range(4)):
        for step in rv.loop("step", range(6)):
            writer.add_scalar("loss", step / 8, epoch * 7 + step)
        writer.add_scalar("loss", 1.0, epoch * 7 + 6)
        if epoch == 2 and "DIE" in os.environ:
            time.sleep(0.5)  # its rows are in the file by now
            os.kill(os.getpid(), 9)
writer.close()
"""


@pytest.mark.parametrize("how", ["plain", "behind"])
def test_a_resumed_run_has_each_event_once(how: str, nursery: Nursery, project: Path) -> None:
    (project / "train.py").write_text(SLOW)
    assert nursery.run(project, "train.py", how, env={"REARVIEW_EVERY": "1", "DIE": "1"}).code == -9
    assert len(events(project / "logs")) == 1 + 21
    done = nursery.command(project, "resume", "--yes", env={"REARVIEW_EVERY": "1"}).wait()
    assert done.code == 0, done.stderr
    assert [event.step for _, event in events(project / "logs") if event.summary.value] == list(range(28))
