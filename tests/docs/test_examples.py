"""What `make demo` edits and asks for is in the script it copies. The demo itself is run by `make demo`."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_the_line_that_the_demo_adds_fits_its_script() -> None:
    demo = runpy.run_path(str(EXAMPLES / "demo.py"), run_name="demo")
    script = (EXAMPLES / "train.py").read_text(encoding="utf-8")
    assert script.count(demo["BEHIND"]) == 1
    assert script.splitlines().count("            opt.step()") == 1
    compile(script.replace(demo["BEHIND"], demo["BEHIND"] + demo["ADDED"]), "train.py", "exec")
