"""The stage that attacks a target's membership: training images are members, test images of the same people are not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.asking import right_over_noise, right_over_views, scores_of
from smoothsweep.core.membership.evidence import Evidence, Flags
from smoothsweep.core.membership.measuring import Measured, measure
from smoothsweep.core.membership.traps import copies, thumbnails, told_apart
from smoothsweep.core.metrics.membership import roc_auc
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.external import load_target
from smoothsweep.tasks.files import load_images, load_tensors, save_rows
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.parts_of_images import all_images
from smoothsweep.tasks.training import defense_from


def judge_membership(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Numbers of every membership attack; writes scores.parquet and per_class.parquet.

    config: settings (`Membership`). scores.parquet: per image its class, whether it is a member, and the score under
    every attack, missing where the image was not asked about. per_class.parquet: AUC within each class.
    """
    settings = build(Membership, dict(config["settings"]), what="judges.membership", prefix="judges.membership.")
    images = all_images(inputs["data"])
    member = np.arange(len(images)) < len(load_images(inputs["data"], "train"))
    small, labels = thumbnails(images.images), images.labels.numpy()
    copied = copies(small, labels, member)
    kept = ~copied
    if not (kept & ~member).any():
        raise InputError("judges.membership: expected test images that are no training images, got copies alone")
    shift = roc_auc(*_split(told_apart(small[kept], member[kept], seed=settings.seed), member[kept]))
    asked = _asked(member & kept, ~member & kept, settings)
    evidence = _evidence(config, settings, inputs, images, asked, context)
    context.progress(0.8, "membership scores")
    found = measure(_only(evidence, kept), member[kept], asked=asked[kept])
    _save(found, out)
    return {**found.metrics(), "membership_shift": shift, "membership_copies": float(copied.sum())}


def _evidence(
    config: Config, settings: Membership, inputs: Inputs, images: ImageSet, asked: Flags, context: TaskContext
) -> Evidence:
    """What the target and the shadow models answer."""
    trained = config_of(inputs["target"])
    model: Any = load_target(inputs["target"], trained, context.device)
    if not isinstance(model, ExternalModel):
        defense_from(trained).seed_noise(model, settings.seed)
    shown: dict[str, Any] = {"image_size": trained["image_size"], "device": context.device}
    draw = torch.Generator().manual_seed(settings.seed)
    few = images.subset(torch.from_numpy(asked))
    labels = few.images, few.labels
    views = right_over_views(model, *labels, copies=settings.copies, generator=draw, **shown)
    noise = right_over_noise(model, *labels, levels=settings.levels, generator=draw, **shown)
    by_labels: dict[str, Any] = {"labels": images.labels.numpy(), "right_over_views": views, "right_over_noise": noise}
    if isinstance(model, ExternalModel) and model.access == "labels":
        return Evidence(**by_labels)
    phi, margin = scores_of(model, images.images, images.labels, **shown)
    shadows = [load_tensors(inputs[name] / "answers.safetensors") for name in sorted(inputs) if "shadow" in name]
    others: dict[str, Any] = {
        "shadow_phi": np.stack([one["phi"].numpy() for one in shadows]) if shadows else None,
        "inside": np.stack([one["inside"].numpy() for one in shadows]) if shadows else None,
    }
    return Evidence(**by_labels, phi=phi, margin=margin, **others)


def _only(evidence: Evidence, kept: Flags) -> Evidence:
    """The evidence of these images; that of labels is of those asked about, which are kept ones."""
    parts: Mapping[str, Any] = {
        name: getattr(evidence, name)
        for name in ("labels", "phi", "margin", "shadow_phi", "inside")
        if evidence.has(name)
    }
    return Evidence(
        **{name: values[..., kept] for name, values in parts.items()},
        right_over_views=evidence.right_over_views,
        right_over_noise=evidence.right_over_noise,
    )


def _asked(members: Flags, others: Flags, settings: Membership) -> Flags:
    """Images that label attacks ask about: all, or as many members as others, drawn by the seed."""
    if settings.images is None:
        return members | others
    chosen, draw = np.zeros(len(members), dtype=bool), np.random.default_rng((settings.seed, 1))
    for kind in (members, others):
        rows = np.flatnonzero(kind)
        chosen[draw.permutation(rows)[: settings.images]] = True
    return chosen


def _split(scores: np.ndarray, member: Flags) -> tuple[np.ndarray, np.ndarray]:
    return scores[member], scores[~member]


def _save(found: Measured, out: Path) -> None:
    rows = {"class": found.labels, "member": found.member, **found.scores}
    save_rows(out / "scores.parquet", pd.DataFrame(rows))
    by_class = found.by_class()
    classes = sorted(next(iter(by_class.values())))
    columns = {f"membership_{name}": [values.get(one) for one in classes] for name, values in by_class.items()}
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes, **columns}))
