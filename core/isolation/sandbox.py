"""What an isolated process gives up: files (Landlock), system calls (seccomp), memory; and what it may still use.

Neither needs a privilege, and neither can be taken off again. Source: Linux, Documentation/userspace-api/landlock.rst,
seccomp_filter.rst, asm/unistd.h. Loads no torch: Landlock must come before a library has started threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import smoothsweep
from smoothsweep.core.allotted import available_memory
from smoothsweep.core.errors import InputError

SECONDS, GIBIBYTES = "SMOOTHSWEEP_PROGRAM_SECONDS", "SMOOTHSWEEP_PROGRAM_GIB"
"""Environment variables: other limits than the usual ones, for a program that needs them."""
USUAL_SECONDS = 900.0
MEMORY_FRACTION = 0.8  # of the machine's free memory

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Name that `os.uname` gives -> the kernel's AUDIT_ARCH constant (linux/audit.h)."""


def _numbers(table: str) -> dict[str, tuple[int | None, ...]]:
    rows = (entry.split(":") for entry in table.split())
    return {name: tuple(int(number) if number else None for number in numbers) for name, *numbers in rows}


HARMLESS = _numbers(
    """
read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 close:3:57 close_range:436:436 fstat:5:80
stat:4: lstat:6: newfstatat:262:79 statx:332:291 lseek:8:62 mmap:9:222 mprotect:10:226 munmap:11:215 mremap:25:216
brk:12:214 madvise:28:233 mincore:27:232 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139
sigaltstack:131:132 rt_sigtimedwait:128:137 access:21: faccessat:269:48 faccessat2:439:439 readlink:89:
readlinkat:267:78 getdents64:217:61 getcwd:79:17 dup:32:23 dup2:33: dup3:292:24 poll:7: ppoll:271:73 select:23:
pselect6:270:72 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232: epoll_pwait:281:22 eventfd2:290:19 pipe2:293:59
sched_yield:24:124 sched_getaffinity:204:123 sched_getparam:143:121 sched_getscheduler:145:120
sched_get_priority_max:146:125 sched_get_priority_min:147:126 nanosleep:35:101 clock_nanosleep:230:115
clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 time:201: getpid:39:172 gettid:186:178 getppid:110:173
getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177 getpgrp:111: futex:202:98 set_robust_list:273:99
get_robust_list:274:100 rseq:334:293 exit:60:93 exit_group:231:94 getrandom:318:278 uname:63:160 sysinfo:99:179
getrlimit:97:163 getrusage:98:165 times:100:153 sendto:44:206 recvfrom:45:207 shutdown:48:210 getsockopt:55:209
getsockname:51:204 getpeername:52:205 set_tid_address:218:96 arch_prctl:158: membarrier:324:283 getcpu:309:168
get_mempolicy:239:236 set_mempolicy:238:237 mbind:237:235 restart_syscall:219:128 fadvise64:221:223 statfs:137:43
fstatfs:138:44
"""
)
"""System call -> its number on x86_64 and on aarch64. These reach the process's own memory, threads and open files, and
look at files; none of them opens, changes or connects anything."""

CONDITIONAL = _numbers(
    """
open:2: openat:257:56 clone:56:220 clone3:435:435 tgkill:234:131 prlimit64:302:261 prctl:157:167 ioctl:16:29
fcntl:72:25
"""
)
"""As `HARMLESS`, but allowed only with certain arguments (`_rule`)."""

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _TSYNC = 1, 2, 1
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # of a BPF program: BPF_LD|W|ABS, BPF_JMP|JEQ, JSET, BPF_RET
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_CREATES = os.O_CREAT | os.O_TRUNC
_WRITES = os.O_WRONLY | os.O_RDWR | _CREATES
_THREAD = 0x00010000  # CLONE_THREAD
_NAME_OF_THREAD = (15, 16)  # PR_SET_NAME, PR_GET_NAME
_ON_TERMINALS = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_ON_FILES = (0, 1, 2, 3, 4, 1030, 1034)  # of fcntl: duplicates, flags, F_GET_SEALS; no F_SETOWN, which sends signals

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock: the same numbers on every processor
_WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL_DEVICE = 1 << 1, 1 << 2, 1 << 3, 1 << 15
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version of the interface -> how many rights on files it has
_TCP, _SCOPES = 0b11, 0b11  # bind and connect, from version 4; abstract sockets and signals, from version 6

