"""What the stages of Plug & Play Attacks return. All tensors are on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.descent import Descent
from smoothsweep.core.attacks.shared.base import Reconstructions

Starts = tuple[Tensor, Tensor, Tensor]
"""What stage 1 leaves: w0 [K, 1 or num_ws, w_dim], indices int64 [K] into the pool, confidences [K]."""


@dataclass(frozen=True, kw_only=True)
class OptimiseResult:
    """The latents of one class after their optimisation, and what was recorded on the way.

    Attributes:
        w: [K, 1 or num_ws, w_dim], the last iterates.
        loss: [steps, K], the target's loss before each update.
        gradient_cosine: [steps - 1, K], cosine of neighbouring steps' loss gradients at the image the target is shown
            before random augmentation (paper eq. 4, Fig. 6b).
        latent_cosine: Cosine of neighbouring steps' gradients in w.
        frozen: bool [K], candidates stopped at their last finite iterate. Undefined entries are NaN.
    """

    w: Tensor
    loss: Tensor
    gradient_cosine: Tensor
    latent_cosine: Tensor
    frozen: Tensor

    @property
    def num_frozen(self) -> int:
        return int(self.frozen.sum())


def joined(parts: Sequence[Descent]) -> OptimiseResult:
    """The descents of all batches, in their order."""
    return OptimiseResult(
        w=torch.cat([part.w for part in parts]).cpu(),
        loss=torch.cat([part.loss for part in parts], dim=1).cpu(),
        gradient_cosine=torch.cat([part.image_cosine for part in parts], dim=1).cpu(),
        latent_cosine=torch.cat([part.latent_cosine for part in parts], dim=1).cpu(),
        frozen=torch.cat([part.frozen for part in parts]).cpu(),
    )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What stage 3 kept, best first.

    Attributes:
        w: [k, 1 or num_ws, w_dim].
        scores: [k], mean target softmax.
        order: int64 [k] into the candidates.
        all_scores: [K], the scores of all candidates in the order they came.
        images: What was asked to be kept of the synthesis, [K, 3, S, S] each, in the order the candidates came: those
            of w are images[name][order].
        rows: Name -> [k], what else is known of each.
    """

    w: Tensor
    scores: Tensor
    order: Tensor
    all_scores: Tensor
    images: Mapping[str, Tensor] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClassReconstruction:
    """What the attack has to show for one class. Rows of w, scores, pool_index belong together, best first.

    Attributes:
        w: [k, 1 or num_ws, w_dim].
        scores: [k], mean target softmax in stage 3.
        pool_index: int64 [k], the pool latents the rows started from.
        candidates: The optimised latents before selection, with their curves.
        candidate_index: int64 [K], the pool latents they started from.
        candidate_confidence: [K], their stage-1 confidences.
        order: int64 [k], which candidates the rows are.
        images: What was asked to be kept of the final synthesis, [K, 3, S, S] each, of all candidates:
            images[name][order] are those of the rows.
        rows: Name -> [k], what else stage 3 knows of each.
    """

    target_class: int
    w: Tensor
    scores: Tensor
    pool_index: Tensor
    candidates: OptimiseResult
    candidate_index: Tensor
    candidate_confidence: Tensor
    order: Tensor
    images: Mapping[str, Tensor] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def loss_curve(self) -> Tensor:
        """[steps]: mean over the candidates, frozen ones left out."""
        return self.candidates.loss.nanmean(1)

    @property
    def gradient_cosine(self) -> float:
        """Mean over steps and candidates of the paper's eq. 4; NaN after a single step."""
        return float(self.candidates.gradient_cosine.nanmean())

    @property
    def num_frozen(self) -> int:
        return self.candidates.num_frozen


def reconstructed(target_class: int, starts: Starts, optimised: OptimiseResult, best: Selection) -> ClassReconstruction:
    """What the three stages left of a class."""
    _, index, confidence = starts
    return ClassReconstruction(
        target_class=target_class,
        w=best.w,
        scores=best.scores,
        pool_index=index[best.order],
        candidates=optimised,
        candidate_index=index,
        candidate_confidence=confidence,
        order=best.order,
        images=best.images,
        rows=best.rows,
    )


def as_reconstructions(reconstruction: ClassReconstruction) -> Reconstructions:
    """What Plug & Play leaves of a class, as every attack does."""
    curve = reconstruction.loss_curve
    return Reconstructions(
        w=reconstruction.w,
        scores=reconstruction.scores,
        rows={"pool_index": reconstruction.pool_index, **reconstruction.rows},
        curves={"loss": curve},
        facts={
            "loss_first": float(curve[0]),
            "loss_last": float(curve[-1]),
            "gradient_cosine": reconstruction.gradient_cosine,
            "num_frozen": float(reconstruction.num_frozen),
        },
    )
