"""Parsers meet anything: journals, settings and arguments are read or refused by name, nothing else happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rearview import config
from rearview.errors import ArgError, ConfigError, UsageError
from rearview.record import arguments
from rearview.store import frames

COUNT = int(os.environ.get("REARVIEW_TEST_FUZZ", "2000"))
FUZZ = settings(max_examples=min(COUNT, 20_000), deadline=None)
"""Made from nothing, and shrunk when one fails; `test_mutants` goes on to the full count with what is far cheaper."""

_body = st.builds(lambda kind, rest: bytes((kind,)) + rest, st.integers(0, 255), st.binary(max_size=60))
_part = st.builds(
    lambda bodies, tail: frames.MAGIC + b"".join(frames.frame(k, body) for k, body in enumerate(bodies)) + tail,
    st.lists(_body, max_size=6), st.binary(max_size=40),
)  # fmt: skip


@FUZZ
@given(st.one_of(_part, st.binary(max_size=300)), st.integers(0, 400), st.integers(0, 255))
def test_any_bytes_are_a_journal_or_damage(data: bytes, at: int, flip: int) -> None:
    if at < len(data):
        data = data[:at] + bytes((data[at] ^ flip,)) + data[at + 1 :]
    reading = frames.Reading()
    bodies = list(frames.walk(data, reading))
    assert all(body for _, body in bodies)
    assert [sequence for sequence, _ in bodies] == sorted({sequence for sequence, _ in bodies})
    assert 0 <= reading.good_bytes <= len(data)


_made_up = st.text("ABCDEFGHIJ_", max_size=8).map("REARVIEW_".__add__)
_names = st.one_of(st.sampled_from([setting.env for setting in config.SETTINGS]), _made_up)


@FUZZ
@given(st.dictionaries(_names, st.text(st.characters(exclude_categories=["Cs"]), max_size=15), max_size=3))
def test_any_environment_is_settings_or_an_error(environ: dict[str, str]) -> None:
    try:
        found = config.load(None, environ)
    except ConfigError as problem:
        assert "REARVIEW" in str(problem) or "setting" in str(problem)
    else:
        assert {type(found[setting.name]) for setting in config.SETTINGS} <= {bool, int, float, str, tuple}


def test_any_pyproject_is_settings_or_an_error(tmp_path_factory: Callable[..., Path]) -> None:
    folder = tmp_path_factory.mktemp("fuzz")  # type: ignore[attr-defined]

    @settings(max_examples=max(50, COUNT // 20), deadline=None)
    @given(st.one_of(st.binary(max_size=60), st.text("[]tool.rearview=\"'\n sync quiet 123,", max_size=60).map(str.encode)))
    def look(data: bytes) -> None:
        (folder / "pyproject.toml").write_bytes(b"[tool.rearview]\n" + data)
        try:
            config.load(folder, {})
        except ConfigError:
            pass

    look()


@FUZZ
@given(st.text(max_size=30), st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())))
def test_any_argument_fits_or_says_what_is_expected(text: str, default: object) -> None:
    try:
        value = arguments.fit("x", text, default)
    except ArgError as problem:
        assert "expected" in str(problem)
    else:
        assert default is None or type(value) is type(default)


@FUZZ
@given(st.lists(st.text(max_size=10), max_size=6))
def test_any_words_are_read_and_left_alone(words: list[str]) -> None:
    before = list(words)
    arguments.from_argv(words)
    try:
        arguments.parse_pairs(words, "--arg")
    except UsageError:
        pass
    assert words == before
