"""Which images and classes an architecture can take. Apart from the networks, so that recipes load no torch."""

from __future__ import annotations

from smoothsweep.core.errors import InputError
from smoothsweep.core.spelling import suggestion

LEAST = {
    "resnet_small": 32,
    "vgg_small": 32,
    "resnet18": 32,
    "resnet34": 32,
    "resnet50": 32,
    "resnet101": 32,
    "resnet152": 32,
    "resnext50": 32,
    "densenet121": 32,
    "densenet169": 32,
    "vit_b_16": 224,
    "inception_v3": 299,
    "vgg16_bn": 64,
    "ir50_64": 64,
    "ir50_112": 112,
    "ir50_112_narrow": 112,
    "ir152_64": 64,
    "efficientnet_b0": 32,
    "efficientnet_b1": 32,
    "efficientnet_b2": 32,
}
"""Architecture -> the smallest side in pixels; the names are those of `core.models.classifiers.ARCHITECTURES`."""

FIXED = ("vit_b_16", "vgg16_bn", "ir50_64", "ir50_112", "ir50_112_narrow", "ir152_64")
"""Architectures that take that side alone."""


CUSTOMARY = {"inception_v3": 299}
"""Architecture -> the side that it is trained at where nothing is said, of those that take several."""

MOST_CLASSES = {"inception_v3": 1000}
"""Architecture -> outputs of its auxiliary head: a classifier has at most as many classes."""

TRANSFORMS_INPUT = "inception_v3"
"""The architecture that may map its input to ImageNet statistics first (`transform_input`)."""

IN_UNIT_RANGE = (
    "vgg16_bn",
    "ir50_64",
    "ir50_112",
    "ir50_112_narrow",
    "ir152_64",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
)
"""Architectures that are shown pictures as numbers in [0, 1], as the official low-resolution attacks train them; the
others want [-1, 1]."""


def check_image_size(architecture: str, image_size: int) -> None:
    """Raise InputError if the architecture cannot take square images of `image_size` pixels, or is not known."""
    fixed = fixed_image_size(architecture)
    if fixed is not None and image_size != fixed:
        raise InputError(f"{architecture}: expected images of {fixed} pixels, got {image_size}")
    if image_size < LEAST[architecture]:
        raise InputError(f"{architecture}: expected images of at least {LEAST[architecture]} pixels, got {image_size}")


def fixed_image_size(architecture: str) -> int | None:
    """The only side in pixels that the architecture takes, None if there are several. InputError: unknown name."""
    if architecture not in LEAST:
        hint = suggestion(architecture, LEAST)
        raise InputError(f"architecture: expected one of {', '.join(LEAST)}, got {architecture!r}{hint}")
    return LEAST[architecture] if architecture in FIXED else None
