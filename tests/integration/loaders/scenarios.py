"""What the small programs iterate over."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler, get_worker_info

LENGTH = 23
BATCH = 3


class Plain(Dataset[Any]):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


class Drawing(Plain):
    """Draws from all three global streams, one of them leaving half a pair of normal numbers behind."""

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = [index, random.random(), random.gauss(0, 1), np.random.rand(), np.random.standard_normal()]
        return torch.tensor(drawn) + torch.rand(5)


class OwnGenerator(Plain):
    """Draws from a generator of its own, of which each worker has a copy; it counts, too."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(4)
        self.calls = 0
        self.random = random.Random(5)

    def __getitem__(self, index: int) -> torch.Tensor:
        self.calls += 1
        return torch.tensor([index, self.rng.random(), self.random.random(), self.calls])


class Remembering(Plain):
    """Each worker's copy holds more and more: that cannot be put back."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.seen.extend([index] * 20)
        return torch.tensor([index, len(self.seen)])


class Numbers(IterableDataset[Any]):
    """A stream, split between workers, shuffled through a small buffer."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        buffer: list[int] = []
        for number in range(first, LENGTH, step):
            buffer.append(number)
            if len(buffer) > 4:
                yield torch.tensor([buffer.pop(random.randrange(len(buffer))), random.random()])
        random.shuffle(buffer)
        for number in buffer:
            yield torch.tensor([number, random.random()])


class Counting(IterableDataset[Any]):
    """A stream that is its own iterator and goes on in the next epoch."""

    def __init__(self) -> None:
        self.at = 0
        self.rng = random.Random(8)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return self

    def __next__(self) -> torch.Tensor:
        self.at += 1
        if self.at % LENGTH == 0:
            raise StopIteration
        return torch.tensor([self.at, self.rng.random()])


class Buffered(Counting):
    """A stream that is shuffled through a buffer of tensors, by a generator of its own, and counts."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        buffer: list[torch.Tensor] = []
        for number in range(LENGTH):
            self.at += 1
            buffer.append(torch.tensor([number, self.at]))
            if len(buffer) > 4:
                yield buffer.pop(self.rng.randrange(len(buffer)))


class NumpySampler:
    """Draws the whole order when it is asked for an iterator, not at the first step."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(6)
        self.epochs = 0

    def __iter__(self) -> Iterator[int]:
        self.epochs += 1
        return iter(self.rng.permutation(LENGTH).tolist())

    def __len__(self) -> int:
        return LENGTH


class ShufflingSampler(NumpySampler):
    """Shuffles its list in place: each order builds on the one before."""

    def __init__(self) -> None:
        self.order = list(range(LENGTH))

    def __iter__(self) -> Iterator[int]:
        random.shuffle(self.order)
        yield from self.order


class Batches:
    def __init__(self) -> None:
        self.random = random.Random(8)

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(7):
            yield [self.random.randrange(LENGTH) for _ in range(self.random.randrange(1, 5))]

    def __len__(self) -> int:
        return 7


def seed_worker(worker: int) -> None:
    np.random.seed((torch.initial_seed() + worker) % 2**32)
    random.seed(torch.initial_seed())


