"""Calls of a function that has another name in the other version: they are the same step of a program, whatever they are given.

`fit(state, loaders, devices)` is `train(model, data)` of old if the function `fit` is the function `train`: of the words of the two calls
hardly one is the same. Knows matched functions. Must not know where a statement goes. Pure.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from rearview.propagate.tree import File, Node

Callees = Mapping[str, str]
"""Functions of the new version by name -> what they are called in the old one, if that is another name."""


def called_otherwise(old_of: Mapping[Node, Node]) -> dict[str, str]:
    """Of matched functions of the same scope, those that have another name."""
    found = {}
    for one, other in old_of.items():
        if one.kind == other.kind == "FunctionDef" and one.qualified != other.qualified and one.qualified[:-1] == other.qualified[:-1]:
            found[one.qualified[-1]] = other.qualified[-1]
    return found


def same_callee(new: Node, old: Node, callees: Callees) -> bool:
    """Whether two statements call, before all else, a function that has another name in the old version."""
    return any(f"(){name}" in new.handles and f"(){other}" in old.handles for name, other in callees.items())


def only_calls(files: tuple[File, File], known: Container[Node], callees: Callees) -> Iterator[tuple[Node, Node]]:
    """The only statements of each version that call such a function, of those that are not known to be others."""
    files[0].need(callees)
    files[1].need(callees.values())
    for name, other in callees.items():
        sides = [_calling(file, name, known) for file, name in zip(files, (name, other), strict=True)]
        if [len(side) for side in sides] == [1, 1]:
            yield sides[0][0], sides[1][0]


def _calling(file: File, name: str, known: Container[Node]) -> list[Node]:
    return [one for one in file.nodes if not one.blocks and not one.nothing and one not in known and f"(){name}" in one.handles]
