"""Small training programs made at random: nested loops, draws, breaks, returns, helpers, and statements of hindsight at random places.

Every program ends, and every expression has a value whatever the variables are. Lines that end with the mark are the probes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.integration.replay.hindsight import MARK

_NUMBERS = ("a", "b", "c", "box.total", "len(seen)", "counts.get('x', 0)", "xs[-1]")


@dataclass
class Maker:
    """Makes one program."""

    seed: int
    lines: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.style = self.draw.choice(["module", "function", "class"])
        self.logs = 0
        self.opaque = self.draw.random() < 0.25
        """It has an object that no state holds."""

    # -- pieces ---------------------------------------------------------------------------------------------------------

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def number(self, known: tuple[str, ...]) -> str:
        one, other = self.draw.choice(known), self.draw.choice(known)
        return self.draw.choice(
            [f"({one} * 0.7 + {other} * 0.31) % 1.0", f"({one} + {self.draw.random():.3f}) % 3.0", f"abs({one} - {other})", f"{one} % 0.9"]
        )

    def statement(self, depth: int, known: tuple[str, ...]) -> None:
        kind = self.draw.randrange(11)
        if kind == 0:
            self.put(depth, f"{self.draw.choice('abc')} = {self.number(known)}")
        elif kind == 1:
            self.put(depth, f"{self.draw.choice('abc')} = {self.draw.choice(['random.random()', 'rng.random()', 'next(stream)'])}")
        elif kind == 2:
            self.put(depth, f"xs.append({self.number(known)})")
        elif kind == 3:
            self.put(depth, f"box.add({self.number(known)})")
        elif kind == 4:
            self.put(depth, f"seen.add(round({self.number(known)}, 2))")
        elif kind == 5:
            self.put(depth, f"counts['x'] = counts.get('x', 0) + {self.number(known)}")
        elif kind == 6:
            self.put(depth, f"c = helper({self.number(known)})")
        elif kind == 7:
            self.logs += 1
            self.put(depth, f'rv.log("r{self.logs}", {self.number(known)})')
        elif kind == 8:
            self.put(depth, f"if {self.number(known)} > 0.5:")
            self.put(depth + 1, f"a = {self.number(known)}")
        elif kind == 9:
            self.put(depth, f"{self.draw.choice('abc')} = report({self.number(known)})")
        else:
            self.put(depth, f"fresh = {self.number(known)}")
            self.put(depth, "b = (b + fresh) % 2.0")

    def body(self, depth: int, known: tuple[str, ...], most: int = 3) -> None:
        for _ in range(self.draw.randrange(1, most + 1)):
            self.probe(depth, known)
            self.statement(depth, known)
        self.probe(depth, known)

    def probe(self, depth: int, known: tuple[str, ...], chance: float = 0.12) -> None:
        if self.draw.random() < chance:
            name = f"p{len(self.probes)}"
            self.probes.append(name)
            kind = self.draw.randrange(4)
            if kind == 0:
                self.put(depth, f"tmp_{name} = {self.number(known)}  {MARK}")
                self.put(depth, f'rv.log("{name}", tmp_{name} * 2)  {MARK}')
            elif kind == 1:
                self.put(depth, f'rv.log("{name}", sum(xs) + len(counts))  {MARK}')
            else:
                self.put(depth, f'rv.log("{name}", {self.number(known)})  {MARK}')

    def items(self, most: int) -> str:
        count = self.draw.randrange(2, most + 1)
        return self.draw.choice([f"range({count})", f"range(1, {count + 1})", f"[{', '.join(map(str, range(count)))}]", f"drawn({count})"])

    def nested(self, depth: int, known: tuple[str, ...], name: str) -> None:
        over = f'rv.loop("{name}", {self.items(5)})'
        over = self.draw.choice([over, over, f"enumerate({over})"])
        target = f"k{name}, {name}" if over.startswith("enumerate") else name
        self.put(depth, f"for {target} in {over}:")
        inside = (*known, f"{name} * 0.1")
        if self.opaque:
            self.put(depth + 1, f"mill.update(repr({self.number(inside)}).encode())")
            self.put(depth + 1, "report(ground())")
        self.body(depth + 1, inside)
        if self.draw.random() < 0.25:
            self.put(depth + 1, f"for deep in rv.loop('deep', range({self.draw.randrange(1, 4)})):")
            self.body(depth + 2, (*inside, "deep"), 2)
        if self.draw.random() < 0.4:
            self.put(depth + 1, f"if {self.number(inside)} > 0.6:")
            self.put(depth + 2, self.draw.choice(["break", "break", "continue"]))
        if self.draw.random() < 0.3:
            self.put(depth, "else:")
            self.put(depth + 1, f"b = {self.number(known)}")

    # -- the program -----------------------------------------------------------------------------------------------------

    def make(self) -> str:
        """The text."""
        draw = self.draw
        self.lines += [
            "import random",
            "import rearview as rv",
            "",
            "random.seed(11)" if draw.random() < 0.7 else "# whatever the stream begins with",
            f"rng = random.Random({draw.randrange(99)})",
            "xs, seen, counts = [0.5], set(), {}",
            "a, b, c = 0.1, 0.2, 0.3",
            "",
            "class Box:",
            "    made = 0",
            "    def __init__(self):",
            "        self.total, self.many = 0.0, []",
            "    def add(self, x):",
            "        Box.made += 1",
            "        self.many.append(x)",
            "        self.total = (self.total + x) % 5.0",
            "",
            "box = Box()",
            "",
            "def source():",
            "    k = 0",
            "    while True:",
            "        k += 1",
            "        yield (k * 0.137) % 1.0",
            "",
            "stream = source()",
            "",
            "def drawn(count):",
            "    for k in range(count):",
            "        yield k + random.random()",
            "",
            "def helper(x):",
            "    counts['h'] = counts.get('h', 0) + 1",
        ]
        self.probe(1, ("x", "len(xs)"), 0.2)
        self.lines += ["    return (x + random.random()) % 1.0", "", "def report(x):"]
        self.probe(1, ("x",), 1.0 if self.opaque else 0.2)
        self.lines += ["    return x", ""]
        if self.opaque:
            self.lines += [
                "import hashlib",
                "mill = hashlib.md5()",
                "",
                "def ground():",
                "    return int(mill.hexdigest()[:4], 16) / 65536",
                "",
            ]
        depth = 0
        if self.style == "function":
            self.lines += ["def main():", "    global a, b, c", "    local = 0.25"]
            depth = 1
        elif self.style == "class":
            self.lines += ["class Trainer:", "    def fit(self):", "        global a, b, c", "        local = 0.25"]
            depth = 2
        known = (*_NUMBERS, "local") if depth else _NUMBERS
        self.body(depth, known)
        named = draw.choice(["", "box=box", "xs=xs, box=box"])
        self.put(depth, f"with rv.checkpointing({named}):")
        depth += 1
        self.put(depth, f'for epoch in rv.loop("epoch", {draw.choice(["range(4)", "range(1, 6)", "[3, 1, 4, 1]"])}):')
        inside = (*known, "epoch * 0.01")
        self.body(depth + 1, inside, 2)
        if depth > 1:
            self.put(depth + 1, "local = (local + epoch * 0.1) % 1.0")
        for name in ("step", "val")[: draw.choice([0, 1, 1, 1, 2, 2])]:
            self.nested(depth + 1, inside, name)
            self.body(depth + 1, inside, 2)
        if draw.random() < 0.2:
            self.put(depth + 1, f"if {self.number(inside)} > 0.8:")
            self.put(depth + 2, "return" if depth > 1 and draw.random() < 0.4 else "break")
        depth -= 1
        self.body(depth, known)
        if self.style == "function":
            self.lines += ["", "main()"]
        elif self.style == "class":
            self.lines += ["", "Trainer().fit()"]
        self.probe(0, _NUMBERS, 0.5)
        self.put(0, 'rv.log("last", a + b + c + box.total + random.random())')
        return "\n".join(self.lines) + "\n"


def asks_inside(text: str) -> bool:
    """Whether a program asks something in a nested loop whose position is exact."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if 'rv.loop("step"' in line and "drawn(" not in line:
            rest = lines[at + 1 :]
            depth = _indent(line)
            end = next((k for k, one in enumerate(rest) if _indent(one) <= depth), len(rest))
            return any(one.endswith(MARK) for one in rest[:end])
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
