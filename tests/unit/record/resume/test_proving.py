"""What is said about a state that was put back: nothing, or one sentence that names what is not as it was."""

from __future__ import annotations

from typing import Any

from rearview.model import ProcessNumber, RunId
from rearview.record.checkpoints import differing
from rearview.record.resume import proving
from rearview.record.resume.kept import NOW
from rearview.state import positions, streams
from rearview.state.capture import capture
from rearview.state.digests import root_digests
from rearview.store.manifests import Manifest


class Kept:
    """Stands for a checkpoint of some variables."""

    def __init__(self, missing: tuple[str, str] | None = None, unlike: str | None = None, **variables: Any) -> None:
        self._take({("local", 0, name): value for name, value in variables.items()}, missing, unlike)

    @classmethod
    def of(cls, roots: dict[Any, Any]) -> Kept:
        """A checkpoint of these roots."""
        kept = cls.__new__(cls)
        kept._take(roots)
        return kept

    def _take(self, roots: dict[Any, Any], missing: tuple[str, str] | None = None, unlike: str | None = None) -> None:
        captured = capture({**roots, NOW: streams.take()}, adapters=[positions.Iterators()])
        self.tree = captured.tree
        self.memory = differing.buffer_digests(captured)
        digests = root_digests(captured.tree, self.memory)
        self.manifest = Manifest(
            run=RunId("r1"), process=ProcessNumber("0"), attempt=1, number=4, part="iteration", path=[["epoch", 0, 3, 3]], tree="",
            tree_bytes=0, buffers=(), roots={"/".join(map(str, key)): [text, 0, ""] for key, text in digests.items()},
            missing=[[*missing, "why"]] if missing else [], unlike=[[unlike, "set", "why"]] if unlike else [],
        )  # fmt: skip

    def seen_digests(self) -> list[bytes]:
        """Of its memory."""
        return self.memory


def _said(kept: Any, **now: Any) -> list[str]:
    return _proof(kept, **now).sentences


def _proof(kept: Any, **now: Any) -> proving.Proof:
    return proving.prove(kept, lambda: {("local", 0, name): value for name, value in now.items()})


def test_nothing_is_said_of_what_is_as_it_was_and_nothing_is_drawn() -> None:
    state = {"seen": [1, "a"], "rate": 0.1, "numbers": (n for n in range(3)), "large": bytes(10_000)}
    kept, before = Kept(**state), streams.take()
    assert _said(kept, **state) == []
    assert streams.take() == before


def test_what_is_not_as_it_was_is_named_with_the_checkpoint_and_what_to_do() -> None:
    (said,) = _said(Kept(seen=[1, "a"], rate=0.1, gone=1), seen=[1, "b"], rate=0.1)
    assert said.startswith("gone and seen[1] are not what checkpoint 0-a1-000004-iteration holds")
    assert "may differ from the uninterrupted run" in said
    assert "`rearview resume r1 --at PLACE`" in said
    assert "report" in said


def test_what_holds_something_else_is_refused_and_what_is_only_shared_otherwise_is_said() -> None:
    one, other = [1], [1]
    shared = _proof(Kept(both=[one, one], held=2), both=[one, other], held=2)
    assert len(shared.sentences) == 1
    assert not shared.refused
    another = _proof(Kept(both=[one, one], held=2), both=[one, [2]], held=2)
    assert another.refused.startswith("both")
    assert "--at" not in another.refused, "where it is refused, an older one is taken"


def test_many_are_counted() -> None:
    then, now = ({f"v{number}": number + more for number in range(9)} for more in (0, 1))
    (said,) = _said(Kept(**then), **now)
    assert said.startswith("v0, v1, v2, v3, v4 and 4 more are not")


def test_what_the_checkpoint_names_itself_is_not_said_again_and_hides_nothing_else() -> None:
    then, now = {"box": [1, [2], 3]}, {"box": [1, [9], 3]}
    assert _said(Kept(unlike="box[1]", **then), **now) == []
    assert _said(Kept(missing=("box", "list"), **then), **now) == []
    (said,) = _said(Kept(unlike="box[0]", **then), **now)
    assert said.startswith("box[1]")


def test_iterators_are_told_by_their_loop() -> None:
    then, now = ({"it": (n for n in range(stop))} for stop in (3, 4))
    next(now["it"])
    assert len(_said(Kept(**then), **now)) == 1
    assert _said(Kept(missing=("epoch", "position"), **then), **now) == []


def test_positions_are_called_by_their_loop_and_what_was_held_when_that_began_is_none_of_it() -> None:
    def said(**now: Any) -> list[str]:
        then = {"count": 3, "shape": {"at": 1}, "values": [{}, {}]}
        kept: Any = Kept.of({("position", 0): then})
        return proving.prove(kept, lambda: {("position", 0): {**then, **now}}).sentences

    assert said() == said(values=[{"a": 1}, {"a": 2}]) == []
    (sentence,) = said(shape={"at": 2})
    assert sentence.startswith("the position of loop 'epoch' is not what checkpoint")


def test_names_that_are_new_are_none_of_it() -> None:
    assert _said(Kept(a=1), a=1, b=2) == []


def test_a_fault_of_ours_is_said_and_stops_nothing() -> None:
    kept = Kept(a=1)
    kept.manifest.roots["local/0/a"] = None
    (said,) = _said(kept, a=1)
    assert "could not be compared with checkpoint 0-a1-000004-iteration" in said
    assert "the training goes on" in said
