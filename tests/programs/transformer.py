"""A small GPT in a trainer that goes by step: `next` on a live loader iterator that is made anew when it ends, micro-steps with a
GradScaler, tied weights, callbacks with a `global`, evaluation inside the loop that draws."""

import math
import random
from collections import defaultdict

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

import rearview as rv

torch.set_num_threads(1)
VOCABULARY, LENGTH = 11, 8
best_loss = math.inf


class Sums(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        digits = torch.randint(0, VOCABULARY, (LENGTH + 1,), generator=generator)
        digits[LENGTH // 2 :] = digits[: LENGTH + 1 - LENGTH // 2].clone()
        return digits[:-1], digits[1:]


class GPT(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(1, LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), -math.inf), 1), persistent=False)

    def forward(self, x, y):
        logits = self.head(self.body(self.tokens(x) + self.places, mask=self.mask))
        return logits, nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))


class Trainer:
    def __init__(self, model, dataset, max_iters):
        self.model, self.dataset, self.max_iters = model, dataset, max_iters
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=5)
        self.callbacks = defaultdict(list)
        self.iter_num = 0

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)

    def lr(self):
        return 3e-3 * min(1.0, (self.iter_num + 1) / 5) * (0.5 + 0.5 * math.cos(math.pi * self.iter_num / self.max_iters))

    def run(self):
        loader = DataLoader(self.dataset, sampler=RandomSampler(self.dataset, replacement=True, num_samples=40), batch_size=8)
        data_iter = iter(loader)
        self.model.train()
        with rv.checkpointing(model=self.model, optimizer=self.optimizer):
            for _ in rv.loop("iter"):
                for group in self.optimizer.param_groups:
                    group["lr"] = self.lr()
                for _micro in range(2):
                    try:
                        batch = next(data_iter)
                    except StopIteration:
                        data_iter = iter(loader)
                        batch = next(data_iter)
                    self.logits, self.loss = self.model(*batch)
                    self.scaler.scale(self.loss / 2).backward()
                self.scaler.unscale_(self.optimizer)
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
                rv.log("loss", self.loss)
                rv.log("norm", norm)
                for callback in self.callbacks["batch_end"]:
                    callback(self)
                self.iter_num += 1
                if self.iter_num >= self.max_iters:
                    break


def batch_end(trainer):
    global best_loss
    best_loss = min(best_loss, trainer.loss.item())
    if trainer.iter_num % 5 == 0:
        trainer.model.eval()
        picks = torch.randint(len(trainer.dataset), (16,))
        with torch.no_grad():
            x, y = (torch.stack(part) for part in zip(*(trainer.dataset[int(i)] for i in picks), strict=True))
            rv.log("val", trainer.model(x, y)[1])
        trainer.model.train()
    print(f"iter {trainer.iter_num} loss {trainer.loss.item().hex()} best {best_loss.hex()}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(1337)
    np.random.seed(1337)
    random.seed(1337)
    trainer = Trainer(GPT(), Sums(), max_iters=24)
    trainer.add_callback("batch_end", batch_end)
    trainer.run()
    assert trainer.model.head.weight is trainer.model.tokens.weight
    fingerprint.show(trainer.model.state_dict(), trainer.optimizer.state_dict()["state"], trainer.scaler.state_dict(), best_loss)
