"""The prior of an audit: fitted on the public images, or one that was imported, in the frame of the data's faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import DESCRIPTION, make_settings
from smoothsweep.core.priors.random_face_facts import READ_OUT

WHOLE, RESOLUTION = 1024, 128


def imported_prior(folder: Path, eyes: Sequence[float] | None, image_size: int) -> dict[str, Any]:
    """The `prior` of a sweep file for a folder that `smoothsweep import prior` wrote.

    eyes: x and y of the left and the right eye and the side of the data's images, in pixels; None: all of the prior's
    image is shown. image_size: of the model, in pixels. Raises InputError, one line.
    """
    if (folder / DESCRIPTION).is_file():
        if eyes is not None:
            raise InputError(f"--eyes: expected none with {folder}, whose images are shown as they are")
        return {"kind": "folder", "path": str(folder.resolve())}
    found = [size for size in (*READ_OUT, WHOLE) if (folder / str(size) / DESCRIPTION).is_file()]
    if not found:
        raise InputError(f"--prior {folder}: expected a folder that `smoothsweep import prior` wrote, got no such one")
    prior: dict[str, Any] = {"kind": "random_face", "path": str(folder.resolve())}
    if eyes is not None:
        *places, side = eyes
        if side != int(side):
            raise InputError(f"--eyes: expected the side of the images in whole pixels, got {side:g}")
        prior["crop"] = {"left_eye": places[:2], "right_eye": places[2:], "side": int(side)}
    prior["resolution"] = _resolution(prior, found, image_size)
    return prior


def _resolution(prior: dict[str, Any], found: list[int], image_size: int) -> int:
    """The least that shows as many pixels as the model sees, else the largest there is. Raises InputError."""
    for size in found:
        settings: Any = make_settings(**prior, resolution=size)
        if settings.network_card(None).config.resolution >= image_size:
            return size
    return found[-1]
