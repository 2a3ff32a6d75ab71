"""The neighbours of an image over which a step's gradient is averaged, as `core.attacks.ppa.adaptive_config` says them.

AlanPeng0897/AlignMI, high_resolution/attacks/optimize.py: transformation-augmented and perturbation-averaged alignment.
They lie around what the target would be shown, behind the step's own crop. Protocol `paper` draws one transform for a
batch, as there; under `clean` every image has its own, and neighbours come in pairs, the second with the other mirror
(where its chance is a half) or the opposite noise: the same distribution, with less left to chance. The noise is
measured by each image's own range under both; there by that of the batch, so that its size depends on the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import RowViews, apply_crops
from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.optimisation.objective import Neighbours
from smoothsweep.core.attacks.ppa.adaptive_config import Averaging
from smoothsweep.core.attacks.ppa.batching import group_views
from smoothsweep.core.checks import present
from smoothsweep.core.data.augmentation import rotated
from smoothsweep.core.seeds import generator

Key = tuple[int | str, ...]


def group_neighbours(
    averaging: Averaging | None, group: list[slice], batch_size: int, count: int, key: Key, protocol: Protocol
) -> Neighbours | None:
    """The neighbours of a group's candidates, of `count` in all; None for none. Arguments as of `group_views`.

    What a candidate gets depends on the key, the step and, under "paper", its batch: not on what is computed together.
    """
    if averaging is None:
        return None
    if averaging.kind == "noise":
        return Noise(views=averaging.views, scale=averaging.noise, key=key, paired=protocol == "clean")
    rule = averaging.crop_rule
    crops = [
        group_views(group, batch_size, rule, count, (*key, "neighbour", view), protocol, None)
        for view in range(averaging.views)
    ]
    return Transforms(
        views=averaging.views,
        crops=crops,
        degrees=averaging.degrees,
        count=count,
        key=key,
        shared=batch_size if protocol == "paper" else None,
        paired=protocol == "clean" and rule.hflip == 0.5,
    )


@dataclass(frozen=True, kw_only=True)
class Transforms:
    """A crop, a mirror, a turn.

    Attributes:
        crops: Crops of every view, None where they change nothing.
        degrees: The largest turn, in degrees.
        shared: Candidates of a batch that turn alike, None where each turns by itself.
        paired: Whether every second view has the other mirror.
    """

    views: int
    crops: Sequence[RowViews | None]
    degrees: float
    count: int
    key: Key
    shared: int | None
    paired: bool

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        """As `Neighbours.of`."""
        if (drawn := self.crops[view]) is not None:
            crops = drawn.at(step, images, rows)
            if self.paired and view % 2:
                crops = replace(crops, mirror=~present(self.crops[view - 1], "crops").at(step, images, rows).mirror)
            images = apply_crops(images, crops, images.shape[-1])
        return rotated(images, self._turns(view, step, rows)) if self.degrees else images

    def _turns(self, view: int, step: int, rows: slice) -> Tensor:
        """Degrees of each of the rows, float32."""
        if self.shared is None:
            share = torch.rand(self.count, generator=generator(*self.key, "turn", view, step))[rows]
        else:
            batches = [row // self.shared for row in range(rows.start, rows.stop)]
            drawn = {b: torch.rand(1, generator=generator(*self.key, "turn", b, view, step)) for b in set(batches)}
            share = torch.cat([drawn[b] for b in batches])
        return (2 * share - 1) * self.degrees


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Gaussian noise of `scale` times the range of an image; paired: whether every second one is the one before,
    turned round.
    """

    views: int
    scale: float
    key: Key
    paired: bool

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        """As `Neighbours.of`."""
        source = view - view % 2 if self.paired else view
        noise = torch.stack(
            [
                torch.randn(images.shape[1:], generator=generator(*self.key, "noise", source, step, row))
                for row in range(rows.start, rows.stop)
            ]
        ).to(images)
        flat = images.detach().flatten(1)
        size = self.scale * (flat.amax(1) - flat.amin(1))[:, None, None, None]
        return images - size * noise if source != view else images + size * noise
