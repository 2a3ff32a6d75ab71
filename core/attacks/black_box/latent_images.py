"""Decode Gaussian latents z into the images that black-box attacks send to a target."""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.latent_settings import LatentSettings
from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.checks import present
from smoothsweep.core.priors.base import Prior

DECODE_ROWS = 256  # images at once at most where nothing is kept for gradients


def generator_of(inputs: AttackInputs, name: str) -> Prior:
    """What decodes latents: the sweep's prior, or the generator of the part of that name."""
    return present(inputs.prior, "prior") if name == "prior" else inputs.networks[name]["generator"]


class LatentImages:
    """Decodes z [N, z_dim] by a prior: map, synthesize, clip to [-1, 1], centre crop, resize.

    Clipped, because an attacker who sees no more than answers sends pictures.
    """

    def __init__(self, prior: Prior, settings: LatentSettings, execution: Execution, *, image_size: int) -> None:
        """image_size: side in pixels of the target's input. The prior must be on the execution's device."""
        self._prior, self._settings, self._execution = prior, settings, execution
        self._shape = Preprocess(size=image_size, crop=settings.image_crop)
        self._synthesize = execution.synthesizer(prior, settings.image_crop)
        self._batch = execution.forward_batch("synthesis", self._synthesize, most=DECODE_ROWS)

    @property
    def z_dim(self) -> int:
        """Numbers of one latent."""
        return self._prior.z_dim

    @torch.no_grad()
    def w_of(self, z: Tensor) -> Tensor:
        """w [N, num_ws, w_dim] of z [N, z_dim], on the execution's device."""
        with frozen(self._prior):
            settings = self._settings
            z = z.to(self._execution.device)
            return self._prior.map(z, psi=settings.truncation_psi, cutoff=settings.truncation_cutoff)

    @torch.no_grad()
    def __call__(self, z: Tensor) -> Tensor:
        """Images float32 [N, 3, image_size, image_size] on the execution's device."""
        with self._execution.arithmetic():
            return self.of(self.w_of(z))

    @torch.no_grad()
    def of(self, w: Tensor) -> Tensor:
        """As `self(z)`, of w [N, 1 or num_ws, w_dim] from any device."""
        with self._execution.arithmetic():
            w = w.to(self._execution.device)
            return torch.cat(self._batch.run(lambda rows: self._shape(self._synthesize(w[rows]).clamp(-1, 1)), len(w)))
