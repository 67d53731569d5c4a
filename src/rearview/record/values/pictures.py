"""Pictures as bytes: PIL images in their own mode, matplotlib figures as the picture they draw.

Knows PIL and matplotlib by the modules the user's program has loaded. A figure's artists could only come back by
unpickling, which looking never does, so a figure is kept as its RGBA picture at its own resolution. Drawing it takes no
new canvas and leaves the figure's canvas, its marks of what needs redrawing, pyplot and rcParams as they were; what any
drawing does (the figure's layout engine runs, pending automatic limits are settled) happens here too.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from rearview.errors import Unstorable
from rearview.record.values import summaries
from rearview.record.values.arrays import Whole
from rearview.record.values.summaries import Figures

_DTYPES = {"1": "bool", "I": "int32", "F": "float32", "I;16": "uint16", "I;16L": "uint16", "I;16N": "uint16", "I;16B": ">u2"}


def from_pil(image: Any) -> Whole:
    """A PIL image of any mode: its raw bytes, mode, size, and palette."""
    data = image.tobytes()
    bands = len(image.getbands())
    width, height = image.size
    details: dict[str, Any] = {"mode": image.mode}
    if image.palette is not None and image.mode in ("P", "PA"):
        mode = image.palette.mode
        details["palette"] = [mode, bytes(image.getpalette(mode))]
    transparency = image.info.get("transparency")
    if isinstance(transparency, (int, bytes)) or _whole_numbers(transparency):
        details["transparency"] = transparency
    shape = (height, width) if bands == 1 else (height, width, bands)
    return Whole("pil", _DTYPES.get(image.mode, "uint8"), shape, data, _pil_figures(image, data), details)


def _whole_numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, int) for each in value)


def _pil_figures(image: Any, data: bytes) -> Figures:
    dtype = _DTYPES.get(image.mode, "uint8")
    np = sys.modules.get("numpy")
    if dtype == "bool":  # PIL counts two colours as 0 and 255
        counts = image.histogram()
        return summaries.of_counts([counts[0], counts[255]])
    if np is not None:
        return summaries.of_numpy(np, np.frombuffer(data, dtype=np.dtype(dtype))) if data else Figures()
    if dtype == "uint8":
        return summaries.of_counts([data.count(value) for value in range(256)])
    return Figures()  # nothing here reads wider numbers quickly without NumPy


def from_figure(figure: Any) -> Whole:
    """A matplotlib figure as the RGBA picture it draws."""
    agg: Any = importlib.import_module("matplotlib.backends.backend_agg")  # of the matplotlib that the program has loaded
    width, height = (int(side) for side in figure.bbox.size)
    if width < 1 or height < 1:
        raise Unstorable("a figure without any area cannot be kept; give it a size")
    stale = [(artist, artist.stale) for artist in figure.findobj()]
    renderer = agg.RendererAgg(width, height, figure.dpi)
    try:
        with figure.canvas.callbacks.blocked(signal="draw_event"):  # nobody asked for this drawing
            figure.draw(renderer)
    finally:
        for artist, was in stale:
            artist._stale = was  # the property would tell the canvas to draw
    data = bytes(renderer.buffer_rgba())
    np: Any = sys.modules["numpy"]  # matplotlib itself needs it
    shown = summaries.of_numpy(np, np.frombuffer(data, dtype=np.uint8))
    return Whole("figure", "uint8", (height, width, 4), data, shown, {"dpi": float(figure.dpi)})
