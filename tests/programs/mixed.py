"""A training with everything that a resume has to bring back: dropout, batch norm, augmentation from three random streams, a
scheduler, gradient accumulation, an EMA; workers as asked for. Prints each loss, and a digest of all weights at the end."""

import random
import sys

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset

import rearview as rv

WORKERS, PERSISTENT, EPOCHS = int(sys.argv[1]), sys.argv[2] == "persistent", int(sys.argv[3])
torch.set_num_threads(1)


class Noisy(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.x = torch.tensor(rng.normal(size=(n, 12)), dtype=torch.float32)
        self.y = torch.tensor(rng.integers(0, 3, n))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i] + 0.1 * random.random() + 0.1 * float(np.random.normal()) + 0.1 * torch.randn(12)
        return x, self.y[i]


def evaluate(net, data):
    net.eval()
    with torch.no_grad():
        acc = (net(data.x).argmax(1) == data.y).float().mean().item()
    net.train()
    return acc


def main():
    torch.manual_seed(rv.arg("seed", 7))
    random.seed(1)
    np.random.seed(2)
    data = Noisy(96)
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=WORKERS, persistent_workers=PERSISTENT and WORKERS > 0)
    net = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    best, history = 0.0, []
    with rv.checkpointing(net=net, opt=opt, sched=sched, ema=ema):
        for epoch in rv.loop("epoch", range(1, EPOCHS + 1)):
            total = 0.0
            for step, (x, y) in enumerate(rv.loop("step", loader)):
                loss = nn.functional.cross_entropy(net(x), y) / 2
                loss.backward()
                if step % 2:
                    opt.step()
                    opt.zero_grad()
                    ema.update_parameters(net)
                total += loss.item()
                rv.log("loss", loss)
                print(f"epoch {epoch} step {step} loss {loss.item().hex()}", flush=True)
            sched.step()
            acc = evaluate(ema, data)
            best = max(best, acc)
            history.append(acc)
            rv.log("acc", acc)
            rv.log("total", total)
            print(f"epoch {epoch} acc {acc} total {total.hex()}", flush=True)
    rv.log("best", best)
    fingerprint.show(net.state_dict(), ema.state_dict(), opt.state_dict()["state"], sched.state_dict(), best, history)


if __name__ == "__main__":
    main()
