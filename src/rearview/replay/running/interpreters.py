"""Other interpreters than this one: which Python and which packages the program will have there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

_QUESTION = (
    "import json, platform, importlib.metadata as m\n"
    "def v(n):\n"
    "    try: return m.version(n)\n"
    "    except Exception: return None\n"
    "print(json.dumps({'python': platform.python_version(), 'packages': {n: v(n) for n in %r}}))"
)


def ask(interpreter: str, packages: Iterable[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Its `python` and the versions of `packages` (None: not installed there); empty if it does not answer."""
    command = [interpreter, "-c", _QUESTION % (list(packages),)]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, timeout=60)
        told = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return told if isinstance(told, dict) else {}
