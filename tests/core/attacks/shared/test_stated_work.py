"""An attack's hours by a rate that others state."""

import pytest

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.attacks.shared.base import StatedRate, StatedWork

RATE = StatedRate(device="B200", hours=6.0, latents=300, side=512, source="a page")


def test_hours_of_a_class_are_its_share_of_the_rates_latents():
    assert StatedWork(rate=RATE, latents=50, steps=10, crop=None).hours == pytest.approx(1.0)
    assert StatedWork(rate=RATE, latents=600, steps=70, crop=400).hours == pytest.approx(12.0)


def test_a_rate_has_a_source_and_follows_the_settings():
    stated = [one for one in (make_attack(kind).stated_work for kind in ATTACKS) if one is not None]
    assert stated and all(one.rate.source and one.hours > 0 for one in stated)
    own = make_attack("ppa", candidates=200, steps=70).stated_work
    assert (own.latents, own.steps) == (200, 70)
