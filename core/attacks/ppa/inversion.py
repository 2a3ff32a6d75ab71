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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import DrawCrops
from smoothsweep.core.attacks.optimisation.descent import Descent, walk
from smoothsweep.core.attacks.optimisation.feature_pull import FeaturePull
from smoothsweep.core.attacks.optimisation.losses import Protocol, attack_loss, check_protocol
from smoothsweep.core.attacks.optimisation.objective import LatentObjective, Target, Transform, target_logits
from smoothsweep.core.attacks.ppa.batching import batch_spans, group_views, groups_of, report_batches, row_scale
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PPAConfig
from smoothsweep.core.attacks.ppa.neighbours import group_neighbours
from smoothsweep.core.attacks.ppa.pool import EXECUTION, preprocess_of, sample_candidates
from smoothsweep.core.attacks.ppa.restarts import around
from smoothsweep.core.attacks.ppa.results import (
    ClassReconstruction,
    OptimiseResult,
    Selection,
    Starts,
    joined,
    reconstructed,
)
from smoothsweep.core.attacks.ppa.selection import crop_of, select
from smoothsweep.core.attacks.shared.execution import Execution, as_execution, frozen
from smoothsweep.core.devices import DeviceBatch, ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Prior

Mover = Callable[..., torch.optim.Optimizer]
"""(leaf w [K, ...], config=, key=, first=) -> what moves it. key: of all that is drawn; first: its first row."""


def by_adam(w: Tensor, *, config: OptimiseConfig, key: tuple[int | str, ...], first: int) -> torch.optim.Optimizer:
    """A fresh Adam, eps 1e-8, which draws nothing."""
    return torch.optim.Adam([w], lr=config.lr_at(0), betas=config.betas, weight_decay=config.weight_decay)


