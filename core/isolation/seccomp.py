"""A seccomp filter for a process that computes: it opens files for reading, starts threads, and does nothing else.

Every system call that is not listed fails with EPERM, whatever a later kernel adds. The filter holds for every thread,
cannot be taken off, and needs no privilege. Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

from smoothsweep.core.isolation.system_calls import ARCHITECTURES, CONDITIONAL, HARMLESS

PR_SET_NO_NEW_PRIVS, PR_GET_SECCOMP = 38, 21
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _TSYNC = 1, 2, 1
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # of a BPF program: BPF_LD|W|ABS, BPF_JMP|JEQ, JSET, BPF_RET
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CREATES = os.O_CREAT | os.O_TRUNC
_THREAD = 0x00010000  # CLONE_THREAD
_NAME_OF_THREAD = (15, 16)  # PR_SET_NAME, PR_GET_NAME
_ON_TERMINALS = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_ON_FILES = (0, 1, 2, 3, 4, 1030, 1034)  # of fcntl: duplicates, flags, F_GET_SEALS; no F_SETOWN, which sends signals

Instruction = tuple[int, int, int, int]


def available() -> bool:
    """Whether this kernel has seccomp filters, on a processor whose system calls are known. Changes nothing."""
    if sys.platform != "linux" or os.uname().machine not in ARCHITECTURES or sys.byteorder != "little":
        return False
    action = ctypes.c_uint32(FAIL)
    return _libc().syscall(_SECCOMP[os.uname().machine], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def confine_calls(*, devices: bool) -> None:
    """Hold every thread of this process to reading, computing and its open files, for good.

    devices: allow any `ioctl`, and opening files that are there for writing, which a GPU's driver needs: only where
    Landlock leaves nothing but devices to be opened so. Raises OSError where the kernel refuses.
    """
    program = [
        struct.pack("HBBI", *instruction)
        for instruction in filter_program(os.uname().machine, os.getpid(), devices=devices)
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    libc = _libc()
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    if libc.syscall(_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _TSYNC, described):
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")


def filter_program(machine: str, pid: int, *, devices: bool) -> list[Instruction]:
    """The filter as BPF instructions (code, jump if true, jump if false, operand)."""
    column = list(ARCHITECTURES).index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for numbers in HARMLESS.values():
        if (number := numbers[column]) is not None:
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, ALLOW)]
    for name, numbers in CONDITIONAL.items():
        if (number := numbers[column]) is not None:
            rule = _rule(name, pid, devices=devices)
            program += [(_EQUAL, 0, len(rule), number), *rule]
    return [*program, (_RETURN, 0, 0, FAIL | errno.EPERM)]


def _rule(name: str, pid: int, *, devices: bool) -> list[Instruction]:
    """What becomes of a call by its arguments; every way through it ends in a return."""
    refused = (_RETURN, 0, 0, FAIL | errno.EPERM)
    allowed = (_RETURN, 0, 0, ALLOW)
    if name in ("open", "openat"):
        flags = _CREATES if devices else _WRITES
        return [_argument(1 if name == "open" else 2), (_ANY_BIT, 0, 1, flags), refused, allowed]
    if name == "clone":
        return [_argument(0), (_ANY_BIT, 0, 1, _THREAD), allowed, refused]
    if name == "clone3":  # its arguments lie in memory, where no filter sees them: glibc then takes `clone`
        return [(_RETURN, 0, 0, FAIL | errno.ENOSYS)]
    if name == "tgkill":
        return [_argument(0), (_EQUAL, 0, 1, pid), allowed, refused]
    if name == "prlimit64":  # looking at limits, not setting them: no new ones, in either half of the pointer
        return [_argument(2), (_EQUAL, 1, 0, 0), refused, _argument(2, high=True), (_EQUAL, 0, 1, 0), allowed, refused]
    if name == "ioctl" and devices:
        return [allowed]
    index, values = {"prctl": (0, _NAME_OF_THREAD), "ioctl": (1, _ON_TERMINALS), "fcntl": (1, _ON_FILES)}[name]
    return [
        _argument(index),
        *[instruction for value in values for instruction in ((_EQUAL, 0, 1, value), allowed)],
        refused,
    ]


def _argument(index: int, *, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + 4 * high)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
