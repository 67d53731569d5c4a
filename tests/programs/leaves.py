"""`mixed.py`, left in the way that is asked for: with an exit code, or by an exception at the end of the second epoch."""

import sys

import mixed

evaluate, calls = mixed.evaluate, []


def failing(net, data):
    calls.append(len(calls))
    if len(calls) == 2:
        raise ArithmeticError("the loss is not a number")
    return evaluate(net, data)


if sys.argv[4] == "raises":
    mixed.evaluate = failing
mixed.main()
sys.exit(3)
