"""Run every membership attack of the table for which there is evidence, and measure it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from smoothsweep.core.membership.evidence import Evidence, Flags, Numbers
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.metrics.membership import (
    auc_by_person,
    differs,
    held_out_rate,
    person_auc,
    roc_auc,
    smallest_rate,
    tpr_at,
)

RATES = {"fpr1": 0.01, "fpr01": 0.001}
"""Name of a false positive rate -> the rate."""

STATED = 0.05
"""The rate at which calibration is measured: of fewer false positives hundreds of images show too few."""

WITH_SHADOWS, WITHOUT = "rmia", "margin"
"""The attack whose numbers stand for all that see scores: fixed beforehand, not chosen by the result."""

BY_LABELS = "label_views"
"""The attack whose numbers stand for those that see labels alone."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Scores [n] of every attack that could be made, and the images that they are of.

    Attributes:
        scores: Attack -> [n], NaN for images that it was not asked.
        member: [n].
        labels: [n].
    """

    scores: Mapping[str, Numbers]
    member: Flags
    labels: np.ndarray

    @property
    def leading(self) -> str:
        """The attack whose numbers stand for all; of a target that shows labels alone, one that needs no more."""
        return next(name for name in (WITH_SHADOWS, WITHOUT, BY_LABELS) if name in self.scores)

    def split(self, attack: str) -> tuple[Numbers, Numbers]:
        """Scores of members, and of other images."""
        known = np.isfinite(self.scores[attack])
        return self.scores[attack][known & self.member], self.scores[attack][known & ~self.member]

    def metrics(self) -> dict[str, float | None]:
        """`membership_*` numbers; None for attacks that were not made, and rates that so few images cannot show."""
        metrics: dict[str, float | None] = {}
        for name, attack in MEMBERSHIP_ATTACKS.items():
            if attack.access == "training":
                continue
            pair = self.split(name) if name in self.scores else None
            metrics[f"membership_{name}_auc"] = roc_auc(*pair) if pair else None
            metrics[f"membership_{name}_tpr_fpr1"] = tpr_at(*pair, RATES["fpr1"]) if pair else None
        return metrics | self._leading()

    def _leading(self) -> dict[str, float | None]:
        members, others = self.split(self.leading)
        scores = self.scores[self.leading]
        known = np.isfinite(scores)
        person = person_auc(scores[known], self.member[known], self.labels[known])
        within = auc_by_person(scores[known], self.member[known], self.labels[known])
        labels = self.split(BY_LABELS) if BY_LABELS in self.scores else None
        return {
            "membership_auc": roc_auc(members, others),
            **{f"membership_tpr_{name}": tpr_at(members, others, rate) for name, rate in RATES.items()},
            "membership_auc_labels": roc_auc(*labels) if labels else None,
            "membership_auc_persons": person[0] if person else None,
            "membership_auc_within": float(np.mean(list(within.values()))) if within else None,
            "membership_fpr_held": held_out_rate(others, self.labels[known & ~self.member], STATED),
            "membership_least_fpr": smallest_rate(len(others)),
        }

    def by_class(self, attacks: tuple[str, ...] = (WITH_SHADOWS, WITHOUT, BY_LABELS)) -> dict[str, dict[int, float]]:
        """Attack -> class -> AUC among the class's own images, of those that were made."""
        known = {name: np.isfinite(self.scores[name]) for name in attacks if name in self.scores}
        return {
            name: auc_by_person(self.scores[name][rows], self.member[rows], self.labels[rows])
            for name, rows in known.items()
        }


def measure(evidence: Evidence, member: Flags, *, queried: Flags) -> Measured:
    """Every attack of the table, at its usual parameters, that has its evidence.

    asked: images that label attacks asked about, bool [n], whose columns the evidence of labels has.
    """
    scores: dict[str, Numbers] = {}
    few = replace(evidence, labels=evidence.labels[queried], phi=None, margin=None, shadow_phi=None, inside=None)
    for name, kind in MEMBERSHIP_ATTACKS.items():
        attack = kind()
        if attack.access == "labels" and not attack.missing_evidence(few):
            scores[name] = np.full(len(member), np.nan)
            scores[name][queried] = attack.scores(few)
        elif attack.access != "labels" and not attack.missing_evidence(evidence):
            scores[name] = attack.scores(evidence)
    return Measured(scores=scores, member=member, labels=evidence.labels)


def membership_only(shift: float, members: int, others: int) -> bool:
    """Whether images alone do not separate members from others: the AUC of `traps.scores_without_target` is chance."""
    return not differs(shift, members, others)
