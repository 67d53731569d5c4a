"""Settings: defaults, where they come from, what is said of one that does not exist or does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rearview import config
from rearview.errors import ConfigError

EXAMPLES: dict[str, tuple[str, Any, str, Any, str, Any]] = {
    # name: variable's text and value, toml's text and value, a wrong text, a wrong toml value
    "record": ("off", False, "false", False, "perhaps", "1"),
    "quiet": ("1", True, "true", True, "2", '"yes"'),
    "sync": ("always", "always", '"always"', "always", "never", "true"),
    "source_limit": ("10", 10, "20", 20, "-1", "0"),
    "include": ("*.yaml, *.sh", ("*.yaml", "*.sh"), '["a", "b"]', ("a", "b"), "", '"a"'),
    "exclude": ("x", ("x",), "[]", (), "", "[1]"),
    "checkpoints": ("off", False, "false", False, "perhaps", "1"),
    "eps": ("0.1", 0.1, "0.5", 0.5, "0", "-1"),
    "every": ("1", 1, "0", 0, "-1", "1.5"),
    "risk": ("60", 60.0, "5", 5.0, "soon", "0"),
    "keep": ("newest:3, every:2", "newest:3, every:2", '"peak-and-end:max:acc"', "peak-and-end:max:acc", "peak-and-end:acc", "3"),
    "peak": ("max:acc", "max:acc", '"min:loss"', "min:loss", "acc", "1"),
    "volatile": ("t0, speed", ("t0", "speed"), '["t0"]', ("t0",), "", '"t0"'),
    "query_timeout": ("2.5", 2.5, "3", 3.0, "soon", "-1"),
}


def test_every_setting_has_an_example_and_a_help() -> None:
    assert {setting.name for setting in config.SETTINGS} == set(EXAMPLES)
    assert all(setting.help and setting.env.startswith("REARVIEW") for setting in config.SETTINGS)
    assert len({setting.env for setting in config.SETTINGS}) == len(config.SETTINGS)


def toml(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_precedence(tmp_path: Path, name: str) -> None:
    (setting,) = [setting for setting in config.SETTINGS if setting.name == name]
    text, value, in_toml, from_toml, _, _ = EXAMPLES[name]
    assert config.load(tmp_path, {})[name] == setting.default
    assert config.load(tmp_path, {}).origin(name) == "default"
    toml(tmp_path, f"[tool.rearview]\n{name} = {in_toml}\n")
    assert config.load(tmp_path, {})[name] == from_toml
    assert config.load(tmp_path, {}).origin(name) == "pyproject.toml"
    found = config.load(tmp_path, {setting.env: text})
    assert found[name] == value
    assert type(found[name]) is type(setting.default)
    assert found.origin(name) == setting.env


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"include", "exclude", "volatile"}))
def test_wrong_texts(name: str) -> None:
    (setting,) = [setting for setting in config.SETTINGS if setting.name == name]
    with pytest.raises(ConfigError) as raised:
        config.load(None, {setting.env: EXAMPLES[name][4]})
    assert name in str(raised.value)
    assert setting.env in str(raised.value)
    assert "expected" in str(raised.value)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_wrong_values_in_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        config.load(toml(tmp_path, f"[tool.rearview]\n{name} = {EXAMPLES[name][5]}\n"), {})


def test_unknown_names_are_errors_that_suggest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'quite'; did you mean 'quiet'\?"):
        config.load(toml(tmp_path, "[tool.rearview]\nquite = true\n"), {})
    with pytest.raises(ConfigError, match=r"REARVIEW_SNYC is no setting; did you mean 'REARVIEW_SYNC'\?"):
        config.load(None, {"REARVIEW_SNYC": "always"})
    with pytest.raises(ConfigError, match="known are: .*REARVIEW_DIR"):
        config.load(None, {"REARVIEW_" + "Q" * 40: "1"})
    assert isinstance(ConfigError("x"), ValueError)


def test_what_is_no_setting_is_left_alone(tmp_path: Path) -> None:
    ours = {"REARVIEW_DIR": "x", "REARVIEW_RUN": "r/0//x", "REARVIEW_DEBUG": "1", "REARVIEW_TEST_KILLS": "5"}
    other = {**ours, "REARVIEWER": "y", "PATH": ""}
    assert config.load(toml(tmp_path, "[tool.other]\nrearview = 1\n"), other).origins == config.load(None, {}).origins


@pytest.mark.parametrize("text", ["[tool.rearview", "[tool]\nrearview = 3\n", "\xff rearview"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"pyproject\.toml"):
        config.load(tmp_path, {})


def test_a_broken_file_that_never_mentions_us_is_not_our_business(tmp_path: Path) -> None:
    assert config.load(toml(tmp_path, "[tool."), {})["quiet"] is False


OFF = [("off", True), ("OFF ", True), ("0", True), ("no", True), ("", False), ("on", False), ("1", False)]


@pytest.mark.parametrize(("text", "off"), OFF)
def test_off_is_known_before_anything_is_read(text: str, off: bool) -> None:
    assert config.recording_is_off({"REARVIEW": text}) is off
    assert not config.recording_is_off({})


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert config.load(None, {"REARVIEW": "", "REARVIEW_QUIET": ""})["record"] is True


def test_flags_become_variables() -> None:
    assert config.flags(["sync=always", "quiet=on"]) == {"REARVIEW_SYNC": "always", "REARVIEW_QUIET": "on"}
    said = {"sync": "not 'sync' alone", "synk=always": "did you mean 'sync'", "sync=never": "in --set", "source_limit=-1": "in --set"}
    for bad, words in said.items():
        with pytest.raises(ConfigError, match=words):
            config.flags([bad])
