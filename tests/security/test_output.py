"""What users name and log is data: no output obeys it, whatever it is made of."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import pytest

from rearview.cli import main
from rearview.cli.shown import chart, csvs, figure, screen, tables, text
from rearview.testing.stores import StoreBuilder
from rearview.versions import snapshot

HOSTILE = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "c1": "\x9b31m\x9d0;owned\x9c",
    "bidi": "abc\u202egpj.exe\u2066x\u2069",
    "lines": "one\r\ntwo\u2028three\x85four",
    "backspace": "safe\x08\x08\x08\x08evil\x7f",
    "markup": "[red]x[/red][link=https://evil.example]y[/link]",
    "script": "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>-->]]>",
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+1",
    "at": "@SUM(1)",
    "tab": "\t=1",
    "math": r"$\frac{1$ \undefined{",
    "nul": "a\x00b",
    "surrogate": "\ud800x\udfff",
    "tags": "\U000e0041\U000e0042",
    "percent": "%s%n{0}{self}",
}

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\u200e\u200f\U000e0000-\U000e007f\ud800-\udfff]")
OUR_COLOURS = re.compile("\x1b\\[[0-9;]*m")

VIEW = screen.Screen(120, 40, terminal=True, colour=True)


def assert_harmless(output: str) -> None:
    """Nothing in an output is obeyed by a terminal but our own colours."""
    found = OBEYED.search(OUR_COLOURS.sub("", output))
    assert found is None, f"{found.group()!r} in {output!r}"


@pytest.fixture
def store_of_hostile(project: Path) -> StoreBuilder:
    """A store in which everything a user can choose is hostile."""
    builder = StoreBuilder(project)
    (project / "train.py").write_text("".join(f"# {value}\n" for value in HOSTILE.values() if value.isascii()))
    (project / "\x1b[31m\u202e.py").write_text("x = 1\n")
    versions = []
    for number in range(2):
        (project / "other.py").write_text(f"# {HOSTILE['title']} {number}\n")
        taken = snapshot.take(builder.store, project, script=project / "train.py", script_source=None, extra={}, limit_bytes=1 << 20)
        versions.append(taken.version)
    for number in range(2):
        everything = " ".join(HOSTILE.values())
        safe = everything.encode("utf-8", "backslashreplace").decode()  # run.json is JSON: no lone surrogates in its file
        run = builder.run(
            name=f"{safe}{number}",
            tags=[safe],
            notes=safe,
            argv=["train.py", safe],
            filename=safe,
            environment={"python": safe, "packages": {safe: safe}},
            git={"head": safe, "branch": safe, "dirty": True},
            projid=safe,
            version=versions[number],
        )
        process = run.process()
        for name, value in HOSTILE.items():
            process.arg(value, value, given=True)
            process.log(f"{name}", value)
            process.log(value, float(number))
        for _ in process.loop(HOSTILE["colour"], [HOSTILE["link"], HOSTILE["bidi"]]):
            process.log("inner", {HOSTILE["colour"]: [HOSTILE["link"]]})
            process.log(HOSTILE["script"], 1.0)
        process.fact("unstorable", name=HOSTILE["colour"], type=HOSTILE["title"])
        process.fact("unasked", names=[HOSTILE["link"]])
        process.end("failed", exception=HOSTILE["colour"], message=HOSTILE["link"], traceback=f"Traceback\n  {everything}\n{everything}")
    return builder


COMMANDS = [
    ["runs"],
    ["show", "last"],
    ["df", "colour", "inner", HOSTILE["script"], HOSTILE["colour"]],
    ["df", "no\x1b[31msuch"],
    ["sql", "select * from logs"],
    ["sql", "select \x1b[31m"],
    ["plot", HOSTILE["colour"]],
    ["plot", HOSTILE["script"], HOSTILE["link"]],
    ["diff", "last", "last~1"],
    ["code", "last"],
    ["watch", "last"],
    ["check"],
    ["runs", "--where", "\x1b[31m"],
    ["show", "no\x1b]0;x\x07"],
    ["\x1b[31m"],
    ["runs", "--\x1b[31m"],
]


@pytest.mark.parametrize("color", ["never", "always"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0].encode("unicode_escape").decode())
def test_no_command_passes_on_what_a_terminal_obeys(
    words: list[str], color: str, store_of_hostile: StoreBuilder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    painted = [*words, "--color", color] if words[0] in main.COMMANDS else words
    code = main.main(painted)
    assert code in (0, 1, 2, 3)
    said = capfd.readouterr()
    assert said.out + said.err
    assert_harmless(said.out)
    assert_harmless(said.err)
    assert "Traceback (most recent" not in said.err
    if color == "never":
        assert "\x1b" not in said.out + said.err


def test_source_on_a_screen_is_harmless(store_of_hostile: StoreBuilder, capfd: pytest.CaptureFixture[str]) -> None:
    """Into a pipe the bytes are exact; where there are colours there is a person."""
    assert main.main(["code", "last", "train.py", "--color", "always"]) == 0
    out = capfd.readouterr().out
    assert "\\x1b]0;owned" in OUR_COLOURS.sub("", out)
    assert_harmless(out)


HAVE_JSON = ("runs", "show", "df", "sql", "plot", "diff", "check")


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] in HAVE_JSON], ids=lambda words: words[0])
def test_json_is_ascii_and_parses(words: list[str], store_of_hostile: StoreBuilder, capfd: pytest.CaptureFixture[str]) -> None:
    code = main.main([*words, "--json"])
    out = capfd.readouterr().out
    assert out.isascii()
    assert_harmless(out)
    if code in (0, 1, 5):
        assert json.loads(out)["schema"].startswith("rearview.")


def test_csv_is_guarded(store_of_hostile: StoreBuilder, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["df", "formula", "plus", "at", "tab", "--csv"]) == 0
    out = capfd.readouterr().out
    assert "'=cmd|' /C calc'!A0" in out and "'+1+1" in out and "'@SUM(1)" in out and "'\t=1" in out
    assert not re.search(r'(^|,)"?[=+@\t]', out, re.MULTILINE)


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_csv_on_a_terminal_is_harmless(value: str) -> None:
    assert_harmless(csvs.field(value, for_terminal=True))
    assert_harmless("\n".join(csvs.lines([value], [[{value: value}]], for_terminal=True)))


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_rendering_is_harmless(value: str) -> None:
    assert_harmless(text.escape(value))
    assert_harmless(text.value([{value: value}]))
    assert_harmless("\n".join(tables.draw([tables.Column(value)], [[value], [tables.Styled(value, "bad")]], VIEW).lines))
    assert_harmless("\n".join(tables.facts([(value, value)], VIEW)))
    assert "\n" not in text.escape(value)


def test_markup_is_shown_as_it_is() -> None:
    drawn = tables.draw([tables.Column("x")], [["[red]x[/red]"]], screen.Screen(80, 24, terminal=False, colour=False))
    assert drawn.lines[1] == "[red]x[/red]"


class Elements(html.parser.HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def pictures(kind: str) -> bytes:
    pytest.importorskip("matplotlib")
    lines = [chart.Line(value, [(0.0, 1.0), (1.0, 2.0)]) for value in HOSTILE.values()]
    panels = [figure.Panel(value, value, lines) for value in list(HOSTILE.values())[::4]]
    return figure.render(panels, kind)


def test_html_holds_no_code_and_fetches_nothing() -> None:
    page = pictures(".html").decode()
    seen = Elements()
    seen.feed(page)
    assert not seen.tags & {"script", "img", "iframe", "object", "embed", "link", "foreignobject", "a"}
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=[\"'](?!#)", page)
    assert "&lt;script&gt;" in page


def test_svg_is_well_formed_and_holds_no_code() -> None:
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(pictures(".svg"))
    tags = {element.tag.rsplit("}", 1)[-1] for element in tree.iter()}
    assert not tags & {"script", "image", "foreignObject", "a"}


def test_png_is_drawn_whatever_the_labels() -> None:
    assert pictures(".png").startswith(b"\x89PNG")
