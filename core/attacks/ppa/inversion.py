"""Plug & Play Attacks (Struppek et al., ICML 2022) in the form the paper uses (appendix B.4), on a list of classes.

Three stages, each a function that can be called alone: `sample_candidates` picks starting latents from a pool
that all targets share, `optimise` moves them until the target sees the class, `select` keeps those the target
recognises under strong augmentation. `invert_classes` calls the three in order. Scores are the target's own.

Protocol "paper" follows `LukasStruppek/Plug-and-Play-Attacks` (attacks/optimize.py,
attacks/final_selection.py): one random crop for the whole batch, Poincare loss with its rounding, gradients
of the batch mean. Protocol "clean" gives every image its own crop and every latent its own gradient, so that
a latent's path depends neither on its batch nor on the batch size (but for rounding). Under both, every draw
comes from (seed, class, stage, batch, step).

Classes share nothing: each has the numbers that it has by itself, and is computed beside others only where that
changes no bit (`core.attacks.shared.execution.descend_classes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Key
from smoothsweep.core.attacks.optimisation.descent import (
    Descent,
    LatentObjective,
    Target,
    Transform,
    joined_descents,
    target_logits,
    walk,
)
from smoothsweep.core.attacks.optimisation.losses import Protocol, attack_loss, feature_pull
from smoothsweep.core.attacks.ppa.batches import CandidateBatch, batches_of, group_terms, row_keys
from smoothsweep.core.attacks.ppa.config import MOST_ROWS, CandidateConfig, OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.pool import Starts, around, sample_candidates
from smoothsweep.core.attacks.ppa.selection import crop_of, select
from smoothsweep.core.attacks.shared.base import Reconstructions
from smoothsweep.core.attacks.shared.execution import Execution, descend_classes, frozen
from smoothsweep.core.checks import present
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.priors.base import Prior

Mover = Callable[..., torch.optim.Optimizer]
"""(leaf w [K, ...], config=, keys=) -> what moves it. keys: `core.attacks.ppa.batches.row_keys`."""

Way = Callable[..., Any]


def by_adam(w: Tensor, *, config: OptimiseConfig, keys: Sequence[tuple[Key, int]] = ()) -> torch.optim.Optimizer:
    """A fresh Adam, eps 1e-8, which draws nothing."""
    return torch.optim.Adam([w], lr=config.lr_at(0), betas=config.betas, weight_decay=config.weight_decay)


def optimise(
    prior: Prior,
    target: Target,
    starts: Sequence[Tensor],
    classes: Sequence[int],
    config: OptimiseConfig,
    *,
    discriminator: Target | None = None,
    temperature: float | None = None,
    features: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    mean_feature: Tensor | None = None,
    seed: int,
    protocol: Protocol,
    transform: Transform,
    run: Execution,
    mover: Mover = by_adam,
) -> list[Descent]:
    """Stage 2: minimise the attack loss of every class over its latents w0 [K, 1 or num_ws, w_dim], one of `starts`.

    Each step: synthesise, clip if configured, `transform`, random crop, target, a step of `mover`. Latents are not
    projected; the last iterate is returned. Networks must be on the execution's device, and are used in eval mode. The
    target, which may be a function, gets channels-last memory, so it must flatten with `flatten` or `reshape`.

    How many images are computed at once, several batches of config.batch_size or parts of one, changes results by
    rounding only. A discriminator's batch is computed as a whole.

    Args:
        discriminator: Full-size unclipped images -> logits, where the configuration weighs it.
        temperature: What logits are divided by before the loss, where the configuration asks for it.
        features: Images -> the target's penultimate features [N, D] and logits, both differentiable; they are pulled to
            `mean_feature` [D] where the configuration weighs that.

    Returns the descents on the CPU: the image cosine is that of neighbouring steps' loss gradients at the image the
    target is shown before random augmentation (paper eq. 4, Fig. 6b). Raises InputError when not even one image fits
    into memory.
    """
    w0, count = dict(zip(classes, (start.to(run.device) for start in starts), strict=True)), len(starts[0])
    whole = bool(config.discriminator_weight)  # the discriminator compares the images of a batch
    with frozen(prior, target, discriminator), run.arithmetic():
        networks = {
            "synthesize": run.synthesizer(prior, None if whole else crop_of(transform)),
            "target": run.target(target),
            "transform": transform,
        }
        asked = {"target": present(features, "features")} if config.feature_weight else {}

        def search(classes: Sequence[int], steps: int) -> Descent:
            start = torch.cat([w0[target_class] for target_class in classes])
            batches = [
                batch
                for target_class in classes
                for batch in batches_of(target_class, (seed, target_class, "optimise"), count, config.batch_size)
            ]
            rows, together = None, 1
            if not whole:
                several = len(classes) > 1
                rows = gradient_batch(run, networks, start, config, several=several)
                together = len(batches) if several else max(1, rows.rows // config.batch_size)
            objective = partial(
                LatentObjective,
                **{**networks, **asked},
                loss=_loss(config, protocol, temperature, mean_feature),
                batch=rows,
                clip=config.clip,
                discriminator=present(discriminator, "discriminator") if whole else None,
                discriminator_weight=config.discriminator_weight,
            )
            return descend_batches(
                start, batches, objective, config, together=together, protocol=protocol, steps=steps, mover=mover
            )

        descents = descend_classes(
            search,
            classes,
            rows=count,
            steps=config.steps,
            run=run,
            networks=(networks["synthesize"], networks["target"]),
            what=(config.loss, protocol),
        )
    return [descent.to("cpu") for descent in descents]


def leave_as_sampled(
    prior: Prior, target: Target, starts: Sequence[Tensor], classes: Sequence[int], config: OptimiseConfig, **_: Any
) -> list[Descent]:
    """Stage 2 left out: the latents as they were sampled. There is one loss, not a number, and no gradient."""
    descents = []
    for start in starts:
        w, none = start.detach().cpu(), torch.full((1, len(start)), torch.nan)
        still = torch.zeros(len(w), dtype=torch.bool)
        descents.append(
            Descent(w=w, last_evaluated=w, loss=none, image_cosine=none[:0], latent_cosine=none[:0], frozen=still)
        )
    return descents


def _loss(
    config: OptimiseConfig, protocol: Protocol, temperature: float | None, mean_feature: Tensor | None
) -> Callable[[Any, Tensor], Tensor]:
    """(the target's answer, targets [N]) -> [N], of logits divided by the temperature, if there is one.

    The answer is logits [N, C]; or features and logits where the configuration weighs features.
    """
    loss = attack_loss(config.loss, protocol)

    def of_logits(logits: Tensor, labels: Tensor) -> Tensor:
        return loss(logits if temperature is None else logits / temperature, labels)

    def with_features(answer: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        pull = feature_pull(answer[0], present(mean_feature, "the target's mean feature"))
        return of_logits(answer[1], labels) + (config.feature_weight or 0.0) * pull

    return with_features if config.feature_weight else of_logits


def descend_batches(
    start: Tensor,
    batches: Sequence[CandidateBatch],
    objective: Callable[..., LatentObjective],
    config: OptimiseConfig,
    *,
    together: int,
    protocol: Protocol,
    steps: int,
    within: Callable[[Tensor], Callable[[Tensor], Tensor]] | None = None,
    mover: Mover = by_adam,
) -> Descent:
    """`mover` from every row of `start` [rows of all batches, ...], `together` batches side by side.

    Args:
        objective: Makes the `LatentObjective` of a group, given its `group_terms`.
        within: A group's start -> the projection after each of its steps.
    """
    parts, first = [], 0
    for number in range(0, len(batches), together):
        group = batches[number : number + together]
        last = first + sum(map(len, group))
        w0, first = start[first:last], last
        parts.append(
            walk(
                w0,
                objective(**group_terms(group, config, protocol, start.device)),
                partial(mover, config=config, keys=row_keys(group)),
                steps=steps,
                lr_at=config.lr_at,
                project=None if within is None else within(w0),
            )
        )
    return joined_descents(parts)


def gradient_batch(
    run: Execution, networks: Mapping[str, Any], w: Tensor, config: OptimiseConfig, *, several: bool = False
) -> DeviceBatch:
    """How many rows of stage 2 are computed at once, measured on these `networks` of its objective by some of w.

    At most those of a batch on a CPU, all elsewhere; `MOST_ROWS` of several classes.

    networks: synthesize, target, transform.
    """
    synthesize, target, transform = networks["synthesize"], networks["target"], networks["transform"]

    def probe(rows: int) -> None:
        with torch.enable_grad():
            leaf = w[torch.arange(rows) % len(w)].detach().requires_grad_(True)
            logits = target_logits(target, transform(synthesize(leaf)), None)
            torch.autograd.grad(logits.sum(), leaf)

    on_cpu = config.batch_size if run.device.type == "cpu" else len(w)
    most = MOST_ROWS if several else min(on_cpu, len(w))
    return run.gradient_batch("optimisation", (synthesize, target), probe, most=most)


def invert_classes(
    prior: Prior,
    target: Target,
    confidences: Tensor,
    w_pool: Tensor,
    classes: Sequence[int],
    *,
    candidates: CandidateConfig,
    descent: OptimiseConfig,
    selection: SelectConfig,
    transform: Transform,
    seed: int,
    protocol: Protocol,
    run: Execution,
    sample: Way = sample_candidates,
    move: Way = optimise,
    keep: Way = select,
    selector: Target | None = None,
    **moving: Any,
) -> list[Reconstructions]:
    """The whole attack on every class.

    confidences [S, C] is what `make_candidates` gives, w_pool [S, num_ws, w_dim] what `decode_pool` gives. The result
    of a class depends on the seed and the class alone: not on which other classes are attacked, where or when.

    Args:
        transform: The way of the prior's images to the target's input.
        sample, move, keep: The three stages; replace one to study it alone.
        selector: The target that selects, None for the attacked one.
        moving: What `optimise` takes besides.

    For several calls give one execution, so that networks are prepared once. Raises InputError.
    """
    common = {"seed": seed, "protocol": protocol, "transform": transform, "run": run}
    starts: list[Starts] = []
    for target_class in classes:
        found = sample(confidences, w_pool, target_class, candidates, seed=seed)
        if candidates.restarts is not None:
            found = around(found, w_pool, candidates.restarts, seed=seed, target_class=target_class)
        starts.append(found)
    moved = move(prior, target, [w0 for w0, _, _ in starts], classes, descent, **common, **moving)
    best = keep(prior, target if selector is None else selector, [one.w for one in moved], classes, selection, **common)
    return [
        Reconstructions(
            w=kept.w,
            scores=kept.scores,
            rows={"pool_index": index[kept.order], **kept.rows},
            curves={"loss": path.curve},
            facts=path.facts,
        )
        for (_, index, _), path, kept in zip(starts, moved, best, strict=True)
    ]
