"""Membership of the model under audit, and of what was trained beside it, as the audit's store has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.shared.access import ACCESS_LEVELS
from smoothsweep.core.audit.membership import attack_table
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.measuring import BY_LABELS, WITHOUT, membership_only
from smoothsweep.core.membership.within import Attacked
from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.reading.audit.shadows import SCORES, ByShadows, measured_in
from smoothsweep.orchestrator.reading.leak.membership import LESS, MORE, UNCLEAR, two_leaks
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary, recipe_label
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import inversion

NO_SHADOWS = "No shadow model was trained: a stronger attack may find more."
LEAST_OTHERS = 100
"""Test images without which no false positive rate of 1 % is shown."""


@dataclass(frozen=True, kw_only=True)
class AttackFound(Attacked):
    """One attack over all images; the mean over trainings where there are several.

    Attributes:
        access: What it sees: labels or scores.
        found: Fraction of training images found at 1 % false positives; None with fewer than 100 test images.
    """

    access: str
    found: float | None


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Membership of one model, or of the trainings of one recipe.

    Attributes:
        recipe: Its name among those of the sweep.
        role: `model`, `reference` (plain training), or `fix`.
        told: Its attacks, the strongest first.
        trainings: Of how many the numbers are the mean.
        word: What can be said of it beside the reference, of `reading.leak.membership.WORDS`; empty for the reference
            itself, and where the two were not compared.
    """

    recipe: str
    role: Literal["model", "reference", "fix"]
    told: tuple[AttackFound, ...]
    trainings: int
    word: str = ""

    def by(self, attack: str) -> AttackFound | None:
        """What one attack reaches; None where it was not made."""
        return next((one for one in self.told if one.attack == attack), None)

    @property
    def by_labels(self) -> AttackFound | None:
        """What the attack that was chosen beforehand reaches by labels alone."""
        return self.by(BY_LABELS)


@dataclass(frozen=True, kw_only=True)
class AuditMembership:
    """The model's membership, and that of what was trained beside it.

    Attributes:
        shift: AUC of a classifier that tells training from test images by their pixels and never asks the model.
        members: Training images.
        others: Test images that are no copies.
        copies: Test images that are copies of training images; they were left out.
        drawn: Images that labels were asked of, where these are fewer than all; else None.
        drawn_members: Training images among them.
        recipes: The model first, then the others in the order of the sweep.
        shadows: The same by shadow models; None where none were trained.
        without_shadows: Then why, a sentence.
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
        return membership_only(self.shift, self.members, self.others)

    @property
    def model(self) -> Membership:
        return self.recipes[0]

    def tried_on(self, one: AttackFound) -> tuple[int, int]:
        """How many training and how many test images an attack was tried on."""
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
        """The attack that tells most of the model's images."""
        return self.model.told[0]

    @property
    def beforehand(self) -> AttackFound:
        """The attack that was chosen before any result: on scores where they are seen, else on labels."""
        return self.model.by(WITHOUT) or self.model.by_labels or self.strongest


def read_membership(
    trials: Sequence[Trial], store: Store, data: ReportData, summary: Summary, access: str
) -> AuditMembership | None:
    """What an attacker with this access can say of who was trained on; None where the model's was not measured."""
    stages: dict[str, dict[str, Stage]] = {}
    roles: dict[str, Literal["model", "reference", "fix"]] = {}
    for trial in trials:
        settings = inversion(trial.settings)
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
    files = {name: tuple(store.needed_file(s, SCORES) for s in found.values()) for name, found in stages.items()}
    first = measured_in(files[model_recipe][0])
    facts = store.metrics(next(iter(stages[model_recipe].values())))
    words = _words(data, summary, access)
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
                role=roles[name],
                told=_told(files[name], access),
                trainings=len(files[name]),
                word=words.get(name, ""),
            )
            for name in sorted(roles, key=lambda name: name != model_recipe)
        ),
    )


def _words(data: ReportData, summary: Summary, access: str) -> dict[str, str]:
    """Recipe -> its word beside the baseline: by scores and labels, or by labels where nothing else is seen."""
    leaks = two_leaks(data, summary)
    if leaks is None or leaks.baseline is None:
        return {}
    by_labels = {REDUCES: LESS, LEAKS_MORE: MORE}
    found = {}
    for row in leaks.rows:
        if row.word and access != "labels":
            found[row.recipe] = row.word
        elif row.labels is not None:
            found[row.recipe] = by_labels.get(row.labels.word, UNCLEAR)
    return found


@lru_cache(maxsize=64)
def _told(files: tuple[Path, ...], access: str) -> tuple[AttackFound, ...]:
    """Of the trainings with these scores, which never change; pages are written again after every round."""
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