def draw_in_collate(items: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(items) + np.random.rand() + torch.rand(1)


class Scenario:
    """A loader, and how it is iterated."""

    breaks_at = 0
    epochs = 3
    around: Callable[[Any], Any] = staticmethod(lambda loader: loader)  # type: ignore[assignment]

    def __init__(self, dataset: Callable[[], Any] = Drawing, **options: Any) -> None:
        self.loader: Any = DataLoader(dataset(), **{"batch_size": BATCH, "shuffle": True, **options})

    def source(self, epoch: int) -> Any:
        return type(self).around(self.loader)

    def stops_in(self, epoch: int) -> tuple[int, ...]:
        return {0: (3,), 1: (5, 8)}.get(epoch, ())

    def stops_after(self, epoch: int) -> bool:
        return epoch == 0

    def loaders(self) -> list[Any]:
        return [self.loader]

    def held(self) -> list[Any]:
        """Iterators that outlive an epoch."""
        return [loader._iterator for loader in self.loaders() if loader._iterator is not None]

    def state(self) -> Any:
        """What the walk over the program's variables would have kept."""
        sampler = getattr(self.loader, "sampler", None)
        kept: dict[str, Any] = {"sampler": {k: v for k, v in vars(sampler).items() if isinstance(v, int)} if sampler else {}}
        if isinstance(sampler, ShufflingSampler):
            kept["order"] = list(sampler.order)
        if self.loader.generator is not None:
            kept["generator"] = self.loader.generator.get_state().numpy().tobytes()
        if hasattr(sampler, "rng"):
            kept["rng"] = sampler.rng.bit_generator.state
        if isinstance(self.loader.batch_sampler, Batches):
            kept["random"] = list(self.loader.batch_sampler.random.getstate()[1])
        if isinstance(self.loader.dataset, OwnGenerator):
            kept["dataset"] = [self.loader.dataset.calls, self.loader.dataset.rng.bit_generator.state]
            kept["dataset"].append(list(self.loader.dataset.random.getstate()[1]))
        if isinstance(self.loader.dataset, Counting):
            kept["stream"] = [self.loader.dataset.at, list(self.loader.dataset.rng.getstate()[1])]
        return kept

    def set_state(self, kept: Any) -> None:
        sampler = self.loader.sampler
        if kept["sampler"]:
            vars(sampler).update(kept["sampler"])
        if "order" in kept:
            sampler.order[:] = kept["order"]
        if "generator" in kept:
            self.loader.generator.set_state(torch.frombuffer(bytearray(kept["generator"]), dtype=torch.uint8))
        if "rng" in kept:
            sampler.rng.bit_generator.state = kept["rng"]
        if "random" in kept:
            self.loader.batch_sampler.random.setstate((3, tuple(kept["random"]), None))
        if "dataset" in kept:
            dataset = self.loader.dataset
            dataset.calls = kept["dataset"][0]
            dataset.rng.bit_generator.state = kept["dataset"][1]
            dataset.random.setstate((3, tuple(kept["dataset"][2]), None))
        if "stream" in kept:
            self.loader.dataset.at = kept["stream"][0]
            self.loader.dataset.rng.setstate((3, tuple(kept["stream"][1]), None))

    def close(self) -> None:
        del self.loader


class Few(Scenario):
    """For workers that import torch anew each time."""

    epochs = 2

    def stops_in(self, epoch: int) -> tuple[int, ...]:
        return (3,) if epoch == 0 else ()

    def stops_after(self, epoch: int) -> bool:
        return False


class Broken(Scenario):
    """The epoch is left in the middle: workers that persist have made batches that nobody takes."""

    breaks_at = 6


class Enumerated(Scenario):
    around = staticmethod(enumerate)  # type: ignore[assignment]


class Zipped(Scenario):
    around = staticmethod(lambda loader: zip(itertools.count(5), loader, "abcdefgh", strict=False))  # type: ignore[assignment]


class Barred(Scenario):
    @staticmethod
    def around(loader: Any) -> Any:  # type: ignore[override]
        from tqdm import tqdm

        return tqdm(enumerate(loader) if loader.num_workers else loader, disable=False, mininterval=100, file=io.StringIO())


def twice(loader: Any) -> Iterator[Any]:
    """A generator around a loader, with a variable of its own; two passes."""
    done = 0
    for _ in range(2):
        for batch in loader:
            done += 1
            yield batch, done


class Generated(Scenario):
    around = staticmethod(twice)  # type: ignore[assignment]

    def stops_in(self, epoch: int) -> tuple[int, ...]:
        return {0: (2,), 1: (8, 13)}.get(epoch, ())


def options(workers: str) -> dict[str, Any]:
    return {"0": {}, "2": {"num_workers": 2}, "2p": {"num_workers": 2, "persistent_workers": True}}[workers]


SCENARIOS: dict[str, Callable[[], Scenario]] = {}
for kind in ("0", "2", "2p"):
    some = options(kind)
    few = {**some, "prefetch_factor": 3, "timeout": 60} if some else some
    SCENARIOS |= {
        f"plain_{kind}": lambda some=some: Scenario(Plain, **some),
        f"draws_{kind}": lambda some=some: Scenario(Drawing, **some),
        f"generator_{kind}": lambda some=some: Scenario(Drawing, generator=torch.Generator().manual_seed(9), **some),
        f"numpy_{kind}": lambda some=some: Scenario(Drawing, shuffle=False, sampler=NumpySampler(), **some),
        f"shuffling_{kind}": lambda some=some: Scenario(Drawing, shuffle=False, sampler=ShufflingSampler(), drop_last=True, **some),
        f"weighted_{kind}": lambda some=some: Scenario(
            Drawing, shuffle=False, sampler=WeightedRandomSampler([1.0] * LENGTH, LENGTH), collate_fn=draw_in_collate, **some
        ),
        f"batches_{kind}": lambda few=few: Scenario(Drawing, shuffle=None, batch_size=1, batch_sampler=Batches(), **few),
        f"single_{kind}": lambda few=few: Scenario(Drawing, batch_size=None, **few),
        f"init_{kind}": lambda some=some: Scenario(Drawing, worker_init_fn=seed_worker, **some),
        f"own_{kind}": lambda some=some: Scenario(OwnGenerator, **some),
        f"broken_{kind}": lambda some=some: Broken(Drawing, **some),
        f"enumerate_{kind}": lambda some=some: Enumerated(Drawing, **some),
        f"zip_{kind}": lambda some=some: Zipped(Drawing, **some),
        f"bar_{kind}": lambda some=some: Barred(Drawing, **some),
        f"twice_{kind}": lambda some=some: Generated(Drawing, **some),
        f"stream_{kind}": lambda some=some: Scenario(Numbers, shuffle=None, **some),
        f"counting_{kind}": lambda some=some: Scenario(Counting, shuffle=None, **some),
        f"buffered_{kind}": lambda some=some: Scenario(Buffered, shuffle=None, **some),
    }
SCENARIOS |= {
    "spawn": lambda: Few(Drawing, num_workers=1, multiprocessing_context="spawn", persistent_workers=True),
    "forkserver": lambda: Few(Drawing, num_workers=2, multiprocessing_context="forkserver"),
    "remembering": lambda: Scenario(Remembering, num_workers=2),
    "unordered": lambda: Scenario(Plain, num_workers=2, in_order=False),
}
