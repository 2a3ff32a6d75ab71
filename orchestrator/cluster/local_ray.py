"""A Ray of this run alone: it listens on the loopback interface, and only to callers who hold the run's token.

Ray reads these settings from the environment, where its processes find them too. The token itself is in no environment
and on no command line: they hold the path of a file that its owner alone can read, gone when the run ends. Ray's own
files (sessions, logs, sockets) lie beside it, in the same folder, which other users cannot enter.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Mapping
from typing import Any

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # ty: ignore[missing-module-member]  # compiled

from smoothsweep.orchestrator.cluster import tokens
from smoothsweep.orchestrator.cluster.run_folder import BASE_VARIABLE
from smoothsweep.orchestrator.cluster.settings import NO_METRICS

LOOPBACK_MODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0, as on macOS: Ray's address is 127.0.0.1, and it binds no other
GUARDS = {"RAY_AUTH_MODE": "token", LOOPBACK_MODE: "0", "RAY_AUTH_TOKEN": None}  # None: not set
QUIET = {  # what a user has set stays
    **NO_METRICS,
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # Ray Train's workers on CPUs
}
_running = contextlib.ExitStack()


def start(**settings: Any) -> None:
    """Start a Ray on this machine and join it. settings: of `ray.init`. Raises what `ray.init` raises, and InputError
    where its files cannot be closed to other users."""
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


@contextlib.contextmanager
def _guarded() -> Generator[None]:
    """Have the Ray that is started in this block ask for a new token, on the loopback interface."""
    tokens.sweep_away()
    with tokens.new_token() as path:
        chosen = {name: value for name, value in QUIET.items() if name not in os.environ}
        places = {"RAY_AUTH_TOKEN_PATH": str(path), BASE_VARIABLE: str(path.parent)}
        with _environment({**GUARDS, **chosen, **places}):
            yield


@contextlib.contextmanager
def _environment(settings: Mapping[str, str | None]) -> Generator[None]:
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
