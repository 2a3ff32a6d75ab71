"""Private photographs as a prior draws them: which ones, and what becomes of them (`core.priors.base`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.data.images import ImageSet, centre_crop, resize, to_uint8, to_unit
from smoothsweep.core.metrics.accuracy import result_slots
from smoothsweep.core.metrics.metric import STRANGERS
from smoothsweep.core.priors.base import OnProgress
from smoothsweep.core.seeds import generator

_BATCH = 64


def projected_photographs(
    prior: Any,
    test: ImageSet,
    *,
    most: int,
    crop: int | None,
    seed: int,
    device: torch.device | str,
    on_progress: OnProgress,
) -> tuple[dict[str, Tensor], float]:
    """At most `most` of the test images, as many of each person as of any other, resized to what the prior draws.

    crop: of its images the middle, where attacks have one; seed: which images, and of the draws that a descent starts
    from.

    Returns `photographs` uint8 [n, 3, S, S], `images`, what the prior makes of them, of the same shape, and `labels`
    int64 [n], all on the CPU; and the mean squared difference, in units of [-1, 1].
    """
    rows = balanced_rows(test.labels, most, seed)
    side = prior.resolution if crop is None else crop
    wanted = resize(to_unit(test.images[rows]), side).to(device)
    w = prior.project(wanted, crop=crop, seed=seed, on_progress=on_progress)
    with torch.no_grad():
        drawn = torch.cat([prior.synthesize(part) for part in w.split(_BATCH)])
    drawn = drawn if crop is None else centre_crop(drawn, crop)
    error = (drawn.clamp(-1, 1) - wanted).square().mean(dim=(1, 2, 3)).mean().item()
    pictures = {"images": to_uint8(drawn).cpu(), "photographs": to_uint8(wanted).cpu()}
    return {**pictures, "labels": test.labels[rows].cpu()}, error


def balanced_rows(labels: Tensor, most: int, seed: int) -> Tensor:
    """Rows int64 [n], ascending: as many of each class as of any other, give or take one, at most `most` in all."""
    shuffled = torch.randperm(len(labels), generator=generator(seed, "projected"))
    turn = result_slots(labels[shuffled])
    among = torch.randperm(int(labels.max()) + 1, generator=generator(seed, "projected classes"))[labels[shuffled]]
    order = torch.argsort(turn * (int(labels.max()) + 1) + among)
    return shuffled[order][:most].sort().values


def stranger_rows(images: int, most: int = STRANGERS) -> Tensor:
    """Rows int64 [n], ascending, of so many public images that are strangers: all, or `most` of them, ever the same."""
    return torch.randperm(images, generator=generator(0, "strangers"))[:most].sort().values
