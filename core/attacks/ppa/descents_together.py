"""Stage 2 of Plug & Play for several classes side by side; core/attacks/ppa/side_by_side.py says when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Crops, RowViews, joined_crops
from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, walk
from smoothsweep.core.attacks.optimisation.objective import LatentObjective
from smoothsweep.core.attacks.ppa.batching import batch_spans, group_views, row_scale
from smoothsweep.core.attacks.ppa.config import OptimiseConfig
from smoothsweep.core.attacks.ppa.inversion import by_adam, gradient_batch, loss_of, optimise
from smoothsweep.core.attacks.ppa.results import OptimiseResult, joined
from smoothsweep.core.attacks.ppa.selection import crop_of
from smoothsweep.core.attacks.ppa.shared_inputs import SharedInputs
from smoothsweep.core.attacks.ppa.stage_kinds import ROWS
from smoothsweep.core.attacks.shared.execution import descent_rows, same_tensors, sample_positions
from smoothsweep.core.devices import DeviceBatch


def optimise_together(
    shared: SharedInputs,
    starts: Sequence[Tensor],
    classes: Sequence[int],
    config: OptimiseConfig,
    *,
    temperature: float | None,
) -> list[OptimiseResult]:
    """Stage 2 by Adam: every class from its own starts [K, 1 or num_ws, w_dim], as `optimise` moves them."""
    descent = _Descents(shared, config, temperature, starts[0])
    results: list[OptimiseResult] = []
    for first in range(0, len(classes), descent.together):
        span = slice(first, first + descent.together)
        results += descent.of(starts[span], classes[span])
    return results


class _Descents:
    """Stage 2 of classes with as many starts each. together: classes whose rows suit the device."""

    def __init__(
        self, shared: SharedInputs, config: OptimiseConfig, temperature: float | None, example: Tensor
    ) -> None:
        self.asked, self.config, self.temperature, self.count = shared, config, temperature, len(example)
        run = shared.run
        with shared.frozen_networks(), run.arithmetic():
            self.networks: dict[str, Any] = {
                "synthesize": run.synthesizer(shared.prior, crop_of(shared.transform)),
                "target": run.target(shared.view.logits),
                "transform": shared.transform,
            }
            self.rows = self._rows(example.expand(-(-ROWS // self.count), *example.shape).flatten(0, 1))
        self.together = max(1, self.rows.rows // self.count)

    def of(self, starts: Sequence[Tensor], classes: Sequence[int]) -> list[OptimiseResult]:
        """The classes at once, or one after the other where their bits would not be the same."""
        shared, networks = self.asked, (self.networks["synthesize"], self.networks["target"])
        what = ("descents", len(classes), self.count, self.config.loss, shared.protocol)
        with shared.frozen_networks(), shared.run.arithmetic():
            if len(classes) > 1 and shared.check_once(
                what, networks, partial(self._agree, torch.cat([*starts]), classes)
            ):
                return self._split(self._walk(torch.cat([*starts]), self._joint(classes), self.config.steps))
        return [
            optimise(
                shared.prior,
                shared.view.logits,
                w0,
                target_class,
                self.config,
                **shared.single_class_arguments,
                temperature=self.temperature,
            )
            for w0, target_class in zip(starts, classes, strict=True)
        ]

    def _rows(self, w: Tensor) -> DeviceBatch:
        return gradient_batch(self.asked.run, self.networks, w, self.config, most=ROWS)

    def _objective(self, **others: Any) -> LatentObjective:
        loss = loss_of(self.config, self.asked.protocol, self.temperature)
        return LatentObjective(**self.networks, clip=self.config.clip, loss=loss, **others)

    def _views(self, spans: list[slice], target_class: int) -> RowViews | None:
        config, key = self.config, (self.asked.seed, target_class, "optimise")
        return group_views(spans, config.batch_size, config.crop_rule, self.count, key, self.asked.protocol, None)

    def _joint(self, classes: Sequence[int]) -> LatentObjective:
        """Objective of all rows of all classes, one class after the other."""
        spans = batch_spans(self.count, self.config.batch_size)
        views = [of_class for c in classes if (of_class := self._views(spans, c)) is not None]
        return self._objective(
            target_class=torch.tensor(classes).repeat_interleave(self.count),
            views=_CropsOfClasses(views, self.count) if views else None,
            first=0,
            scale=row_scale(spans, self.asked.protocol).repeat(len(classes)),
            batch=self.rows,
        )

    def _single_objective(self, target_class: int, span: slice, w: Tensor) -> LatentObjective:
        """Objective of one batch of a class, as `optimise` computes it."""
        return self._objective(
            target_class=target_class,
            views=self._views([span], target_class),
            first=span.start,
            scale=row_scale([span], self.asked.protocol),
            batch=gradient_batch(self.asked.run, self.networks, w, self.config),
        )

    def _agree(self, w: Tensor, classes: Sequence[int]) -> bool:
        """Whether the first step of the first, the middle and the last class has the same bits by itself."""
        whole = self._joint(classes)(w, 0)
        moved = self._walk(w, lambda *_: whole, 2)  # without a network: Adam, norms, cosines
        for number in sample_positions(len(classes)):
            first = number * self.count
            for span in batch_spans(self.count, self.config.batch_size):
                rows = slice(first + span.start, first + span.stop)
                alone = self._single_objective(classes[number], span, w[first : first + self.count])(w[rows], 0)
                if not same_tensors(alone, _rows_of_step(whole, rows)):
                    return False
                if not same_tensors(self._walk(w[rows], lambda *_, loss=alone: loss, 2), descent_rows(moved, rows)):
                    return False
        return True

    def _walk(self, w: Tensor, gradient_at: Callable[[Tensor, int], StepGradient], steps: int) -> Descent:
        mover = partial(by_adam, config=self.config, key=(), first=0)
        return walk(w, gradient_at, mover, steps=steps, lr_at=self.config.lr_at)

    def _split(self, descent: Descent) -> list[OptimiseResult]:
        starts = range(0, len(descent.w), self.count)
        return [joined([descent_rows(descent, slice(start, start + self.count))]) for start in starts]


class _CropsOfClasses(RowViews):
    """The crops of classes whose rows lie one class after the other, `count` of each."""

    def __init__(self, classes: Sequence[RowViews], count: int) -> None:
        self.classes, self.count = classes, count
        self._joined: tuple[int, Crops] | None = None

    def at(self, step: int, images: Tensor, rows: slice) -> Crops:
        """Crops of the rows of all classes, drawn once per step."""
        if self._joined is None or self._joined[0] != step:
            own_rows = slice(0, self.count)
            drawn = [views.at(step, images, own_rows).repeated(self.count) for views in self.classes]
            self._joined = step, joined_crops(drawn)
        return self._joined[1].of(rows)


def _rows_of_step(step: StepGradient, rows: slice) -> StepGradient:
    return StepGradient(loss=step.loss[rows], latent=step.latent[rows], image=step.image[rows])