_PACKAGES = ("torch", "torchvision", "numpy", "sympy", "networkx")
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/opt", "/etc/ld.so.cache", "/etc/localtime", "/sys", "/proc/self", "/proc/cpuinfo"),
    *("/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/devices", "/proc/modules", "/proc/driver"),
    *("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
)

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an isolated process may use."""

    seconds: float
    """Wall-clock time of loading, and of each answer and each gradient."""
    memory: int
    """Bytes beyond what Python and its libraries take."""


def usual_limits() -> Limits:
    """The limits of this machine, or those of the environment. Raises InputError, one line, for what is no number."""
    memory = _number(GIBIBYTES)
    return Limits(
        seconds=_number(SECONDS) or USUAL_SECONDS,
        memory=int(memory * 2**30) if memory else int(MEMORY_FRACTION * available_memory()),
    )


def _number(name: str) -> float | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise InputError(f"{name}: expected a number above 0, got {text[:40]!r}")
    return number


def readable_paths(loader: str, packages: Iterable[str] = ()) -> list[Path]:
    """What an isolated process reads: Python, torch and what it needs, the system's own, this package, the loader's.

    loader: "module:function"; what another package than this one brings may be installed anywhere. packages: other
    installed packages that it reads, too.
    """
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *map(sysconfig.get_path, ("stdlib", "purelib"))]
    named = [*python, *_SYSTEM, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    homes = [place.parent for name in (*_PACKAGES, *packages) if (place := _place(name))]
    ours = [Path(__file__).resolve().parents[1], Path(smoothsweep.__file__).resolve()]
    theirs = _place(loader.partition(":")[0].partition(".")[0])
    return [*(Path(name) for name in named if name and Path(name).exists()), *homes, *ours, *filter(None, [theirs])]


def device_paths(device: str) -> list[Path]:
    """The files of the GPUs' driver, for a process that computes on one."""
    return sorted(Path("/dev").glob("nvidia*")) if device.startswith("cuda") else []


def _place(package: str) -> Path | None:
    """The folder of an installed package, or the file of a lone module."""
    spec = find_spec(package)
    found = None if spec is None else next(iter(spec.submodule_search_locations or ()), spec.origin)
    return Path(found).resolve() if found else None


def can_isolate() -> bool:
    """Whether this kernel can hold a process to computing. Where it cannot, a program counts as code."""
    if sys.platform != "linux" or os.uname().machine not in ARCHITECTURES or sys.byteorder != "little":
        return False
    action = ctypes.c_uint32(FAIL)
    return _libc().syscall(_SECCOMP[os.uname().machine], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def landlock_version() -> int:
    """The version of Landlock that this kernel has, 0 for none. Changes nothing."""
    return max(0, _libc().syscall(_CREATE_RULESET, None, 0, 1)) if sys.platform == "linux" else 0


def give_up_files(orders: dict[str, Any]) -> None:
    """End with the parent, and keep but the files that the orders name; before torch is loaded."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != orders["parent"]:  # it ended before that
        os._exit(1)
    if orders["isolated"] and landlock_version():
        confine_files(map(Path, orders["readable"]), map(Path, orders["devices"]))


def give_up_calls(orders: dict[str, Any]) -> None:
    """Limit memory, keep but the system calls of computing, and try what must not work; after torch has been loaded.

    Raises RuntimeError where the process could do more than compute.
    """
    on_cpu = orders["device"] == "cpu"
    _limit(orders["memory"], on_cpu=on_cpu)
    if not orders["isolated"]:
        return
    confine_calls(devices=not on_cpu and landlock_version() > 0)
    for what, attempt in (
        ("write a file", lambda: os.close(os.open(orders["attempt"], os.O_WRONLY | os.O_CREAT, 0o600))),
        ("open a socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()),
        ("start a process", lambda: os.fork() or os._exit(0)),
    ):
        with suppress(OSError):
            attempt()
            raise RuntimeError(f"this process can still {what}")


def _limit(memory: int, *, on_cpu: bool) -> None:
    """memory: bytes beyond those in use. A GPU's driver reserves address space without end: there data alone count."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform != "linux":
        return
    status = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    used = {words[0]: int(words[1]) * 1024 for words in status if words[0] in ("VmSize:", "VmData:")}
    for limit, now in ((resource.RLIMIT_DATA, used["VmData:"]), (resource.RLIMIT_AS, used["VmSize:"])):
        if on_cpu or limit == resource.RLIMIT_DATA:
            resource.setrlimit(limit, (now + memory, now + memory))


def confine_files(readable: Iterable[Path], devices: Iterable[Path] = ()) -> None:
    """Leave this thread, and all that it starts, these files and folders to read and these devices to use, for good.

    What is not there is left out. TCP and processes outside are given up, too. Raises OSError where the kernel refuses.
    """
    abi, libc = landlock_version(), _libc()
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
            _checked(libc.syscall(_ADD_RULE, rules, 1, rule, 0), f"add_rule {path}")
        finally:
            os.close(descriptor)


def confine_calls(*, devices: bool) -> None:
    """Hold every thread of this process to reading, computing and its open files, for good.

    Every system call that is not listed fails with EPERM, whatever a later kernel adds.

    devices: allow any `ioctl`, and opening files that are there for writing, which a GPU's driver needs: only where
    Landlock leaves nothing but devices to be opened so. Raises OSError where the kernel refuses.
    """
    instructions = filter_program(os.uname().machine, os.getpid(), devices=devices)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))
    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code)))
    _checked(-abs(libc.syscall(_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _TSYNC, described)), "seccomp")


def filter_program(machine: str, pid: int, *, devices: bool) -> list[Instruction]:
    """The filter as BPF instructions (code, jump if true, jump if false, operand)."""
    column = list(ARCHITECTURES).index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for name, numbers in {**HARMLESS, **CONDITIONAL}.items():
        if (number := numbers[column]) is not None:
            rule = [(_RETURN, 0, 0, ALLOW)] if name in HARMLESS else _rule(name, pid, devices=devices)
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


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"sandbox: {what}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
