"""What every test of membership holds: no number depends on a draw that nobody can draw again."""

from unittest.mock import patch

import numpy as np
import pytest
import torch

_USUAL = np.random.default_rng


def _seeded(seed=None):
    assert seed is not None, "a generator without a seed: the same data would give other numbers"
    return _USUAL(seed)


@pytest.fixture(autouse=True)
def _every_draw_is_from_a_generator_with_a_seed():
    before = torch.get_rng_state()
    with patch.object(np.random, "default_rng", _seeded):
        yield
    assert torch.equal(before, torch.get_rng_state()), "drawn from torch's own generator, not from the one given"
