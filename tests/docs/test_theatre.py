"""The test of the documents can fail: a wrong output, a wrong exit code and a loophole are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import documents, transcript
from tests.docs.theatre import Play


def perform(folder: Path, text: str) -> Play:
    play = Play(folder / "home")
    for block in documents.blocks_of(text):
        play.perform(block)
    return play


def test_commands_share_folder_variables_and_files(tmp_path: Path) -> None:
    play = perform(
        tmp_path,
        """
<!-- file: sub/hello.py -->
```python
print("hello")
```

```console
$ cd sub
$ export WHO=you
$ python hello.py; echo $WHO \\
> again
hello
you again
```
""",
    )
    assert play.done == {"files": 1, "commands": 3, "console blocks": 1}


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ echo one\ntwo\n```",
        "```console\n$ false\n```",
        "<!-- exit: 1 -->\n```console\n$ true\n```",
        "```console\n$ exit 3\n$ true\n```",
        "```python\nraise SystemExit(1)\n```",
        "```toml\na = \n```",
        "```json\n{]\n```",
        "```bash\necho hidden from the test\n```",
        "<!-- not run: -->\n```console\n$ true\n```",
        "```diff\n+one\n```",
        "<!-- file: a.py -->\n```python\none\n```\n<!-- edit: a.py -->\n```diff\n two\n+three\n```",
        "<!-- file: a.py -->\n```python\none\none\n```\n<!-- edit: a.py -->\n```diff\n one\n+three\n```",
    ],
)
def test_a_document_that_is_wrong_is_found(tmp_path: Path, text: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        perform(tmp_path, text)


def test_a_diff_is_done_to_its_file(tmp_path: Path) -> None:
    play = perform(
        tmp_path,
        """
<!-- file: a.py -->
```python
one
    two
three
```

<!-- edit: a.py -->
```diff
 one
-    two
+    2
+    2.5
```
""",
    )
    assert (play.project / "a.py").read_text() == "one\n    2\n    2.5\nthree\n"


def test_a_comment_directs_only_the_block_behind_it(tmp_path: Path) -> None:
    blocks = ("<!-- not run: because -->\n\n```console\n$ false\n```", "Text.", "```console\n$ true\n```", "```console\n$ make test\n```")
    play = perform(tmp_path, "\n\n".join(blocks))
    assert play.excluded == ["because", "make is what runs this test"]
    assert play.done["commands"] == 1


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("loss  0.5", "loss   0.5"),
        ("r3f9k2m1x0ab  finished  1.2 s", "rq0q0q0q0q0q  finished  345 ms"),
        ("first\n...\nlast", "first\n1\n2\nlast"),
        ("first\n...\nlast", "first\nlast"),
        ("acc 0.9...", "acc 0.912345"),
        ("2026-01-01 10:00:00", "2031-12-31 23:59:59.123"),
        ("12 records, 1.2 kB", "12 records, 900 B"),
    ],
)
def test_outputs_that_agree(expected: str, printed: str) -> None:
    assert transcript.agrees(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("loss 0.5", "loss 0.6"),
        ("running", "finished"),
        ("recorded", "RUN"),
        ("12 records", "13 records"),
        ("first\nlast", "first\n1\nlast"),
        ("first", ""),
    ],
)
def test_outputs_that_differ(expected: str, printed: str) -> None:
    assert not transcript.agrees(expected, printed)
