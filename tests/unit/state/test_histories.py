"""A tensor through which a backward pass is still to come cannot be kept whole, and is named; one that is done with is a value."""

from __future__ import annotations

from typing import Any

import pytest

from rearview.state.capture import capture
from rearview.state.take.histories import MOST, PENDING

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def named(**variables: Any) -> list[str]:
    captured = capture({("given", name): value for name, value in variables.items()})
    assert all(lack.why == PENDING for lack in captured.missing)
    return [lack.where for lack in captured.missing]


def net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def test_before_and_after_the_backward_pass() -> None:
    output = net()(torch.ones(5, 3))
    loss = output.pow(2).mean()
    total = 0.5 * loss + 1
    probabilities = torch.softmax(output, 1)
    variables = {"loss": loss, "output": output, "total": total, "probabilities": probabilities}
    assert named(**variables) == ["loss", "output", "total", "probabilities"]
    loss.backward()
    assert named(**variables) == []


def test_values_without_history_and_parameters() -> None:
    model = net()
    with torch.no_grad():
        output = model(torch.ones(2, 3))
    assert named(model=model, output=output, detached=model(torch.ones(2, 3)).detach()) == []


def test_hidden_states_of_a_truncated_backward_pass() -> None:
    rnn = torch.nn.LSTM(3, 4, num_layers=2)
    output, hidden = rnn(torch.ones(6, 1, 3))
    output.sum().backward()
    assert named(hidden=hidden) == []


def test_functions_of_the_program() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad

    doubled = Double.apply(torch.ones(2, requires_grad=True))
    assert named(doubled=doubled) == ["doubled"]
    doubled.sum().backward()
    assert named(doubled=doubled) == []


def test_a_few_are_named() -> None:
    model = net()
    found = named(chances=[model(torch.ones(1, 3)) for _ in range(20)])
    assert len(found) == MOST
    assert set(found) < {f"chances[{k}]" for k in range(20)}
