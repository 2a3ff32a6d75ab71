"""What every test shares: a quiet environment, one thread, a token for every Ray, the repository's root."""

import gc
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of hundreds of processes compiles all files again
os.environ.setdefault("RAY_worker_niceness", "0")  # else workers starve behind the tests of the other process

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests.quick_programs import forked

sys.dont_write_bytecode = False
gc.disable()  # until everything is collected

# A gate draws the same examples every time; `make explore` draws new ones, and more.
# Neither says no because the machine is slow.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", patient, derandomize=True, max_examples=20)
settings.register_profile("explore", patient, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

TOKEN = Path(tempfile.mkdtemp(prefix="smoothsweep-tests-")) / "token"  # of every Ray that tests start by themselves
TOKEN.touch(mode=0o600)
TOKEN.write_text(secrets.token_hex(32))
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(TOKEN)}
os.environ.pop("RAY_AUTH_TOKEN", None)  # it would count for more


def pytest_unconfigure() -> None:
    shutil.rmtree(TOKEN.parent, ignore_errors=True)


LONGEST = (
    "orchestrator/commands/test_run.py",
    "core/attacks/test_family.py",
    "orchestrator/scheduling/test_scheduler.py",
    "core/external/test_programs.py",
    "orchestrator/search/test_run.py",
    "orchestrator/search/test_strategies.py",
    "tasks/test_settings_travel.py",
    "orchestrator/commands/test_refused_sweeps.py",
    "core/isolation/test_process.py",
    "test_plugins.py",
    "orchestrator/commands/test_foreign_models.py",
)
"""The files that take longest begin first, those with a Ray of their own beside others: of two processes that share the
files, none is left alone with a long one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {str(here / name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(LONGEST)))


def pytest_collection_finish() -> None:
    """The libraries and twelve thousand tests stay to the end: looking for garbage among them took a twelfth of all."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Thousands of small files, none of which needs to outlive a power failure; everything but the wait is done."""
    with patch.object(os, "fsync", lambda descriptor: None):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_port_is_left_open() -> Iterator[None]:
    """A server that outlives its module would be asked by the next one's look at what listens in this process."""
    yield
    left = _listening() if "ray" not in sys.modules or not sys.modules["ray"].is_initialized() else []
    assert left == [], f"this module leaves ports open in the process of the tests: {left}"


def _listening() -> list[tuple[str, int]]:
    connections = psutil.Process().net_connections(kind="tcp")
    return [tuple(one.laddr) for one in connections if one.status == psutil.CONN_LISTEN]


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _starts_as_users_do() -> Iterator[Callable[..., subprocess.Popen[bytes]] | None]:
    """Isolated processes start as forks, but for tests that are about the start: those ask for `new_programs`."""
    with forked() if "torch" in sys.modules else nullcontext() as start:
        yield start


@pytest.fixture
def new_programs(_starts_as_users_do: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated processes start as users' do."""
    monkeypatch.setattr("smoothsweep.core.isolation.process._started", _starts_as_users_do)


@pytest.fixture(autouse=True)
def _same_draws_every_time() -> None:
    """What a test draws without a seed of its own (weights of a new network, say) is the same in every run."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
