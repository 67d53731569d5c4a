"""Conservative logging as in Flor's Figure 1: histograms of activations, weights and gradients, four times an epoch.

A small SqueezeNet trains on made-up pictures with two threads. Epochs without logging, with a plain `SummaryWriter` and with
`rv.background(SummaryWriter(...))` take turns in one process, each until everything it logged is in the file. The figure held is what
logging costs with the background over what it costs without, round by round; beside it the same by CPU seconds, which other programs on
the machine cannot disturb, and what the calls held up the training thread.

`python -m bench.bench_background [ROUNDS] [STEPS] [BATCH]`; a loaded machine needs more rounds.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import harness

ROUNDS = 9
STEPS = 20
BATCH = 32
LOGS = 4
THREADS = 2
LIMIT = 0.15
KINDS = ("none", "plain", "behind")


class Epoch(NamedTuple):
    """What an epoch took."""

    wall_s: float
    cpu_s: float
    held_s: float
    """In logging calls, on the training thread."""
    flush_s: float


def squeezenet(torch: Any) -> Any:
    """Flor's Figure 1 has SqueezeNet on CIFAR-100; this is its shape."""
    nn = torch.nn

    class Fire(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, given: int, squeezed: int, expanded: int) -> None:
            super().__init__()
            self.squeeze = nn.Conv2d(given, squeezed, 1)
            self.one = nn.Conv2d(squeezed, expanded, 1)
            self.three = nn.Conv2d(squeezed, expanded, 3, padding=1)

        def forward(self, x: Any) -> Any:
            x = self.squeeze(x).relu()
            return torch.cat([self.one(x).relu(), self.three(x).relu()], 1)

    fires = [(64, 16, 64), (128, 16, 64), None, (128, 32, 128), (256, 32, 128), None]
    fires += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
    body = [Fire(*sizes) if sizes else nn.MaxPool2d(2) for sizes in fires]
    head = [nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*head, *body, nn.Conv2d(512, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Program:
    """The training, and what it logs."""

    def __init__(self, torch: Any, batch: int) -> None:
        torch.manual_seed(0)
        self.torch = torch
        self.net = squeezenet(torch)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.x, self.y = torch.randn(batch, 3, 32, 32), torch.randint(0, 100, (batch,))
        self.activations: dict[str, Any] = {}
        for name, module in self.net.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_hook(self._keeper(name))
        self.step()

    def _keeper(self, name: str) -> Callable[..., None]:
        def keep(_module: Any, _given: Any, made: Any) -> None:
            self.activations[name] = made

        return keep

    def step(self) -> None:
        """Forward, backward, update."""
        self.opt.zero_grad()
        self.torch.nn.functional.cross_entropy(self.net(self.x), self.y).backward()
        self.opt.step()

    def logged(self) -> dict[str, Any]:
        """What is logged each time."""
        named = dict(self.net.named_parameters())
        return (
            {f"activations/{name}": made for name, made in self.activations.items()}
            | {f"weights/{name}": parameter for name, parameter in named.items()}
            | {f"gradients/{name}": parameter.grad for name, parameter in named.items()}
        )

    def epoch(self, writer: Any, steps: int) -> Epoch:
        """One epoch, until all it logged is written."""
        held = 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        for number in range(steps):
            self.step()
            if writer is not None and (number + 1) % (steps // LOGS) == 0:
                begin = time.perf_counter()
                for name, values in self.logged().items():
                    writer.add_histogram(name, values, number)
                held += time.perf_counter() - begin
        begin = time.perf_counter()
        if writer is not None:
            writer.flush()
        end = time.perf_counter()
        return Epoch(end - wall, time.process_time() - cpu, held, end - begin)


def measure(program: Program, writers: dict[str, Any], rounds: int, steps: int) -> dict[str, list[Epoch]]:
    """Epochs of every kind, in turn, a different one first each round; one round before that does not count."""
    taken: dict[str, list[Epoch]] = {kind: [] for kind in KINDS}
    for number in range(rounds + 1):
        first = number % len(KINDS)
        for kind in KINDS[first:] + KINDS[:first]:
            epoch = program.epoch(writers[kind], steps)
            if number:
                taken[kind].append(epoch)
    return taken


def costs(taken: dict[str, list[Epoch]], field: str) -> dict[str, Any]:
    """What logging adds to an epoch in both ways, and the ratio: of each round, and of the medians."""
    none, plain, behind = ([getattr(epoch, field) for epoch in taken[kind]] for kind in KINDS)
    added_plain = [a - b for a, b in zip(plain, none, strict=True)]
    added_behind = [a - b for a, b in zip(behind, none, strict=True)]
    middle = {kind: harness.summary(values)["median"] for kind, values in zip(KINDS, (none, plain, behind), strict=True)}
    return {
        "epoch_s": harness.figures(none=none, plain=plain, behind=behind),
        "overhead_plain": harness.rounded((middle["plain"] - middle["none"]) / middle["none"]),
        "overhead_behind": harness.rounded((middle["behind"] - middle["none"]) / middle["none"]),
        "ratio": harness.ratio(added_behind, added_plain),
        "ratio_of_medians": harness.rounded((middle["behind"] - middle["none"]) / (middle["plain"] - middle["none"])),
    }


def main() -> None:
    """Measure in a folder of its own."""
    rounds, steps, batch = (int(text) for text in (*sys.argv[1:], *map(str, (ROUNDS, STEPS, BATCH)[len(sys.argv) - 1 :])))
    warnings.simplefilter("ignore")  # TensorBoard's and protobuf's own
    import torch
    from torch.utils.tensorboard import SummaryWriter

    import rearview as rv
    from rearview.record.background.wrapping import stats

    torch.set_num_threads(THREADS)
    program = Program(torch, batch)
    with tempfile.TemporaryDirectory() as folder:
        writers: dict[str, Any] = {"none": None, "plain": SummaryWriter(f"{folder}/plain")}
        writers["behind"] = rv.background(SummaryWriter(f"{folder}/behind"))
        taken = measure(program, writers, rounds, steps)
        waits = stats(writers["behind"]).waits
        for kind in KINDS[1:]:
            writers[kind].close()
    logged = program.logged().values()
    results = {
        "per_log": {"histograms": len(logged), "values": sum(values.numel() for values in logged), "per_epoch": LOGS},
        "wall": costs(taken, "wall_s"),
        "cpu": costs(taken, "cpu_s"),
        "held_s": harness.figures(plain=[e.held_s for e in taken["plain"]], behind=[e.held_s for e in taken["behind"]]),
        "flush_s": harness.figures(plain=[e.flush_s for e in taken["plain"]], behind=[e.flush_s for e in taken["behind"]]),
        "waits": waits,
    }
    harness.report("background", results, limits={"wall.ratio.median": LIMIT})


if __name__ == "__main__":
    main()
