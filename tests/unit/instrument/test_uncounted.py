"""Writes to memory of tensors that torch does not count, as a program's text has them."""

from __future__ import annotations

import pytest

from rearview.instrument.uncounted import functions, writes


@pytest.mark.parametrize(
    "text",
    [
        "net.weight.data[17] = row",
        "net.weight.data[17] += row",
        "p.data.clamp_(-c, c)",
        "p.data[mask].zero_()",
        "p.data += 1",
        "for p in ps:\n    p.data -= lr * p.grad",
        "w = net.weight.detach().numpy()\nw[0] -= 1",
        "w = net.weight.detach().cpu().numpy().reshape(-1)\nv = w[3:]\nv.fill(0)",
        "nn.init.xavier_uniform_(m.weight.data)",
        "self.w = p.data.view(-1)\nself.w[3] = 1",
        "for n, w in enumerate([p.data for p in ps]):\n    w[0] = 1",
        "for a, b in zip([p.data for p in ps], others):\n    a.mul_(b)",
        "state = {n: p.data for n, p in ps}\nfor n, w in state.items():\n    w.mul_(2)",
        "np.copyto(p.numpy(), x)",
        "np.clip(p.numpy(), 0, 1, out=p.numpy())",
        "torch.clamp(p.data, 0, 1, out=p.data)",
        "ctypes.memset(p.data_ptr(), 0, 4)",
        "a = np.asarray(p)\na[0] = 1",
        "if (w := p.data) is not None:\n    w[0] = 1",
        "a, b = p.data, q.data\nb[2:4] = 0",
        "m = memoryview(p.numpy())\nm[0] = 1",
        "what = is : no Python with .data in it",
    ],
)
def test_a_write_is_seen(text: str) -> None:
    assert writes(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "net.weight[17] = row",
        "with torch.no_grad():\n    net.weight.clamp_(-c, c)",
        "net.weight.data = other",
        "seen.append(x.numpy())",
        "from torch.utils.data import DataLoader\nloader = torch.utils.data.DataLoader(d)\nloader.dataset[0] = 1",
        "loss_val = loss.data.item()\ntotal += loss_val",
        "acc = (a.numpy() == b.numpy()).mean()\nacc += 1",
        "accs[epoch] = (out.data.max(1)[1] == y).sum()",
        "copy = p.data.clone()\ncopy[0] = 1",
        "print(p.data)\nlog(x.data.item())",
    ],
)
def test_what_only_looks_is_none(text: str) -> None:
    assert not writes(text)


def test_a_function_of_the_program_may_write_to_what_it_is_given() -> None:
    text = "prune(net.weight.data)"
    assert not writes(text)
    assert writes(text, functions("def prune(weights):\n    weights[0] = 0\n"))
