"""What one unit of the paper's work takes on a device of the user's: as `smoothsweep doctor --calibrate` writes it.

A file of JSON. It holds no path and no name of a user, so it can be taken from a GPU node to wherever a plan is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.sweeps.mistakes import first_mistake

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=100)]
Side = Annotated[int, Field(ge=1, le=4096)]


class _Rates(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PriorRate(_Rates):
    """Rates of a prior of `side` pixels.

    Attributes:
        step_s: One latent through one step of the descent, without the target (synthesis of the central `crop` pixels,
            resize, and back).
        image_s: One image drawn, without a gradient.
    """

    side: Side
    crop: Side
    step_s: Seconds
    image_s: Seconds


class NetworkRate(_Rates):
    """What a classifier takes for one image of `image_size` pixels.

    Attributes:
        train_s: Seconds in an epoch of training.
        gradient_s: Seconds of a pass forward and back to the image.
        forward_s: Seconds of the forward pass alone.
    """

    image_size: Side
    train_s: Seconds
    gradient_s: Seconds
    forward_s: Seconds


class Calibration(_Rates):
    """Seconds on one device.

    Attributes:
        device: The device's name.
        torch: The version of torch.
        date: Date of the measurement, as 2026-01-31.
        networks: Architecture -> its rate. All in single precision.
    """

    format: Literal[1] = 1
    device: Name
    torch: Name
    date: Name
    prior: PriorRate
    networks: dict[Name, NetworkRate]


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file; nothing is left half-written."""
    write_file(path, calibration.model_dump_json(indent=1) + "\n")


def read_calibration(path: Path) -> Calibration:
    """What a file holds. Raises InputError, one line, for any other content."""
    card = read_card(path, "rates as `smoothsweep doctor --calibrate` writes them")
    try:
        return Calibration.model_validate(card)
    except ValidationError as error:
        raise InputError(f"{path}: {first_mistake(error)}") from None
