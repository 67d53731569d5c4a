"""How a tensor was computed is no part of a state: what goes back through it is run, not put back."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from rearview.catalog.catalog import Catalog
from rearview.cli.shown.replay_page import starts_in_words
from rearview.replay import asking
from rearview.replay.question.query import Ask
from rearview.store import layout
from tests.forked import Nursery
from tests.integration.replay.hindsight import Story

HISTORIES = """
import torch
import rearview as rv

torch.manual_seed(0)
x = torch.randn(8, 4)
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), 0.05)
seen = {}
net[1].register_forward_hook(lambda m, i, o: seen.update(hidden=o))
with rv.checkpointing(net=net, opt=opt):
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(2)):
            loss = net(x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            reg = net(x).pow(2).mean()
        rv.log("loss", loss)
        rv.log("unused", sum(float(g.sum()) for g in torch.autograd.grad(reg, [*net.parameters()], allow_unused=True, retain_graph=True) if g is not None))  #?
        rv.log("used", torch.autograd.grad(reg, net[2].bias, retain_graph=True)[0].item())  #?
        try:  #?
            slope = torch.autograd.grad(seen["hidden"].sum(), net[0].weight, retain_graph=True)[0].sum()  #?
        except RuntimeError:  #?
            slope = -1.0  #?
        rv.log("caught", slope)  #?
        rv.log("text", f"{[loss]}")  #?
        rv.log("version", net[0].weight._version)  #?
        rv.log("anew", torch.autograd.grad(net(x).mean(), net[2].bias)[0].item())  #?
"""  # noqa: E501 (a statement of the program)


@pytest.mark.torch
def test_how_a_tensor_was_computed_is_no_part_of_a_state(tmp_path: Path, nursery: Nursery) -> None:
    story = Story(tmp_path, {"train.py": HISTORIES}, env={"REARVIEW_EVERY": "1"}, nursery=nursery)
    story.record()
    names = ("unused", "used", "caught", "text", "version", "anew")
    for name in names:
        story.climb(name)
    assert story.rows(story.project, *names) == story.truth(*names) != {}


GOES_BACK = """
import torch
import rearview as rv

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), 0.1)
chosen, kept = [], []
with rv.checkpointing():
    for episode in rv.loop("episode", range(4)):
        for step in rv.loop("step", range(3)):
            chosen.append(torch.log_softmax(net(torch.rand(1, 3)), 1)[0, step % 2])
        rv.log("mean", float(sum(chosen)) / len(chosen))  #?
        if episode == 2:
            kept.append(net(torch.ones(3)).sum())
        opt.zero_grad()
        (-sum(chosen) + sum(one * 0.1 for one in kept)).backward(retain_graph=episode > 1)
        opt.step()
        del chosen[:]
        rv.log("norm", float(net.weight.norm()))
"""


@pytest.mark.torch
def test_a_program_that_goes_back_behind_its_nested_loop_is_not_put_there(tmp_path: Path, nursery: Nursery) -> None:
    """What it goes back through was computed in that loop; only `kept` was not, and is in the state after `episode=2`."""
    story = Story(tmp_path, {"train.py": GOES_BACK}, env={"REARVIEW_EVERY": "1"}, nursery=nursery)
    story.record()
    story.write(story.project, probed=True)
    for only, from_, blocks in (("episode=3", "the state after episode=1", 2), (None, "the program's beginning", 2)):
        with contextlib.chdir(story.project), Catalog(layout.open_store(story.project / ".rearview"), timeout_s=60) as catalog:
            [prepared] = asking.look(catalog, Ask(names=("mean",), only=only)).to_run
        assert "goes back through chosen[" in " ".join(prepared.notes)
        with story.forking():
            answer = asking.climb(prepared, lambda *_: True)
        assert answer.judgement.verdict == "identical" and answer.complete and answer.prepared.plan.rung == "resume"
        assert starts_in_words(answer.prepared) == from_ and len(answer.prepared.plan.must_run) == blocks
    assert story.rows(story.project, "mean") == story.truth("mean") != {}
