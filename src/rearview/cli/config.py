"""`rearview config`: each setting, its value, where it came from."""

from __future__ import annotations

from pathlib import Path

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, tables
from rearview.errors import NoStore


@click.command("config", short_help="Show each setting and where it came from.")
@options.as_json
@options.color
@click.pass_context
def command(ctx: click.Context, as_json: bool, color: str) -> None:
    """Show each setting, its value, where it came from and its environment variable.

    A setting comes from `rearview --set`, else from its REARVIEW_* variable, else from [tool.rearview] in the project's
    pyproject.toml, else from its default. Unknown keys are errors.
    """
    import os

    from rearview import config
    from rearview.store import layout

    project, _ = layout.find_project(Path.cwd(), os.environ.get("REARVIEW_DIR"), Path.home())
    settings = config.load(project)
    flags = config.flags(ctx.find_root().params.get("pairs", ()))  # as variables: that is how they reach the settings
    origins = {one.name: config.FLAG if one.env in flags else settings.origin(one.name) for one in config.SETTINGS}
    store = _store()
    if as_json:
        entries = [
            {
                "name": setting.name,
                "value": settings[setting.name],
                "origin": origins[setting.name],
                "env": setting.env,
                "default": setting.default,
                "type": setting.type_name,
                "choices": setting.choices,
                "help": setting.help,
            }
            for setting in config.SETTINGS
        ]
        output.write("rearview.config/1", project=str(project), store=store, settings=output.facts(entries))
        return
    view = screen.of_stdout(color)
    columns = [
        tables.Column("setting", least=12),
        tables.Column("value", least=10),
        tables.Column("from", least=8),
        tables.Column("variable", least=23),
        tables.Column("what", least=30, weight=1),
    ]
    rows: list[list[tables.Cell]] = []
    for setting in config.SETTINGS:
        origin = "variable" if origins[setting.name] == setting.env else origins[setting.name]
        shown = _shown(settings[setting.name])
        rows.append([setting.name, shown, tables.Styled(origin, "dim" if origin == "default" else "odd"), setting.env, setting.help])
    places = tables.facts([("project", str(project)), ("store", store or "(none yet: the first run makes it)")], view, label=7)
    screen.write([*places, "", *tables.draw(columns, rows, view).lines])


def _store() -> str | None:
    from rearview.cli import opening

    try:
        return str(opening.store().root)
    except NoStore:
        return None


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "(none)"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
