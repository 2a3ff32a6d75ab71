"""The filter, run by an interpreter of BPF that was written from its manual: each call by each kind of argument."""

import errno
import os

import pytest

from smoothsweep.core.isolation.seccomp import ALLOW, FAIL, KILL, filter_program
from smoothsweep.core.isolation.system_calls import ARCHITECTURES, CONDITIONAL, HARMLESS

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
    import re
    from pathlib import Path

    file = Path(
        {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}[
            machine
        ]
    )
    if not file.is_file():
        pytest.skip("no headers of the kernel")
    found = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", file.read_text())}
    found.setdefault("newfstatat", found.get("fstatat"))
    for name, numbers in {**HARMLESS, **CONDITIONAL}.items():
        assert found.get(name) == numbers[list(ARCHITECTURES).index(machine)], name
