"""The generator of a sweep: an imported resolution, in the frame of the data's faces."""

from __future__ import annotations

from smoothsweep.core.cards.network_weights import read_weights
from smoothsweep.core.priors.card import network_card
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face_settings import RandomFace


def framed(settings: RandomFace, images: None = None) -> MobileStyleGAN:
    """The prior of these settings. Raises InputError."""
    return read_weights(MobileStyleGAN, network_card(settings, None).config, settings.files.weights)
