"""Stage 3 of Plug & Play Attacks: which of the optimised latents the target recognises under strong augmentation.

`LukasStruppek/Plug-and-Play-Attacks` attacks/final_selection.py ranks by the mean softmax, which `select` does. It ties
at 1.0 wherever a target is sure of everything; `select_by_margin` ranks the same views by the mean margin of logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, Preprocess, joined_crops
from smoothsweep.core.attacks.optimisation.descent import Protocol, Target, Transform, max_margin_loss, target_logits
from smoothsweep.core.attacks.ppa.config import SelectConfig
from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.attacks.shared.execution import (
    Execution,
    frozen,
    same_bits,
    sample_positions,
)
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.seeds import generator

DECODE_ROWS, CLASSIFY_ROWS = 25, 250  # candidates at once at most; rounding apart they change nothing

Grade = Callable[[Tensor, int], Tensor]
"""(logits [N, C], class) -> what is averaged over the views, [N] or [N, G]."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What stage 3 kept of a class, best first, on the CPU.

    Attributes:
        w: [k, 1 or num_ws, w_dim].
        scores: [k], mean target softmax.
        order: int64 [k] into the candidates.
        all_scores: [K], the scores of all candidates in the order they came.
        rows: Name -> [k], what else is known of each.
    """

    w: Tensor
    scores: Tensor
    order: Tensor
    all_scores: Tensor
    rows: Mapping[str, Tensor] = field(default_factory=dict)


def select(
    prior: Prior,
    target: Target,
    latents: Sequence[Tensor],
    classes: Sequence[int],
    config: SelectConfig,
    *,
    seed: int,
    protocol: Protocol,
    transform: Transform,
    run: Execution,
    by_margin: bool = False,
) -> list[Selection]:
    """Stage 3: of every class's latents [K, 1 or num_ws, w_dim], keep those the target recognises most robustly.

    Score: mean softmax of the class over config.selection_repeats random crops and mirrors of the (unclipped)
    image, resized back to the target's input. Under "paper" each draw is shared by all candidates of the
    class, so the comparison is fair; under "clean" every image has its own. Each image is synthesised once. A score
    that is not a number ranks last. Raises InputError when not even one image fits into the device's memory.

    by_margin: rank by the mean margin, the logit of the class less the largest other, which is then a row "margin".
    """
    grade = confidence_and_margin if by_margin else confidence
    with torch.no_grad(), frozen(prior, target), run.arithmetic():
        synthesize = run.synthesizer(prior, crop_of(transform))
        batch = run.forward_batch("synthesis", synthesize, most=DECODE_ROWS)
        images = []
        for latent in latents:
            w = latent.to(run.device)
            images.append(torch.cat(batch.run(lambda rows, w=w: transform(synthesize(w[rows])), len(w))))
        graded = graded_views(run, target, images, classes, config, grade, seed=seed, protocol=protocol)
    if by_margin:
        return [ranked(w, *grades.unbind(1), config, "margin") for w, grades in zip(latents, graded, strict=True)]
    return [ranked(w, scores, scores, config) for w, scores in zip(latents, graded, strict=True)]


select_by_margin = partial(select, by_margin=True)


def select_by_confidence(
    prior: Prior,
    target: Target,
    latents: Sequence[Tensor],
    classes: Sequence[int],
    config: SelectConfig,
    *,
    transform: Transform,
    run: Execution,
    **_: Any,
) -> list[Selection]:
    """Stage 3 without augmentation: the softmax of the class on the image itself, looked at once."""
    with torch.no_grad(), frozen(prior, target), run.arithmetic():
        synthesize, judge = run.synthesizer(prior, None), run.target(target)
        batch = run.forward_batch("selection", synthesize, most=DECODE_ROWS)
        found = []
        for latent, target_class in zip(latents, classes, strict=True):
            w = latent.to(run.device)

            def score(rows: slice, w: Tensor = w, target_class: int = target_class) -> Tensor:
                return confidence(target_logits(judge, transform(synthesize(w[rows])), None).float(), target_class)

            scores = torch.cat(batch.run(score, len(w))).cpu()
            found.append(ranked(latent, scores, scores, config))
    return found


def ranked(w: Tensor, scores: Tensor, ranking: Tensor, config: SelectConfig, row: str | None = None) -> Selection:
    """The best of w [K, ...] by `ranking` [K], which is kept as a row where that has a name."""
    order = best_first(ranking)[: config.selected]
    return Selection(
        w=w.detach().cpu()[order],
        scores=scores[order],
        order=order,
        all_scores=scores,
        rows={row: ranking[order]} if row else {},
    )


def graded_views(
    run: Execution,
    target: Target,
    images: Sequence[Tensor],
    classes: Sequence[int],
    config: SelectConfig,
    grade: Grade,
    *,
    seed: int,
    protocol: Protocol,
) -> list[Tensor]:
    """The mean grade of every class's images [K, 3, S, S], as a target is shown them, over their views.

    [K] or [K, G] on the CPU. The views follow from the seed, the class and, under "clean", the row. Several classes go
    through the target at once where that changes no bit of any. To be called without gradients.
    """
    count, size, rule = len(images[0]), config.selection_view_size, config.selection_crop_rule
    judge = run.target(target)
    batch = run.forward_batch("classification", judge, most=CLASSIFY_ROWS)

    def answers(places: Sequence[int], shown: Tensor, repeat: int) -> Sequence[Tensor]:
        """The target's logits of one view of these classes' images, [K, C] each."""
        crops = None
        if not rule.is_identity:
            sources = [generator(seed, classes[place], "select", repeat) for place in places]
            drawn = [DRAW_CROPS[protocol](rule, count, *shown.shape[2:], source) for source in sources]
            crops = joined_crops([(one, count) for one in drawn]).to(shown.device)

        def logits(rows: slice) -> Tensor:
            return target_logits(judge, shown[rows], None if crops is None else crops.of(rows), size=size).float()

        return torch.cat(batch.run(logits, len(shown))).split(count)

    every = list(range(len(classes)))
    whole = images[0] if len(images) == 1 else torch.cat([*images])

    def agree() -> bool:
        """Whether the first view of the first, the middle and the last class gets the same bits by itself."""
        beside = answers(every, whole, 0)
        return all(same_bits(answers([n], images[n], 0)[0], beside[n]) for n in sample_positions(len(classes)))

    what = ("selection", len(classes), count, size, protocol)
    together = len(classes) > 1 and run.batches_freely and run.once(what, (judge,), agree)
    groups = [(every, whole)] if together else [([place], images[place]) for place in every]
    totals = [torch.zeros(()) for _ in classes]
    for repeat in range(config.selection_repeats):
        seen = [logits for places, shown in groups for logits in answers(places, shown, repeat)]
        grades = [grade(logits, target_class) for logits, target_class in zip(seen, classes, strict=True)]
        totals = [total + one for total, one in zip(totals, grades, strict=True)]
    return [(total / config.selection_repeats).cpu() for total in totals]


def confidence(logits: Tensor, target_class: int) -> Tensor:
    """A `Grade`: softmax of the class, [N] of logits [N, C]."""
    return logits.softmax(1)[:, target_class]


def confidence_and_margin(logits: Tensor, target_class: int) -> Tensor:
    """A `Grade`: softmax of the class, and its logit less the largest other, [N, 2] of logits [N, C]."""
    labels = torch.full((len(logits),), target_class, device=logits.device)
    return torch.stack([confidence(logits, target_class), -max_margin_loss(logits, labels)], 1)


def crop_of(transform: Transform) -> int | None:
    """The centre crop that is all `transform` looks at, if that is known."""
    return transform.crop if isinstance(transform, Preprocess) else None
