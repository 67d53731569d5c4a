"""Loop paths as people type them."""

from __future__ import annotations

import pytest

from rearview.catalog.paths import Element, Path, distance, matches, parse, shown, wishes_of
from rearview.errors import UsageError


def path(*elements: tuple[str, int, object]) -> Path:
    return tuple(Element(loop, 0, iteration, value) for loop, iteration, value in elements)  # type: ignore[arg-type]


CALLED_3 = path(("epoch", 2, 3))
STEP = path(("epoch", 2, 3), ("step", 119, None))


@pytest.mark.parametrize(
    ("text", "place", "fits"),
    [
        ("epoch=3", CALLED_3, True),
        ("epoch = 3", CALLED_3, True),
        ("epoch=2", CALLED_3, False),
        ("epoch#2", CALLED_3, True),
        ("epoch#3", CALLED_3, False),
        ("epoch=3.0", CALLED_3, True),
        ("epoch=2..3", CALLED_3, True),
        ("epoch=4..9", CALLED_3, False),
        ("epoch#0..2", CALLED_3, True),
        ("step=3", CALLED_3, False),
        ("epoch=3/step=119", STEP, True),
        ("epoch=3/step#119", STEP, True),
        ("epoch=3", STEP, False),
        ("step=119/epoch=3", STEP, True),
        ("lr=0.5", path(("lr", 0, 0.5)), True),
        ("lr=0.1..0.5", path(("lr", 0, 0.25)), True),
        ("on=true", path(("on", 0, True)), True),
        ("on=1", path(("on", 0, True)), False),
        ("file=data/a=b.csv", path(("file", 0, "data/a=b.csv")), False),
        ("file=data/a.csv", path(("file", 0, "data/a.csv")), True),
        ("file=7", path(("file", 0, "7")), True),
    ],
)
def test_what_people_type(text: str, place: Path, fits: bool) -> None:
    assert matches(place, parse(text)) is fits


def test_loops_of_one_name_are_counted() -> None:
    first, second = (Element("epoch", k, 2, 3) for k in range(2))
    assert (shown([first], {0}), shown([second], {0}), shown([second])) == ("epoch[1]=3", "epoch[2]=3", "epoch=3")
    assert matches([first], parse("epoch[1]=3")) and matches([second], parse("epoch[2]#2")) and matches([second], parse("epoch=3"))
    assert not matches([first], parse("epoch[2]=3")) and not matches([second], parse("epoch[1]=3"))
    inner = (second, Element("step", 1, 4, 4))
    assert matches(inner, parse("epoch[2]=3/step[2]=4")) and matches(inner, parse("epoch=3/step[2]=4"))
    assert not matches(inner, parse("epoch[2]=3/step[1]=4"))
    assert matches([Element("layer[2]", 0, 1, 1)], parse("layer[2]=1")), "a loop that is really called so"
    assert matches([Element("layer[2]", 1, 1, 1)], parse("layer[2][2]=1"))
    assert distance([second], parse("epoch[2]=5")) == (0.0, 2.0) and distance([second], parse("epoch[1]=5"))[0] == 1.0


def test_what_a_call_says_has_types() -> None:
    assert matches(CALLED_3, wishes_of({"epoch": 3}))
    assert not matches(CALLED_3, wishes_of({"epoch": "3"}))
    assert matches(path(("file", 0, "a")), wishes_of({"file": "a"}))
    assert not matches(path(("file", 0, "3")), wishes_of({"file": 3}))
    assert matches(STEP, wishes_of({"step": 119}, at="epoch#2"))
    with pytest.raises(UsageError, match="epoch="):
        wishes_of({"epoch": [1]})


def test_numbers_of_numpy_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    assert matches(CALLED_3, wishes_of({"epoch": np.int64(3)}))


@pytest.mark.parametrize("text", ["", "epoch", "epoch=", "=3", "epoch#x", "epoch#-1", "epoch#1..x", "epoch=3/step="])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="epoch=3|number"):
        parse(text)


def test_a_path_in_words() -> None:
    assert shown(STEP) == "epoch=3/step#119"
    assert shown(path(("lr", 0, 0.1), ("on", 1, True))) == "lr=0.1/on=True"


def test_the_nearest_is_near() -> None:
    places = [path(("epoch", k, k + 1)) for k in (0, 4, 9)]
    assert min(places, key=lambda place: distance(place, parse("epoch=6")))[0].value == 5
    assert min(places, key=lambda place: distance(place, parse("epoch#9")))[0].value == 10
    steps = [STEP, path(("epoch", 2, 3), ("step", 10, None)), CALLED_3]
    assert min(steps, key=lambda place: distance(place, parse("epoch=3/step=12")))[1].iteration == 10
