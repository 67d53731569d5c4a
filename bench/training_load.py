"""A program that trains with all cores busy while its state is kept, by one means after the other: `python -m bench.training_load '{...}'`.

Run by `bench_checkpoint` and `bench_restore` in a process of its own; prints one JSON object. The program is a loop of *windows*, each a
nested loop of as many training steps; in a program by step, as many iterations of the one loop. At the end of each window something is
done once, in turn: nothing, `torch.save`, an asynchronous `torch.distributed.checkpoint`, or a checkpoint of rearview (by
`rv.checkpointing` itself, with REARVIEW_EVERY set to the length of the turn). What it costs the run is how much longer the next window
takes than the windows beside it in which nothing goes on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench import bytes_alone, stopwatch
from bench.stopwatch import bytes_of

THREADS = 2


@dataclass
class Load:
    """A model, its optimizer, and the data of a step."""

    net: nn.Module
    opt: torch.optim.Optimizer
    data: torch.Tensor

    def step(self) -> None:
        """Forward, backward, update. Gradients are let go, so that the state is the model and its optimizer."""
        self.net(self.data).square().mean().backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """As people give it to `torch.save`."""
        return {"net": self.net.state_dict(), "opt": self.opt.state_dict()}

    def tensors(self) -> list[torch.Tensor]:
        """All memory of the state."""
        inner = [value for state in self.opt.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
        return [*self.net.state_dict().values(), *inner]

    def changed(self) -> list[torch.Tensor]:
        """What a step changes."""
        trained = [parameter for parameter in self.net.parameters() if parameter.requires_grad]
        return [*trained, *self.tensors()[len(self.net.state_dict()) :]]


def layers(width: int, count: int) -> nn.Sequential:
    """Linear layers that keep their input's scale."""
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))


def adam() -> Load:
    """1.1 GB of model and Adam, everything changed by every step."""
    net = layers(3072, 10)
    return Load(net, torch.optim.Adam(net.parameters(), lr=1e-5), torch.randn(64, 3072))


def finetune() -> Load:
    """400 MB of model of which 5 % are trained."""
    net = layers(2240, 20)
    for parameter in net[:-1].parameters():
        parameter.requires_grad_(False)
    return Load(net, torch.optim.Adam(net[-1].parameters(), lr=1e-5), torch.randn(192, 2240))


def small() -> Load:
    """1,000 tensors of 100 kB, all changed by every step: what comes through so many layers must keep its length."""
    net = layers(160, 1000)
    for parameter in net.parameters():
        nn.init.orthogonal_(parameter)
    return Load(net, torch.optim.SGD(net.parameters(), lr=1e-4), torch.randn(64, 160))


class Matrices(nn.Module):
    """Matrices in one list, each applied to what the one before gave."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(nn.init.orthogonal_(torch.empty(width, width)) for _ in range(count))

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The product."""
        for matrix in self.matrices:
            data = data @ matrix
        return data


def flat() -> Load:
    """The same tensors without a layer around each."""
    net = Matrices(160, 1000)
    return Load(net, torch.optim.SGD(net.parameters(), lr=1e-4), torch.randn(64, 160))


LOADS = {"adam": adam, "finetune": finetune, "small": small, "flat": flat}


def train(rv: Any, load: Load, windows: int, steps: int) -> None:
    """The program, as a person would write it but for the watch."""
    net, opt = load.net, load.opt
    with rv.checkpointing(net=net, opt=opt):
        for number in rv.loop("window", range(windows)):
            stopwatch.opens()
            for _ in rv.loop("step", range(steps)):
                load.step()
                stopwatch.closed()
            stopwatch.between(number)


def train_by_step(rv: Any, load: Load, windows: int, steps: int) -> None:
    """The same without epochs."""
    net, opt = load.net, load.opt
    with rv.checkpointing(net=net, opt=opt):
        for step in rv.loop("step", range(windows * steps)):
            if step % steps == 0:
                stopwatch.opens()
            load.step()
            stopwatch.closed()
            if step % steps == steps - 1:
                stopwatch.between(step // steps)


def status(field_name: str) -> int:
    """A figure of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field_name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Train as asked and print what was measured."""
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    load = LOADS[asked["load"]]()
    load.step()
    began = time.perf_counter()
    for _ in range(asked.get("warm", 2)):
        load.step()
    step_s = (time.perf_counter() - began) / asked.get("warm", 2)
    steps = asked.get("steps") or max(1, round(asked["window_s"] / step_s))
    import rearview as rv

    copies = stopwatch.Copies(load.tensors()) if asked.get("copies") else None
    watch = stopwatch.Watch(stopwatch.Means(load.state, Path(os.environ["REARVIEW_DIR"])), asked["turn"], copies)
    stopwatch.start(watch)
    by_step = bool(asked.get("by_step"))
    if by_step:  # the period counts iterations of the main loop: here steps, not windows
        os.environ["REARVIEW_EVERY"] = str(int(os.environ["REARVIEW_EVERY"]) * steps)
    with rv.run(name=asked["load"]) as run:
        (train_by_step if by_step else train)(rv, load, asked["windows"], steps)
    answer = {
        "run": str(getattr(run, "id", "")),
        "windows": watch.windows,
        "steps": steps,
        "step_s": step_s,
        "copy_s": watch.copy_s,
        "parallel_s": watch.parallel_s,
        "state_bytes": bytes_of(load.tensors()),
        "changed_bytes": bytes_of(load.changed()),
        "peak_bytes": status("VmHWM"),
    }
    if asked.get("bytes_alone"):
        folder = Path(os.environ["REARVIEW_DIR"])
        answer["bytes_cpu_s"] = bytes_alone.cpu_seconds(load.tensors(), load.step, folder, asked["bytes_alone"])
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
