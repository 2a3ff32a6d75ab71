"""IF-GMI as a row of the family: what a protocol changes, what it calls itself, which priors it takes."""

import re

import pytest

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import PriorNetwork
from smoothsweep.core.priors.registry import card_of
from smoothsweep.core.priors.settings import EigenfacesConfig, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

TINY = StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)


class Foreign(PriorNetwork):
    """Somebody's own prior."""


@pytest.mark.parametrize(
    ("card", "stages", "words"),
    [
        (card_of(StyleGAN2(TINY)), 3, None),
        (
            card_of(StyleGAN2(TINY)),
            4,
            "attack.stage_steps: expected at most 3 stages, as many as a prior of 16 pixels has blocks, got 4",
        ),
        (card_of(Foreign(TINY)), 1, "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'Foreign'"),
        (NetworkCard(kind="eigenfaces", config=EigenfacesConfig(resolution=64, components=3)), 1, "got 'eigenfaces'"),
    ],
)
def test_a_prior_must_have_a_block_for_every_stage(card, stages, words):
    attack = make_attack("if_gmi", stage_steps=[1] * stages)
    if words is None:
        return attack.check_prior(lambda: card)
    with pytest.raises(InputError, match=f"{re.escape(words)}$"):
        attack.check_prior(lambda: card)
    return None
