"""Reading versions back: files, bytes, differences, copies in a folder. Looking runs nothing of what is stored.

Knows what a version is. Must not know how it was taken. Paths inside a version are data: they are checked before
anything is written, and nothing that is there already is written over.
"""

from __future__ import annotations

import difflib
import io
import os
from pathlib import Path

from rearview.errors import Damaged, NotFound, UsageError, VersionError
from rearview.model import VersionId
from rearview.store.layout import Store
from rearview.versions import objects, rules
from rearview.versions.repository import Repository

_CONTEXT_LINES = 3


def resolve(store: Store, prefix: str) -> VersionId:
    """The one version whose id begins so."""
    digits = prefix.removeprefix("v").lower()
    if not prefix.startswith("v") or set(digits) - set("0123456789abcdef"):
        raise UsageError(f"{prefix!r} is not a version id: those are v and hexadecimal digits; `rearview versions` lists them")
    found = sorted(commit for commit in Repository(store).versions() if commit.startswith(digits))
    if not found:
        raise NotFound(f"no version {prefix} in {store.root}: `rearview versions` lists them")
    if len(found) > 1:
        shown = ", ".join(f"v{commit[: max(12, len(digits) + 2)]}" for commit in found[:5])
        raise NotFound(f"{prefix} is the beginning of {len(found)} versions ({shown}{', ...' if len(found) > 5 else ''}): give more digits")
    return VersionId("v" + found[0])


def _commit_of(version: str) -> str:
    commit = version.removeprefix("v")
    if not version.startswith("v") or not objects.is_id(commit):
        raise UsageError(f"{version!r} is not a whole version id: v and 40 hexadecimal digits")
    return commit


def _entries(repository: Repository, version: VersionId) -> dict[str, objects.Entry]:
    return {os.fsdecode(path): entry for path, entry in repository.entries(_commit_of(version)).items()}


def files(store: Store, version: VersionId) -> dict[str, str]:
    """Path -> blob id of every file of a version."""
    with Repository(store) as repository:
        return {path: entry.id for path, entry in _entries(repository, version).items()}


