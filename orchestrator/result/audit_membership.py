"""Membership in an audit: how well attacks tell training images of the model, and of what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.measuring import (
    BY_LABELS,
    RATES,
    WITH_SHADOWS,
    WITHOUT,
    Attacked,
    WithinPersons,
    is_chance,
    measure_within_persons,
    over_persons,
    roc_auc,
    tpr_at,
)
from smoothsweep.core.membership.measuring import Measured as Scored
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.prose import sections
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import PLACE
from smoothsweep.orchestrator.result.format import count, duration, is_null
from smoothsweep.orchestrator.result.standing import LESS, MORE, UNCLEAR, WORDS, membership_frame
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.sweeps.imported import ImportedClassifier

Role = Literal["model", "reference", "fix"]
SCORES = "scores.parquet"


@dataclass(frozen=True, kw_only=True)
class AttackFound(Attacked):
    """The result of one membership attack over all images; the mean over trainings where there are several.

    Attributes:
        access: What the attack sees: labels or scores.
        found: Fraction of training images found at 1 % false positives; None with fewer than 100 test images.
    """

    access: str
    found: float | None


@dataclass(frozen=True, kw_only=True)
class Attacks:
    """The results of membership attacks on the trainings of one recipe.

    Attributes:
        recipe: Its name among those of the sweep.
        told: The attacks, the strongest first.
        trainings: Number of trainings over which results are averaged.
        word: The verdict relative to the reference, of `result.standing.WORDS`; empty for the reference itself and
            where the two were not compared.
    """

    recipe: str
    role: Role
    told: tuple[AttackFound, ...]
    trainings: int
    word: str = ""

    def by(self, attack: str) -> AttackFound | None:
        """The result of an attack by its name; None where it did not run."""
        return next((one for one in self.told if one.attack == attack), None)


@dataclass(frozen=True, kw_only=True)
class ByShadows:
    """Results of attacks with shadow models of the reference's recipe, and of thresholds on the same scores.

    Attributes:
        count: Number of shadow models.
        recipe: Their recipe in words.
        architecture, epochs: Of their networks and trainings.
        persons: Number of people over whom the intervals are computed.
        told: Attacks on the model that see scores, the strongest first.
        reference: The same attacks on the first training of the reference; empty where it was not attacked.
        seconds: Device-seconds to train the shadow models.
    """

    count: int
    recipe: str
    architecture: str
    epochs: int
    persons: int
    told: tuple[WithinPersons, ...]
    reference: tuple[WithinPersons, ...]
    seconds: float

    def of_reference(self, attack: str) -> WithinPersons | None:
        """The result of an attack on the reference; None where it did not run."""
        return next((one for one in self.reference if one.attack == attack), None)


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """How well an attacker tells a model's training images from held-out images of the same people.

    Attributes:
        access: What the attacker sees of the model.
        shift: AUC of a classifier that distinguishes training from test images by their pixels, without the model.
        members: Training images.
        others: Test images that are no copies.
        copies: Test images that are copies of training images; they were left out.
        drawn: Images whose labels were queried, where these are fewer than all; else None.
        drawn_members: Training images among them.
        recipes: The model first, then the other recipes in the order of the sweep.
        shadowed: The results of attacks by shadow models; None where none were trained.
        without_shadows: A sentence on why none were trained.
    """

    access: str = field(repr=False)
    shift: float
    members: int
    others: int
    copies: int
    drawn: int | None
    drawn_members: int | None
    recipes: tuple[Attacks, ...]
    shadowed: ByShadows | None = None
    without_shadows: str = "No shadow model was trained: a stronger attack may find more."

    @property
    def holds(self) -> bool:
        """Whether training and test images differ in nothing but membership, so that the numbers mean something."""
        return is_chance(self.shift, self.members, self.others)

    @property
    def model(self) -> Attacks:
        return self.recipes[0]

    @property
    def strongest(self) -> AttackFound:
        """The attack on the model with the highest AUC."""
        return self.model.told[0]

    @property
    def beforehand(self) -> AttackFound:
        """The attack that was chosen before any result: on scores where they are seen, else on labels."""
        return self.model.by(WITHOUT) or self.model.by(BY_LABELS) or self.strongest

    @property
    def attacks(self) -> pd.DataFrame:
        """A row per attack without shadow models, the strongest first: attack, access, auc with low and high (95 %,
        over people), and tpr_fpr1, the training images found at 1 % false positives (None with fewer than 100 held-out
        images)."""
        table = pd.DataFrame([vars(one) for one in self.model.told]).rename(columns={"found": "tpr_fpr1"})
        return table[["attack", "access", "auc", "low", "high", "tpr_fpr1"]]

    @property
    def queries(self) -> int:
        """Pictures that the model received."""
        scored, judge = self.access != "labels", Membership(trained_on_data=True)
        return judge.most_pictures(self.members, self.others, scores=scored) + 2 * self.copies * scored

    @property
    def shadows(self) -> int:
        """Shadow models that were trained; 0 where no claim is made, since none are trained then."""
        return 0 if self.shadowed is None else self.shadowed.count

    @property
    def by_shadows(self) -> pd.DataFrame:
        """Rows of attacks with shadow models, one per attack that sees scores, the strongest first: attack,
        shadow_models (whether it needs them), auc_within (mean over persons of the AUC among the images of each) with
        low and high, found_at_1_percent and found_at_0_1_percent (None with fewer than 100 and 1,000 held-out images).
        """
        rates = {"found_at_1_percent": "fpr1", "found_at_0_1_percent": "fpr01"}
        return pd.DataFrame(
            {"attack": one.attack, "shadow_models": one.has_shadows, "auc_within": one.auc}
            | {"low": one.low, "high": one.high, **{name: one.found[rate] for name, rate in rates.items()}}
            for one in (self.shadowed.told if self.shadowed else ())
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Sentences, the finding first; where training and test images differ, why no claim is made."""
        best = self.strongest
        tried = (self.members, self.others)
        if best.access == "labels" and self.drawn is not None and self.drawn_members is not None:
            tried = self.drawn_members, self.drawn - self.drawn_members
        reference = next((one for one in self.recipes if one.role == "reference"), None)
        known = {"found": self, "best": best, "tried": tried, "plain": reference, "shadows": self.shadowed}
        return sections(PLACE, "audit_membership.txt", _WORDS | known)["membership"]

    def __str__(self) -> str:
        return " ".join(self.lines)


