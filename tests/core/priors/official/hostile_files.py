"""Files that mean harm: what is watched while they are read, and how they are refused."""

import codecs
import pickle
import sys
from contextlib import contextmanager
from functools import cache

import pytest
from official_pickle import marker_source, official_modules, official_networks

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

CONFIG = StyleGAN2Config(resolution=8, z_dim=3, w_dim=2, mapping_layers=1, channel_base=16, channel_max=2)
EXECUTION = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "marshal.loads",
    "ctypes.dlopen",
    "socket.connect",
)
_watched: list[list[str]] = []


def _audit(event, arguments):
    if _watched and event in EXECUTION:
        _watched[-1].append(f"{event} {arguments}"[:200])


codecs.lookup("ascii")  # Python loads its code at the first use, which would look like something executed
sys.addaudithook(_audit)


@contextmanager
def nothing_executed():
    """Fails if Python executes, compiles or imports anything, or starts a process, meanwhile."""
    events = []
    _watched.append(events)
    try:
        yield
    finally:
        _watched.remove(events)
    assert not events


@cache
def valid(protocol):
    """A valid file of each protocol, some 60 kB."""
    with official_modules():
        return pickle.dumps(official_networks(CONFIG, source=marker_source("executed"))[0], protocol)


def outcome(file, content):
    """The imported networks, or None if the file was refused in one line."""
    file.write_bytes(content)
    with nothing_executed():
        try:
            return import_prior(file)
        except InputError as error:
            assert "\n" not in str(error) and str(error).isprintable() and len(str(error)) < 800
            return None


def refused(file, content):
    file.write_bytes(content)
    with nothing_executed(), pytest.raises(InputError) as caught:
        import_prior(file)
    return str(caught.value)