def source(store: Store, version: VersionId, path: str) -> bytes:
    """The bytes of one file of a version; of a link, those of the file that it leads to, or its text if the version has none there."""
    with Repository(store) as repository:
        entries = _entries(repository, version)
        if path not in entries:
            near = difflib.get_close_matches(path, entries, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"it has {len(entries)} files"
            raise NotFound(f"there is no {path!r} in version {version[:13]}: {hint}")
        return repository.get(entries[_target(repository, entries, path)].id, "blob")


def links(store: Store, version: VersionId) -> dict[str, str]:
    """Path -> the file of the version that it leads to, of every link to one."""
    with Repository(store) as repository:
        entries = _entries(repository, version)
        found = {path: _target(repository, entries, path) for path, entry in entries.items() if entry.mode == objects.LINK}
        return {path: target for path, target in found.items() if target != path}


def _target(repository: Repository, entries: dict[str, objects.Entry], path: str) -> str:
    """The file that a path of a version means: itself, or where links lead; itself, if that is not in the version."""
    at, seen = path, {path}
    while entries[at].mode == objects.LINK:
        text = os.fsdecode(repository.get(entries[at].id, "blob"))
        at = os.path.normpath(os.path.join(os.path.dirname(at), text))
        if at not in entries or at in seen:
            return path
        seen.add(at)
    return at


def diff(store: Store, version_a: VersionId, version_b: VersionId) -> str:
    """What changed from one version to another, as a unified diff; empty if nothing did."""
    with Repository(store) as repository:
        before, after = _entries(repository, version_a), _entries(repository, version_b)
        out = []
        for path in sorted({*before, *after}):
            old, new = before.get(path), after.get(path)
            if old != new:
                out.append(_file_diff(repository, path, old, new))
        return "".join(out)


def _file_diff(repository: Repository, path: str, old: objects.Entry | None, new: objects.Entry | None) -> str:
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    names = [f"a/{shown}" if old else "/dev/null", f"b/{shown}" if new else "/dev/null"]
    head = f"diff a/{shown} b/{shown}\n"
    if old and new and old.mode != new.mode:
        head += f"old mode {old.mode:o}\nnew mode {new.mode:o}\n"
    if old and new and old.id == new.id:
        return head
    before = repository.get(old.id, "blob") if old else b""
    after = repository.get(new.id, "blob") if new else b""
    if rules.binary(before) or rules.binary(after):
        return head + f"Binary files {names[0]} and {names[1]} differ\n"
    return head + f"--- {names[0]}\n+++ {names[1]}\n" + _hunks(_lines(before), _lines(after))


def _lines(data: bytes) -> list[str]:
    """Lines with their ends: with and without a newline are different lines."""
    return [line.decode("utf-8", "backslashreplace") for line in io.BytesIO(data)]


def _hunks(before: list[str], after: list[str]) -> str:
    """The hunks of a unified diff."""
    start, matcher = _matched(before, after)
    out = []
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        old = _range(start + group[0][1], start + group[-1][2])
        new = _range(start + group[0][3], start + group[-1][4])
        out.append(f"@@ -{old} +{new} @@\n")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [_marked(" ", line) for line in before[start + i1 : start + i2]]
            else:
                out += [_marked("-", line) for line in before[start + i1 : start + i2]]
                out += [_marked("+", line) for line in after[start + j1 : start + j2]]
    return "".join(out)


def _matched(before: list[str], after: list[str]) -> tuple[int, difflib.SequenceMatcher[str]]:
    """Which lines are the same, from which line on. Equal beginnings and ends are cut off first: matching costs the square of the rest."""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    start, end = max(0, start - _CONTEXT_LINES), max(0, end - _CONTEXT_LINES)
    return start, difflib.SequenceMatcher(None, before[start : len(before) - end], after[start : len(after) - end])


def line_counts(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines a unified diff of two files adds and removes; none if one of them is no text."""
    if rules.binary(before) or rules.binary(after):
        return 0, 0
    old, new = _lines(before), _lines(after)
    if not old or not new:
        return len(new), len(old)
    codes = [(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in _matched(old, new)[1].get_opcodes() if tag != "equal"]
    return sum(came for _, came in codes), sum(went for went, _ in codes)


def _common(one: list[str], other: list[str]) -> int:
    """How many lines at the beginning are the same."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _marked(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def export(store: Store, version: VersionId, path: str | None, to: Path) -> list[Path]:
    """Write a version, or one file or folder of it, below a folder. Nothing that is there is written over."""
    with Repository(store) as repository:
        entries = _entries(repository, version)
        if path is not None:
            chosen = path.rstrip("/")
            entries = {name: entry for name, entry in entries.items() if name == chosen or name.startswith(chosen + "/")}
            if not entries:
                raise NotFound(f"there is no {path!r} in version {version[:13]}: `rearview code RUN` lists its files")
        taken = [name for name in entries if os.path.lexists(to / name)]
        if taken:
            raise VersionError(f"{to / taken[0]} is there already: nothing was written; choose an empty folder")
        for name in entries:
            _refuse_links(to, name)
        # Links last: no file can then be written through one.
        ordered = sorted(entries.items(), key=lambda item: item[1].mode == objects.LINK)
        return [_write(to, name, entry, repository.get(entry.id, "blob")) for name, entry in ordered]


def _refuse_links(to: Path, name: str) -> None:
    for above in list(Path(name).parents)[:-1]:
        if (to / above).is_symlink():
            raise VersionError(f"{to / above} is a link: nothing was written; choose an empty folder")


def _write(to: Path, name: str, entry: objects.Entry, data: bytes) -> Path:
    path = to / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == objects.LINK:
            target = os.path.normpath(os.path.join(os.path.dirname(os.fsencode(name)), data))
            if b"\0" in data or os.path.isabs(data) or target.split(b"/")[0] == b"..":
                raise Damaged(f"the link {name!r} leads out of its version: it was not written")
            os.symlink(data, os.fsencode(path))
            return path
        mode = 0o777 if entry.mode == objects.EXECUTABLE else 0o666
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            file.write(data)
    except OSError as problem:
        raise VersionError(f"{path} could not be written: {problem.strerror}; choose another folder") from problem
    return path


def verify(store: Store, version: VersionId) -> list[str]:
    """What is wrong with a version: one sentence for each object that is missing or damaged."""
    problems = []
    with Repository(store) as repository:
        try:
            entries = repository.entries(_commit_of(version))
        except Damaged as problem:
            return [str(problem)]
        for id_ in sorted({entry.id for entry in entries.values()}):
            try:
                repository.get(id_, "blob")
            except Damaged as problem:
                problems.append(str(problem))
    return problems


def versions(store: Store) -> list[VersionId]:
    """Every version in the store."""
    return [VersionId("v" + commit) for commit in sorted(Repository(store).versions())]
