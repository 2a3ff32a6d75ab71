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

A *batch* is a matter of the method: `batch_size` candidates of a class share, under protocol "paper", the crop of a
step and the mean of their losses. How many rows are computed at once is a matter of the device. A *group* is a list of
batches, of one class or of several, whose rows are optimised side by side, one batch after the other; Adam works on
every coordinate by itself, so they can share its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, Key, RowViews, apply_crops
from smoothsweep.core.attacks.optimisation.descent import (
    Descent,
    LatentObjective,
    Neighbours,
    Protocol,
    Target,
    Transform,
    attack_loss,
    feature_pull,
    joined_descents,
    target_logits,
    walk,
)
from smoothsweep.core.attacks.ppa.config import (
    MOST_ROWS,
    Averaging,
    CandidateConfig,
    CropRule,
    OptimiseConfig,
    SelectConfig,
)
from smoothsweep.core.attacks.ppa.pool import Starts, around, sample_candidates
from smoothsweep.core.attacks.ppa.selection import crop_of, select
from smoothsweep.core.attacks.shared.base import Reconstructions
from smoothsweep.core.attacks.shared.execution import Execution, descend_classes, frozen
from smoothsweep.core.checks import present
from smoothsweep.core.data.augmentation import rotated
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.seeds import generator


@dataclass(frozen=True, kw_only=True)
class CandidateBatch:
    """A batch of the candidates of a class.

    Attributes:
        label: The class.
        key: Key of all random draws of the class's candidates.
        number: Which of the class's batches it is.
        rows: Which of the candidates it has.
        count: How many candidates the class has in all.
    """

    label: int
    key: Key
    number: int
    rows: slice
    count: int

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start


def batches_of(label: int, key: Key, count: int, batch_size: int) -> list[CandidateBatch]:
    """The batches of a class's `count` candidates; the last may be short."""
    spans = [slice(first, min(first + batch_size, count)) for first in range(0, count, batch_size)]
    return [CandidateBatch(label=label, key=key, number=n, rows=rows, count=count) for n, rows in enumerate(spans)]


def row_keys(group: Sequence[CandidateBatch]) -> list[tuple[Key, int]]:
    """Of every row of the group: the key of its class, and which of the class's candidates it is."""
    return [(batch.key, row) for batch in group for row in range(batch.rows.start, batch.rows.stop)]


def group_terms(
    group: Sequence[CandidateBatch], config: OptimiseConfig, protocol: Protocol, device: torch.device
) -> dict[str, Any]:
    """What a `LatentObjective` wants of a group: `labels`, `scale`, `views` and `neighbours`."""
    sizes = torch.tensor([len(batch) for batch in group])
    scale = 1 / sizes if protocol == "paper" else torch.ones(len(sizes))  # under paper that of the batch's mean
    return {
        "labels": torch.tensor([batch.label for batch in group]).repeat_interleave(sizes).to(device),
        "scale": scale.repeat_interleave(sizes).to(device),
        "views": row_views(group, config.crop_rule, protocol),
        "neighbours": row_neighbours(config.average, group, protocol),
    }


def row_views(group: Sequence[CandidateBatch], rule: CropRule, protocol: Protocol, what: Key = ()) -> RowViews | None:
    """The crops of a group's rows, None if there are none.

    Under "paper" every batch has its own, named by its number; else they are drawn for all candidates of a class.
    what: tells these crops from others of the same candidates.
    """
    if rule.is_identity:
        return None
    shared = protocol == "paper"
    parts = [((*b.key, *what, b.number) if shared else (*b.key, *what), b.count, b.rows) for b in group]
    return RowViews(rule, DRAW_CROPS[protocol], parts)


def row_neighbours(
    averaging: Averaging | None, group: Sequence[CandidateBatch], protocol: Protocol
) -> Neighbours | None:
    """The neighbours of the images of a group's rows, over which a step's gradient is averaged; None for none.

    AlanPeng0897/AlignMI, high_resolution/attacks/optimize.py: transformation-augmented and perturbation-averaged
    alignment. They lie around what the target would be shown, behind the step's own crop. Protocol `paper` draws one
    transform for a batch, as there; under `clean` every image has its own, and neighbours come in pairs, the second
    with the other mirror (where its chance is a half) or the opposite noise: the same distribution, with less left to
    chance. The noise is measured by each image's own range under both; there by that of the batch, so that its size
    depends on the neighbours. What a row gets does not depend on what is computed together.
    """
    if averaging is None:
        return None
    if averaging.kind == "noise":
        return Noise(views=averaging.views, scale=averaging.noise, keys=row_keys(group), paired=protocol == "clean")
    rule = averaging.crop_rule
    return Transforms(
        views=averaging.views,
        crops=[row_views(group, rule, protocol, what=("neighbour", view)) for view in range(averaging.views)],
        degrees=averaging.degrees,
        group=group,
        shared=protocol == "paper",
        paired=protocol == "clean" and rule.hflip == 0.5,
    )


@dataclass(frozen=True, kw_only=True)
class Transforms:
    """A crop, a mirror, a turn.

    Attributes:
        crops: Crops of every view, None where they change nothing.
        degrees: The largest turn, in degrees.
        shared: Whether the candidates of a batch turn alike.
        paired: Whether every second view has the other mirror.
    """

    views: int
    crops: Sequence[RowViews | None]
    degrees: float
    group: Sequence[CandidateBatch]
    shared: bool
    paired: bool

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        if (drawn := self.crops[view]) is not None:
            crops = drawn.at(step, images, rows)
            if self.paired and view % 2:
                crops = replace(crops, mirror=~present(self.crops[view - 1], "crops").at(step, images, rows).mirror)
            images = apply_crops(images, crops, images.shape[-1])
        if not self.degrees:
            return images
        share = torch.cat([self._turns(batch, view, step) for batch in self.group])[rows]
        return rotated(images, (2 * share - 1) * self.degrees)

    def _turns(self, batch: CandidateBatch, view: int, step: int) -> Tensor:
        """How far each row of a batch turns, float32 in [0, 1)."""
        if self.shared:
            source = generator(*batch.key, "turn", batch.number, view, step)
            return torch.rand(1, generator=source).expand(len(batch))
        return torch.rand(batch.count, generator=generator(*batch.key, "turn", view, step))[batch.rows]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Gaussian noise of `scale` times the range of an image; paired: whether every second one is the one before,
    turned round. keys: `row_keys` of the group.
    """

    views: int
    scale: float
    keys: Sequence[tuple[Key, int]]
    paired: bool

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        source = view - view % 2 if self.paired else view
        noise = torch.stack(
            [
                torch.randn(images.shape[1:], generator=generator(*key, "noise", source, step, row))
                for key, row in self.keys[rows]
            ]
        ).to(images)
        flat = images.detach().flatten(1)
        size = self.scale * (flat.amax(1) - flat.amin(1))[:, None, None, None]
        return images - size * noise if source != view else images + size * noise


Mover = Callable[..., torch.optim.Optimizer]
"""(leaf w [K, ...], config=, keys=) -> what moves it. keys: `row_keys`."""

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
        descents.append(Descent(w=w, last_evaluated=w, loss=none, image_cosine=none[:0], frozen=still))
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
