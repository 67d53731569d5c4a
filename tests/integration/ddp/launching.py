"""Ranks of one launch, as `torchrun` starts them: real processes that find each other by environment variables."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tests.integration.resume.training import PATIENCE_S, Child, Done, Nursery, with_torch


def launch_env(world: int) -> list[dict[str, str]]:
    """The environment of each rank of a new launch."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    shared["TORCHELASTIC_RUN_ID"] = os.urandom(4).hex()
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]


def start(nursery: Nursery, project: Path, world: int, env: Mapping[str, str], before: str = "") -> list[Child]:
    """The program in as many ranks."""
    return [nursery.start(project, "ddp.py", env={**env, **told}, before=before) for told in launch_env(world)]


def resume(project: Path, world: int, env: Mapping[str, str]) -> list[Child]:
    """`rearview resume --yes` in as many ranks: the launcher is run again, with this in the place of the script."""
    return [with_torch().command(project, "resume", "--yes", env={**env, **told}) for told in launch_env(world)]


def kill_after(children: list[Child], lines: int, more_s: float) -> list[Done]:
    """End a launch as a cluster does: every rank at once, when the first has printed so many lines."""
    deadline = time.monotonic() + PATIENCE_S
    while children[0].stdout.count("\n") < lines and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(more_s)
    for child in children:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return [child.wait() for child in children]


def ended(children: list[Child]) -> list[Done]:
    """Wait for all of them."""
    done = [child.wait() for child in children]
    assert [one.code for one in done] == [0] * len(done), [one.stderr for one in done]
    return done
