"""DP-SGD's stated epsilon beside what canaries show of one run: a noise of half the size is caught."""

import math

import pytest
import torch

from smoothsweep.core.defenses import dp_sgd
from smoothsweep.core.defenses.dp_sgd import DpSgd, epsilon
from smoothsweep.core.membership.canaries import audit_dp_sgd

NOISE, DELTA = 1.0, 1e-5


def halved(monkeypatch):
    """The training draws its noise with half of what it says."""
    draw = torch.randn
    monkeypatch.setattr(dp_sgd.torch, "randn", lambda *shape, **given: draw(*shape, **given) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_a_right_noise_is_not_accused(seed):
    found = audit_dp_sgd(DpSgd(noise=NOISE), seed=seed, delta=DELTA)
    stated = epsilon(NOISE, 1.0, 1, delta=DELTA)
    assert 0.5 / NOISE < found.mu <= 1 / NOISE and found.gaussian_epsilon(DELTA) <= stated
    assert found.epsilon <= stated


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_stated_noise_is_caught(monkeypatch, seed):
    halved(monkeypatch)
    found = audit_dp_sgd(DpSgd(noise=NOISE), seed=seed, delta=DELTA)
    assert found.mu > 1.3 / NOISE and found.gaussian_epsilon(DELTA) > epsilon(NOISE, 1.0, 1, delta=DELTA)


def test_steps_add_up(monkeypatch):
    found = audit_dp_sgd(DpSgd(noise=4.0), steps=9, seed=1)
    assert 0.5 * 3 / 4 < found.mu <= 3 / 4
    halved(monkeypatch)
    assert audit_dp_sgd(DpSgd(noise=4.0), steps=9, seed=1).mu > math.sqrt(9) / 4 * 1.3
