"""One of each thing that a checkpoint has to hold, each of which what is printed at the end depends on."""

import itertools
import random
from collections import deque
from dataclasses import dataclass, field

import fingerprint
import numpy as np
import settings
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, Sampler

import rearview as rv

torch.set_num_threads(1)
torch.manual_seed(1)
np.random.seed(2)
random.seed(3)
EPOCHS, STEPS = 3, 6


class Noisy(Dataset):
    """Draws from the global streams, in the workers."""

    def __init__(self):
        self.x = torch.linspace(-1, 1, 24 * 4).reshape(24, 4)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * random.random() + 0.1 * float(np.random.normal()) + 0.1 * torch.randn(4)


class Numbers(Dataset):
    """Has a generator of its own, in its transform."""

    def __init__(self, n):
        self.n, self.transform = n, Shift(np.random.default_rng(9))

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.transform(float(i))


class Shift:
    def __init__(self, rng):
        self.rng = rng

    def __call__(self, number):
        return number + 0.1 * self.rng.random()


class Shuffled(Sampler):
    """Has a generator of its own."""

    def __init__(self, n):
        self.n, self.random = n, random.Random(5)

    def __iter__(self):
        return iter(self.random.sample(range(self.n), self.n))

    def __len__(self):
        return self.n


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2)
        self.last = nn.Linear(8, 1)
        self.frozen = nn.Linear(4, 8).requires_grad_(False)
        self.extra = nn.Linear(8, 1, bias=False)
        self.register_buffer("drift", torch.zeros(()), persistent=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.drift += 0.01 * x.detach().mean()
        hidden = self.drop(torch.relu(self.norm(self.first(x) + self.frozen(x))))
        return self.last(hidden) + self.extra(hidden) + self.drift + 1e-3 * self.calls


@dataclass
class Plan:
    scale: float = 1.0
    marks: list = field(default_factory=list)


class Smoothed:
    """Says itself what is to be kept of it."""

    def __init__(self):
        self.value, self.told = 0.0, None

    def __getstate__(self):
        return {"smooth": self.value}

    def __setstate__(self, state):
        self.value, self.told = state["smooth"], "put back"

    def add(self, number):
        self.value = 0.9 * self.value + 0.1 * number


def numbers():
    """A generator with a place in it."""
    k, sign = 0, 1
    while True:
        for at in range(k, k + 5):
            yield sign * 0.01 * at
        k, sign = k + 5, -sign


def augmenter(own):
    """A closure over a generator and a counter."""
    count = 0

    def augment(x):
        nonlocal count
        count += 1
        return x + 0.01 * own.normal() + 1e-3 * (count % 4)

    return augment


net = Net()
opt = torch.optim.Adam([p for name, p in net.named_parameters() if p.requires_grad and not name.startswith("extra")], lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.7)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
noise = np.random.Generator(np.random.PCG64(4))
jitter = torch.Generator().manual_seed(6)
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(7))
sampler = Shuffled(20)
side_loader = DataLoader(Numbers(20), batch_size=2, sampler=sampler)
table = np.zeros(8)
seen = {"steps": 0, "losses": []}
plan, smoothed = Plan(), Smoothed()
turns, letters = itertools.count(10), itertools.cycle([0.1, 0.2, 0.3, 0.4])
stream = numbers()
augment = augmenter(np.random.RandomState(8))
shown = 0.0


def train():
    global shown
    worst, recent, total = 0.0, deque([0.0], maxlen=4), 0
    side = iter(side_loader)
    with rv.checkpointing(net=net, opt=opt):
        for epoch in rv.loop("epoch", range(EPOCHS)):
            if epoch == 1:
                net.frozen.requires_grad_(True)
                opt.add_param_group({"params": list(net.extra.parameters()), "lr": 5e-3})
            for x in rv.loop("step", loader):
                try:
                    other = next(side)
                except StopIteration:
                    side = iter(side_loader)
                    other = next(side)
                x = augment(x) + 0.01 * torch.randn((), generator=jitter) + 0.01 * float(noise.normal()) + 1e-3 * other.mean()
                x = x + 1e-3 * random.random() + 1e-3 * np.random.random()
                x = x + next(stream) + 0.01 * next(letters) + 1e-4 * next(turns) + 1e-3 * table[total % 8]
                loss = net(x * plan.scale).pow(2).mean() + 1e-2 * settings.warmup + 1e-4 * settings.Counter.calls
                scaler.scale(loss).backward()
                total += 1
                if total % 4 == 0:
                    scaler.step(opt)
                    scaler.update()
                    for p in net.parameters():
                        p.grad = None
                    ema.update_parameters(net)
                if total == 4:
                    net.drop.eval()
                    opt.param_groups[0]["betas"] = (0.8, 0.99)
                settings.warmup += 0.1
                settings.Counter.calls += 1
                worst = max(worst, loss.item())
                recent.append(loss.item() + 0.1 * sum(recent))
                smoothed.add(loss.item())
                table[total % 8] += loss.item()
                seen["steps"] += 1
                seen["losses"].append(loss.item())
                plan.scale *= 1.001
                plan.marks.append(total)
                shown = 0.5 * shown + loss.item()
                rv.log("loss", loss)
                print(f"epoch {epoch} total {total} loss {loss.item().hex()}", flush=True)
            sched.step()
    return worst, list(recent), total, [p.grad for p in net.parameters()], loss


if __name__ == "__main__":
    ends = train()
    print(settings.warmup, settings.Counter.calls, next(turns), next(letters), next(stream), noise.random(), flush=True)
    print(torch.rand((), generator=jitter).item(), torch.rand((), generator=loader.generator).item(), augment(0.0), flush=True)
    print(sampler.random.random(), random.random(), flush=True)
    rates = [group["lr"] for group in opt.param_groups]
    fingerprint.show(net.state_dict(), net.calls, net.drift, opt.state_dict()["state"], rates, sched.state_dict())
    flags = [p.requires_grad for p in net.parameters()], [m.training for m in net.modules()], opt.param_groups[0]["betas"]
    fingerprint.show(ema.state_dict(), scaler.state_dict(), table, seen, vars(plan), smoothed.value, ends, shown, flags)
