"""What several tests of foreign models ask."""

import sys

import pytest
import torch

from smoothsweep.core.external.asking import KeptAnswers
from tests.made_raw_endpoint import raw_server


@pytest.fixture(scope="module")
def server():
    with raw_server() as made:
        yield made


@pytest.fixture
def kept(tmp_path):
    found = KeptAnswers(tmp_path / "kept.sqlite")
    found.agree(queries=1000, per_second=1e6)
    return found


@pytest.fixture(scope="module", autouse=True)
def _programs(quick_programs):
    """No test here is about how a program's process starts."""


@pytest.fixture(autouse=True)
def _what_is_drawn_is_drawn_from_a_generator_of_its_own(monkeypatch):
    """Our code's draws: from torch's own generator an import would find something else the next time."""
    for name in ("rand", "randn", "randint", "randperm"):
        monkeypatch.setattr(torch, name, _seeded(getattr(torch, name)))


def _seeded(usual):
    def draw(*given, **named):
        ours = sys._getframe(1).f_globals["__name__"].startswith("smoothsweep.")
        assert not ours or named.get("generator") is not None, "drawn from torch's own generator"
        return usual(*given, **named)

    return draw
