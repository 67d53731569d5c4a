"""`rearview propagate`: bytes in, bytes out, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rearview.cli.main import main

NEW = "import math\nfor i in x:\n    a = f(i)\n    log(math.exp(a))\n"


def run(folder: Path, old: bytes, *more: str, line: int = 4) -> int:
    (folder / "new.py").write_text(NEW)
    (folder / "old.py").write_bytes(old)
    given = ["--from", str(folder / "new.py"), "--line", str(line), "--to", str(folder / "old.py"), "-o", str(folder / "out.py")]
    return main(["propagate", *given, *more])


def test_it_says_where_and_what_came_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, b"for i in x:\n    b = f(i)\n") == 0
    assert (tmp_path / "out.py").read_bytes() == b"import math\nfor i in x:\n    b = f(i)\n    log(math.exp(b))\n"
    said = capsys.readouterr().out
    assert "placed in line 4" in said
    assert "certain" in said
    assert "a is b" in said
    assert "import math" in said


def test_bytes_of_another_encoding_are_kept(tmp_path: Path) -> None:
    old = b"# coding: latin-1\r\n# \xe9\r\nfor i in x:\r\n\tb = f(i) # \xe9"
    assert run(tmp_path, old) == 0
    out = (tmp_path / "out.py").read_bytes()
    assert out == b"# coding: latin-1\r\n# \xe9\r\nimport math\r\nfor i in x:\r\n\tb = f(i) # \xe9\r\n\tlog(math.exp(b))"


def test_a_refusal_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, b"while True:\n    g()\n") == 3
    assert not (tmp_path / "out.py").exists()
    assert "not placed" in capsys.readouterr().out


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, b"for i in x:\n    b = f(i)\n", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "rearview.propagate/1"
    assert told["renamed"] == {"a": "b"}
    assert told["lines"] == [4, 4]
    assert run(tmp_path, b"g()\n", "--json") == 3
    assert json.loads(capsys.readouterr().out)["placed"] is False


@pytest.mark.parametrize("name", ["old.py", "new.py"])
def test_the_versions_are_not_overwritten(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, b"for i in x:\n    b = f(i)\n", "-o", str(tmp_path / name)) == 2
    assert (tmp_path / "old.py").read_bytes() == b"for i in x:\n    b = f(i)\n"


def test_wrong_words(tmp_path: Path) -> None:
    assert run(tmp_path, b"for i in x:\n    b = f(i)\n", "--end", "2") == 2
    assert run(tmp_path, b"\xff\xfe", line=4) == 2
    assert run(tmp_path, b"for i in x:\n    b = f(i)\n", line=99) == 3
