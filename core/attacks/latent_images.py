"""How attacks that see answers alone turn latents z into the images that they send. Loading it loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from smoothsweep.core.attacks.shared.base import Attack, AttackInputs, Part
from smoothsweep.core.attacks.training_settings import GENERAL, SIDES, GanTraining, gan_part
from smoothsweep.core.bounds import Count, Layers, Positive
from smoothsweep.core.checks import present, require

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import View
    from smoothsweep.core.priors.base import Prior

DECODE_ROWS = 256  # images at once at most where nothing is kept for gradients


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

    @property
    def crop(self) -> int | None:
        return self.image_crop

    @property
    def latent(self) -> dict[str, Any]:
        """These settings alone, as `LatentImages` takes them."""
        return {setting.name: getattr(self, setting.name) for setting in fields(LatentSettings)}


@dataclass(frozen=True, kw_only=True)
class LatentAttack(LatentSettings, Attack):
    """An attack that searches in the latents of a generator, the prior's or one of its own.

    Attributes:
        generator: What decodes the latents, the sweep's `prior` or `general_gan`, GMI's GAN of the public images, in
            which the official black-box attacks search.
        gan: How `general_gan` is trained, by default as its later users do.
    """

    generator: Literal["prior", "general_gan"] = "prior"
    gan: GanTraining = field(default_factory=GanTraining)

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "no value with generator prior, which is there"
        require(self.own or self.gan == GanTraining(), "attack.gan", expected, self.gan)

    @property
    def own(self) -> bool:
        """Whether the generator is a part of the attack."""
        return self.generator == GENERAL

    @property
    def decoder(self) -> str:
        return self.generator

    @property
    def enlarging(self) -> str:
        """The way of the official evaluations of RLB-MI and BREP-MI (utils.py, low2high)."""
        return "truncated_bytes"

    @property
    def parts(self) -> tuple[Part, ...]:
        return (gan_part(GENERAL, self.gan, "public"),) if self.own else ()

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.generator,)

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        sides = " or ".join(map(str, SIDES))
        fits = not self.own or image_size in SIDES
        require(fits, "recipe.image_size", f"{sides} pixels with generator {GENERAL}", image_size)

    def check_public(self, count: int) -> None:
        if self.own:
            self.gan.steps(count)


def generator_of(inputs: AttackInputs, name: str) -> Prior:
    """What decodes latents: the sweep's prior, or the generator of the part of that name."""
    return present(inputs.prior, "prior") if name == "prior" else inputs.networks[name]["generator"]


class LatentImages:
    """Decodes z [N, z_dim] by a prior: map, synthesize, clip to [-1, 1], centre crop, resize.

    Clipped, because an attacker who sees no more than answers sends pictures.
    """

    def __init__(
        self,
        prior: Prior,
        view: View,
        *,
        image_crop: int | None,
        truncation_psi: float = 1.0,
        truncation_cutoff: int | None = None,
    ) -> None:
        """prior: on the device of the view's execution; the rest as in `LatentSettings`."""
        from smoothsweep.core.attacks.optimisation.crops import Preprocess

        self._prior, self._execution = prior, view.execution
        self._truncation: dict[str, Any] = {"psi": truncation_psi, "cutoff": truncation_cutoff}
        self._shape = Preprocess(size=view.image_size, crop=image_crop)
        self._synthesize = view.execution.synthesizer(prior, image_crop)
        self._batch = view.execution.forward_batch("synthesis", self._synthesize, most=DECODE_ROWS)

    @property
    def z_dim(self) -> int:
        """Numbers of one latent."""
        return self._prior.z_dim

    def w_of(self, z: Tensor) -> Tensor:
        """w [N, num_ws, w_dim] of z [N, z_dim], on the execution's device."""
        import torch

        from smoothsweep.core.attacks.shared.execution import frozen

        with torch.no_grad(), frozen(self._prior):
            return self._prior.map(z.to(self._execution.device), **self._truncation)

    def __call__(self, z: Tensor) -> Tensor:
        """Images float32 [N, 3, image_size, image_size] on the execution's device."""
        with self._execution.arithmetic():
            return self.of(self.w_of(z))

    def of(self, w: Tensor) -> Tensor:
        """As `self(z)`, of w [N, 1 or num_ws, w_dim] from any device."""
        import torch

        with torch.no_grad(), self._execution.arithmetic():
            w = w.to(self._execution.device)
            return torch.cat(self._batch.run(lambda rows: self._shape(self._synthesize(w[rows]).clamp(-1, 1)), len(w)))
