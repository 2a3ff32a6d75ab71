"""Plug & Play Attacks (Struppek et al., ICML 2022) in the form the paper uses (appendix B.4).

Three stages, each a function that can be called alone: `sample_candidates` picks starting latents from a pool
that all targets share, `optimise` moves them until the target sees the class, `select` keeps those the target
recognises under strong augmentation. `invert_class` calls the three in order. Scores are the target's own.

Protocol "paper" follows `LukasStruppek/Plug-and-Play-Attacks` (attacks/optimize.py,
attacks/final_selection.py): one random crop for the whole batch, Poincare loss with its rounding, gradients
of the batch mean. Protocol "clean" gives every image its own crop and every latent its own gradient, so that
a latent's path depends neither on its batch nor on the batch size (but for rounding). Under both, every draw
comes from (seed, class, stage, batch, step).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from core.attacks.crops import DRAW_CROPS, CropRule, DrawCrops, Views
from core.attacks.descent import descend
from core.attacks.frozen import frozen
from core.attacks.losses import Protocol, attack_loss, check_protocol
from core.attacks.objective import LatentObjective, Target, Transform, target_logits
from core.attacks.pool import best_first, decode_pool, sample_candidates, score_pool
from core.attacks.ppa_config import (
    CandidateConfig,
    OptimiseConfig,
    PoolConfig,
    PPAConfig,
    SelectConfig,
    paper_celeba,
    paper_facescrub,
)
from core.attacks.ppa_results import ClassReconstruction, OptimiseResult, Selection
from core.errors import InputError
from core.priors.base import Prior

__all__ = [
    "CandidateConfig",
    "ClassReconstruction",
    "OptimiseConfig",
    "OptimiseResult",
    "PPAConfig",
    "PoolConfig",
    "SelectConfig",
    "Selection",
    "Stages",
    "decode_pool",
    "invert_class",
    "optimise",
    "paper_celeba",
    "paper_facescrub",
    "sample_candidates",
    "score_pool",
    "select",
]


def optimise(
    prior: Prior,
    target: Target,
    w0: Tensor,
    target_class: int,
    config: OptimiseConfig,
    *,
    seed: int,
    protocol: Protocol,
    transform: Transform,
    device: torch.device | str,
    discriminator: Target | None = None,
    draw_crops: DrawCrops | None = None,
    on_step: Callable[[int, int, Tensor], None] | None = None,
) -> OptimiseResult:
    """Stage 2: minimise the attack loss of `target_class` over the latents w0 [K, 1 or num_ws, w_dim].

    Each step: synthesise, clip if configured, `transform`, random crop, target, Adam. Latents are not
    projected; the last iterate is returned. prior, target and discriminator must be on `device`, and are used
    in eval mode. The target may be a plain function; it is given channels-last memory, so it must flatten
    with `flatten` or `reshape`.

    discriminator: full-size unclipped images -> logits; needed for a discriminator_weight other than 0.
    draw_crops: replaces the protocol's way to draw a crop. on_step(batch, step, loss [B]) sees the losses
    before each update (reading them waits for the device). Results are on the CPU. Raises InputError for
    wrong settings.
    """
    check_protocol(protocol)
    if config.discriminator_weight and discriminator is None:
        raise InputError(f"discriminator_weight: {config.discriminator_weight} needs a discriminator")
    loss = partial(attack_loss(config.loss), protocol=protocol)
    parts = []
    with frozen(prior, target, discriminator):
        for batch, rows in enumerate(_slices(len(w0), config.batch_size)):
            key = (seed, target_class, "optimise", *((batch,) if protocol == "paper" else ()))
            objective = LatentObjective(
                prior=prior,
                target=target,
                transform=transform,
                target_class=target_class,
                loss=loss,
                views=_views(config.crop_rule, len(w0), key, protocol, draw_crops),
                rows=rows,
                clip=config.clip,
                mean=protocol == "paper",
                discriminator=discriminator,
                discriminator_weight=config.discriminator_weight,
            )
            descent = descend(
                w0[rows].to(device),
                objective,
                steps=config.steps,
                lr_at=config.lr_at,
                betas=config.betas,
                weight_decay=config.weight_decay,
                on_step=None if on_step is None else partial(on_step, batch),
            )
            parts.append(descent)
    return OptimiseResult(
        w=torch.cat([part.w for part in parts]).cpu(),
        loss=torch.cat([part.loss for part in parts], dim=1).cpu(),
        gradient_cosine=torch.cat([part.image_cosine for part in parts], dim=1).cpu(),
        latent_cosine=torch.cat([part.latent_cosine for part in parts], dim=1).cpu(),
        frozen=torch.cat([part.frozen for part in parts]).cpu(),
    )


def select(
    prior: Prior,
    target: Target,
    w: Tensor,
    target_class: int,
    config: SelectConfig,
    *,
    seed: int,
    protocol: Protocol,
    transform: Transform,
    device: torch.device | str,
    draw_crops: DrawCrops | None = None,
) -> Selection:
    """Stage 3: of the latents w [K, 1 or num_ws, w_dim], keep those the target recognises most robustly.

    Score: mean softmax of `target_class` over config.repeats random crops and mirrors of the (unclipped)
    image, resized back to the target's input. Under "paper" each draw is shared by all candidates of the
    class, so the comparison is fair; under "clean" every image has its own. Each image is synthesised once. A
    score that is not a number ranks last. Results are on the CPU. Raises InputError for wrong settings, or
    for fewer than num_selected latents.
    """
    check_protocol(protocol)
    if len(w) < config.num_selected:
        raise InputError(f"num_selected: expected at most the {len(w)} candidates, got {config.num_selected}")
    views = _views(config.crop_rule, len(w), (seed, target_class, "select"), protocol, draw_crops)
    total = torch.zeros(len(w), device=device)
    with torch.no_grad(), frozen(prior, target):
        decoded = [transform(prior.synthesize(rows.to(device))) for rows in w.split(config.decode_batch_size)]
        images = torch.cat(decoded)
        for repeat in range(config.repeats):
            crops = None if views is None else views.at(repeat, images)
            for rows in _slices(len(w), config.batch_size):
                shown = None if crops is None else crops.of(rows)
                logits = target_logits(target, images[rows], shown, size=config.view_size)
                total[rows] += logits.float().softmax(1)[:, target_class]
    scores = (total / config.repeats).cpu()
    order = best_first(scores)[: config.num_selected]
    return Selection(w=w.detach().cpu()[order], scores=scores[order], order=order, all_scores=scores)


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The three stages as `invert_class` calls them; replace one to study it alone."""

    sample: Callable[..., tuple[Tensor, Tensor, Tensor]] = sample_candidates
    optimise: Callable[..., OptimiseResult] = optimise
    select: Callable[..., Selection] = select


