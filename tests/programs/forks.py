"""A training that looks at its own process: forks while a checkpoint is being written, waits for any child, counts threads."""

import os
import signal
import threading

import fingerprint
import numpy as np
import torch
from torch import nn

import rearview as rv

torch.set_num_threads(1)
torch.manual_seed(0)
np.random.seed(0)
fingerprint.random.seed(0)
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
net = nn.Linear(700, 700)
opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
forked = 0


def fork():
    """A child that computes, logs and ends; its parent waits for any child, as shells and launchers do."""
    global forked
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert threading.active_count() == 1
            rv.log("in_child", float(net(torch.ones(700)).sum()))
            code = 0
        finally:
            os._exit(code)
    waited, status = os.wait()
    assert waited == pid, "a child that is not ours"
    assert status == 0
    forked += 1


with rv.checkpointing(net=net, opt=opt):
    for epoch in rv.loop("epoch", range(3)):
        for step in rv.loop("step", range(4)):
            loss = net(torch.randn(4, 700)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            rv.log("loss", loss)
            fork()
            print(f"epoch {epoch} step {step} loss {loss.item().hex()}", flush=True)
        fork()

try:
    os.wait()
    print("there is another child")
except ChildProcessError:
    print(f"{forked} children, all of them the program's own")
print("handlers as they were:", handlers == {number: signal.getsignal(number) for number in signal.valid_signals()})
if os.environ.get("REARVIEW") != "off":
    from rearview.record import lifecycle

    assert len([thread for thread in threading.enumerate() if thread.name.startswith("rearview")]) > 0
    lifecycle.rest()
print("threads:", [thread.name for thread in threading.enumerate()])
fingerprint.show(net.state_dict(), opt.state_dict()["state"])
