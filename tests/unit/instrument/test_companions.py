"""What statements next to a log read and change."""

from __future__ import annotations

import ast

import pytest

from rearview.instrument.calls import Calls
from rearview.instrument.companions import ANYTHING, Companions, concerns, looks_at_all

FILE = """\
import decimal, json, os, time
import torch
import helper
import rearview as rv
from torch.nn.utils import clip_grad_norm_

class Net:
    @property
    def size(self):
        return self.gn

    def forward(self, x):
        return x * factor

def norm():
    return net.gn

def train(epoch):
    net.w += epoch

def stored():
    return open("a").read()
"""


def companions() -> Companions:
    tree = ast.parse(FILE)
    return Companions(tree, Calls(tree))


def concerned(companion: str, log: str) -> str | None:
    known = companions()
    return concerns(known.changes(ast.parse(companion).body) - {ANYTHING}, known.reads(ast.parse(log).body))


@pytest.mark.parametrize(
    ("companion", "log", "what"),
    [
        ("net.gn = 5", "rv.log('a', net.gn)", "net.gn"),
        ("net.gn = 5", "rv.log('a', net.gn.item())", "net.gn"),
        ("net.gn = 5", "rv.log('a', net(1.0))", "net.gn"),
        ("net.gn = 5", "rv.log('a', net.loss())", "net.gn"),
        ("net.gn = 5", "rv.log('a', net.size)", "net.gn"),  # a property
        ("net.gn = 5", "rv.log('a', norm())", "net.gn"),  # a function that reads it
        ("factor = 2", "rv.log('a', net(1.0))", "factor"),
        ("net.layers[0].weight.data = x", "rv.log('a', net.layers)", "net.layers"),
        ("total = 7", "rv.log('a', f'{total:.2f}')", "total"),
        ("total += 1", "rv.log('a', [total for _ in x])", "total"),
        ("total: float = 7", "rv.log('a', total)", "total"),
        ("a, total = 1, 2", "rv.log('a', total)", "total"),
        ("del buf", "rv.log('a', 'buf' in globals())", "buf"),
        ("buf[0] = 1", "rv.log('a', buf[1])", "buf"),
        ("for i in range(2): buf[i] = 1", "rv.log('a', sum(buf))", "buf"),
        ("if x:\n    hist.append(1)", "rv.log('a', sum(hist))", "hist"),
        ("last = hist.pop()", "rv.log('a', len(hist))", "hist"),
        ("weight.data.add_(1)", "rv.log('a', weight.norm())", "weight.data"),
        ("setattr(net, 'gn', 3)", "rv.log('a', net.gn)", "net.gn"),
        ("setattr(net, key, 3)", "rv.log('a', net.gn)", "net.gn"),
        ("net.eval()", "rv.log('a', net(x))", "net"),
        ("clip_grad_norm_(net.parameters(), 1)", "rv.log('a', net.gn)", "net.gn"),
        ("helper.tick()", "rv.log('a', helper.count)", "helper.count"),
        ("update(net)", "rv.log('a', net.gn)", "net.gn"),
        ("with open(p) as total: pass", "rv.log('a', total)", "total"),
        ("f.write(text)", "rv.log('a', f.tell())", "f"),
        ("print(total, file=f)", "rv.log('a', f.tell())", "f"),
        ("list(items)", "rv.log('a', next(items))", "items"),
    ],
)
def test_what_changes_what_a_log_reads(companion: str, log: str, what: str) -> None:
    assert concerned(companion, log) == what


@pytest.mark.parametrize(
    ("companion", "log"),
    [
        ("net.step = 5", "rv.log('a', net.gn)"),
        ("other = 5", "rv.log('a', total)"),
        ("rv.log('b', total)", "rv.log('a', total)"),
        ("print(total)", "rv.log('a', total)"),
        ("writer.add_scalar('loss', loss, epoch)", "rv.log('a', loss)"),
        ("size = len(hist) + hist.count(1)", "rv.log('a', hist)"),
        ("torch.cuda.synchronize()", "rv.log('a', torch.norm(w))"),
        ("time.sleep(1)", "rv.log('a', time.time() - begin)"),
        ("def f():\n    total = 1", "rv.log('a', total)"),
        ("torch.save(net, 'net.pt')", "rv.log('a', net.gn)"),
        ("open(path, 'w').write(text)", "rv.log('a', torch.norm(w))"),
        ("f = lambda total: total", "rv.log('a', total)"),
    ],
)
def test_what_does_not(companion: str, log: str) -> None:
    assert concerned(companion, log) is None


@pytest.mark.parametrize(
    "companion", ["torch.save(net, 'a')", "open('a', 'w').write('b')", "json.dump(net, f)", "print(1, file=open('a', 'w'))"]
)
@pytest.mark.parametrize("log", ["open('a').read()", "json.load(f)", "torch.load('a')", "os.path.getsize('a')", "stored()"])
def test_what_is_written_and_read_again(companion: str, log: str) -> None:
    assert concerned(companion, f"rv.log('a', {log})") is not None


@pytest.mark.parametrize(
    ("companion", "anything"),
    [
        ("train(3)", True),
        ("opt.step()", True),
        ("exec(text)", True),
        ("make().gn = 1", True),
        ("vars(net)['gn'] = 1", True),
        ("if loss > 3: continue", True),
        ("hist.append(1)", False),
        ("time.sleep(1)", False),
        ("logger.info(total)", False),
        ("torch.set_printoptions(precision=2)", True),
        ("torch.manual_seed(3)", True),
        ("torch.backends.cudnn.benchmark = True", True),
        ("decimal.getcontext().prec = 5", True),
        ("torch.save(net, 'net.pt')", False),
        ("x = f(net)", False),
    ],
)
def test_what_may_change_anything(companion: str, anything: bool) -> None:
    text = companion if "continue" not in companion else f"while 1:\n    {companion}"
    assert (ANYTHING in companions().changes(ast.parse(text).body)) == anything


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("locals()", "locals"), ("globals()", "globals"), ("vars()", "vars"), ("dir()", "dir"), ("eval('a')", "eval"),
        ("exec('a')", "exec"), ("inspect.currentframe()", "currentframe"),
        ("vars(net)", None), ("dir(net)", None), ("net.eval()", None), ("len(x)", None),
    ],
)  # fmt: skip
def test_what_looks_at_all_variables(text: str, how: str | None) -> None:
    assert looks_at_all(ast.parse(text, mode="eval").body) == how
