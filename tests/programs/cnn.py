"""A CNN in a Trainer class: loader with workers whose dataset draws from all three global streams, `enumerate(loader)` inside the loop, a
progress bar around it, momentum SGD with a schedule by step, the best weights kept."""

import copy
import random

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

import rearview as rv

torch.set_num_threads(1)


class Pictures(Dataset):
    def __init__(self, n, train):
        maker = np.random.RandomState(9)
        self.pictures = maker.rand(n, 1, 8, 8).astype(np.float32)
        self.labels = maker.randint(0, 4, n)
        self.train = train

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture = self.pictures[i]
        if self.train:
            if random.random() < 0.5:
                picture = picture[:, :, ::-1].copy()
            picture = picture + np.random.normal(0, 0.05, picture.shape).astype(np.float32)
        picture = torch.from_numpy(picture)
        return picture + 0.01 * torch.randn(()) if self.train else picture, int(self.labels[i])


class Trainer:
    def __init__(self, epochs=4):
        self.epochs = epochs
        self.model = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(96, 4)
        )
        self.loader = DataLoader(Pictures(64, True), batch_size=8, shuffle=True, num_workers=2)
        self.test_loader = DataLoader(Pictures(32, False), batch_size=16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, epochs=epochs, steps_per_epoch=len(self.loader))
        self.best, self.best_weights = -1.0, None
        self.history = {"loss": [], "acc": []}

    def run(self):
        with rv.checkpointing(trainer=self):
            for self.epoch in rv.loop("epoch", range(self.epochs)):  # noqa: B020
                self.train_epoch()
                acc = self.test()
                self.history["acc"].append(acc)
                rv.log("acc", acc)
                if acc > self.best:
                    self.best, self.best_weights = acc, copy.deepcopy(self.model.state_dict())
                print(f"epoch {self.epoch} acc {acc}", flush=True)

    def train_epoch(self):
        self.model.train()
        bar = tqdm(rv.loop("step", enumerate(self.loader)), total=len(self.loader), disable=None)
        for i, (x, y) in bar:
            self.optimizer.zero_grad(set_to_none=bool(i % 2))
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.history["loss"].append(loss.item())
            rv.log("loss", loss)
            print(f"epoch {self.epoch} step {i} loss {loss.item().hex()}", flush=True)

    @torch.no_grad()
    def test(self):
        self.model.eval()
        right = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.test_loader)
        return right / len(self.test_loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    trainer = Trainer()
    trainer.run()
    fingerprint.show(trainer.model.state_dict(), trainer.optimizer.state_dict()["state"], trainer.best_weights, trainer.history)
