"""Read from the store how well membership attacks work on the model, the reference and the fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.measuring import (
    BY_LABELS,
    RATES,
    WITHOUT,
    Attacked,
    Measured,
    is_chance,
    over_persons,
    roc_auc,
    tpr_at,
)
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.reading.audit.shadows import SCORES, ByShadows, measured_in
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.membership import LESS, MORE, UNCLEAR, two_leaks
from smoothsweep.orchestrator.result.summary import Summary, recipe_label
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import as_inversion

CHOSEN_BY_RESULT = "picked by this result, which tends to make the number too high"
NO_SHADOWS = "No shadow model was trained: a stronger attack may find more."
Role = Literal["model", "reference", "fix"]
LEAST_OTHERS = 100
"""Fewest test images that can show a false positive rate of 1 %."""


@dataclass(frozen=True, kw_only=True)
class AttackFound(Attacked):
    """The result of one attack over all images; the mean over trainings where there are several.

    Attributes:
        access: What the attack sees: labels or scores.
        found: Fraction of training images found at 1 % false positives; None with fewer than 100 test images.
    """

    access: str
    found: float | None


@dataclass(frozen=True, kw_only=True)
class Membership:
    """The results of membership attacks on the trainings of one recipe.

    Attributes:
        recipe: Its name among those of the sweep.
        role: `model`, `reference` (plain training), or `fix`.
        told: The attacks, the strongest first.
        trainings: Number of trainings over which results are averaged.
        word: The verdict relative to the reference, of `reading.leak.membership.WORDS`; empty for the reference itself
            and where the two were not compared.
    """

    recipe: str
    role: Role
    told: tuple[AttackFound, ...]
    trainings: int
    word: str = ""

    def by(self, attack: str) -> AttackFound | None:
        """The result of an attack by its name; None where it did not run."""
        return next((one for one in self.told if one.attack == attack), None)

    @property
    def by_labels(self) -> AttackFound | None:
        """The result of the attack by labels that was chosen beforehand; None where it did not run."""
        return self.by(BY_LABELS)


@dataclass(frozen=True, kw_only=True)
class AuditMembership:
    """The results of membership attacks on the model and on the trainings it is compared with.

    Attributes:
        shift: AUC of a classifier that distinguishes training from test images by their pixels, without the model.
        members: Training images.
        others: Test images that are no copies.
        copies: Test images that are copies of training images; they were left out.
        drawn: Images whose labels were queried, where these are fewer than all; else None.
        drawn_members: Training images among them.
        recipes: The model first, then the other recipes in the order of the sweep.
        shadows: The results of attacks by shadow models; None where none were trained.
        without_shadows: A sentence on why none were trained.
    """

    shift: float
    members: int
    others: int
    copies: int
    drawn: int | None
    drawn_members: int | None
    recipes: tuple[Membership, ...]
    shadows: ByShadows | None = None
    without_shadows: str = NO_SHADOWS

    @property
    def holds(self) -> bool:
        """Whether training and test images differ in nothing but membership, so that the numbers mean something."""
        return is_chance(self.shift, self.members, self.others)

    @property
    def model(self) -> Membership:
        return self.recipes[0]

    def tried_on(self, one: AttackFound) -> tuple[int, int]:
        """The numbers of training images and of test images that an attack was tried on."""
        if self.drawn is None or self.drawn_members is None or one.access != "labels":
            return self.members, self.others
        return self.drawn_members, self.drawn - self.drawn_members

    @property
    def beside(self) -> tuple[Membership, ...]:
        return self.recipes[1:]

    @property
    def reference(self) -> Membership | None:
        return next((one for one in self.beside if one.role == "reference"), None)

    @property
    def strongest(self) -> AttackFound:
        """The attack on the model with the highest AUC."""
        return self.model.told[0]

    @property
    def beforehand(self) -> AttackFound:
        """The attack that was chosen before any result: on scores where they are seen, else on labels."""
        return self.model.by(WITHOUT) or self.model.by_labels or self.strongest


def read_membership(
    trials: Sequence[Trial], store: Store, data: ReportData, summary: Summary, access: str
) -> AuditMembership | None:
    """Read the results of membership attacks with this access; None where the model was not attacked."""
    stages: dict[str, dict[str, Stage]] = {}
    roles: dict[str, Role] = {}
    for trial in trials:
        settings = as_inversion(trial.settings)
        stage = inversion_stages(settings, trial.seed).judges.get(stage_of("membership"))
        if stage is None or not store.has(stage):
            continue
        name = recipe_label(data.axes, trial.cell.axes)
        imported = isinstance(settings.recipe, ImportedClassifier)
        roles[name] = "model" if imported else "reference" if trial.cell.is_baseline else "fix"
        stages.setdefault(name, {})[stage.fingerprint] = stage
    model_recipe = next((name for name, role in roles.items() if role == "model"), None)
    if model_recipe is None:
        return None
    judged = {name: (roles[name], tuple(stages[name].values())) for name in sorted(roles, key=model_recipe.__ne__)}
    return measured_membership(judged, store, access, _words(data, summary, access))


def measured_membership(
    judged: Mapping[str, tuple[Role, tuple[Stage, ...]]], store: Store, access: str, words: Mapping[str, str]
) -> AuditMembership:
    """The results of finished judges of membership.

    Args:
        judged: Recipe -> its role and a stage for each of its trainings, the model first.
        access: What the attacker sees.
        words: Recipe -> its verdict relative to the reference.
    """
    files = {name: tuple(store.needed_file(stage, SCORES) for stage in found) for name, (_, found) in judged.items()}
    model = next(iter(judged))
    first, facts = measured_in(files[model][0]), store.metrics(judged[model][1][0])
    seen = np.isfinite(first.scores[BY_LABELS]) if BY_LABELS in first.scores else np.zeros(len(first.member), bool)
    few = not seen.all()
    return AuditMembership(
        shift=float(facts["membership_shift"] or 0.0),
        members=int(first.member.sum()),
        others=int((~first.member).sum()),
        copies=int(facts["membership_copies"] or 0),
        drawn=int(seen.sum()) if few else None,
        drawn_members=int((seen & first.member).sum()) if few else None,
        recipes=tuple(
            Membership(
                recipe=name,
                role=role,
                told=_told(files[name], access),
                trainings=len(files[name]),
                word=words.get(name, ""),
            )
            for name, (role, _) in judged.items()
        ),
    )


def _words(data: ReportData, summary: Summary, access: str) -> dict[str, str]:
    """Recipe -> its verdict relative to the baseline, by scores and labels, or by labels where only those are seen."""
    leaks = two_leaks(data, summary)
    if leaks is None or leaks.baseline is None:
        return {}
    by_labels = {REDUCES: LESS, LEAKS_MORE: MORE}
    verdicts = {}
    for row in leaks.rows:
        if row.word and access != "labels":
            verdicts[row.recipe] = row.word
        elif row.labels is not None:
            verdicts[row.recipe] = by_labels.get(row.labels.word, UNCLEAR)
    return verdicts


@lru_cache(maxsize=64)
def _told(files: tuple[Path, ...], access: str) -> tuple[AttackFound, ...]:
    """The results of all attacks on the trainings with these score files.

    Cached, since the files never change and pages are written again after every round.
    """
    within = ACCESS_LEVELS.index(access)
    table = attack_table([measured_in(file) for file in files])
    return tuple(
        AttackFound(
            attack=str(row["attack"]),
            access=str(row["access"]),
            auc=float(row["auc"]),
            low=float(row["low"]),
            high=float(row["high"]),
            found=None if pd.isna(row["tpr_fpr1"]) else float(row["tpr_fpr1"]),
        )
        for row in table.to_dict("records")
        if ACCESS_LEVELS.index(row["access"]) <= within
    )


def attack_table(runs: Sequence[Measured]) -> pd.DataFrame:
    """A row per attack (attack, access, auc with low and high, tpr_fpr1) on one training, or the mean over several.

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
                **dict(zip(("auc", "low", "high"), auc or (float("nan"),) * 3, strict=True)),
                "tpr_fpr1": None if None in rates else float(np.mean([rate for rate in rates if rate is not None])),
            }
        )
    return pd.DataFrame(rows).sort_values("auc", ascending=False, ignore_index=True)


def _mean_auc(members: np.ndarray, others: np.ndarray) -> float:
    """The mean AUC over trainings, from scores [images, trainings]."""
    return float(np.mean([roc_auc(*pair) for pair in zip(members.T, others.T, strict=True)]))
