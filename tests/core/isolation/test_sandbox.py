"""What the sandbox leaves a process: Landlock tried in one, the filter run by an interpreter of BPF, limits, paths."""

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation import sandbox
from smoothsweep.core.isolation.sandbox import (
    ALLOW,
    ARCHITECTURES,
    CONDITIONAL,
    FAIL,
    HARMLESS,
    KILL,
    Limits,
    can_isolate,
    filter_program,
    landlock_version,
    readable_paths,
    usual_limits,
)

VERSION = landlock_version()
PROGRAM = """
import errno, fcntl, json, os, socket, sys
from pathlib import Path
from smoothsweep.core.isolation import sandbox

folder, file, secret, port, name = sys.argv[1:]
sandbox.confine_files([Path(folder), Path(file), Path("/not/there")], [Path("/dev/null")])

def opened(path, flags):
    os.close(os.open(path, flags, 0o600))

def spoken():
    descriptor = os.open("/dev/null", os.O_RDWR)
    os.write(descriptor, b"x")
    fcntl.ioctl(descriptor, 0x5401, bytes(64))

def connected(family, where):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.connect(where)

def bound():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.bind(("127.0.0.1", 0))

attempts = {
    "read in the folder": lambda: opened(folder + "/inside", os.O_RDONLY),
    "read below it": lambda: opened(folder + "/below/deep", os.O_RDONLY),
    "list the folder": lambda: os.listdir(folder),
    "read the file": lambda: opened(file, os.O_RDONLY),
    "use the device": spoken,
    "list the file's folder": lambda: os.listdir(os.path.dirname(file)),
    "read another": lambda: opened(secret, os.O_RDONLY),
    "read another device": lambda: opened("/dev/zero", os.O_RDONLY),
    "write the file": lambda: opened(file, os.O_WRONLY),
    "truncate the file": lambda: os.truncate(file, 0),
    "write in the folder": lambda: opened(folder + "/inside", os.O_WRONLY),
    "make a file": lambda: opened(folder + "/new", os.O_WRONLY | os.O_CREAT),
    "make a folder": lambda: os.mkdir(folder + "/new"),
    "make a pipe": lambda: os.mkfifo(folder + "/new"),
    "link": lambda: os.symlink(folder, folder + "/new"),
    "rename": lambda: os.rename(folder + "/inside", folder + "/below/inside"),
    "remove": lambda: os.unlink(folder + "/inside"),
    "remove a folder": lambda: os.rmdir(folder + "/empty"),
    "execute": lambda: os.execv(folder + "/true", ["true"]),
    "connect": lambda: connected(socket.AF_INET, ("127.0.0.1", int(port))),
    "bind": bound,
    "connect by name": lambda: connected(socket.AF_UNIX, chr(0) + name),
    "signal": lambda: os.kill(os.getppid(), 0),
}
found = {}
for what, attempt in attempts.items():
    try:
        attempt()
        found[what] = 0
    except OSError as error:
        found[what] = error.errno
print(json.dumps(found))
"""
ALLOWED = ("read in the folder", "read below it", "list the folder", "read the file")
SINCE = {"connect": 4, "bind": 4, "connect by name": 6, "signal": 6, "truncate the file": 3}
"""What is refused from a later version on than the first."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What was tried -> its error number, 0 where it worked."""
    place = tmp_path_factory.mktemp("landlock")
    folder, beside = place / "readable", place / "beside"
    for made in (folder / "below", folder / "empty", beside):
        made.mkdir(parents=True)
    for file in (folder / "inside", folder / "below" / "deep", beside / "file", beside / "secret"):
        file.write_text("x")
    shutil.copy("/bin/true", folder / "true")
    name = f"smoothsweep-{place.name}"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract.bind(f"\0{name}")
        abstract.listen()
        told = [folder, beside / "file", beside / "secret", tcp.getsockname()[1], name]
        root = Path(__file__).resolve().parents[3]
        command = [sys.executable, "-c", PROGRAM, *map(str, told)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(VERSION == 0, reason="this kernel has no Landlock")
def test_what_is_named_is_read_and_everything_else_refused(tried):
    assert {tried[what] for what in ALLOWED} == {0}
    assert tried["use the device"] == errno.ENOTTY, "the device's own answer: the call has reached it"
    refused = set(tried) - {*ALLOWED, "use the device"}
    wanted = {what for what in refused if SINCE.get(what, 1) <= VERSION}
    assert len(refused) == 18 and {what for what in wanted if tried[what] not in (errno.EACCES, errno.EPERM)} == set()


PID = 4242
EPERM, ENOSYS = FAIL | errno.EPERM, FAIL | errno.ENOSYS


def decided(machine, number, *arguments, devices=False, architecture=None):
    """What the filter answers to a call."""
    data = [number, architecture or ARCHITECTURES[machine], 0, 0]
    for one in [*arguments, *[0] * (6 - len(arguments))]:
        data += [one & 0xFFFFFFFF, one >> 32]
    program, at, accumulator = filter_program(machine, PID, devices=devices), 0, None
    while True:
        code, true, false, operand = program[at]
        at += 1
        if code == 0x20:
            accumulator = data[operand // 4]
        elif code == 0x15:
            at += true if accumulator == operand else false
        elif code == 0x45:
            at += true if accumulator & operand else false
        else:
            assert code == 0x06
            return operand


@pytest.fixture(params=list(ARCHITECTURES))
def machine(request):
    return request.param


def number_of(machine, name):
    return {**HARMLESS, **CONDITIONAL}[name][list(ARCHITECTURES).index(machine)]


def test_every_number_that_is_not_listed_is_refused(machine):
    column = list(ARCHITECTURES).index(machine)
    harmless = {numbers[column] for numbers in HARMLESS.values()} - {None}
    conditional = {numbers[column] for numbers in CONDITIONAL.values()} - {None}
    assert not harmless & conditional
    for number in [*range(1024), *(0x40000000 + one for one in range(1024))]:  # the latter are x32's
        wanted = ALLOW if number in harmless else EPERM
        if number not in conditional:
            assert decided(machine, number) == wanted, number


def test_another_processors_calls_end_the_process(machine):
    assert decided(machine, 0, architecture=0x40000003) == KILL


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("openat", (0, 0, os.O_RDONLY | os.O_CLOEXEC), ALLOW),
        ("openat", (0, 0, os.O_WRONLY), EPERM),
        ("openat", (0, 0, os.O_RDWR), EPERM),
        ("openat", (0, 0, os.O_CREAT), EPERM),
        ("openat", (0, 0, os.O_RDONLY | os.O_TRUNC), EPERM),
        ("openat", (0, 0, os.O_TMPFILE | os.O_RDWR), EPERM),
        ("openat", (0, 0, 1 << 32 | os.O_RDONLY), ALLOW),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (17,), EPERM),
        ("clone", (0x01200011,), EPERM),
        ("clone3", (), ENOSYS),
        ("tgkill", (PID, 1, 6), ALLOW),
        ("tgkill", (PID + 1, 1, 6), EPERM),
        ("prlimit64", (0, 3, 0, 8), ALLOW),
        ("prlimit64", (0, 3, 8, 0), EPERM),
        ("prlimit64", (0, 3, 1 << 32, 0), EPERM),
        ("prctl", (15,), ALLOW),
        ("prctl", (1,), EPERM),
        ("prctl", (4,), EPERM),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), EPERM),
        ("fcntl", (0, 3), ALLOW),
        ("fcntl", (0, 8), EPERM),
        ("fcntl", (0, 10), EPERM),
        ("fcntl", (0, 15), EPERM),
    ],
)
def test_calls_that_depend_on_their_arguments(machine, name, arguments, wanted):
    assert decided(machine, number_of(machine, name), *arguments) == wanted


