"""Membership of one model in memory: its own training images beside images that were held out, no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.audit.model import OpenModel
from smoothsweep.core.audit.pictures import People, people_of
from smoothsweep.core.checks import require
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.asking import right_over_noise, right_over_views, scores_of
from smoothsweep.core.membership.evidence import Evidence
from smoothsweep.core.membership.measuring import RATES, Measured, measure, membership_only
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.membership.traps import copies, thumbnails, told_apart
from smoothsweep.core.metrics.membership import over_persons, roc_auc, tpr_at

COPIES, LEVELS = 6, 6
"""Shifted copies, and levels of noise, of each image that labels are asked of."""

SHOWN = 2 + COPIES + LEVELS
"""Pictures that the model is shown for each image: itself, its mirror image, copies and noisy ones."""


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """How well an attacker tells a model's training images from held-out images of the same people.

    Attributes:
        attacks: A row per attack, the strongest first: attack, access, auc with low and high (95 %, over people), and
            tpr_fpr1, the training images found at 1 % false positives (None with fewer than 100 held-out images).
        shift: AUC of a classifier that tells the two sets apart by their pixels and never asks the model.
        copies: Held-out images that are copies of training images; they were left out.
        members: Training images.
        others: Held-out images.
        queries: Pictures that the model was shown.
    """

    attacks: pd.DataFrame
    shift: float
    copies: int
    members: int
    others: int
    queries: int

    @property
    def holds(self) -> bool:
        """Whether the two sets differ in nothing but membership, so that the numbers mean something."""
        return membership_only(self.shift, self.members, self.others)

    def __str__(self) -> str:
        """The answer in a sentence or two."""
        beside = f"{self.members} training and {self.others} held-out images"
        if not self.holds:
            return (
                f"No claim about membership: a classifier that never asks the model tells the {beside} apart (AUC "
                f"{self.shift:.2f}). They differ in more than membership."
            )
        best = self.attacks.iloc[0]
        return (
            f"Membership: the strongest of {len(self.attacks)} attacks, {best['attack']}, tells training from held-out "
            f"images with an AUC of {best['auc']:.2f} [{best['low']:.2f}, {best['high']:.2f}], of {beside}; 0.5 is "
            f"chance. No shadow model was trained: a stronger attack may find more."
        )


def audit_membership(
    model: OpenModel, training: People, held_out: People, *, size: int, budget: int | None = None, seed: int = 0
) -> MembershipAudit:
    """Attack the membership of a model by its scores, where it gives them, and by its labels.

    training: images that the model was trained on; held_out: images of the same people that it was not. size: side in
    pixels where a place is read. budget: the most pictures that the model may be shown; fewer images are then drawn by
    `seed`. The model is asked about members and others alike, in the same way.

    Raises InputError, one line: other classes on one side than on the other, or a budget that allows no two images.
    """
    inner, outer = (_everything(given, size) for given in (training, held_out))
    if inner.names != outer.names:
        raise InputError(f"held_out: expected the {len(inner.names)} people of training, got {len(outer.names)} others")
    images, member = _drawn(inner, outer, budget, seed)
    small, labels = thumbnails(images.images), images.labels.numpy()
    copied = copies(small, labels, member)
    kept = ~copied
    require(bool((kept & ~member).any()), "held_out", "images that are no training images", "copies alone")
    told = told_apart(small[kept], member[kept], seed=seed)
    images, member = images.subset(torch.from_numpy(kept)), member[kept]
    found = measure(_evidence(model, images, seed), member, asked=np.ones(len(member), dtype=bool))
    scored = model.access != "labels"
    return MembershipAudit(
        attacks=attack_table([found]),
        shift=roc_auc(told[member], told[~member]),
        copies=int(copied.sum()),
        members=int(member.sum()),
        others=int((~member).sum()),
        queries=len(member) * (SHOWN if scored else SHOWN - 2),
    )


def _everything(given: People, size: int) -> ImageSet:
    people = people_of(given, size=size)
    both = torch.cat([people.train.images, people.test.images]), torch.cat([people.train.labels, people.test.labels])
    return ImageSet(images=both[0], labels=both[1], names=people.train.names)


def _drawn(inner: ImageSet, outer: ImageSet, budget: int | None, seed: int) -> tuple[ImageSet, np.ndarray]:
    """Both sets as one, members first, of each as many images as the budget allows."""
    parts, draw = [inner, outer], torch.Generator().manual_seed(seed)
    if budget is not None:
        most = budget // (2 * SHOWN)
        require(most >= 1, "budget", f"at least {2 * SHOWN} pictures, for one image of each kind", budget)
        parts = [part.subset(torch.randperm(len(part), generator=draw)[:most].sort().values) for part in parts]
    images = ImageSet(
        images=torch.cat([part.images for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        names=inner.names,
    )
    return images, np.arange(len(images)) < len(parts[0])


def _evidence(model: OpenModel, images: ImageSet, seed: int) -> Evidence:
    def ask(shown: Tensor) -> Tensor:
        return model.asked(shown)

    draw, device = torch.Generator().manual_seed(seed), str(model.execution.device)
    given = ask, images.images, images.labels
    side = model.image_size
    views = right_over_views(*given, copies=COPIES, generator=draw, image_size=side, device=device)
    noise = right_over_noise(*given, levels=LEVELS, generator=draw, image_size=side, device=device)
    phi, margin = None, None
    if model.access != "labels":
        phi, margin = scores_of(*given, image_size=side, device=device)
    return Evidence(
        labels=images.labels.numpy(), phi=phi, margin=margin, right_over_views=views, right_over_noise=noise
    )


def attack_table(runs: Sequence[Measured]) -> pd.DataFrame:
    """`MembershipAudit.attacks` of one training, or its mean over several on the same images.

    All runs must have the same images in the same order, and the same attacks. Intervals are over people: trainings are
    not resampled.
    """
    first, rows = runs[0], []
    for name in first.scores:
        scores = np.stack([run.scores[name] for run in runs], axis=1)
        asked = np.isfinite(scores).all(axis=1)
        scores, member = scores[asked], first.member[asked]
        auc = over_persons(_mean_auc, scores, member, first.labels[asked])
        found = [tpr_at(one[member], one[~member], RATES["fpr1"]) for one in scores.T]
        rows.append(
            {
                "attack": name,
                "access": MEMBERSHIP_ATTACKS[name].access,
                "auc": auc.value if auc else float("nan"),
                "low": auc.low if auc else float("nan"),
                "high": auc.high if auc else float("nan"),
                "tpr_fpr1": None if None in found else float(np.mean([one for one in found if one is not None])),
            }
        )
    return pd.DataFrame(rows).sort_values("auc", ascending=False, ignore_index=True)


def _mean_auc(members: np.ndarray, others: np.ndarray) -> float:
    """Over trainings, of scores [images, trainings]."""
    return float(np.mean([roc_auc(*pair) for pair in zip(members.T, others.T, strict=True)]))