def read_membership(
    trials: Sequence[tuple[str, Trial]], store: Store, access: str, words: Mapping[str, str] | None = None
) -> MembershipAudit | None:
    """Read the results of membership attacks with this access; None where the model was not attacked.

    trials: each with the name of its recipe. words: recipe -> its verdict relative to the reference.
    """
    stages: dict[str, dict[str, Stage]] = {}
    roles: dict[str, Role] = {}
    for name, trial in trials:
        if (stage := membership_stage(trial, store)) is not None:
            roles[name] = "model" if is_model(trial) else "reference" if trial.cell.is_baseline else "fix"
            stages.setdefault(name, {})[stage.fingerprint] = stage
    if "model" not in roles.values():
        return None
    names = sorted(roles, key=lambda name: roles[name] != "model")
    files = {name: tuple(store.needed_file(stage, SCORES) for stage in stages[name].values()) for name in names}
    first, facts = _scored(files[names[0]][0]), store.metrics(next(iter(stages[names[0]].values())))
    seen = np.isfinite(first.scores[BY_LABELS]) if BY_LABELS in first.scores else np.zeros(len(first.member), bool)
    few = not seen.all()
    return MembershipAudit(
        access=access,
        shift=float(facts["membership_shift"] or 0.0),
        members=int(first.member.sum()),
        others=int((~first.member).sum()),
        copies=int(facts["membership_copies"] or 0),
        drawn=int(seen.sum()) if few else None,
        drawn_members=int((seen & first.member).sum()) if few else None,
        recipes=tuple(
            Attacks(
                recipe=name,
                role=roles[name],
                told=attacks_found(files[name], access),
                trainings=len(files[name]),
                word=(words or {}).get(name, ""),
            )
            for name in names
        ),
    )


def membership_stage(trial: Trial, store: Store) -> Stage | None:
    """The stage that measured the membership of a trial's target; None where the store holds none."""
    stage = inversion_stages(as_inversion(trial.settings), trial.seed).judges.get(stage_of("membership"))
    return stage if stage is not None and store.has(stage) else None


def is_model(trial: Trial) -> bool:
    """Whether a trial attacks the model under audit, not a training beside it."""
    return isinstance(as_inversion(trial.settings).recipe, ImportedClassifier)


