"""Audit the membership of one model in memory: its training images against images that were held out.

Queries and attacks are those of a sweep's judge of membership (`core.membership.candidates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import torch

from smoothsweep.core.audit.attacking import OnProgress, ignore_progress
from smoothsweep.core.audit.model import OpenModel
from smoothsweep.core.audit.pictures import People, load_all
from smoothsweep.core.audit.shadows import ShadowRecipe, check_images, train_shadows
from smoothsweep.core.checks import require
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.candidates import answers_to, candidates_of, with_shadows
from smoothsweep.core.membership.measuring import (
    BY_LABELS,
    RATES,
    WITH_SHADOWS,
    WITHOUT,
    Measured,
    measure_within_persons,
    membership_only,
    over_persons,
    roc_auc,
    tpr_at,
)
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, title_of

JUDGE = Membership(trained_on_data=True)
"""Queries the model like the judge of the command."""

QUERIES_PER_IMAGE = JUDGE.most_pictures(1, 0, scores=True)
"""Pictures sent to the model for each image: the image, its mirror image, shifted copies and noisy copies."""

CHOSEN_BY_RESULT = "picked by this result, which tends to make the number too high"


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """How well an attacker tells a model's training images from held-out images of the same people.

    Attributes:
        attacks: A row per attack without shadow models, the strongest first: attack, access, auc with low and high
            (95 %, over people), and tpr_fpr1, the training images found at 1 % false positives (None with fewer than
            100 held-out images).
        shift: AUC of a classifier that distinguishes the two sets by their pixels and never queries the model.
        copies: Held-out images that are copies of training images; they were left out.
        members: Training images.
        others: Held-out images.
        queries: Pictures that the model received.
        shadows: Shadow models that were trained; 0 where no claim is made, since none are trained then.
        shadow_words: Their network and epochs, empty without any.
        by_shadows: Rows of attacks with shadow models, one per attack that sees scores, the strongest first: attack,
            shadow_models (whether it needs them), auc_within (mean over persons of the AUC among the images of each)
            with low and high, found_at_1_percent and found_at_0_1_percent (None with fewer than 100 and 1,000 held-out
            images).
    """

    attacks: pd.DataFrame
    shift: float
    copies: int
    members: int
    others: int
    queries: int
    shadows: int = 0
    shadow_words: str = ""
    by_shadows: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def holds(self) -> bool:
        """Whether the two sets differ in nothing but membership, so that the numbers mean something."""
        return membership_only(self.shift, self.members, self.others)

    @property
    def lines(self) -> tuple[str, ...]:
        """The result in sentences, without full stops."""
        counts = f"{self.members} training and {self.others} held-out images"
        if not self.holds:
            return (
                f"No claim about membership: a classifier that never asks the model tells the {counts} apart (AUC "
                f"{self.shift:.2f}). They differ in more than membership",
            )
        best = self.attacks.iloc[0]
        before = next((row for row in self._by_name(WITHOUT, BY_LABELS)), best)
        return (
            f"Membership: the strongest of {len(self.attacks)} attacks ({title_of(best['attack'])}) tells training "
            f"from held-out images with an AUC of {_auc(best, 'auc')}, of {counts}; 0.5 is chance",
            *_choice_warning(best, before, "auc"),
            *self._of_shadows(),
        )

    def _by_name(self, *names: str) -> list[pd.Series]:
        rows = [self.attacks[self.attacks["attack"] == name] for name in names]
        return [row.iloc[0] for row in rows if len(row)]

    def _of_shadows(self) -> tuple[str, ...]:
        if not self.shadows:
            return ("No shadow model was trained: a stronger attack may find more",)
        needs = self.by_shadows["shadow_models"]
        best, plain = self.by_shadows[needs].iloc[0], self.by_shadows[~needs].iloc[0]
        before = self.by_shadows[self.by_shadows["attack"] == WITH_SHADOWS].iloc[0]
        return (
            f"By {self.shadows} shadow models ({self.shadow_words}) the strongest attack ({title_of(best['attack'])}) "
            f"tells a person's training from their held-out images with an AUC of {_auc(best, 'auc_within')}; the best "
            f"threshold on scores ({title_of(plain['attack'])}) reaches {_auc(plain, 'auc_within')} (means over "
            "people)",
            *_choice_warning(best, before, "auc_within"),
            "Where the model was trained otherwise than the shadow models, these numbers are a lower bound",
        )

    def __str__(self) -> str:
        """The result in a few sentences."""
        return " ".join(f"{line}." for line in self.lines)


def _choice_warning(best: pd.Series, before: pd.Series, column: str) -> tuple[str, ...]:
    """A sentence where the strongest attack is not the one that was chosen beforehand."""
    if best["attack"] == before["attack"]:
        return ()
    reached = _auc(before, column)
    return (
        f"It was {CHOSEN_BY_RESULT}; the attack chosen beforehand ({title_of(before['attack'])}) reaches {reached}",
    )


def _auc(row: pd.Series, column: str) -> str:
    ends = "" if row["low"] != row["low"] else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row[column]:.2f}{ends}"


def audit_membership(
    model: OpenModel,
    training: People,
    held_out: People,
    *,
    size: int,
    budget: int | None = None,
    seed: int = 0,
    shadows: ShadowRecipe | None = None,
    where: str = "held_out",
    on_progress: OnProgress = ignore_progress,
) -> MembershipAudit:
    """Attack the membership of a model by its scores, where it gives them, by its labels, and by shadow models.

    Args:
        training: Images that the model was trained on.
        held_out: Images of the same people that it was not trained on.
        size: Side in pixels at which a folder or a file is read.
        budget: The most pictures that may be sent to the model; where it is too small for all images, some are drawn
            with `seed`.
        shadows: How to train shadow models, None for none; they are trained only where a claim can be made.
        where: What messages call the held-out images. Members and held-out images are queried in the same way.

    Raises InputError for different classes in the two sets, a budget for fewer than two images, or shadow models where
    the model answers with labels alone or has too few images.
    """
    inner, outer = (load_all(images, size=size) for images in (training, held_out))
    if inner.names != outer.names:
        raise InputError(f"held_out: expected the {len(inner.names)} people of training, got {len(outer.names)} others")
    images, member = _drawn(inner, outer, budget, seed)
    scored = model.access != "labels"
    if shadows is not None:
        require(scored, "shadows", "0 for a model that shows labels alone", shadows.count)
        check_images(images)
    candidates = candidates_of(images, member, seed=seed, where=where, others="images")
    asking, device = replace(JUDGE.label_queries, seed=seed), model.execution.device
    evidence, queried = answers_to(
        model.asked, candidates, asking, image_size=model.image_size, device=str(device), scores=scored
    )
    members, others = (int((candidates.kept & kind).sum()) for kind in (member, ~member))
    result = MembershipAudit(
        attacks=attack_table([candidates.measure(evidence, queried)]),
        shift=candidates.shift,
        copies=candidates.copies,
        members=members,
        others=others,
        queries=replace(JUDGE, seed=seed).most_pictures(members, others, scores=scored)
        + 2 * candidates.copies * scored,
    )
    if shadows is None or not result.holds:
        return result
    trained = train_shadows(images, shadows, seed=seed, device=device, on_progress=on_progress)
    measured = candidates.measure(with_shadows(evidence, trained), queried)
    return replace(result, shadows=shadows.count, shadow_words=shadows.words, by_shadows=within_table(measured))


def within_table(measured: Measured) -> pd.DataFrame:
    """The table `MembershipAudit.by_shadows`."""
    return pd.DataFrame(
        {
            "attack": attack.attack,
            "shadow_models": attack.has_shadows,
            "auc_within": attack.auc,
            "low": attack.low,
            "high": attack.high,
            "found_at_1_percent": attack.found["fpr1"],
            "found_at_0_1_percent": attack.found["fpr01"],
        }
        for attack in measure_within_persons(measured)[0]
    )


def _drawn(inner: ImageSet, outer: ImageSet, budget: int | None, seed: int) -> tuple[ImageSet, np.ndarray]:
    """Both sets in one, members first, with as many images of each as the budget allows; and which are members."""
    parts, draw = [inner, outer], torch.Generator().manual_seed(seed)
    if budget is not None:
        most = budget // (2 * QUERIES_PER_IMAGE)
        require(most >= 1, "budget", f"at least {2 * QUERIES_PER_IMAGE} pictures, for one image of each kind", budget)
        parts = [part.subset(torch.randperm(len(part), generator=draw)[:most].sort().values) for part in parts]
    images = ImageSet(
        images=torch.cat([part.images for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        names=inner.names,
    )
    return images, np.arange(len(images)) < len(parts[0])


def attack_table(runs: Sequence[Measured]) -> pd.DataFrame:
    """The table `MembershipAudit.attacks` of one training, or its mean over several trainings on the same images.

    All runs must have the same images in the same order, and the same attacks. Intervals are over people: trainings are
    not resampled.
    """
    first, rows = runs[0], []
    for name in first.scores:
        scores = np.stack([run.scores[name] for run in runs], axis=1)
        measured_rows = np.isfinite(scores).all(axis=1)
        scores, member = scores[measured_rows], first.member[measured_rows]
        auc = over_persons(_mean_auc, scores, member, first.labels[measured_rows])
        rates = [tpr_at(column[member], column[~member], RATES["fpr1"]) for column in scores.T]
        rows.append(
            {
                "attack": name,
                "access": MEMBERSHIP_ATTACKS[name].access,
                "auc": auc.value if auc else float("nan"),
                "low": auc.low if auc else float("nan"),
                "high": auc.high if auc else float("nan"),
                "tpr_fpr1": None if None in rates else float(np.mean([rate for rate in rates if rate is not None])),
            }
        )
    return pd.DataFrame(rows).sort_values("auc", ascending=False, ignore_index=True)


def _mean_auc(members: np.ndarray, others: np.ndarray) -> float:
    """The mean AUC over trainings, from scores [images, trainings]."""
    return float(np.mean([roc_auc(*pair) for pair in zip(members.T, others.T, strict=True)]))
