"""How steady the gradients are that an inversion follows (paper, section 4.4, Figs. 6b and 7), and why they are not.

Latents descend as in stage 2 of Plug & Play. At every step: the cosine between the gradients of the loss at this image
and at the one before (eq. 4); whether the gradient is exactly zero; how far the logit of the class stands out; and
whether the softmax is saturated, so that cross-entropy has nothing left to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import (
    LatentObjective,
    Protocol,
    StepGradient,
    Target,
    attack_loss,
    walk,
)
from smoothsweep.core.attacks.ppa.config import Loss, OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import batches_of, by_adam, group_terms
from smoothsweep.core.attacks.shared.execution import Execution, frozen
from smoothsweep.core.judges.gradients import Gradients
from smoothsweep.core.metrics.intervals import seed_mean_interval
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.seeds import derive_seed

RANGES = {"cosine": (-1.0, 1.0), "zero": (0.0, 1.0), "logit_gap": None, "saturated": (0.0, 1.0)}
"""What is measured at a step -> what it can be.

`cosine`: between the image gradients of this step and the one before, NaN in the first and where either is zero;
`zero`: 1 where every entry of the image gradient is exactly 0; `logit_gap`: the class's logit minus the mean of the
others; `saturated`: 1 where the largest probability rounds to exactly 1 in single precision.
"""


def random_starts(prior: Prior, settings: Gradients, target_class: int, device: torch.device | str) -> Tensor:
    """Latents w [per_class, 1, w_dim] that follow from the seed and the class: the same for all targets."""
    numpy_seed = derive_seed(settings.seed, target_class, "gradients") % 2**32  # what its legacy stream takes
    z = torch.from_numpy(prior.sample_z(settings.per_class, numpy_seed)).float().to(device)
    with torch.no_grad():
        return prior.map(z, psi=settings.truncation_psi, cutoff=settings.truncation_cutoff)[:, :1]


def follow_gradients(
    prior: Prior,
    target: Target,
    target_class: int,
    settings: Gradients,
    loss: Loss,
    *,
    protocol: Protocol,
    image_size: int,
    execution: Execution,
) -> dict[str, Tensor]:
    """Descend on `loss` from the random latents of the class; prior and target are on the execution's device.

    The target gets images of image_size pixels. Crops are drawn as in stage 2 (protocol paper: one for a batch), and
    follow from the seed, the class and the step. Raises InputError where a batch does not fit into memory.
    """
    config, device = settings.descent(loss), execution.device
    w0, key = random_starts(prior, settings, target_class, device), (settings.seed, target_class, "gradients")
    with frozen(prior, target), execution.arithmetic():
        answered, seen = execution.target(target), list[Tensor]()

        def watched(images: Tensor) -> Tensor:
            logits = answered(images)
            seen.append(logits.detach().float())
            return logits

        objective = partial(
            LatentObjective,
            synthesize=execution.synthesizer(prior, settings.crop),
            target=watched,
            transform=Preprocess(size=image_size, crop=settings.crop),
            batch=None,
            loss=attack_loss(loss, protocol),
        )
        parts = []
        for batch in batches_of(target_class, key, len(w0), config.batch_size):
            step = objective(**group_terms([batch], config, protocol, device))
            parts.append(_followed(w0[batch.rows], step, target_class, seen, config))
    return {name: torch.cat([part[name] for part in parts], 1).cpu() for name in RANGES}


def _followed(
    w0: Tensor, objective: LatentObjective, target_class: int, seen: list[Tensor], config: OptimiseConfig
) -> dict[str, Tensor]:
    """The measurements of one batch, [steps, rows] each. seen: where the target's logits come, float [N, C] a view."""
    zero, gap, saturated = [], [], []

    def observed(w: Tensor, step: int) -> StepGradient:
        gradient = objective(w, step)
        logits = torch.stack(seen)
        seen.clear()
        zero.append(gradient.image.flatten(1).eq(0).all(1).float())
        gap.append(logit_gap(logits, target_class).mean(0))
        saturated.append(logits.softmax(2).amax(2).eq(1).float().mean(0))
        return gradient

    path = walk(w0, observed, partial(by_adam, config=config), steps=config.steps, lr_at=config.lr_at)
    stopped = path.loss.isnan()
    first = path.image_cosine.new_full((1, len(w0)), torch.nan)
    met = {"zero": zero, "logit_gap": gap, "saturated": saturated}
    curves = {name: torch.stack(rows).masked_fill(stopped, torch.nan) for name, rows in met.items()}
    return {"cosine": torch.cat([first, path.image_cosine]), **curves}


def logit_gap(logits: Tensor, target_class: int) -> Tensor:
    """The class's logit minus the mean of the others, [...] of logits [..., C]."""
    target_logit = logits[..., target_class]
    return target_logit - (logits.sum(-1) - target_logit) / (logits.shape[-1] - 1)


def band_over_classes(curves: Tensor, quantity: str) -> list[tuple[float, float, float, int]]:
    """(mean, low, high, classes) at every step of curves [classes, steps] of a row of `RANGES`; classes without a value
    are left out. Student's t at 95 % over the classes; low and high are NaN for fewer than two, all for none."""
    points: list[tuple[float, float, float, int]] = []
    for column in curves.double().T:
        values = column[column.isfinite()].numpy()
        if not len(values):
            points.append((math.nan, math.nan, math.nan, 0))
            continue
        band = seed_mean_interval(values, bounds=RANGES[quantity])
        low, high = (math.nan if end is None else end for end in (band.low, band.high))
        points.append((band.mean, low, high, len(values)))
    return points


def summarise_curves(by_class: Mapping[str, Sequence[Tensor]]) -> dict[str, float | None]:
    """Quantity -> mean over the steps, then over the classes, of curves [steps]; None where nothing was measured."""
    means: dict[str, float | None] = {}
    for name, curves in by_class.items():
        value = torch.stack([curve.nanmean() for curve in curves]).nanmean()
        means[name] = None if value.isnan() else float(value)
    return means
