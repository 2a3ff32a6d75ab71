"""Scores beside those of public implementations on the same logits.

`tests/golden/membership.npz` was computed by running them. LeakPro (leakpro/attacks/mia_attacks/lira.py, commit
c47752f): `lira_online` and `lira_offline` with variance "carlini", `phi`. ML Privacy Meter
(modules/mia/attacks/rmia.py, commit e384af8): `rmia_offline`, of images 10 to 23 among the population 0 to 9, a = 0.3.
logits: [target and 8 shadow models, 24 images, 5 classes].
"""

from pathlib import Path

import numpy as np
import pytest

from smoothsweep.core.membership.base import Evidence, log_odds, log_probability
from smoothsweep.core.membership.registry import dominated
from tests.core.membership.made import make_membership_attack

GOLDEN = Path(__file__).parents[2] / "golden" / "membership.npz"


@pytest.fixture(scope="module")
def golden():
    return dict(np.load(GOLDEN))


@pytest.fixture(scope="module")
def evidence(golden):
    phi = log_odds(golden["logits"], golden["labels"])
    return Evidence(labels=golden["labels"], phi=phi[:1], shadow_phi=phi[1:, None], inside=golden["inside"])


def test_log_odds_are_those_of_leakpro(golden, evidence):
    assert evidence.phi[0] == pytest.approx(golden["phi"], abs=1e-6)


def test_lira_is_that_of_leakpro(golden, evidence):
    assert make_membership_attack("lira").scores(evidence) == pytest.approx(golden["lira_online"], abs=1e-6)
    tail = make_membership_attack("lira_offline").scores(evidence)  # -log P(Z > phi); theirs is log P(Z < phi)
    assert np.log1p(-np.exp(-tail)) == pytest.approx(golden["lira_offline"], abs=1e-6)


def test_rmia_is_that_of_privacy_meter(golden, evidence):
    """Its population is out of all models, of which it takes the half with the largest probabilities."""
    attack, p = make_membership_attack("rmia_offline", a=0.3), np.exp(log_probability(evidence.shadow_phi[:, 0]))
    ratio = log_probability(evidence.phi[0]) - np.log(attack.expected(evidence))
    largest = np.sort(p[:, :10], axis=0)[4:].mean(axis=0)
    population = log_probability(evidence.phi[0, :10]) - np.log((1.3 * largest + 0.7) / 2)
    found = dominated(ratio[10:], population, gamma=1.0)
    assert found == pytest.approx(golden["rmia_offline"], abs=1e-6) and len(set(found)) > 3
