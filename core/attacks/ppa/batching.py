"""Which candidates share a mean and crops, and which go through the networks together: two different things.

A *batch* is a matter of the method: config.batch_size candidates share, under protocol "paper", the crop of a step
and the mean of their losses. How many rows are computed at once is a matter of the device. A *group* is a number of
batches that are optimised side by side; Adam works on every coordinate by itself, so they can share its state.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, CropRule, DrawCrops, RowViews, Views
from smoothsweep.core.attacks.optimisation.losses import Protocol


def batch_spans(length: int, batch_size: int) -> list[slice]:
    """The rows of each batch of 0..length; the last may be short."""
    return [slice(start, min(start + batch_size, length)) for start in range(0, length, batch_size)]


def groups_of(spans: list[slice], together: int) -> list[list[slice]]:
    """The batches, `together` of them in a group."""
    return [spans[start : start + together] for start in range(0, len(spans), together)]


def views_of(
    rule: CropRule, count: int, key: tuple[int | str, ...], protocol: Protocol, draw_crops_given: DrawCrops | None
) -> Views | None:
    """The crops of `count` candidates by the protocol's way to draw them, or `given`; None if there are none."""
    if draw_crops_given is None and rule.is_identity:
        return None
    return Views(rule=rule, count=count, key=key, draw=draw_crops_given or DRAW_CROPS[protocol])


def group_views(
    group: list[slice],
    batch_size: int,
    rule: CropRule,
    count: int,
    key: tuple[int | str, ...],
    protocol: Protocol,
    draw_crops_given: DrawCrops | None,
) -> RowViews | None:
    """Under "paper" every batch of the group has its own crops, named by its number; else all draw from `key`."""
    if draw_crops_given is None and rule.is_identity:
        return None
    draw = draw_crops_given or DRAW_CROPS[protocol]
    if protocol != "paper":
        whole = slice(group[0].start, group[-1].stop)
        return RowViews([(whole, Views(rule=rule, count=count, key=key, draw=draw))])
    keys = [(*key, span.start // batch_size) for span in group]
    return RowViews(
        [(span, Views(rule=rule, count=count, key=own, draw=draw)) for span, own in zip(group, keys, strict=True)]
    )


def row_scale(group: list[slice], protocol: Protocol) -> Tensor:
    """The factor [rows of the group] on each row's gradient: under "paper" that of its batch's mean, else 1."""
    sizes = torch.tensor([span.stop - span.start for span in group])
    scale = 1 / sizes if protocol == "paper" else torch.ones(len(sizes))
    return scale.repeat_interleave(sizes)


def report_batches(
    on_step: Callable[[int, int, Tensor], None], group: list[slice], batch_size: int, step: int, loss: Tensor
) -> None:
    """Call on_step(batch, step, loss [rows of the batch]) for every batch of the group."""
    for span in group:
        rows = slice(span.start - group[0].start, span.stop - group[0].start)
        on_step(span.start // batch_size, step, loss[rows])
