"""The only module that starts git. It asks, and never changes anything.

Knows git's command lines and output. Must not know which files are source, nor the store beyond a repository's path.
Every command here reads the index and refs only: none refreshes the index, runs a hook or a filter, asks a file system
monitor, fetches from a network or opens a pager (`git status` and `git diff` do several of these, hence neither is used).
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rearview.errors import VersionError

_SETTINGS = (
    *("core.fsmonitor=false", "core.untrackedCache=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.quotePath=false"),
    *("submodule.recurse=false", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never", "safe.directory=*"),
)
_KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES"})
_OUTPUT_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the user's index."""

    path: bytes
    """Relative to the folder that was asked about."""
    mode: int
    id: str
    stage: int
    """0, or 1-3 while a conflict is unresolved."""
    left_out: bool
    """A sparse checkout does not have this file."""
    ctime_ns: int
    mtime_ns: int
    size_bytes: int

    @property
    def is_submodule(self) -> bool:
        return self.mode == 0o160000


@dataclass(slots=True)
class Listing:
    """What git says about one folder in the user's repository."""

    head: str | None
    branch: str | None
    """None when HEAD is detached."""
    staged: bool | None
    """Whether the index differs from HEAD; None if git could not tell."""
    index: list[IndexEntry]
    new: list[bytes] | None
    """Files neither tracked nor ignored, nested repositories with a slash at the end; None if it took too long."""
    index_mtime_ns: int = 0
    notes: list[str] = field(default_factory=list)


