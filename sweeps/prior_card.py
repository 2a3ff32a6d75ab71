"""prior.json, the card of a prior in a folder: checked before its network is built, without loading torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from core.cards import read_card
from core.errors import InputError
from sweeps.base import Model, Positive
from sweeps.mistakes import first_mistake

MOST_PIXELS = 4096


class StyleGAN2Settings(Model):
    """As `core.priors.stylegan2_layers.StyleGAN2Config`, which has the same bounds."""

    resolution: Annotated[int, Field(ge=8, le=MOST_PIXELS)]
    z_dim: Annotated[int, Field(ge=1, le=2**14)]
    w_dim: Annotated[int, Field(ge=1, le=2**14)]
    mapping_layers: Annotated[int, Field(ge=1, le=64)]
    channel_base: Annotated[int, Field(ge=8, le=2**20)]
    channel_max: Annotated[int, Field(ge=1, le=2**14)]
    conv_clamp: Positive | None
    mbstd_group: Annotated[int, Field(ge=1, le=2**20)] | None

    @field_validator("resolution")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError(f"expected a power of two, got {value}")
        return value

    @field_validator("channel_base")
    @classmethod
    def _one_channel_at_least(cls, value: int, info: Any) -> int:
        if value < info.data.get("resolution", 0):
            raise ValueError(f"expected at least the resolution, {info.data['resolution']}, got {value}")
        return value


class EigenfacesSettings(Model):
    """As `core.priors.eigenfaces.EigenfacesConfig`."""

    resolution: Annotated[int, Field(ge=1, le=MOST_PIXELS)]
    components: Annotated[int, Field(ge=1, le=2**20)]


class StyleGAN2Card(Model):
    """A StyleGAN2's; files of the first version do not name it."""

    version: Annotated[int, Field(ge=1, le=1)] = 1
    kind: Literal["stylegan2"]
    config: StyleGAN2Settings


class EigenfacesCard(Model):
    """Of principal components."""

    version: Annotated[int, Field(ge=1, le=1)] = 1
    kind: Literal["eigenfaces"]
    config: EigenfacesSettings


PriorCard = StyleGAN2Card | EigenfacesCard
_CARD: TypeAdapter[PriorCard] = TypeAdapter(Annotated[PriorCard, Field(discriminator="kind")])


def read_prior_card(path: Path) -> PriorCard:
    """The checked card. Raises InputError, one line naming the file and the key."""
    card = read_card(path, "the JSON description of a prior")
    try:
        return _CARD.validate_python(card)
    except ValidationError as error:
        raise InputError(f"{path}: {first_mistake(error)}") from None
