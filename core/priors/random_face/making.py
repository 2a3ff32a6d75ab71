"""The generator of a sweep: an imported resolution, in the frame of the data's faces."""

from __future__ import annotations

from smoothsweep.core.cards.network_weights import read_weights
from smoothsweep.core.priors.kinds import RandomFace
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN


def framed(settings: RandomFace, images: None = None) -> MobileStyleGAN:
    """The prior of these settings. Raises InputError."""
    return read_weights(MobileStyleGAN, settings.network_card(None).config, settings.files.weights)
