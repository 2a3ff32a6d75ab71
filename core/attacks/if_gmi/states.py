"""What a stage of IF-GMI moves, and the images of it: a StyleGAN2's synthesis from one block on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.attacks.shared.execution import Execution, Synthesize
from smoothsweep.core.priors.base import spread_over_places
from smoothsweep.core.priors.stylegan2 import FrozenSynthesis, StyleGAN2


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The synthesis from `block` on. A row of its states is [w | features that enter the block | RGB sum before it].

    Stage 0 has w alone. rgb: whether the RGB sum of the blocks before is kept; without it, as in the official code,
    their part of the image is gone, and a stage begins with another image than the one before has left.
    """

    prior: StyleGAN2
    synthesis: FrozenSynthesis
    block: int
    rgb: bool

    @property
    def optimised_columns(self) -> tuple[slice, ...]:
        """The columns of w, and those of the features. The RGB sum is no variable."""
        w = slice(0, self.prior.w_dim)
        if self.block == 0:
            return (w,)
        channels, side = self.synthesis.entering(self.block)
        return w, slice(w.stop, w.stop + channels * side**2)

    def images(self, states: Tensor) -> Tensor:
        """states [N, ...] -> images float32 [N, 3, S, S], unclipped; differentiable in what is moved."""
        ws, features, rgb = self._split_states(states)
        return self.synthesis.through(ws, features, rgb, first=self.block)[1]

    def next_states(self, states: Tensor) -> Tensor:
        """The states of the next stage: the same w, and what leaves this one's block."""
        ws, features, rgb = self._split_states(states)
        features, rgb = self.synthesis.through(ws, features, rgb, first=self.block, last=self.block + 1)
        parts = [ws[:, 0], features.flatten(1).to(states.dtype), *([rgb.flatten(1)] if self.rgb else [])]
        return torch.cat(parts, 1)

    def _split_states(self, states: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """w [N, num_ws, w_dim], features [N, C, r, r] and the RGB sum [N, 3, r, r], None where there is none."""
        w, *spans = self.optimised_columns
        ws = spread_over_places(states[:, None, w], num_ws=self.prior.num_ws, w_dim=self.prior.w_dim)
        if not spans:
            return ws, None, None
        (channels, side), (span,) = self.synthesis.entering(self.block), spans
        features = states[:, span].unflatten(1, (channels, side, side))
        rgb = states[:, span.stop :].detach().unflatten(1, (3, side, side)) if self.rgb else None
        return ws, features.contiguous(memory_format=torch.channels_last), rgb


def make_stage(
    run: Execution, prior: StyleGAN2, crop: int | None, *, block: int, rgb: bool
) -> tuple[Stage, Synthesize]:
    """The stage that begins at `block`, and its images in the form to use; the same one whenever it is asked for.

    crop: of the central crop alone, as of `Execution.synthesizer`.
    """
    stage = Stage(prior=prior, synthesis=run.frozen_synthesis(prior, crop), block=block, rgb=rgb)
    key = ("stage", id(prior), crop, block, rgb)
    return stage, run.prepare_once(key, prior, lambda: stage.images)
