"""Which candidates share a mean, crops and neighbours, and which go through the networks together: two things.

A *batch* is a matter of the method: `batch_size` candidates of a class share, under protocol "paper", the crop of a
step and the mean of their losses. How many rows are computed at once is a matter of the device. A *group* is a list of
batches, of one class or of several, whose rows are optimised side by side, one batch after the other; Adam works on
every coordinate by itself, so they can share its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, Key, RowViews, apply_crops
from smoothsweep.core.attacks.optimisation.descent import Neighbours
from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.ppa.config import Averaging, CropRule, OptimiseConfig
from smoothsweep.core.checks import present
from smoothsweep.core.data.augmentation import rotated
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
