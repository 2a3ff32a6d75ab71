"""Where BREP-MI's walks begin: the first latents that the target gives each label, one search for all classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.boundary_repulsion import LabelsOf
from smoothsweep.core.attacks.black_box.latent_images import LatentImages, generator_of
from smoothsweep.core.attacks.black_box.latent_settings import LatentSettings
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.view import LabelView
from smoothsweep.core.seeds import generator


@dataclass(kw_only=True)
class StartLatents:
    """The first latents found of each label.

    Attributes:
        z: [C, k, D], 0 where there is none.
        batches: int64 [C, k], in which batch (from 1), 0 for none.
        order: int64 [C, k], how many latents had been kept before it, -1 for none.
        drawn: Batches that were drawn.
    """

    z: Tensor
    batches: Tensor
    order: Tensor
    drawn: int = 0

    @property
    def missing(self) -> Tensor:
        """How many latents each label lacks, int64 [C]."""
        return (self.batches == 0).sum(1)


def first_latents(
    labels_of: LabelsOf,
    draw: Callable[[int], Tensor],
    *,
    num_classes: int,
    per_label: int,
    size: int,
    clamp: float,
    max_batches: int,
    on_batch: Callable[[StartLatents], None] = lambda starts: None,
) -> StartLatents:
    """Draw batches until there are `per_label` latents of every label, or `max_batches` were drawn.

    draw: batch (from 0) -> Gaussian latents [B, size], clamped here to [-clamp, clamp]. Of a batch the first of each
    label is kept first, as in gen_initial_points_targeted and _untargeted of the official code (brep_mi_utils.py,
    commit 8a2e200), which has no end where a label is never found. `order` tells which labels its untargeted attack
    would have taken: those found first.
    """
    zeros, accepted = torch.zeros(num_classes, per_label, dtype=torch.int64), 0
    starts = StartLatents(z=torch.zeros(num_classes, per_label, size), batches=zeros, order=zeros - 1)
    while starts.drawn < max_batches and starts.missing.any():
        z = draw(starts.drawn).clamp(-clamp, clamp)
        starts.drawn += 1
        missing = starts.missing.tolist()
        for latent, label in zip(z, labels_of(z).tolist(), strict=True):
            if label >= 0 and missing[label]:  # below 0: the target accepts it as nobody
                place = label, per_label - missing[label]
                starts.z[place], starts.batches[place], starts.order[place] = latent, starts.drawn, accepted
                missing[label], accepted = missing[label] - 1, accepted + 1
        on_batch(starts)
    return starts


def make_starts(
    settings: Mapping[str, Any], inputs: AttackInputs, view: LabelView, part_context: PartContext
) -> MadePart:
    """The part `starts`: z, batches and order of `first_latents`; as facts the batches drawn and the labels never hit.

    settings: those of `core.attacks.black_box.brep_mi.StartSearch`, with clamp, per_label, generator and the fields of
    `LatentSettings`.
    """
    latent = LatentSettings(**{field.name: settings[field.name] for field in fields(LatentSettings)})
    decoder = generator_of(inputs, settings["generator"])
    images = LatentImages(decoder, latent, view.execution, image_size=view.image_size)

    def draw(batch: int) -> Tensor:
        return torch.randn(settings["batch"], images.z_dim, generator=generator(settings["seed"], "starts", batch))

    def report(starts: StartLatents) -> None:
        hit = int((starts.batches[:, 0] > 0).sum())
        part_context.progress(hit / view.num_classes, f"{hit}/{view.num_classes} labels hit in {starts.drawn} batches")

    starts = first_latents(
        lambda z: view.labels(images(z)),
        draw,
        num_classes=view.num_classes,
        per_label=settings["per_label"],
        size=images.z_dim,
        clamp=settings["clamp"],
        max_batches=settings["max_batches"],
        on_batch=report,
    )
    never = int((starts.batches[:, 0] == 0).sum())
    return MadePart(
        tensors={"z": starts.z, "batches": starts.batches, "order": starts.order},
        facts={"batches": float(starts.drawn), "labels_never_hit": float(never)},
    )
