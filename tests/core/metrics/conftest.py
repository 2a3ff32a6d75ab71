"""What every test of metrics holds: no number depends on a draw that nobody can draw again."""

from unittest.mock import patch

import numpy as np
import pytest

_USUAL = np.random.default_rng


def _seeded(seed=None):
    assert seed is not None, "a generator without a seed: the same data would give other numbers"
    return _USUAL(seed)


@pytest.fixture(scope="module", autouse=True)
def _every_generator_has_a_seed():
    with patch.object(np.random, "default_rng", _seeded):
        yield