def optimise(
    prior: Prior,
    target: Target,
    w0: Tensor,
    target_class: int,
    config: OptimiseConfig,
    *,
    discriminator: Target | None = None,
    temperature: float | None = None,
    pull: FeaturePull | None = None,
    seed: int,
    protocol: Protocol,
    draw_crops: DrawCrops | None = None,
    transform: Transform,
    on_step: Callable[[int, int, Tensor], None] | None = None,
    device: torch.device | str,
    execution: Execution | ExecutionConfig = EXECUTION,
    mover: Mover = by_adam,
) -> OptimiseResult:
    """Stage 2: minimise the attack loss of `target_class` over the latents w0 [K, 1 or num_ws, w_dim].

    Each step: synthesise, clip if configured, `transform`, random crop, target, a step of `mover`. Latents are not
    projected; the last iterate is returned. Networks must be on `device`, and are used in eval mode. The target, which
    may be a function, gets channels-last memory, so it must flatten with `flatten` or `reshape`.

    Args:
        discriminator: Full-size unclipped images -> logits.
        temperature: What logits are divided by before the loss.
        pull: The pull on the target's features; needed, as the discriminator is, where the configuration weighs it.
        draw_crops: Replaces the protocol's way to draw a crop.
        on_step: Sees (batch, step, loss [B]), the losses before each update; reading them waits for the device.
        execution: How, and how many images at once: several batches of config.batch_size together or parts of one,
            which changes results by rounding only. A discriminator's batch is computed as a whole.

    Returns its results on the CPU. Raises InputError for wrong settings, or when not even one image fits into memory.
    """
    check_protocol(protocol)
    _check_given(config, discriminator, temperature, pull)
    run = as_execution(execution, device)
    with frozen(prior, target, discriminator), run.arithmetic():
        whole = bool(config.discriminator_weight)  # the discriminator compares the images of a batch
        synthesize = run.synthesizer(prior, None if whole else crop_of(transform))
        networks: dict[str, Any] = {"synthesize": synthesize, "target": run.target(target), "transform": transform}
        batch = None if whole else gradient_batch(run, networks, w0.to(device), config)
        loss = loss_of(config, protocol, temperature)
        objective = _objective(
            networks, config, loss, pull, target_class=target_class, batch=batch, discriminator=discriminator
        )
        parts = descend_batches(
            w0.to(device),
            objective,
            config,
            together=1 if batch is None else max(1, batch.rows // config.batch_size),
            key=(seed, target_class, "optimise"),
            protocol=protocol,
            draw_crops=draw_crops,
            on_step=on_step,
            mover=mover,
        )
    return joined(parts)


def _objective(
    networks: Mapping[str, Any],
    config: OptimiseConfig,
    loss: Callable[[Tensor, Tensor], Tensor],
    pull: FeaturePull | None,
    **options: Any,
) -> Callable[..., LatentObjective]:
    """What a group of latents is moved by; the target is asked through `pull` where the configuration weighs features.

    networks: synthesize, target, transform. given: fields of `LatentObjective` that all groups share.
    """
    networks_and_loss = {**networks, "loss": loss}
    if config.feature_weight and pull is not None:
        networks_and_loss |= {"target": pull.features, "loss": pull.add_to_loss(loss, config.feature_weight)}
    return partial(
        LatentObjective,
        **networks_and_loss,
        **options,
        clip=config.clip,
        discriminator_weight=config.discriminator_weight,
    )


def descend_batches(
    start: Tensor,
    objective: Callable[..., LatentObjective],
    config: OptimiseConfig,
    *,
    together: int,
    key: tuple[int | str, ...],
    protocol: Protocol,
    draw_crops: DrawCrops | None = None,
    within: Callable[[Tensor], Callable[[Tensor], Tensor]] | None = None,
    on_step: Callable[[int, int, Tensor], None] | None = None,
    mover: Mover = by_adam,
) -> list[Descent]:
    """`mover` from every row of `start` [K, ...], batch by batch, `together` of them side by side.

    Args:
        objective: Makes the `LatentObjective` of a group, given its views, neighbours, first row and scale.
        key: Key of all random draws.
        within: A group's start -> the projection after each of its steps.

    The other arguments are those of `optimise`.
    """
    parts, size, count = [], config.batch_size, len(start)
    for group in groups_of(batch_spans(count, size), together):
        views = group_views(group, size, config.crop_rule, count, key, protocol, draw_crops)
        near = group_neighbours(config.average, group, size, count, key, protocol)
        first, scale, w0 = group[0].start, row_scale(group, protocol), start[group[0].start : group[-1].stop]
        parts.append(
            walk(
                w0,
                objective(views=views, neighbours=near, first=first, scale=scale.to(start.device)),
                partial(mover, config=config, key=key, first=first),
                steps=config.steps,
                lr_at=config.lr_at,
                project=None if within is None else within(w0),
                on_step=None if on_step is None else partial(report_batches, on_step, group, size),
            )
        )
    return parts


def _check_given(
    config: OptimiseConfig, discriminator: Target | None, temperature: float | None, pull: FeaturePull | None
) -> None:
    if config.discriminator_weight and discriminator is None:
        raise InputError(f"discriminator_weight: {config.discriminator_weight} needs a discriminator")
    if (config.temperature is None) != (temperature is None):
        raise InputError(f"temperature: expected one where the settings ask for it alone, got {temperature}")
    if config.feature_weight and pull is None:
        raise InputError(f"feature_weight: {config.feature_weight} needs the target's mean feature")


def loss_of(
    config: OptimiseConfig, protocol: Protocol, temperature: float | None
) -> Callable[[Tensor, Tensor], Tensor]:
    """(logits [N, C], targets [N]) -> [N], of logits divided by the temperature, if there is one."""
    loss = partial(attack_loss(config.loss), protocol=protocol)
    return loss if temperature is None else lambda logits, labels: loss(logits / temperature, labels)


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
    selector: Target | None = None,
    discriminator: Target | None = None,
    temperature: float | None = None,
    pull: FeaturePull | None = None,
    stages: Stages = PPA_STAGES,
    seed: int,
    protocol: Protocol,
    device: torch.device | str,
    on_step: Callable[[int, int, Tensor], None] | None = None,
    keep: Mapping[str, Transform] | None = None,
    execution: Execution | ExecutionConfig = EXECUTION,
) -> ClassReconstruction:
    """The whole attack on one class.

    confidences [S, C] is what `score_pool` gives, w_pool [S, num_ws, w_dim] what `decode_pool` gives. The
    result depends on the seed and the class alone: not on which other classes are attacked, where or when.
    selector: the target that selects, None for the attacked one. Other arguments as in `optimise` and `select`; images
    reach the target by `preprocess_of`. For several classes give one `Execution`, so that networks are prepared once.
    Raises InputError.
    """
    run = as_execution(execution, device)
    transform = preprocess_of(config.pool)
    common = {"seed": seed, "protocol": protocol, "transform": transform, "device": device, "execution": run}
    starts = starts_of(stages, confidences, w_pool, target_class, config.candidates, seed=seed)
    optimised = stages.optimise(
        prior,
        target,
        starts[0],
        target_class,
        config.optimise,
        discriminator=discriminator,
        pull=pull,
        on_step=on_step,
        **common,
        **({} if temperature is None else {"temperature": temperature}),
    )
    judge, kept = target if selector is None else selector, {} if keep is None else {"keep": keep}
    best = stages.select(prior, judge, optimised.w, target_class, config.select, **common, **kept)
    return reconstructed(target_class, starts, optimised, best)


def starts_of(
    stages: Stages, confidences: Tensor, w_pool: Tensor, target_class: int, config: CandidateConfig, *, seed: int
) -> Starts:
    """Stage 1 of a class: latents w0 [K, 1 or num_ws, w_dim], their places in the pool and their confidences, [K]."""
    starts = stages.sample(confidences, w_pool, target_class, config, seed=seed)
    if config.restarts is None:
        return starts
    return around(starts, w_pool, config.restarts, seed=seed, target_class=target_class)


def gradient_batch(
    run: Execution, networks: dict[str, Any], w: Tensor, config: OptimiseConfig, *, most: int | None = None
) -> DeviceBatch:
    """How many rows of stage 2 are computed at once, measured on these `networks` of its objective by some of w.

    most: at most so many; None for those of a batch on a CPU, for all elsewhere.
    """
    synthesize, target, transform = networks["synthesize"], networks["target"], networks["transform"]

    def probe(rows: int) -> None:
        with torch.enable_grad():
            leaf = w[:rows].detach().clone().requires_grad_(True)
            logits = target_logits(target, transform(synthesize(leaf)), None)
            torch.autograd.grad(logits.sum(), leaf)

    if most is None:
        most = config.batch_size if run.device.type == "cpu" else len(w)
    return run.gradient_batch("optimisation", (synthesize, target), probe, most=min(most, len(w)))
