"""Which images an architecture can take. Apart from the networks, so that a recipe is checked without loading torch."""

from __future__ import annotations

from core.errors import InputError

LEAST = 32  # pixels a side, of every architecture that is not named below
LEAST_OF = {"inception_v3": 299}
EXACT = {"vit_b_16": 224}


def check_image_size(architecture: str, image_size: int) -> None:
    """Raise InputError if the architecture cannot take square images of `image_size` pixels."""
    exact, least = EXACT.get(architecture), LEAST_OF.get(architecture, LEAST)
    if exact is not None and image_size != exact:
        raise InputError(f"{architecture}: expected images of {exact} pixels, got {image_size}")
    if image_size < least:
        raise InputError(f"{architecture}: expected images of at least {least} pixels, got {image_size}")


def fixed_image_size(architecture: str) -> int | None:
    """The only side in pixels that the architecture takes, None if there are several."""
    return EXACT.get(architecture)