def environment() -> dict[str, str]:
    """The user's environment without what would lead git elsewhere or make it write."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES}
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    silent = {"GIT_TRACE2": "0", "GIT_TRACE2_EVENT": "0", "GIT_TRACE2_PERF": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}
    return {**kept, **fixed, **silent}


def binary() -> str | None:
    """Where git is, or None."""
    return shutil.which("git")


class _Command:
    """A git command that runs beside us; always ended by `finish` or `stop`."""

    def __init__(self, arguments: Iterable[str], folder: Path, *, ask: bool = False) -> None:
        program = binary()
        if program is None:
            raise VersionError("git is not installed: install it, or record without it (source is then found by walking the folder)")
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        self.process = subprocess.Popen(
            [program, *settings, *arguments],
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE if ask else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the user's program
        )

    def finish(self, deadline: float) -> tuple[int | None, bytes]:
        """Exit code and output; no exit code if the deadline passed first."""
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        chunks: list[bytes] = []
        size_bytes = 0
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while size_bytes < _OUTPUT_BYTES and selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(pipe, 1 << 20)
                if not chunk:
                    code = self.process.wait()
                    self.stop()
                    return code, b"".join(chunks)
                chunks.append(chunk)
                size_bytes += len(chunk)
        self.stop()
        return None, b"".join(chunks)

    def stop(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def has_repository(folder: Path) -> bool:
    """Whether a folder may be inside a repository: a look upward costs less than four commands that find none."""
    return any(os.path.lexists(above / ".git") for above in (folder, *folder.parents))


def list_folder(folder: Path, *, skipped: Iterable[str], deadline: float, new_deadline: float) -> Listing | None:
    """What git knows of a folder; None if it is in no work tree, or git cannot be asked."""
    if binary() is None or not has_repository(folder):
        return None
    not_new = [f"--exclude={name}/" for name in sorted(skipped)]
    asked = {
        "facts": ("rev-parse", "--is-inside-work-tree", "--git-path", "index", "HEAD", "--symbolic-full-name", "HEAD"),
        "index": ("ls-files", "-z", "-t", "--stage", "--debug", "--cached"),
        "staged": ("diff-index", "--cached", "--name-only", "--no-ext-diff", "HEAD", "--", "."),
        "new": ("ls-files", "-z", "--others", "--exclude-standard", *not_new),
    }
    commands: dict[str, _Command] = {}
    try:
        for name, arguments in asked.items():  # all at once: the machine has more than one core
            commands[name] = _Command(arguments, folder)
        facts_code, facts_text = commands["facts"].finish(deadline)
        facts = facts_text.rstrip(b"\n").split(b"\n")
        index_code, index = commands["index"].finish(deadline)
        if facts[0] != b"true" or index_code != 0:
            return None
        staged_code, staged = commands["staged"].finish(deadline)
        new_code, new = commands["new"].finish(new_deadline)
    except OSError:
        return None  # the folder vanished, or no process could be started
    finally:
        for command in commands.values():
            command.stop()
    entries = _parse_index(index)
    listing = Listing(None, None, None, entries, None)
    if new_code == 0:
        listing.new = [path for path in new.split(b"\0") if path]
    _take_facts(listing, facts[1:], folder, deadline, born=facts_code == 0)
    # Not by --quiet and the exit code: a program that ignores SIGCHLD never learns exit codes.
    listing.staged = bool(entries) if listing.head is None else bool(staged) if staged_code == 0 else None
    return listing


def _take_facts(listing: Listing, lines: list[bytes], folder: Path, deadline: float, *, born: bool) -> None:
    """HEAD and branch; before the first commit rev-parse fails and leaves just the word HEAD."""
    if born:
        listing.head = lines[-2].decode("ascii", "replace")
        ref, index_path = lines[-1], b"\n".join(lines[:-2])
    else:
        ref = _unborn_branch(folder, deadline)
        index_path = b"\n".join(lines[:-1])
    if ref.startswith(b"refs/heads/"):
        listing.branch = os.fsdecode(ref.removeprefix(b"refs/heads/"))
    try:
        listing.index_mtime_ns = os.stat(os.path.join(os.fsencode(folder), index_path)).st_mtime_ns
    except OSError:
        listing.index_mtime_ns = 0


def _unborn_branch(folder: Path, deadline: float) -> bytes:
    try:
        command = _Command(("symbolic-ref", "-q", "HEAD"), folder)
        try:
            return command.finish(deadline)[1].rstrip(b"\n")
        finally:
            command.stop()
    except OSError:
        return b""


def _parse_index(output: bytes) -> list[IndexEntry]:
    """`ls-files -t --stage --debug -z`: a line of facts, the path, NUL, five lines of the stat data git remembers."""
    fields = output.split(b"\0")
    entries = []
    for k in range(len(fields) - 1):
        head = fields[k] if k == 0 else fields[k].split(b"\n", 5)[-1]
        facts, _, path = head.partition(b"\t")
        tag, mode, id_, stage = facts.split(b" ")
        remembered = fields[k + 1].split(b"\n", 5)
        ctime_ns, mtime_ns = (_nanoseconds(line) for line in remembered[:2])
        size_bytes = int(remembered[4].split(b"\t")[0].split(b":")[1])
        entries.append(IndexEntry(path, int(mode, 8), id_.decode("ascii"), int(stage), tag == b"S", ctime_ns, mtime_ns, size_bytes))
    return entries


def _nanoseconds(line: bytes) -> int:
    _, seconds, nanoseconds = line.split(b":")
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


class ObjectReader:
    """Reads objects out of packs, through `git cat-file --batch`: the one way that runs no filter."""

    def __init__(self, repository: Path) -> None:
        self._command = _Command((f"--git-dir={repository}", "cat-file", "--batch"), repository, ask=True)

    def read(self, object_id: str) -> tuple[str, bytes] | None:
        """Kind and bytes, or None if git has no such object either."""
        stdin, stdout = self._command.process.stdin, self._command.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(object_id.encode("ascii") + b"\n")
            stdin.flush()
            facts = stdout.readline().split()
            if len(facts) != 3:
                return None
            data = stdout.read(int(facts[2]))
            stdout.read(1)
        except OSError:
            return None
        return facts[1].decode("ascii"), data

    def close(self) -> None:
        """End git."""
        self._command.stop()

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
