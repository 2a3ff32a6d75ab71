"""A hostile program in Python: what a flaw in a reader would let a file do. For the isolated process alone."""

import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import time
from pathlib import Path

import torch

from smoothsweep.core.isolation.worker import Loaded

LIBC = ctypes.CDLL(None, use_errno=True)


def raw(number, *arguments):
    """A system call past every library. Raises OSError."""
    passed = [ctypes.c_char_p(one) if isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    found = LIBC.syscall(ctypes.c_long(number), *passed)
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return found


def spread(*threads):
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(_error_of(threads[0])))
    thread.start()
    thread.join()
    if found[0]:
        raise OSError(found[0], "refused in a thread")


def _error_of(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    except ValueError:  # what `resource` makes of EPERM
        return errno.EPERM
    return 0


def _link(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


P, PARENT = "/tmp/smoothsweep-must-not-appear", os.getppid()
BYTES = P.encode()
X86 = os.uname().machine == "x86_64"

ATTEMPTS = {
    "write": lambda: os.open(P, os.O_WRONLY | os.O_CREAT),
    "append": lambda: os.open(__file__, os.O_WRONLY | os.O_APPEND),
    "read_write": lambda: os.open(__file__, os.O_RDWR),
    "truncate": lambda: os.truncate(__file__, 0),
    "temporary": lambda: os.open("/tmp", os.O_TMPFILE | os.O_RDWR),
    "device": lambda: os.open("/dev/null", os.O_WRONLY),
    "own_memory_file": lambda: os.open("/proc/self/mem", os.O_RDWR),
    "parents_memory": lambda: os.open(f"/proc/{PARENT}/mem", os.O_RDONLY),
    "parents_environment": lambda: os.open(f"/proc/{PARENT}/environ", os.O_RDONLY),
    "passwords": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "home": lambda: os.listdir(str(Path("/root") if os.getuid() == 0 else Path("/home"))),
    "mkdir": lambda: os.mkdir(P),
    "rename": lambda: os.rename(__file__, P),
    "unlink": lambda: os.unlink(__file__),
    "link": lambda: os.link(__file__, P),
    "symlink": lambda: os.symlink(__file__, P),
    "chmod": lambda: os.chmod(__file__, 0o777),
    "utime": lambda: os.utime(__file__),
    "xattr": lambda: os.setxattr(__file__, "user.a", b"b"),
    "fifo": lambda: os.mkfifo(P),
    "memfd": lambda: os.memfd_create("a"),
    "internet": lambda: socket.socket(socket.AF_INET),
    "internet_6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "pair": socket.socketpair,
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "fork": os.fork,
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "kill_parent": lambda: os.kill(PARENT, signal.SIGTERM),
    "kill_group": lambda: os.killpg(0, signal.SIGCONT),
    "queue_signal": lambda: signal.pidfd_send_signal(0, signal.SIGTERM),
    "raise_limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)),
    "limit_parent": lambda: resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (10, 10)),
    "own_the_socket": lambda: __import__("fcntl").fcntl(0, 8, PARENT),
    "type_into_terminal": lambda: __import__("fcntl").ioctl(0, 0x5412, b"x"),
    "niceness": lambda: os.setpriority(os.PRIO_PROCESS, PARENT, 10),
    "affinity": lambda: os.sched_setaffinity(PARENT, {0}),
    "namespace": lambda: raw(272 if X86 else 97, 0x10000000),
    "trace": lambda: raw(101 if X86 else 117, 16, PARENT, 0, 0),
    "io_uring": lambda: raw(425, 8, 0),
    "pidfd": lambda: raw(434, PARENT, 0),
    "bpf": lambda: raw(321 if X86 else 280, 0, 0, 0),
    "read_other": lambda: raw(310 if X86 else 270, PARENT, 0, 0, 0, 0, 0),
    "shared_memory": lambda: raw(29 if X86 else 194, 0, 4096, 0o1600),
    "openat2": lambda: raw(437, -100, BYTES, 0, 24),
    "creat": lambda: raw(85, BYTES, 0o600) if X86 else raw(56, -100, BYTES, os.O_CREAT | os.O_WRONLY, 0o600),
    "clone3": lambda: raw(435, 0, 88),
    "in_a_thread": lambda: spread(lambda: os.open(P, os.O_WRONLY | os.O_CREAT)),
    "send_descriptor": lambda: socket.socket(fileno=os.dup(3)).sendmsg(
        [b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 0))]
    ),
}


READS = (
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
    "/proc/self/status",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/ostype",
    "/sys/devices/system/cpu/online",
    "/etc/ld.so.cache",
    torch.__file__,
)
"""What Python, torch and the system's libraries read while they compute."""


def load(program, settings, device):
    """What `settings["do"]` names; the answer is the error number of an attempt, 0 where it worked."""
    name = settings["do"]

    def answer(images):
        if name == "memory":
            return torch.ones(settings["bytes"] // 4).sum().reshape(1)
        if name == "shared":
            __import__("mmap").mmap(-1, settings["bytes"])
            return torch.zeros(1)
        if name == "forever":
            while True:
                pass
        if name == "sleep":
            time.sleep(1e6)
        if name == "die":
            ctypes.string_at(0) if settings.get("signal") else os._exit(3)
        if name == "last_words":
            os.write(1, b"first\n" + b"y" * 300 + b"\n \n")
            os._exit(3)
        if name == "reads":
            return torch.tensor([_error_of(lambda path=path: os.close(os.open(path, os.O_RDONLY))) for path in READS])
        if name == "abort":
            os.abort()
        if name == "print":
            os.write(1, b"\x1b]0;owned\x07\x1b[31mred\n" * settings.get("times", 1))
            os.write(2, b"\x1b[2J")
        if name == "junk":
            [peer] = [int(one) for one in os.listdir("/proc/self/fd") if "socket" in _link(one)]
            os.write(peer, b"\xff" * 100)
        if name == "attempts":
            return torch.tensor([_error_of(attempt) for attempt in ATTEMPTS.values()])
        return images.sum().reshape(1)

    return Loaded(
        answer=answer,
        facts={"pid": os.getpid(), "device": str(device), "settings": settings, "environment": sorted(os.environ)},
    )
