"""Images and figures with the real libraries: kept whole, and nothing else touched."""

from __future__ import annotations

import gc
import io
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from rearview.errors import Unstorable
from tests.integration.values.kept import Trip, same_array

MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "PA", "RGBX", "RGBa", "La", "I;16", "I;16B", "I;16L"]


def picture(mode: str, size: tuple[int, int] = (13, 5)) -> Any:
    images = pytest.importorskip("PIL.Image")
    length = len(images.new(mode, size).tobytes())
    image = images.frombytes(mode, size, bytes(k * 37 % 256 for k in range(length)))
    if mode in ("P", "PA"):
        image.putpalette([k * 3 % 256 for k in range(768)])
    return image


@pytest.mark.parametrize("mode", MODES)
def test_images_come_back_in_their_mode(mode: str, trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    image = picture(mode)
    cell = trip(image)
    loaded = cell.load()
    assert (loaded.mode, loaded.size, loaded.tobytes()) == (image.mode, image.size, image.tobytes())
    assert loaded.getpalette() == image.getpalette()
    assert cell.shape == np.asarray(image).shape
    if mode != "F":
        assert (cell.minimum, cell.maximum) == (np.asarray(image).min(), np.asarray(image).max())
    without("PIL")
    plain = cell.load()
    assert plain.dtype == np.asarray(image).dtype
    assert np.array_equal(plain, np.asarray(image), equal_nan=mode == "F")


def test_palettes_with_transparency_and_files_and_nothing(trip: Trip) -> None:
    images = pytest.importorskip("PIL.Image")
    image = picture("P")
    image.putpalette([k % 256 for k in range(64)], "RGBA")
    image.info["transparency"] = 3
    loaded = trip(image).load()
    assert (loaded.getpalette("RGBA"), loaded.info["transparency"]) == (image.getpalette("RGBA"), 3)
    assert trip(images.new("RGB", (0, 3))).load().size == (0, 3)
    file = io.BytesIO()
    picture("RGB").save(file, "PNG")
    opened = images.open(file)
    assert trip(opened).load().tobytes() == picture("RGB").tobytes()
    with pytest.raises(Unstorable, match="could not be read"):
        trip(images.open(io.BytesIO(file.getvalue()[:-40])))


def drawn() -> Any:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(2.005, 1), dpi=60)
    figure.subplots().plot([1, 3, 2])
    return figure


def test_a_figure_is_kept_as_the_picture_it_draws(trip: Trip, without: Callable[..., None]) -> None:
    np = pytest.importorskip("numpy")
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    figure = drawn()
    cell = trip(figure)
    canvas = agg.FigureCanvasAgg(drawn())
    canvas.draw()
    wanted = np.asarray(canvas.buffer_rgba())
    same_array(cell.load(as_="numpy"), wanted.copy())
    assert (cell.kind, cell.shape) == ("figure", wanted.shape)
    loaded = cell.load()
    assert type(loaded) is type(figure)
    canvas = agg.FigureCanvasAgg(loaded)
    canvas.draw()
    assert np.array_equal(np.asarray(canvas.buffer_rgba()), wanted)
    without("matplotlib")
    same_array(cell.load(), wanted.copy())


def test_drawing_leaves_figure_and_pyplot_as_they_were(trip: Trip) -> None:
    np = pytest.importorskip("numpy")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    first, other = plt.figure(figsize=(3, 2), dpi=50), plt.figure()
    axes = first.subplots()
    axes.set(xlim=(0, 3), ylim=(0, 4))
    axes.plot([1, 3, 2])
    seen: list[object] = []
    first.canvas.mpl_connect("draw_event", seen.append)
    axes.plot([3, 1])

    def state() -> tuple[Any, ...]:
        return (
            dict(matplotlib.rcParams),
            matplotlib.get_backend(),
            plt.get_fignums(),
            first.canvas,
            first.canvas.manager,
            first.dpi,
            tuple(first.get_size_inches()),
            [(id(artist), artist.stale) for artist in first.findobj()],
            axes.get_xlim(),
            axes.get_position().bounds,
            random.getstate(),
            np.random.get_state()[1].tobytes(),
            getattr(first.canvas, "renderer", None),
        )

    try:
        first.canvas.draw()
        seen.clear()
        axes.plot([2, 2])
        before = state()
        assert first.stale
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trip(first).load()
        assert state() == before
        assert plt.gcf() is other
        assert not said
        assert not seen
    finally:
        plt.close("all")
    gc.collect()
