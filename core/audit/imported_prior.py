"""The generator that an audit's attacker draws with, where it was imported: its settings from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import make_settings, network_card
from smoothsweep.core.priors.settings import DESCRIPTION, READ_OUT

WHOLE = 1024
"""Side in pixels of the pictures that the released generator of faces draws."""


def imported_prior(folder: Path, eyes: Sequence[float] | None, image_size: int) -> dict[str, Any]:
    """The `prior` of a sweep file for a folder that `smoothsweep import prior` wrote.

    eyes: x and y of the left and of the right eye and the side of the data's images, in pixels; None: use the prior's
    whole image. image_size: side of the model's input, in pixels. Raises InputError.
    """
    if (folder / DESCRIPTION).is_file():
        if eyes is not None:
            raise InputError(f"--eyes: expected none with {folder}, whose images are shown as they are")
        return {"kind": "folder", "path": str(folder.resolve())}
    sizes = [size for size in (*READ_OUT, WHOLE) if (folder / str(size) / DESCRIPTION).is_file()]
    if not sizes:
        raise InputError(f"--prior {folder}: expected a folder that `smoothsweep import prior` wrote, got no such one")
    prior: dict[str, Any] = {"kind": "random_face", "path": str(folder.resolve())}
    if eyes is not None:
        *places, side = eyes
        if side != int(side):
            raise InputError(f"--eyes: expected the side of the images in whole pixels, got {side:g}")
        prior["crop"] = {"left_eye": places[:2], "right_eye": places[2:], "side": int(side)}
    prior["resolution"] = _resolution(prior, sizes, image_size)
    return prior


def _resolution(prior: dict[str, Any], sizes: list[int], image_size: int) -> int:
    """The smallest resolution that shows as many pixels as the model sees, else the largest. Raises InputError."""
    for size in sizes:
        settings: Any = make_settings(**prior, resolution=size)
        if network_card(settings, None).config.resolution >= image_size:
            return size
    return sizes[-1]
