"""Every command and snippet in README and docs runs, and every relative link leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import documents
from tests.docs.theatre import Play

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = documents.documents(ROOT)
FIRST = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
"""What a new user types: everything is really started. In all other documents programs are forked where that makes no difference."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)|!\[[^\]]*\]\(([^)\s]+)\)")


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_block_of_a_document_works(path: Path, tmp_path: Path, tally: Callable[[str, int], None]) -> None:
    blocks = documents.blocks_of(path.read_text(encoding="utf-8"))
    if any("import torch" in block.text for block in blocks) and importlib.util.find_spec("torch") is None:
        pytest.skip("the document uses torch, which is not installed")
    play = Play(tmp_path / "home", cold=path in FIRST)
    for block in blocks:
        play.perform(block)
    for what, count in play.done.items():
        tally(f"documents: {what} done", count)
    for reason in play.excluded:
        tally(f"documents: excluded, {reason}", 1)


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    found = [plain or picture for plain, _, picture in LINK.findall(path.read_text(encoding="utf-8"))]
    missing = [link for link in found if "://" not in link and not link.startswith("mailto:") and not (path.parent / link).exists()]
    assert not missing