def test_a_device_may_be_spoken_to_where_there_is_one(machine):
    number = number_of(machine, "ioctl")
    assert decided(machine, number, 0, 0xC0DE, devices=True) == ALLOW
    assert decided(machine, number, 0, 0xC0DE) == EPERM
    number = number_of(machine, "openat")
    assert decided(machine, number, 0, 0, os.O_RDWR, devices=True) == ALLOW
    for flags in (os.O_CREAT, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_CREAT):
        assert decided(machine, number, 0, 0, flags, devices=True) == EPERM


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of this processor's own headers")
def test_numbers_are_the_kernels(machine):
    places = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
    if not (file := Path(places[machine])).is_file():
        pytest.skip("no headers of the kernel")
    found = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", file.read_text())}
    found.setdefault("newfstatat", found.get("fstatat"))
    for name, numbers in {**HARMLESS, **CONDITIONAL}.items():
        assert found.get(name) == numbers[list(ARCHITECTURES).index(machine)], name


@pytest.mark.parametrize(("platform", "machine"), [("darwin", "arm64"), ("linux", "riscv64"), ("win32", "AMD64")])
def test_other_systems_cannot_isolate(monkeypatch, platform, machine):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: type("Name", (), {"machine": machine})())
    assert not can_isolate()


def test_other_limits_come_from_the_environment(monkeypatch):
    monkeypatch.setenv(sandbox.SECONDS, "12.5")
    monkeypatch.setenv(sandbox.GIBIBYTES, "3")
    assert usual_limits() == Limits(seconds=12.5, memory=3 * 2**30)
    for text in ("-1", "soon", "nan", "inf"):
        monkeypatch.setenv(sandbox.SECONDS, text)
        with pytest.raises(InputError, match=f"{sandbox.SECONDS}: expected a number above 0, got '{text}'"):
            usual_limits()


def test_of_a_loader_from_elsewhere_its_package_is_read_and_of_a_lone_module_its_file(tmp_path, monkeypatch):
    package = tmp_path / "brought_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "brought_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    usual = set(readable_paths("no_such_module_anywhere:load", ("no_such_package_anywhere",)))
    assert set(readable_paths("brought_package.inner.reader:load")) - usual == {package}
    assert set(readable_paths("brought_module:load")) - usual == {tmp_path / "brought_module.py"}
    assert usual and all(path.exists() for path in usual)
