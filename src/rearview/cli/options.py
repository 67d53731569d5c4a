"""The options that several commands share, so that each means one thing everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON with a `schema` field instead.")

color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours: on a terminal unless NO_COLOR is set, always, or never.",
)

where = click.option("--where", metavar="EXPR", help='Only what satisfies this expression, e.g. "lr > 0.01 and acc > 0.9".')

in_run = click.option("--run", "run_ref", metavar="RUN", help="Only this run: an id or its beginning, a name, `last`, `last~2`.")


def run_argument(name: str = "run_ref", required: bool = True, nargs: int = 1, metavar: str = "RUN") -> Decorator:
    """A RUN on the command line."""
    return click.argument(name, metavar=metavar if required else f"[{metavar}]", required=required, nargs=nargs)


def limit(default: int | None, what: str) -> Decorator:
    """`--limit N`, 0 for all."""
    return click.option("--limit", type=int, metavar="N", default=default, callback=_not_negative, help=what)


def _not_negative(_ctx: click.Context, _option: click.Parameter, value: int | None) -> int | None:
    # Instead of click's IntRange, which adds its range to the help text.
    if value is not None and value < 0:
        raise click.BadParameter(f"{value} is negative: 0 means all")
    return value
