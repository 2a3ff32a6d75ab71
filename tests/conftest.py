"""What every test shares: a quiet environment, one thread, a token for every Ray, the repository's root."""

import os
import random
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import pytest
from hypothesis import HealthCheck, settings

# A gate draws the same examples every time; `make explore` draws new ones, and more.
# Neither says no because the machine is slow.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", patient, derandomize=True, max_examples=60)
settings.register_profile("explore", patient, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

TOKEN = Path(tempfile.mkdtemp(prefix="smoothsweep-tests-")) / "token"  # of every Ray that tests start by themselves
TOKEN.touch(mode=0o600)
TOKEN.write_text(secrets.token_hex(32))
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(TOKEN)}
os.environ.pop("RAY_AUTH_TOKEN", None)  # it would count for more


def pytest_unconfigure() -> None:
    shutil.rmtree(TOKEN.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _same_draws_every_time() -> None:
    """What a test draws without a seed of its own (weights of a new network, say) is the same in every run."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
