"""Every setting, its default, its environment variable, and where its value came from.

Order: `rearview --set NAME=VALUE`, `REARVIEW_*` variables, `[tool.rearview]` in the project's pyproject.toml, the default. Unknown keys
and values that do not fit are errors, because a setting that is silently ignored is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearview.errors import ConfigError

Value = bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set."""

    name: str
    default: Value
    env: str
    help: str
    choices: tuple[str, ...] = ()
    zero: bool = False
    """Zero means something."""

    @property
    def type_name(self) -> str:
        name = type(self.default).__name__
        return {"tuple": "list of text", "str": "text"}.get(name, name)


SETTINGS: tuple[Setting, ...] = (
    Setting("record", True, "REARVIEW", "record at all; `off` turns every call into its plain meaning"),
    Setting("quiet", False, "REARVIEW_QUIET", "do not print the store's path and the line at the end of a run"),
    Setting("sync", "second", "REARVIEW_SYNC", "what a power loss may take: the last `second` or nothing (`always`)", ("second", "always")),
    Setting("source_limit", 1 << 20, "REARVIEW_SOURCE_LIMIT", "largest source file taken into a version, in bytes"),
    Setting("include", (), "REARVIEW_INCLUDE", "more files to take into versions, as patterns"),
    Setting("exclude", (), "REARVIEW_EXCLUDE", "files never to take into versions, as patterns"),
    Setting("checkpoints", True, "REARVIEW_CHECKPOINTS", "take checkpoints inside `rv.checkpointing`"),
    Setting("eps", 1 / 15, "REARVIEW_EPS", "the share of its time that a run may lose to checkpoints, at most"),
    Setting("every", 0, "REARVIEW_EVERY", "a fixed period: every n-th outer iteration, whatever it costs; 0 adapts", zero=True),
    Setting("risk", 900.0, "REARVIEW_RISK", "seconds of work that may be lost to a kill inside a long loop, if eps allows"),
    Setting("keep", "everything", "REARVIEW_KEEP", "checkpoints to keep: everything, peak-and-end, every:N, newest:K, budget:SIZE"),
    Setting("peak", "", "REARVIEW_PEAK", "what is best for `keep = peak-and-end`: max:NAME or min:NAME"),
    Setting("volatile", (), "REARVIEW_VOLATILE", "names and variables that differ from one execution to the next: times, speeds, paths"),
    Setting("query_timeout", 30.0, "REARVIEW_QUERY_TIMEOUT", "seconds a query may take"),
)

NOT_SETTINGS = ("REARVIEW_DIR", "REARVIEW_RUN", "REARVIEW_RESUME", "REARVIEW_REPLAY", "REARVIEW_UNIT", "REARVIEW_DEBUG")
"""Variables of ours that are no settings: where the store is, a run's mark for its children, what is resumed or replayed, tracebacks."""

BY_NAME = {setting.name: setting for setting in SETTINGS}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force and where each came from."""

    values: Mapping[str, Value]
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def origin(self, name: str) -> str:
        """`default`, `pyproject.toml`, or the name of a variable."""
        return self.origins[name]


DEFAULTS = Settings({setting.name: setting.default for setting in SETTINGS}, dict.fromkeys(BY_NAME, "default"))
"""Every setting as it is when nobody sets it."""


def recording_is_off(environ: Mapping[str, str]) -> bool:
    """Whether `REARVIEW=off`; asked before anything else is read."""
    return environ.get("REARVIEW", "").strip().lower() in _FALSE


def overlaid(settings: Settings, wishes: Mapping[str, object], where: str) -> Settings:
    """Settings with some given in a call; None means not given."""
    values, origins = dict(settings.values), dict(settings.origins)
    for name, raw in wishes.items():
        if raw is not None:
            values[name] = _from_toml(BY_NAME[name], raw, where)
            origins[name] = where
    return Settings(values, origins)


def load(project: Path | None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a project."""
    environ = os.environ if environ is None else environ
    values: dict[str, Value] = {setting.name: setting.default for setting in SETTINGS}
    origins = dict.fromkeys(values, "default")
    for key, raw in _pyproject(project).items():
        setting = BY_NAME.get(key)
        if setting is None:
            raise ConfigError(f"[tool.rearview] in pyproject.toml has an unknown key {key!r}{_near(key, list(BY_NAME))}")
        values[key] = _from_toml(setting, raw)
        origins[key] = "pyproject.toml"
    by_env = {setting.env: setting for setting in SETTINGS}
    for variable, text in environ.items():
        if not variable.startswith("REARVIEW") or variable in NOT_SETTINGS or variable.startswith("REARVIEW_TEST_"):
            continue
        setting = by_env.get(variable)
        if setting is None:
            if variable == "REARVIEW" or variable.startswith("REARVIEW_"):
                raise ConfigError(f"the variable {variable} is no setting{_near(variable, [*by_env, *NOT_SETTINGS])}")
            continue
        if not text.strip() and not isinstance(setting.default, tuple):
            continue  # an empty variable is as good as none; an empty list is one
        values[setting.name] = _from_text(setting, text, variable)
        origins[setting.name] = variable
    return Settings(values, origins)


