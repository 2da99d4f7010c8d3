"""What tells two homes apart that have the same content, and two runs of one system."""

from __future__ import annotations

import ctypes
import os
import sys
from hashlib import sha256
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800


def place_of(file: int) -> str:
    """Return a name of an open file that stays the same for its life. A copy of the file has another one.

    It is made of the inode number and the time of creation, neither of which a program can choose. A file system that
    does not know the time of creation is named by its own id instead.
    """
    found = os.fstat(file)
    born = _birth_time(file, found)
    rest = f"born {born}" if born else f"on {os.fstatvfs(file).f_fsid}"
    return sha256(f"inode {found.st_ino} {rest}".encode()).hexdigest()[:32]


def _birth_time(file: int, found: os.stat_result) -> str:
    """Return when the file was created, or "" if that is not known."""
    if sys.platform != "linux":
        return str(getattr(found, "st_birthtime", ""))
    return _birth_time_on_linux(file)


class _Timestamp(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_uint32), ("reserved", ctypes.c_int32))


class _Statx(ctypes.Structure):
    """`struct statx`, of which only `mask` and `born` are used."""

    _fields_ = (
        ("mask", ctypes.c_uint32), ("before", ctypes.c_uint8 * 60), ("accessed", _Timestamp), ("born", _Timestamp),
        ("after", ctypes.c_uint8 * 160),
    )  # fmt: skip


def _birth_time_on_linux(file: int) -> str:
    # Python has no function for it before 3.15.
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (AttributeError, OSError):
        return ""
    found = _Statx()
    failed = statx(file, b"", _AT_EMPTY_PATH, _STATX_BTIME, ctypes.byref(found))
    if failed or not found.mask & _STATX_BTIME:
        return ""
    return f"{found.born.seconds}.{found.born.nanoseconds:09d}"


def boot_id() -> str:
    """Return what names the running system until it is booted again, or "" if that is not known."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return _boot_time()


def _boot_time() -> str:
    if sys.platform != "darwin":
        return ""
    import psutil

    return f"booted {psutil.boot_time():.0f}"
