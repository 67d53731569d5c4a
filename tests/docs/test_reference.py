"""Each command, option, setting and public name has its place in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import documents

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"


def reference() -> str:
    if not REFERENCE.is_dir():
        pytest.skip("docs/reference is not written yet")
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(REFERENCE.rglob("*.md")))


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("#") and line.lstrip("#").replace("`", "").strip() == heading)
    level = len(lines[at]) - len(lines[at].lstrip("#"))
    ends = (k for k in range(at + 1, len(lines)) if lines[k].startswith("#") and len(lines[k]) - len(lines[k].lstrip("#")) <= level)
    return "\n".join(lines[at : next(ends, len(lines))])


def test_every_command_and_option_has_its_place() -> None:
    click = pytest.importorskip("click")
    main = pytest.importorskip("rearview.cli.main")
    text = reference()
    group = next(value for value in vars(main).values() if isinstance(value, click.Group))
    context = click.Context(group)
    missing = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        heading = f"rearview {name}"
        if heading not in documents.headings_of(text):
            missing.append(f"the heading `{heading}`")
            continue
        below = section(text, heading)
        options = [max(option.opts, key=len) for option in command.params if isinstance(option, click.Option) and not option.hidden]
        missing += [f"{heading} {option}" for option in options if option not in below and option != "--help"]
    assert not missing


def test_every_setting_has_its_heading() -> None:
    config = pytest.importorskip("rearview.config")
    text = reference()
    headings = documents.headings_of(text)
    assert not [setting.name for setting in config.SETTINGS if setting.name not in headings]
    assert not [setting.env for setting in config.SETTINGS if setting.env not in section(text, setting.name)]
    assert not [variable for variable in config.NOT_SETTINGS if variable not in text]


def test_the_transcript_of_config_has_every_setting() -> None:
    config = pytest.importorskip("rearview.config")
    below = section(reference(), "rearview config")
    assert not [setting.name for setting in config.SETTINGS if f"\n{setting.name} " not in below]


def test_every_document_of_json_is_listed() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "rearview" / "cli").rglob("*.py")]
    written = {found for source in sources for found in re.findall(r'"(rearview\.[a-z-]+/\d+)"', source)}
    assert len(written) > 20
    below = section(reference(), "JSON")
    assert not [schema for schema in sorted(written) if f"`{schema}`" not in below]


def test_every_public_name_has_its_heading() -> None:
    rearview = pytest.importorskip("rearview")
    public = getattr(rearview, "__all__", None)
    if public is None:
        pytest.skip("rearview has no __all__ yet")
    headings = [heading.split("(")[0] for heading in documents.headings_of(reference())]
    assert not [name for name in public if not name.startswith("__") and f"rv.{name}" not in headings]