PPA_STAGES = Stages()


def invert_class(
    prior: Prior,
    target: Target,
    confidences: Tensor,
    w_pool: Tensor,
    target_class: int,
    config: PPAConfig,
    *,
    seed: int,
    protocol: Protocol,
    device: torch.device | str,
    discriminator: Target | None = None,
    stages: Stages = PPA_STAGES,
    on_step: Callable[[int, int, Tensor], None] | None = None,
) -> ClassReconstruction:
    """The whole attack on one class.

    confidences [S, C] is what `score_pool` gives, w_pool [S, num_ws, w_dim] what `decode_pool` gives. The
    result depends on the seed and the class alone: not on which other classes are attacked, where or when.
    Arguments as in `optimise`; images reach the target by config.pool.preprocess. Raises InputError.
    """
    common = {"seed": seed, "protocol": protocol, "transform": config.pool.preprocess, "device": device}
    w0, index, confidence = stages.sample(confidences, w_pool, target_class, config.candidates)
    found = stages.optimise(
        prior,
        target,
        w0,
        target_class,
        config.optimise,
        discriminator=discriminator,
        on_step=on_step,
        **common,
    )
    best = stages.select(prior, target, found.w, target_class, config.select, **common)
    return ClassReconstruction(
        target_class=target_class,
        w=best.w,
        scores=best.scores,
        pool_index=index[best.order],
        candidates=found,
        candidate_index=index,
        candidate_confidence=confidence,
    )


def _views(
    rule: CropRule, count: int, key: tuple[int | str, ...], protocol: Protocol, given: DrawCrops | None
) -> Views | None:
    if given is None and rule.is_identity:
        return None
    return Views(rule=rule, count=count, key=key, draw=given or DRAW_CROPS[protocol])


def _slices(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