def membership_words(data: ReportData, summary: Summary, access: str) -> dict[str, str]:
    """Recipe -> its verdict relative to the baseline, by scores and labels, or by labels where only those are seen."""
    frame, verdicts = membership_frame(data, summary), {}
    for row in () if frame is None else frame.to_dict("records"):
        if row["word"] != "baseline" and access != "labels":
            verdicts[row["recipe"]] = row["word"]
        elif not is_null(row["less_by_labels"]):
            low, high = row["less_by_labels_low"], row["less_by_labels_high"]
            verdicts[row["recipe"]] = UNCLEAR if is_null(low) or low <= 0 <= high else LESS if low > 0 else MORE
    return verdicts


@lru_cache(maxsize=64)
def attacks_found(files: tuple[Path, ...], access: str) -> tuple[AttackFound, ...]:
    """The attacks within an access, the strongest first, on one training, or their mean over several.

    files: the scores of each training, of the same images in the same order. Intervals are over people: trainings are
    not resampled. Cached, since the files never change and pages are written again after every step.
    """
    runs = [_scored(file) for file in files]
    first, found = runs[0], []
    for name in first.scores:
        sees = MEMBERSHIP_ATTACKS[name].access
        if ACCESS_LEVELS.index(sees) > ACCESS_LEVELS.index(access):
            continue
        scores = np.stack([run.scores[name] for run in runs], axis=1)
        known = np.isfinite(scores).all(axis=1)
        scores, member = scores[known], first.member[known]
        auc, low, high = over_persons(_mean_auc, scores, member, first.labels[known]) or (math.nan,) * 3
        rates = [tpr_at(column[member], column[~member], RATES["fpr1"]) for column in scores.T]
        shown = [rate for rate in rates if rate is not None]
        rate = float(np.mean(shown)) if len(shown) == len(rates) else None
        found.append(AttackFound(attack=name, access=sees, auc=auc, low=low, high=high, found=rate))
    return tuple(sorted(found, key=lambda one: (math.isnan(one.auc), -one.auc)))


def _mean_auc(members: np.ndarray, others: np.ndarray) -> float:
    """The mean AUC over trainings, from scores [images, trainings]."""
    return float(np.mean([roc_auc(*pair) for pair in zip(members.T, others.T, strict=True)]))


@lru_cache(maxsize=64)
def _scored(file: Path) -> Scored:
    """The scores of every attack, from the file of a judge of membership. Cached: the file never changes."""
    frame = read_rows(file)
    return Scored(
        scores={name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns if name in MEMBERSHIP_ATTACKS},
        member=frame["member"].to_numpy(dtype=bool),
        labels=frame["class"].to_numpy(),
    )


def read_shadows(trials: Sequence[Trial], store: Store) -> ByShadows | None:
    """Read the results of the sweep with shadow models; None where they did not attack the model.

    trials: the model's first, then the reference's, where there is one.
    """
    judged: dict[bool, Stage] = {}
    for trial in trials:
        if (stage := membership_stage(trial, store)) is not None:
            judged.setdefault(is_model(trial), stage)
    if True not in judged:
        return None
    shadows = [source for source in judged[True].inputs.values() if source.name == "shadow"]
    measured = {own: measure_within_persons(_scored(store.needed_file(one, SCORES))) for own, one in judged.items()}
    settings: Any = as_inversion(trials[0].settings).judges.settings["membership"]
    recipe = settings.shadow_recipe
    return ByShadows(
        count=len(shadows),
        recipe=recipe_words(recipe.defense.model_dump(mode="json", exclude_none=True)).label,
        architecture=recipe.architecture,
        epochs=shadows[0].config["epochs"],
        persons=measured[True][1],
        told=measured[True][0],
        reference=measured[False][0] if False in measured else (),
        seconds=sum(float(store.manifest(one)["seconds"]) for one in shadows if store.has(one)),
    )


def shown_rate(value: float | None) -> str:
    """A rate as text, such as `5.2 %`; `too few test images` for None."""
    return "too few test images" if value is None else f"{100 * value:.1f}{NBSP}%"


_WORDS = {one.__name__: one for one in (count, duration, shown_rate)} | {
    "rate": lambda value: f"{100 * value:g}{NBSP}%",  # a round one
    "BY_LABELS": BY_LABELS,
    "CHOSEN_BY_RESULT": "picked by this result, which tends to make the number too high",
    "LEAST_OTHERS": 100,  # fewest test images that can show a false positive rate of 1 %
    "LEAST_SEEDS": LEAST_SEEDS,
    "RATES": RATES,
    "UNCLEAR": UNCLEAR,
    "WITH_SHADOWS": WITH_SHADOWS,
    "WORDS": WORDS,
}
"""Names that the text knows."""
