"""Stage 3 of Plug & Play Attacks: which of the optimised latents the target recognises under strong augmentation.

`LukasStruppek/Plug-and-Play-Attacks` attacks/final_selection.py ranks by the mean softmax, which `select` does. It ties
at 1.0 wherever a target is sure of everything; `select_by_margin` ranks the same views by the mean margin of logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Crops, DrawCrops, Preprocess
from smoothsweep.core.attacks.optimisation.losses import Protocol, check_protocol, max_margin_loss
from smoothsweep.core.attacks.optimisation.objective import Target, Transform, target_logits
from smoothsweep.core.attacks.ppa.batching import views_of
from smoothsweep.core.attacks.ppa.config import SelectConfig
from smoothsweep.core.attacks.ppa.pool import EXECUTION, best_first
from smoothsweep.core.attacks.ppa.results import Selection
from smoothsweep.core.attacks.shared.execution import Execution, as_execution, frozen
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Prior

DECODE_ROWS, CLASSIFY_ROWS = 25, 250  # candidates at once at most; rounding apart they change nothing

Grade = Callable[[Tensor, int], Tensor]
"""(logits [N, C], class) -> what is averaged over the views, [N] or [N, G]."""

_USUAL: Mapping[str, Any] = {"draw_crops": None, "keep": {}, "execution": EXECUTION}


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
    keep: Mapping[str, Transform] | None = None,
    execution: Execution | ExecutionConfig = EXECUTION,
) -> Selection:
    """Stage 3: of the latents w [K, 1 or num_ws, w_dim], keep those the target recognises most robustly.

    Score: mean softmax of `target_class` over config.selection_repeats random crops and mirrors of the (unclipped)
    image, resized back to the target's input. Under "paper" each draw is shared by all candidates of the
    class, so the comparison is fair; under "clean" every image has its own. Each image is synthesised once, for
    the judges as well: keep names what else to make of it, e.g. {"evaluator": Preprocess(crop=800, size=299)}, and
    `Selection.images` returns that for all K latents. A score that is not a number ranks last. Results are on the
    CPU. Raises InputError for wrong settings, for fewer than `selected` latents, or when not even one image fits
    into the device's memory.
    """
    scores, images = _mean_grades(
        prior,
        target,
        w,
        target_class,
        config,
        confidence,
        seed=seed,
        protocol=protocol,
        transform=transform,
        device=device,
        draw_crops=draw_crops,
        keep=keep or {},
        execution=execution,
    )
    return ranked_by_confidence(w, scores, config, images)


def select_by_margin(
    prior: Prior, target: Target, w: Tensor, target_class: int, config: SelectConfig, **others: Any
) -> Selection:
    """As `select`, in the order of the mean margin: the logit of `target_class` less the largest other.

    The scores are mean softmaxes as there, of the same views; the margins of what is kept are its row "margin".
    """
    grades, images = _mean_grades(prior, target, w, target_class, config, confidence_and_margin, **{**_USUAL, **others})
    return ranked_by_margin(w, grades, config, images)


def ranked_by_confidence(
    w: Tensor, grades: Tensor, config: SelectConfig, images: Mapping[str, Tensor] | None = None
) -> Selection:
    """The best of w [K, ...] by their mean softmaxes [K]."""
    order = best_first(grades)[: config.selected]
    known_images = images or {}
    return Selection(
        w=w.detach().cpu()[order], scores=grades[order], order=order, all_scores=grades, images=known_images
    )


def ranked_by_margin(
    w: Tensor, grades: Tensor, config: SelectConfig, images: Mapping[str, Tensor] | None = None
) -> Selection:
    """The best of w [K, ...] by the second of their mean grades [K, 2], softmax and margin."""
    scores, margins = grades.unbind(1)
    order = best_first(margins)[: config.selected]
    return Selection(
        w=w.detach().cpu()[order],
        scores=scores[order],
        order=order,
        all_scores=scores,
        images=images or {},
        rows={"margin": margins[order]},
    )


def _mean_grades(
    prior: Prior,
    target: Target,
    w: Tensor,
    target_class: int,
    config: SelectConfig,
    grade: Grade,
    *,
    seed: int,
    protocol: Protocol,
    transform: Transform,
    device: torch.device | str,
    draw_crops: DrawCrops | None,
    keep: Mapping[str, Transform],
    execution: Execution | ExecutionConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean grade of every latent over its views, [K] or [K, G] on the CPU, and what was kept of the synthesis."""
    check_protocol(protocol)
    if len(w) < config.selected:
        raise InputError(f"selected: expected at most the {len(w)} candidates, got {config.selected}")
    run = as_execution(execution, device)
    with torch.no_grad(), frozen(prior, target), run.arithmetic():
        images, judge_images = decoded(run, prior, w.to(device), transform, keep, DECODE_ROWS)
        grades = graded_views(
            run, target, images, target_class, config, grade, seed=seed, protocol=protocol, draw_crops=draw_crops
        )
    return grades, judge_images


def graded_views(
    run: Execution,
    target: Target,
    images: Tensor,
    target_class: int,
    config: SelectConfig,
    grade: Grade,
    *,
    seed: int,
    protocol: Protocol,
    draw_crops: DrawCrops | None = None,
) -> Tensor:
    """The mean grade of images [K, 3, S, S], as a target is shown them, over their views: [K] or [K, G] on the CPU.

    The views follow from the seed, the class and, under "clean", the row; to be called without gradients.
    """
    views = views_of(config.selection_crop_rule, len(images), (seed, target_class, "select"), protocol, draw_crops)
    judge, total = run.target(target), torch.zeros(())
    batch = run.forward_batch("classification", judge, most=CLASSIFY_ROWS)
    for repeat in range(config.selection_repeats):
        crops = None if views is None else views.at(repeat, images).to(images.device)
        score = partial(_graded, grade, judge, images, crops, config.selection_view_size, target_class)
        total = total + torch.cat(batch.run(score, len(images)))
    return (total / config.selection_repeats).cpu()


def decoded(
    run: Execution,
    prior: Prior,
    w: Tensor,
    transform: Transform,
    keep: Mapping[str, Transform],
    batch_size: int,
) -> tuple[Tensor, dict[str, Tensor]]:
    """What the target is shown of w (on the device) and what is kept for judges (on the CPU), from one synthesis."""
    crops = {crop_of(way) for way in (transform, *keep.values())}
    synthesize = run.synthesizer(prior, crops.pop() if len(crops) == 1 else None)

    def decode(rows: slice) -> tuple[Tensor, dict[str, Tensor]]:
        images = synthesize(w[rows])
        return transform(images), {name: way(images).cpu() for name, way in keep.items()}

    parts = run.forward_batch("synthesis", synthesize, most=batch_size).run(decode, len(w))
    return torch.cat([part[0] for part in parts]), {n: torch.cat([part[1][n] for part in parts]) for n in keep}


def _graded(
    grade: Grade, target: Target, images: Tensor, crops: Crops | None, size: int | None, target_class: int, rows: slice
) -> Tensor:
    drawn_crops = None if crops is None else crops.of(rows)
    return grade(target_logits(target, images[rows], drawn_crops, size=size).float(), target_class)


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
