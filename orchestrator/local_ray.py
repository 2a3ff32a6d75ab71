"""A Ray of this run alone: it listens on the loopback interface, and to nobody who does not hold the run's token.

Ray reads these settings from the environment, where its processes find them too. The token itself is in no environment
and on no command line: they hold the path of a file that its owner alone can read, gone when the run ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config

from orchestrator import interrupts

PREFIX = "smoothsweep-ray-"  # then the driver's process number
TOKEN = "token"
LOOPBACK_MODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0, as on macOS: Ray's address is 127.0.0.1, and it binds no other
GUARDS = {"RAY_AUTH_MODE": "token", LOOPBACK_MODE: "0", "RAY_AUTH_TOKEN": None}  # None: not set
QUIET = {  # what a user has set stays
    "RAY_enable_metrics_collection": "0",  # Prometheus' port asks nobody for a token
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # Ray Train's workers on CPUs
}
_running = contextlib.ExitStack()


def start(**settings: Any) -> None:
    """Start a Ray on this machine and join it. settings: of `ray.init`. Raises what `ray.init` raises."""
    stop()
    try:
        _running.enter_context(_guarded())
        ray.init(address="local", include_dashboard=False, configure_logging=False, log_to_driver=False, **settings)
    except BaseException:
        stop()
        raise


def stop() -> None:
    """Leave Ray, ours (which ends) or another's, and put the environment back."""
    ray.shutdown()
    _running.close()


def live_runs() -> list[tuple[int, Path]]:
    """The runs of this user with a Ray of their own on this machine: the driver's process number, the token's file."""
    return [(_driver(folder), folder / TOKEN) for folder in _folders() if _is_held(folder / TOKEN)]


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    """Have the Ray that is started in this block ask for a new token, on the loopback interface."""
    for folder in _folders():
        if not _is_held(folder / TOKEN) and not psutil.pid_exists(_driver(folder)):
            shutil.rmtree(folder, ignore_errors=True)  # of a driver that was killed
    with _token_file() as path:
        chosen = {name: value for name, value in QUIET.items() if name not in os.environ}
        with _environment({**GUARDS, **chosen, "RAY_AUTH_TOKEN_PATH": str(path)}):
            yield


@contextlib.contextmanager
def _token_file() -> Iterator[Path]:
    """A new token in a folder of its own, for its owner alone; locked for as long as this process uses it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    interrupts.remove_at_the_end(folder)
    try:
        descriptor = os.open(folder / TOKEN, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(secrets.token_hex(32))
            file.flush()
            yield folder / TOKEN
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _environment(settings: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables, and have this process's Ray, loaded long ago, read them anew; put all back afterwards."""
    before = {name: os.environ.get(name) for name in settings}
    loopback_before = ray_constants.ENABLE_RAY_CLUSTER
    _set(settings)
    ray_constants.ENABLE_RAY_CLUSTER = settings[LOOPBACK_MODE] != "0"
    _read_anew()
    try:
        yield
    finally:
        _set(before)
        ray_constants.ENABLE_RAY_CLUSTER = loopback_before
        _read_anew()


def _set(settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _read_anew() -> None:
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _folders() -> Iterator[Path]:
    """What runs of this user have made in the temporary folder, where anybody can make anything."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with contextlib.suppress(OSError, ValueError):
            if _driver(folder) and folder.lstat().st_uid == os.getuid() and folder.is_dir():
                yield folder


def _driver(folder: Path) -> int:
    return int(folder.name.removeprefix(PREFIX).split("-")[0])


def _is_held(path: Path) -> bool:
    """Whether the process that made the file lives: process numbers come again, and differ between containers."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
