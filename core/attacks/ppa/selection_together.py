"""Stage 3 of Plug & Play for several classes in one batch (`core.attacks.ppa.side_by_side` says when)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Crops, joined_crops
from smoothsweep.core.attacks.optimisation.objective import target_logits
from smoothsweep.core.attacks.ppa.batching import views_of
from smoothsweep.core.attacks.ppa.config import SelectConfig
from smoothsweep.core.attacks.ppa.results import Selection
from smoothsweep.core.attacks.ppa.selection import (
    DECODE_ROWS,
    Grade,
    confidence,
    confidence_and_margin,
    decoded,
    ranked_by_confidence,
    ranked_by_margin,
    select,
    select_by_margin,
)
from smoothsweep.core.attacks.ppa.shared_inputs import SharedInputs
from smoothsweep.core.attacks.shared.execution import same_bits, sample_positions


def select_together(
    shared: SharedInputs, latents: Sequence[Tensor], classes: Sequence[int], config: SelectConfig
) -> list[Selection]:
    """Select latents as `select` does, from every class's latents [K, 1 or num_ws, w_dim]."""
    return _selected(shared, latents, classes, config, confidence, ranked_by_confidence, select)


def select_by_margin_together(
    shared: SharedInputs, latents: Sequence[Tensor], classes: Sequence[int], config: SelectConfig
) -> list[Selection]:
    """Select latents as `select_by_margin` does, from every class's latents [K, 1 or num_ws, w_dim]."""
    return _selected(shared, latents, classes, config, confidence_and_margin, ranked_by_margin, select_by_margin)


def _selected(
    shared: SharedInputs,
    latents: Sequence[Tensor],
    classes: Sequence[int],
    config: SelectConfig,
    grade: Grade,
    ranked: Callable[[Tensor, Tensor, SelectConfig], Selection],
    alone: Callable[..., Selection],
) -> list[Selection]:
    run, count = shared.run, len(latents[0])
    with torch.no_grad(), shared.frozen_networks(), run.arithmetic():
        judge = run.target(shared.view.logits)
        images = [decoded(run, shared.prior, w.to(run.device), shared.transform, {}, DECODE_ROWS)[0] for w in latents]
        views = _AllViews(shared, images, classes, config)
        what = ("selection", len(classes), count, config.selection_view_size, shared.protocol)
        if len(classes) > 1 and shared.check_once(what, (judge,), partial(_agree, views, judge)):
            return [ranked(w, g, config) for w, g in zip(latents, _graded(views, judge, grade), strict=True)]
    return [
        alone(shared.prior, shared.view.logits, w, target_class, config, **shared.single_class_arguments)
        for w, target_class in zip(latents, classes, strict=True)
    ]


class _AllViews:
    """The views of all classes' images. count: images of each class."""

    def __init__(
        self, shared: SharedInputs, images: Sequence[Tensor], classes: Sequence[int], config: SelectConfig
    ) -> None:
        self.images, self.classes, self.config, self.count = images, classes, config, len(images[0])
        keys = [(shared.seed, target_class, "select") for target_class in classes]
        rule = config.selection_crop_rule
        self.views = [views_of(rule, self.count, key, shared.protocol, None) for key in keys]
        self.whole = torch.cat([*images])

    def crops(self, repeat: int) -> list[Crops | None]:
        """The crops of one repeat for every class, the same as in `select`."""
        pairs = zip(self.views, self.images, strict=True)
        return [None if views is None else views.at(repeat, images) for views, images in pairs]

    def logits(self, judge: Callable[[Tensor], Tensor], crops: Sequence[Crops | None]) -> Tensor:
        """Logits of all images under their crops, [classes x count, C]."""
        there = [of_class.repeated(self.count) for of_class in crops if of_class is not None]
        size = self.config.selection_view_size
        return target_logits(judge, self.whole, joined_crops(there) if there else None, size=size).float()


def _agree(views: _AllViews, judge: Callable[[Tensor], Tensor]) -> bool:
    """Whether the first view of the first, the middle and the last class gets the same bits by itself."""
    crops, size = views.crops(0), views.config.selection_view_size
    whole = views.logits(judge, crops).split(views.count)
    return all(
        same_bits(target_logits(judge, views.images[n], crops[n], size=size).float(), whole[n])
        for n in sample_positions(len(crops))
    )


def _graded(views: _AllViews, judge: Callable[[Tensor], Tensor], grade: Grade) -> list[Tensor]:
    """The mean grade of every class's images over their views, on the CPU."""
    totals = [torch.zeros(()) for _ in views.classes]
    for repeat in range(views.config.selection_repeats):
        logits = views.logits(judge, views.crops(repeat)).split(views.count)
        pairs = zip(logits, views.classes, strict=True)
        totals = [total + grade(of_class, c) for total, (of_class, c) in zip(totals, pairs, strict=True)]
    return [(total / views.config.selection_repeats).cpu() for total in totals]
