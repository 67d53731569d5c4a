"""Charts as files: PNG and SVG by matplotlib, HTML as one page that holds everything and asks for nothing.

Labels are the user's text: shown as text, never as mathematics, markup or a page's own code. Must not know runs.
"""

from __future__ import annotations

import html
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rearview.cli.shown import text
from rearview.cli.shown.chart import Line
from rearview.errors import MissingLibrary, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".html")
_LEGEND_LINES = 20
_INSIDE = 4
"""A legend of more lines stands below the picture."""
_COLOURS = 10
"""Colours there are; lines beyond them are dashed, so that no two of thirty look the same."""
_DASHES = ("-", "--", ":")
_TITLE = 80
"""Columns of a title; more would not fit into the picture."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of a figure."""

    title: str
    x_title: str
    lines: Sequence[Line]


def kind_of(path: Path) -> str:
    """The kind of file that a name asks for."""
    if path.suffix.lower() not in KINDS:
        raise UsageError(f"{path} is no picture rearview can write: end the name in .png, .svg or .html")
    return path.suffix.lower()


def render(panels: Sequence[Panel], kind: str) -> bytes:
    """The bytes of a figure file."""
    if kind == ".html":
        return _page(panels, _saved(panels, "svg").decode()).encode()
    return _saved(panels, kind[1:])


def _saved(panels: Sequence[Panel], form: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingLibrary(
            "pictures need matplotlib: `pip install rearview-ml[plot]`, or leave -o away for a chart in the terminal"
        ) from None
    plain = {"text.parse_math": False, "text.usetex": False, "svg.fonttype": "none", "svg.hashsalt": "rearview"}
    target = io.BytesIO()
    with matplotlib.rc_context(plain), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without some character: the box it draws says enough
        figure = Figure(figsize=(9, sum(map(_height, panels)) + 0.4), layout="constrained")
        _draw(figure, panels)
        figure.savefig(target, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    return target.getvalue()


def _below(panel: Panel) -> bool:
    """Whether the legend stands below the lines: a large one would cover them."""
    return len(panel.lines) > _INSIDE


def _height(panel: Panel) -> float:
    """Inches."""
    return 3.6 + (0.18 * min(len(panel.lines), _LEGEND_LINES + 1) + 0.2 if _below(panel) else 0.0)


def _draw(figure: Figure, panels: Sequence[Panel]) -> None:
    for axes, panel in zip(
        figure.subplots(len(panels), 1, squeeze=False, height_ratios=[_height(panel) for panel in panels])[:, 0], panels, strict=True
    ):
        handles = []
        for number, line in enumerate(panel.lines):
            # A single point makes no line: mark it.
            marker = "o" if len(line.points) == 1 else ""
            dash = _DASHES[number // _COLOURS % len(_DASHES)]
            (handle,) = axes.plot(
                [x for x, _ in line.points],
                [y for _, y in line.points],
                marker=marker,
                linewidth=1.4,
                linestyle=dash,
                color=f"C{number % _COLOURS}",
            )
            handles.append(handle)
        axes.set_title(_short(panel.title), fontsize=11, loc="left")
        axes.set_xlabel(_short(panel.x_title))
        axes.grid(True, alpha=0.3)
        labels = [f" {text.escape(line.label)}" for line in panel.lines]  # a label that begins with _ would be left out
        if labels:
            more = f"the first {_LEGEND_LINES} of {len(labels)} lines" if len(labels) > _LEGEND_LINES else None
            place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16)} if _below(panel) else {}
            axes.legend(handles[:_LEGEND_LINES], labels[:_LEGEND_LINES], fontsize=8, title=more, title_fontsize=8, **place)


def _short(title: str) -> str:
    return text.shorten(text.escape(title), _TITLE)


_STYLE = "body{font:14px system-ui,sans-serif;margin:2em;max-width:70em}svg{max-width:100%;height:auto}\
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ccc}"


def _page(panels: Sequence[Panel], drawing: str) -> str:
    """One HTML page. Nothing in it runs, and nothing is fetched: the policy forbids both."""
    title = html.escape(", ".join(_short(panel.title) for panel in panels))
    picture = drawing[drawing.index("<svg") :]  # without the XML heading, which has no place in HTML
    rows = "".join(_row(panel, line) for panel in panels for line in panel.lines)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n<body>\n{picture}\n"
        "<table><thead><tr><th>name</th><th>line</th><th>points</th><th>last</th></tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table>\n</body></html>\n"
    )


def _row(panel: Panel, line: Line) -> str:
    last = text.number(line.points[-1][1]) if line.points else ""
    cells = [_short(panel.title), text.escape(line.label), str(len(line.points)), last]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>\n"
