"""What Linux offers to keep a process from altering files: namespaces, mounts, Landlock. One wrapper for each call, through ctypes.

Every failure is an `OSError`. Knows nothing of replays, projects or stores: which folders are covered is decided in `sandbox`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 1, 4096, 16384, 1 << 18
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_MOUNT_SETATTR = 442  # these numbers are the same on every architecture
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446
_MOUNT_ATTR_RDONLY = 1
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1
_AT_FDCWD = -100

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGE_FOLDER = sum(1 << bit for bit in (4, 5, 6, 7, 8, 9, 10, 11, 12))  # remove folder, file; make device, folder, file, socket ...


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, *args: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """A system call that the C library has no function for."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    call = _libc().syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *given))


# -- namespaces ----------------------------------------------------------------------------------------------------------


def own_mounts(*, user_namespace: bool) -> None:
    """Give this process mounts of its own, which end with it. Must be single-threaded.

    Without a user namespace this takes the rights of the administrator; with one, user and group stay what they are.
    """
    uid, gid = os.getuid(), os.getgid()
    _libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # a process that changed its user does not own its /proc/self, where the names are set
    flags = _CLONE_NEWNS | (_CLONE_NEWUSER if user_namespace else 0)
    _check(_libc().unshare(flags), "a mount namespace of its own")
    if user_namespace:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_bytes(text.encode())
    mount(None, "/", None, MS_REC | MS_PRIVATE)  # nothing mounted here is seen elsewhere


def give_up_rights() -> None:
    """Drop what the user namespace gave: otherwise a file without write permission could be written."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    none = (ctypes.c_uint32 * 6)()
    _check(_libc().capset(ctypes.byref(Header(_CAPABILITY_VERSION_3, 0)), none), "giving up rights")
    _libc().prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # /proc/self stays its own


# -- mounts --------------------------------------------------------------------------------------------------------------


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    given = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = _libc().mount(given[0], given[1], given[2], ctypes.c_ulong(flags), given[3])
    _check(result, f"mounting {kind or 'a folder'} at {target}")


def by_descriptor(fd: int) -> str:
    """A name for what a descriptor stands for: whatever is mounted over its path later, and whatever signs its path contains."""
    return f"/proc/self/fd/{fd}"


def mount_overlay(lower: int, upper: int, work: int, target: str, *, user_namespace: bool) -> None:
    """Show the folder `lower` at `target` so that all changes go to `upper`. The first three are descriptors."""
    layers = f"lowerdir={by_descriptor(lower)},upperdir={by_descriptor(upper)},workdir={by_descriptor(work)}"
    mount("rearview", target, "overlay", 0, layers + (",userxattr" if user_namespace else ",redirect_dir=on"))


def bind(source: int, target: str, *, read_only: bool = False) -> None:
    """Show what a descriptor stands for at another place, with everything mounted below."""
    mount(by_descriptor(source), target, None, MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def make_read_only(target: str) -> None:
    """Let nothing be changed through the mount at `target`, modes and times included."""
    attributes = ctypes.create_string_buffer(_MOUNT_ATTR_RDONLY.to_bytes(8, sys.byteorder) + bytes(24), 32)
    path = ctypes.create_string_buffer(os.fsencode(target))
    _check(_syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, 0, attributes, 32), f"making {target} read-only")


def mount_points() -> list[str]:
    """Where something is mounted, as this process sees it, in the order of mounting."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    return [os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1")) for line in lines if len(line.split()) > 4]


# -- Landlock ------------------------------------------------------------------------------------------------------------


def landlock_abi() -> int:
    """Which Landlock the kernel has; 0 if none."""
    return max(0, _syscall(_SYS_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION))


def may_write_only(folders: Iterable[str], files: Iterable[str]) -> None:
    """From now on this process and its children can write, make and remove only below `folders`, and write into `files`.

    The calling thread must be the only one. Needs the second Landlock: the first forbids every rename between folders.
    """
    abi = landlock_abi()
    if abi < 2:
        raise OSError(95, "this kernel has no Landlock, or too old a one")
    into_files = _WRITE_FILE | (_TRUNCATE if abi >= 3 else 0)
    everything = into_files | _CHANGE_FOLDER | _REFER
    handled = ctypes.create_string_buffer(everything.to_bytes(8, sys.byteorder), 8)
    ruleset = _check(_syscall(_SYS_LANDLOCK_CREATE, handled, 8, 0), "Landlock")
    try:
        for rights, paths in ((everything, folders), (into_files, files)):
            for path in paths:
                _allow(ruleset, path, rights)
        _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "Landlock")
        _check(_syscall(_SYS_LANDLOCK_RESTRICT, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no permission
    try:
        rule = ctypes.create_string_buffer(rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder, signed=True), 12)
        _check(_syscall(_SYS_LANDLOCK_ADD, ruleset, _LANDLOCK_PATH_BENEATH, rule, 0), f"Landlock for {path}")
    finally:
        os.close(fd)
