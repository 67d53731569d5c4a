"""Whose a module is."""

import os
from pathlib import Path

from rearview.state.take.owners import real_path


def test_links_are_followed_wherever_they_are(tmp_path: Path) -> None:
    real, elsewhere = tmp_path / "real", tmp_path / "elsewhere"
    for folder in (real, elsewhere):
        folder.mkdir()
        (folder / "plain.py").touch()
    (tmp_path / "linked").symlink_to(real)
    (real / "link.py").symlink_to(elsewhere / "plain.py")
    (elsewhere / "further.py").symlink_to(tmp_path / "linked" / "link.py")

    for file in ("real/plain.py", "linked/plain.py", "linked/link.py", "real/link.py", "elsewhere/further.py", "linked/none.py"):
        assert real_path(str(tmp_path / file)) == os.path.realpath(tmp_path / file)
    assert real_path(str(tmp_path / "linked" / "link.py")) == str(Path(os.path.realpath(elsewhere)) / "plain.py")
