"""From which checkpoints a run can go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rearview.record.checkpoints.at_work import AT_WORK
from rearview.record.resume import restore_points
from rearview.store import manifests, objects
from rearview.store.layout import Store
from rearview.store.packs import index
from tests.unit.store.checkpoints import RUN, new_store, save

DATA = {"w": bytes(range(256)) * 5000}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


def places(store: Store) -> list[str]:
    return [point.place for point in restore_points.of_run(store, RUN)[0]]


def test_the_newest_first_and_the_end_of_the_iteration_before_its_block(store: Store) -> None:
    for number in (1, 2, 3):
        for part in ("block", "iteration"):
            save(store, number, DATA, part=part)
    found, damaged = restore_points.of_run(store, RUN)
    assert [(point.number, point.part) for point in found] == [
        (3, "iteration"), (3, "block"), (2, "iteration"), (2, "block"), (1, "iteration"), (1, "block"),
    ]  # fmt: skip
    assert damaged == []
    assert found[0].checkpoint() == {"0": "0-a1-000003-iteration"}


def test_of_several_loops_of_one_name_it_is_said_which(store: Store) -> None:
    save(store, 1, DATA)
    save(store, 2, DATA, loop="warmup")
    assert places(store) == ["after warmup=2", "after epoch=1"]
    save(store, 3, DATA, occurrence=1)
    assert places(store) == ["after epoch[2]=3", "after warmup=2", "after epoch[1]=1"]


def test_a_checkpoint_without_one_ranks_part_is_none(store: Store) -> None:
    for rank in (0, 1):
        save(store, 1, DATA, process=str(rank), rank=rank, world=2)
    save(store, 2, DATA, process="0", rank=0, world=2)
    (point,) = restore_points.of_run(store, RUN)[0]
    assert point.checkpoint() == {"0": "0-a1-000001-iteration", "1": "1-a1-000001-iteration"}


def test_thinned_ones_and_those_of_children_are_no_places_to_go_on_from(store: Store) -> None:
    name = save(store, 1, DATA)
    save(store, 2, DATA, process="0.1")
    assert places(store) == ["after epoch=1"]
    manifests.put_mark(store, name, manifests.THINNED, why="test")
    assert places(store) == []


def test_a_sound_checkpoint_has_no_problem(store: Store) -> None:
    save(store, 1, DATA)
    (point,) = restore_points.of_run(store, RUN)[0]
    assert restore_points.problem_of(store, point) is None
    assert point.size_bytes >= len(DATA["w"])


def test_a_flipped_bit_a_lost_pack_a_lost_tree_are_found_and_the_older_one_taken(store: Store) -> None:
    save(store, 1, {"w": b"older" * 1000})
    name = save(store, 2, DATA)
    points, _ = restore_points.of_run(store, RUN)
    tree = objects.path_of(store, manifests.read(store, name).tree)
    pack = max(index.folder_of(store).glob("*.pack"), key=lambda path: path.stat().st_size)

    def passed_over() -> str:
        point, said = restore_points.newest_sound(store, points)
        assert point is not None
        assert point.number == 1
        (sentence,) = said
        return sentence

    whole = pack.read_bytes()
    pack.write_bytes(whole[:70_000] + bytes([whole[70_000] ^ 1]) + whole[70_001:])
    assert "0-a1-000002-iteration" in passed_over()
    pack.unlink()
    assert "after epoch=2" in passed_over()
    pack.write_bytes(whole)
    assert restore_points.newest_sound(store, points)[1] == []
    tree.unlink()
    assert "damaged" in passed_over()


def test_a_damaged_manifest_is_named(store: Store) -> None:
    save(store, 1, DATA)
    name = save(store, 2, DATA)
    path = manifests.path_of(store, name)
    path.write_bytes(path.read_bytes().replace(b"epoch", b"epoxy"))
    found, damaged = restore_points.of_run(store, RUN)
    assert [point.number for point in found] == [1]
    assert str(name) in damaged[0]


def test_nothing_to_go_on_from(store: Store) -> None:
    assert restore_points.of_run(store, RUN) == ([], [])
    assert restore_points.newest_sound(store, []) == (None, [])


def test_a_place_that_work_beside_the_loop_would_wait_at_is_passed_over_and_said_if_it_is_the_newest(store: Store) -> None:
    waits = [["feed", "threading.Thread", AT_WORK]]
    save(store, 1, DATA)
    save(store, 2, DATA, part="block", missing=waits)
    points, _ = restore_points.of_run(store, RUN)
    found, (sentence,) = restore_points.reachable(points)
    assert [point.number for point in found] == [1]
    assert "0-a1-000002-block" in sentence
    assert "feed was at work" in sentence
    save(store, 2, DATA)
    points, _ = restore_points.of_run(store, RUN)
    found, said = restore_points.reachable(points)
    assert [(point.number, point.part) for point in found] == [(2, "iteration"), (1, "iteration")]
    assert said == []


def test_a_place_that_an_attempt_did_not_come_to_is_passed_over_with_others_of_its_iteration(store: Store) -> None:
    save(store, 1, DATA)
    save(store, 2, DATA, part="inside")
    save(store, 2, DATA, part="block")
    points, _ = restore_points.of_run(store, RUN)
    newest = set(points[0].checkpoint().values())
    found, (sentence,) = restore_points.reachable(points, newest)
    assert "an attempt to go on from it did not come there" in sentence
    assert (points[0].part, found[0].part) == ("block", "iteration")
    same = {point.number for point in points if point.iteration == points[0].iteration}
    assert not same & {point.number for point in found if point.part != "iteration"}
    every = {name for point in points for name in point.checkpoint().values()}
    others = set(points[0].checkpoint().values()) | set(points[2].checkpoint().values())
    assert restore_points.reachable(points, others)[0] == [points[1]], "there is nothing else"
    nothing, (sentence,) = restore_points.reachable(points, every)
    assert (nothing, "did not come there" in sentence) == ([], True), "in the end the beginning"
    assert restore_points.reachable(points, every, edited=True) == (points, [])


def test_a_large_state_is_verified_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_points, "_AT_ONCE", 1 << 20)
    save(store, 1, {"large": b"".join(bytes([k]) * (1 << 20) for k in range(5)) + b"tail"})
    (point,) = restore_points.of_run(store, RUN)[0]
    assert restore_points.problem_of(store, point) is None


def test_of_states_that_come_back_otherwise_the_newest_is_gone_on_with_where_older_ones_do_so_too(store: Store) -> None:
    for number in (1, 2, 3):
        save(store, number, DATA)
    points, _ = restore_points.of_run(store, RUN)
    newest, older, oldest = ({*point.checkpoint().values()} for point in points)
    choose = restore_points.to_be_missed
    assert choose(points, newest, newest) == newest
    assert choose(points, newest | older, newest | older) == older
    assert choose(points, newest | older, older) == newest | older, "one was not come to for another reason: there is an older one"
    assert choose(points, newest | older | oldest, oldest) == newest | older
    assert choose(points[:1], newest, newest) == set()
