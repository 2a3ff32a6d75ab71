"""How an attack that searches among z turns them into images, and what each field may be. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from smoothsweep.core.attacks.gan.config import SIDES, GanTraining
from smoothsweep.core.attacks.gan.parts import GENERAL, general_gan
from smoothsweep.core.attacks.shared.base import Part
from smoothsweep.core.bounds import Count, Layers, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields


@dataclass(frozen=True, kw_only=True)
class LatentSettings:
    """How latents z become images.

    Attributes:
        truncation_psi: The prior's truncation, 1 for none.
        truncation_cutoff: How many layers it is applied to, from the coarsest on, None for all.
        image_crop: Side in pixels of the centre crop of the prior's images, None for no crop.
    """

    crop_key: ClassVar[str] = "attack.image_crop"

    truncation_psi: Positive = 1.0
    truncation_cutoff: Layers | None = None
    image_crop: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.")

    @property
    def crop(self) -> int | None:
        """The crop as it was given."""
        return self.image_crop


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings(LatentSettings):
    """The generator in whose latents an attack searches.

    Attributes:
        generator: What decodes the latents, the sweep's `prior` or `general_gan`, GMI's GAN of the public images, in
            which the official black-box attacks search.
        gan: How `general_gan` is trained, by default as its later users do.
    """

    generator: Literal["prior", "general_gan"] = "prior"
    gan: GanTraining = field(default_factory=GanTraining)

    def __post_init__(self) -> None:
        LatentSettings.__post_init__(self)
        require(
            self.own or self.gan == GanTraining(),
            "attack.gan",
            "no value with generator prior, which is there",
            self.gan,
        )

    @property
    def own(self) -> bool:
        """Whether the generator is a part of the attack."""
        return self.generator == GENERAL

    @property
    def decoder(self) -> str:
        """The prior, or the part that has the generator."""
        return self.generator

    @property
    def generator_parts(self) -> tuple[Part, ...]:
        """The generator, where it is a part."""
        return (general_gan(self.gan),) if self.own else ()

    def check_size(self, image_size: int) -> None:
        """Raise InputError for a target whose input the generator of the attack cannot have."""
        sides = " or ".join(map(str, SIDES))
        require(
            not self.own or image_size in SIDES,
            "recipe.image_size",
            f"{sides} pixels with generator {GENERAL}",
            image_size,
        )

    def check_public(self, count: int) -> None:
        """Raise InputError for fewer public images than a batch of the generator's training has."""
        if self.own:
            self.gan.steps(count)
