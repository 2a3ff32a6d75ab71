"""The numbers of the system calls that an isolated process may make, by processor. Source: Linux, asm/unistd.h."""

from __future__ import annotations

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Name that `os.uname` gives -> the kernel's AUDIT_ARCH constant (linux/audit.h)."""

HARMLESS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "close": (3, 57), "close_range": (436, 436), "fstat": (5, 80), "stat": (4, None),
    "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "brk": (12, 214), "madvise": (28, 233),
    "mincore": (27, 232), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "rt_sigtimedwait": (128, 137), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61),
    "getcwd": (79, 17), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19), "pipe2": (293, 59),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getpgrp": (111, None),
    "futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293),
    "exit": (60, 93), "exit_group": (231, 94), "getrandom": (318, 278), "uname": (63, 160), "sysinfo": (99, 179),
    "getrlimit": (97, 163), "getrusage": (98, 165), "times": (100, 153), "sendto": (44, 206), "recvfrom": (45, 207),
    "shutdown": (48, 210), "getsockopt": (55, 209), "getsockname": (51, 204), "getpeername": (52, 205),
    "set_tid_address": (218, 96), "arch_prctl": (158, None), "membarrier": (324, 283), "getcpu": (309, 168),
    "get_mempolicy": (239, 236), "set_mempolicy": (238, 237), "mbind": (237, 235), "restart_syscall": (219, 128),
    "fadvise64": (221, 223), "statfs": (137, 43), "fstatfs": (138, 44),
}  # fmt: skip
"""Name -> number on x86_64 and aarch64. They reach the process's own memory, threads and open files, and look at files;
none of them opens, changes or connects anything."""

CONDITIONAL: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None), "openat": (257, 56), "clone": (56, 220), "clone3": (435, 435), "tgkill": (234, 131),
    "prlimit64": (302, 261), "prctl": (157, 167), "ioctl": (16, 29), "fcntl": (72, 25),
}  # fmt: skip
"""As `HARMLESS`, of calls that are allowed for some arguments alone (`core.isolation.seccomp`)."""
