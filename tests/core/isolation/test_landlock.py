"""What Landlock leaves a process, tried in one: every right on a file that may be read, on a device, and on others."""

import ctypes
import errno
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from smoothsweep.core.isolation import landlock

VERSION = landlock.version()
pytestmark = pytest.mark.skipif(VERSION == 0, reason="this kernel has no Landlock")
PROGRAM = """
import errno, fcntl, json, os, socket, sys
from pathlib import Path
from smoothsweep.core.isolation import landlock

folder, file, secret, port, name = sys.argv[1:]
landlock.confine_files([Path(folder), Path(file), Path("/not/there")], [Path("/dev/null")])

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


def test_the_version_is_what_the_kernel_answers_to_the_question():
    """Flag 1 of landlock_create_ruleset asks for the version, 2 for what was mended in it."""
    assert ctypes.CDLL(None).syscall(444, None, 0, 1) == VERSION


@pytest.mark.parametrize("what", ALLOWED)
def test_what_may_be_read_is_read(tried, what):
    assert tried[what] == 0


def test_a_device_is_read_written_and_spoken_to(tried):
    """ENOTTY is the device's own answer: the call has reached it."""
    assert tried["use the device"] == errno.ENOTTY


def test_everything_else_is_refused(tried):
    refused = set(tried) - {*ALLOWED, "use the device"}
    wanted = {what for what in refused if SINCE.get(what, 1) <= VERSION}
    assert len(refused) == 18 and {what for what in wanted if tried[what] not in (errno.EACCES, errno.EPERM)} == set()
