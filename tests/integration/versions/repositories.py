"""Users' repositories in all the states they get into, with everything planted that git could be made to run."""

from __future__ import annotations

import hashlib
import os
import random
import stat
import subprocess
from pathlib import Path

MARKER = "SOMETHING-RAN"
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase"),
    *("post-checkout", "post-merge", "pre-push", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"),
)
NAMES = (
    "train.py",
    "pkg/model.py",
    "with space/a b.py",
    "größe/naïve.py",
    os.fsdecode(b"no-text-\xff.py"),
    "conf/c.yaml",
    "notes.txt",
    "d.csv",
)
_WHO = ("-c", "user.name=u", "-c", "user.email=u@example.org", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git as the user would."""
    done = subprocess.run(["git", *_WHO, *arguments], cwd=folder, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return os.fsdecode(done.stdout).rstrip("\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.fsencode(text))


def fresh(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", ".")
    return folder


def committed(folder: Path, *names: str) -> Path:
    """A repository with one commit."""
    fresh(folder)
    for name in names or ("train.py",):
        write(folder / name, f"# {folder.name}\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def diverge(folder: Path, name: str) -> None:
    """Two branches that changed one line differently; `side` is checked out."""
    git(folder, "checkout", "-qb", "side")
    write(folder / name, "side\n")
    git(folder, "commit", "-qam", "side")
    git(folder, "checkout", "-q", "-")
    write(folder / name, "main\n")
    git(folder, "commit", "-qam", "main")
    git(folder, "checkout", "-q", "side")


def plant(folder: Path, marker: Path) -> None:
    """Everything in a repository's configuration that makes git run a program: each one would leave the marker."""
    trap = folder.parent / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> '{marker}'\ncat 2>/dev/null\n")
    trap.chmod(0o755)
    hooks = Path(os.path.join(folder, git(folder, "rev-parse", "--git-path", "hooks")))
    hooks.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> '{marker}'\n")
        (hooks / name).chmod(0o755)
    settings = ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "diff.external", "credential.helper")
    filters = ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.textconv", "diff.trap.command")
    for setting in (*settings, *filters):
        git(folder, "config", setting, str(trap))
    info = Path(os.path.join(folder, git(folder, "rev-parse", "--git-path", "info/attributes")))
    info.parent.mkdir(exist_ok=True)
    info.write_text("* filter=trap diff=trap\n")


def random_state(place: Path, rng: random.Random) -> tuple[Path, str]:
    """A project in a repository in some state, and the state's name."""
    folder = place / rng.choice(["project", "pro ject", "projekt-ü"])
    names = rng.sample(NAMES, rng.randint(2, len(NAMES)))
    if "train.py" not in names:
        names.append("train.py")
    state = rng.choice(sorted(STATES))
    project = STATES[state](folder, names, rng)
    for _ in range(rng.randint(0, 3)):
        _edit(project, names, rng)
    if rng.random() < 0.3:
        write(project / ".env", "SECRET=1")
        write(project / "new one.py", "x")
    if rng.random() < 0.2:
        git(project, "update-index", "--untracked-cache", check=False)
    if rng.random() < 0.2:
        git(project, "update-index", "--split-index", check=False)
    if rng.random() < 0.2 and state not in ("unborn", "conflict"):
        git(project, "stash", "-u", check=False)
    return project, state


def _edit(project: Path, names: list[str], rng: random.Random) -> None:
    name = rng.choice(names)
    kind = rng.choice(["change", "stage", "delete", "rename", "chmod", "intend"])
    path = project / name
    if kind in ("change", "stage"):
        write(path, f"# {rng.random()}\n")
    if kind == "stage":
        git(project, "add", name, check=False)
    if not path.is_file():
        return
    if kind == "delete":
        path.unlink()
    elif kind == "rename":
        git(project, "mv", "-k", name, f"moved-{rng.randint(0, 99)}.py", check=False)
    elif kind == "chmod":
        path.chmod(0o755)
    elif kind == "intend":
        write(project / "intended.py", "x")
        git(project, "add", "-N", "intended.py")


def _plain(folder: Path, names: list[str], rng: random.Random) -> Path:
    return committed(folder, *names)


def _unborn(folder: Path, names: list[str], rng: random.Random) -> Path:
    fresh(folder)
    for name in names:
        write(folder / name, "1")
    if rng.random() < 0.5:
        git(folder, "add", names[0])
    return folder


def _detached(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder, *names)
    git(folder, "checkout", "-q", "--detach")
    return folder


def _conflict(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder, *names)
    diverge(folder, "train.py")
    git(folder, "merge", "main", check=False)
    return folder


def _rebase(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder, *names)
    diverge(folder, "train.py")
    git(folder, "rebase", "main", check=False)
    return folder


def _picking(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder, *names)
    diverge(folder, "train.py")
    git(folder, "cherry-pick", "main", check=False)
    return folder


def _with_submodule(folder: Path, names: list[str], rng: random.Random) -> Path:
    library = committed(folder.parent / "library", "lib.py", "deep/er.py")
    committed(folder, *names)
    git(folder, "submodule", "--quiet", "add", str(library), "libs/sub")
    if rng.random() < 0.5:
        git(folder, "commit", "-qm", "submodule")
    if rng.random() < 0.5:
        write(folder / "libs/sub/lib.py", "edited")
    return folder


def _in_submodule(folder: Path, names: list[str], rng: random.Random) -> Path:
    library = committed(folder.parent / "library", *names)
    committed(folder, "top.py")
    git(folder, "submodule", "--quiet", "add", str(library), "sub")
    return folder / "sub"


def _worktree(folder: Path, names: list[str], rng: random.Random) -> Path:
    main = committed(folder.parent / "main copy", *names)
    git(main, "worktree", "add", "-q", "-b", "other", str(folder))
    return folder


def _subfolder(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder.parent / "around", *(f"{folder.name}/{name}" for name in names), "outside.py")
    return folder.parent / "around" / folder.name


def _sparse(folder: Path, names: list[str], rng: random.Random) -> Path:
    committed(folder, *names, "far/away.py")
    git(folder, "sparse-checkout", "set", "pkg", check=False)
    return folder


STATES = {
    "plain": _plain,
    "unborn": _unborn,
    "detached": _detached,
    "conflict": _conflict,
    "rebase": _rebase,
    "cherry-pick": _picking,
    "with submodule": _with_submodule,
    "in submodule": _in_submodule,
    "worktree": _worktree,
    "subfolder": _subfolder,
    "sparse": _sparse,
}


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about every file and folder but the store: bytes, mode, times, identity."""
    found: dict[str, tuple[object, ...]] = {}
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".rearview"]
        for name in [*folders, *files]:
            path = os.path.join(where, name)
            facts = os.lstat(path)
            content = ""
            if stat.S_ISREG(facts.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha1(file.read(), usedforsecurity=False).hexdigest()
            elif stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)
            # Every git command that reads a split index sets the time of its shared part: nothing keeps git from it.
            times = () if name.startswith("sharedindex.") else (facts.st_mtime_ns, facts.st_ctime_ns)
            found[path] = (facts.st_mode, facts.st_size, facts.st_ino, content, *times)
    return found
