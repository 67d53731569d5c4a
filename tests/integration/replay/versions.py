"""Twelve versions of one training script, as somebody might have changed it: renamed, reformatted, extracted, split, made a class.

Each is its files with the statement of hindsight in them, marked with `#?` as in `hindsight`: without those lines it is what was
recorded, with them it is the truth of that version.
"""

from __future__ import annotations

FLAT = """\
import random

import rearview as rv

random.seed(3)
data = [(x / 10, 2 * x / 10 + random.gauss(0, 0.1)) for x in range(24)]
w, b = 0.0, 0.0
lr = rv.arg("lr", 0.05)

with rv.checkpointing():
    for epoch in rv.loop("epoch", range(3)):
        for x, y in rv.loop("step", data):
            error = w * x + b - y
            w -= lr * error * x
            b -= lr * error
        loss = sum((w * x + b - y) ** 2 for x, y in data) / len(data)
        rv.log("loss", loss)
        rv.log("size", abs(w) + abs(b))  #?
"""

RENAMED = FLAT.replace("w, b =", "weight, bias =").replace("w * x + b", "weight * x + bias").replace("w -=", "weight -=")
RENAMED = RENAMED.replace("b -=", "bias -=").replace("abs(w) + abs(b)", "abs(weight) + abs(bias)")

REFORMATTED = '''\
"""Fit a line."""
import random
import rearview as rv

random.seed(3)

data = [
    (x / 10, 2 * x / 10 + random.gauss(0, 0.1))
    for x in range(24)
]
weight, bias = 0.0, 0.0
lr = rv.arg('lr', 0.05)

# -- training
with rv.checkpointing():
    for epoch in rv.loop('epoch', range(3)):

        for x, y in rv.loop('step', data):
            error = weight * x + bias - y
            weight -= lr * error * x
            bias -= lr * error

        # how good it is by now
        loss = sum(
            (weight * x + bias - y) ** 2
            for x, y in data
        ) / len(data)
        rv.log('loss', loss)
        rv.log("size", abs(weight) + abs(bias))  #?
'''

SCHEDULED = REFORMATTED.replace(
    "    for epoch in rv.loop('epoch', range(3)):\n",
    "    for epoch in rv.loop('epoch', range(4)):\n        rate = lr * 0.9 ** epoch\n",
).replace("-= lr * error", "-= rate * error")

_EVALUATE = """\
def evaluate(weight, bias):
    return sum((weight * x + bias - y) ** 2 for x, y in data) / len(data)


"""
_LOSS = """\
        loss = sum(
            (weight * x + bias - y) ** 2
            for x, y in data
        ) / len(data)
"""
EVALUATED = SCHEDULED.replace("# -- training\n", _EVALUATE + "# -- training\n").replace(_LOSS, "        loss = evaluate(weight, bias)\n")

_LOADER = """\
order = random.Random(7)


def batches():
    mixed = list(data)
    order.shuffle(mixed)
    return mixed


"""
LOADED = EVALUATED.replace("weight, bias = 0.0", _LOADER + "weight, bias = 0.0")
LOADED = LOADED.replace("rv.loop('step', data)", "rv.loop('step', batches())")

FUNCTIONS = '''\
"""Fit a line."""
import random
import rearview as rv

random.seed(3)
order = random.Random(7)
data = [(x / 10, 2 * x / 10 + random.gauss(0, 0.1)) for x in range(24)]


def batches():
    mixed = list(data)
    order.shuffle(mixed)
    return mixed


def evaluate(weight, bias):
    return sum((weight * x + bias - y) ** 2 for x, y in data) / len(data)


def train(epochs, lr):
    weight, bias = 0.0, 0.0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(epochs)):
            rate = lr * 0.9 ** epoch
            for x, y in rv.loop("step", batches()):
                error = weight * x + bias - y
                weight -= rate * error * x
                bias -= rate * error
            loss = evaluate(weight, bias)
            rv.log("loss", loss)
            rv.log("size", abs(weight) + abs(bias))  #?
    return weight, bias


if __name__ == "__main__":
    train(4, rv.arg("lr", 0.05))
'''

VALIDATED = FUNCTIONS.replace(
    "            loss = evaluate(weight, bias)\n",
    """\
            worst = max(abs(weight * x + bias - y) for x, y in data)
            rv.log("worst", worst)
            loss = evaluate(weight, bias)
""",
)

SPLIT = {
    "train.py": '''\
"""Fit a line."""
import rearview as rv

from data import batches
from model import evaluate


def train(epochs, lr):
    weight, bias = 0.0, 0.0
    with rv.checkpointing():
        for epoch in rv.loop("epoch", range(epochs)):
            rate = lr * 0.9 ** epoch
            for x, y in rv.loop("step", batches()):
                error = weight * x + bias - y
                weight -= rate * error * x
                bias -= rate * error
            loss = evaluate(weight, bias)
            rv.log("loss", loss)
            rv.log("size", abs(weight) + abs(bias))  #?
    return weight, bias


if __name__ == "__main__":
    train(4, rv.arg("lr", 0.05))
''',
    "data.py": """\
import random

random.seed(3)
order = random.Random(7)
data = [(x / 10, 2 * x / 10 + random.gauss(0, 0.1)) for x in range(24)]


def batches():
    mixed = list(data)
    order.shuffle(mixed)
    return mixed
""",
    "model.py": """\
from data import data


def evaluate(weight, bias):
    return sum((weight * x + bias - y) ** 2 for x, y in data) / len(data)
""",
}

CLASS = {
    **SPLIT,
    "train.py": '''\
"""Fit a line."""
import rearview as rv

from data import batches
from model import evaluate


class Trainer:
    def __init__(self, lr):
        self.line = [0.0, 0.0]
        self.lr = lr

    def run(self, epochs):
        with rv.checkpointing(line=self.line):
            for epoch in rv.loop("epoch", range(epochs)):
                self.step(self.lr * 0.9 ** epoch)
                rv.log("loss", evaluate(*self.line))

    def step(self, rate):
        for x, y in rv.loop("step", batches()):
            error = self.line[0] * x + self.line[1] - y
            self.line[0] -= rate * error * x
            self.line[1] -= rate * error


if __name__ == "__main__":
    Trainer(rv.arg("lr", 0.05)).run(4)
''',
}

_MOMENTUM = """\
                speed = 0.5 * speed + rate * error * x
                weight -= speed
"""
MOMENTUM = {
    **SPLIT,
    "train.py": SPLIT["train.py"]
    .replace("    weight, bias = 0.0, 0.0\n", "    weight, bias = 0.0, 0.0\n    speed = 0.0\n")
    .replace("                weight -= rate * error * x\n", _MOMENTUM),
}

LATEST = {**MOMENTUM, "train.py": MOMENTUM["train.py"].replace("range(epochs)", "range(epochs + 1)")}


def of(text: str) -> dict[str, str]:
    """A version of one file."""
    return {"train.py": text}


VERSIONS: dict[str, dict[str, str]] = {
    "flat": of(FLAT),
    "renamed": of(RENAMED),
    "reformatted": of(REFORMATTED),
    "scheduled": of(SCHEDULED),
    "evaluated": of(EVALUATED),
    "loaded": of(LOADED),
    "functions": of(FUNCTIONS),
    "validated": of(VALIDATED),
    "split": SPLIT,
    "class": CLASS,
    "momentum": MOMENTUM,
    "latest": LATEST,
}
"""In the order of time. The last one is today's."""

CANNOT = {"class": "bias"}
"""Versions that have no place for the statement, and a word of the reason."""