FLAG = "--set"
"""Where a setting came from that was given with the command."""


def flags(pairs: Sequence[str]) -> dict[str, str]:
    """`["sync=always"]` as variables; unknown names and misfits are errors at once."""
    variables = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        setting = BY_NAME.get(name)
        if setting is None:
            raise ConfigError(f"--set takes NAME=VALUE with a known setting, not {pair!r}{_near(name, list(BY_NAME))}")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, not {pair!r} alone")
        _from_text(setting, text, FLAG)
        variables[setting.env] = text
    return variables


def _pyproject(project: Path | None) -> dict[str, Any]:
    if project is None:
        return {}
    try:
        data = (project / "pyproject.toml").read_bytes()
    except OSError:
        return {}
    if b"rearview" not in data:
        return {}
    import tomllib

    try:
        table = tomllib.loads(data.decode("utf-8")).get("tool", {}).get("rearview", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{project / 'pyproject.toml'} cannot be read: {problem}") from problem
    if not isinstance(table, dict):
        raise ConfigError(f"[tool.rearview] in {project / 'pyproject.toml'} is not a table")
    return table


def _near(key: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are: {', '.join(known)}"


def _misfit(setting: Setting, shown: object, where: str) -> ConfigError:
    kinds = {"int": "a whole number above 0", "float": "a number above 0", "bool": "true or false", "list of text": "a list of text"}
    kinds |= {
        "keep": "everything, peak-and-end (or peak-and-end:max:NAME), every:N, newest:K or budget:SIZE (10GB)",
        "peak": "max:NAME or min:NAME",
    }
    if setting.zero:
        kinds["int"] = "a whole number, 0 or more"
    wanted = " or ".join(setting.choices) or kinds.get(setting.name) or kinds.get(setting.type_name, setting.type_name)
    return ConfigError(f"setting {setting.name!r} in {where} is {shown!r}, expected {wanted}")


_FORMS = {
    "keep": re.compile(
        r"(everything|peak-and-end(:(max|min):[^\s,][^,]*)?|every:[1-9]\d*|newest:[1-9]\d*|budget:\d+(\.\d+)?\s*([kMGT]i?B?|B)?)"
        r"(\s*,\s*(?=\S)|$)"
    ),
    "peak": re.compile(r"((max|min):\S.*)?$"),
}
"""How the text of a setting looks; `keep` may have several, separated by commas."""


def _has_form(setting: Setting, value: Value) -> bool:
    form = _FORMS.get(setting.name)
    if form is None or not isinstance(value, str):
        return True
    at = 0
    while (found := form.match(value, at)) is not None and found.end() > at:
        at = found.end()
    return at == len(value)


def _checked(setting: Setting, value: Value, where: str) -> Value:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    too_small = is_number and not (value > 0 or (setting.zero and value == 0))  # type: ignore[operator]
    if too_small or (setting.choices and value not in setting.choices) or not _has_form(setting, value):
        raise _misfit(setting, value, where)
    return value


def _from_toml(setting: Setting, raw: object, where: str = "pyproject.toml") -> Value:
    if isinstance(setting.default, tuple):
        if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
            return tuple(raw)
        raise _misfit(setting, raw, where)
    if isinstance(setting.default, float) and isinstance(raw, int) and not isinstance(raw, bool):
        raw = float(raw)
    if type(raw) is not type(setting.default):
        raise _misfit(setting, raw, where)
    return _checked(setting, raw, where)


def _from_text(setting: Setting, text: str, where: str) -> Value:
    default = setting.default
    if isinstance(default, bool):
        lowered = text.strip().lower()
        if lowered in _TRUE or lowered in _FALSE:
            return lowered in _TRUE
        raise _misfit(setting, text, where)
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, str):
        return _checked(setting, text, where)
    try:
        return _checked(setting, type(default)(text), where)
    except ValueError as problem:
        raise problem if isinstance(problem, ConfigError) else _misfit(setting, text, where) from None
