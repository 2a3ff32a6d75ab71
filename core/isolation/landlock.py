"""Landlock: a process gives up every file but those it names, TCP, and reaching processes outside. No privilege needed.

It holds for the calling thread and those it starts later: call it before a library has started threads. Source: Linux,
Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every processor
_ASK_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL_DEVICE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 15
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version of the interface -> how many rights on files it has
_TCP, _SCOPES = 0b11, 0b11  # bind and connect, from version 4; abstract sockets and signals, from version 6
_PR_SET_NO_NEW_PRIVS = 38


def version() -> int:
    """The version of Landlock that this kernel has, 0 for none. Changes nothing."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc().syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def confine_files(readable: Iterable[Path], devices: Iterable[Path] = ()) -> None:
    """Leave this thread, and all that it starts, these files and folders to read and these devices to use, for good.

    What is not there is left out. Raises OSError where the kernel refuses.
    """
    abi, libc = version(), _libc()
    rights = (1 << _FILE_RIGHTS[min(abi, 5)]) - 1
    ruleset = struct.pack("QQQ", rights, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = _checked(libc.syscall(_CREATE_RULESET, ctypes.create_string_buffer(ruleset), size, 0), "create_ruleset")
    for path in readable:
        _allow(libc, rules, path, _READ_FILE | (_READ_DIR if path.is_dir() else 0))
    for path in devices:
        _allow(libc, rules, path, (_READ_FILE | _WRITE_FILE | _IOCTL_DEVICE) & rights)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0), "restrict_self")
    os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
            _checked(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0), f"add_rule {path}")
        finally:
            os.close(descriptor)


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {what}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
