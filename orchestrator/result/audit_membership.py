"""Membership in an audit: how well attacks tell training images of the model, and of what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.defenses.labels import recipe_words
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
CHOSEN_BY_RESULT = "picked by this result, which tends to make the number too high"
NO_SHADOWS = "No shadow model was trained: a stronger attack may find more."
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
        told: The attacks, the strongest first.
        trainings: Number of trainings over which results are averaged.
        word: The verdict relative to the reference, of `result.membership.WORDS`; empty for the reference itself and
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

    @property
    def by_labels(self) -> AttackFound | None:
        """The result of the attack by labels that was chosen beforehand; None where it did not run."""
        return self.by(BY_LABELS)


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

    @property
    def strongest(self) -> WithinPersons:
        """The attack with shadow models that has the highest AUC on the model."""
        return next(one for one in self.told if one.has_shadows)

    @property
    def beforehand(self) -> WithinPersons:
        """The attack with shadow models that was chosen before any result."""
        return next((one for one in self.told if one.attack == WITH_SHADOWS), self.strongest)

    @property
    def threshold(self) -> WithinPersons:
        """The strongest attack without shadow models."""
        return next(one for one in self.told if not one.has_shadows)

    def of_reference(self, attack: str) -> WithinPersons | None:
        """The result of an attack on the reference; None where it did not run."""
        return next((one for one in self.reference if one.attack == attack), None)


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
        shadowed: The results of attacks by shadow models; None where none were trained.
        without_shadows: A sentence on why none were trained.
    """

    shift: float
    members: int
    others: int
    copies: int
    drawn: int | None
    drawn_members: int | None
    recipes: tuple[Membership, ...]
    shadowed: ByShadows | None = None
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
    def reference(self) -> Membership | None:
        return next((one for one in self.recipes if one.role == "reference"), None)

    @property
    def strongest(self) -> AttackFound:
        """The attack on the model with the highest AUC."""
        return self.model.told[0]

    @property
    def beforehand(self) -> AttackFound:
        """The attack that was chosen before any result: on scores where they are seen, else on labels."""
        return self.model.by(WITHOUT) or self.model.by_labels or self.strongest

    @property
    def lines(self) -> tuple[str, ...]:
        """Sentences, the finding first; where training and test images differ, why no claim is made."""
        known = {"found": self, "best": self.strongest, "plain": self.reference, "shadows": self.shadowed}
        return sections(PLACE, "audit_membership.txt", _WORDS | known)["membership"]


def read_membership(
    trials: Sequence[tuple[str, Trial]], store: Store, access: str, words: Mapping[str, str] | None = None
) -> AuditMembership | None:
    """Read the results of membership attacks with this access; None where the model was not attacked.

    trials: each with the name of its recipe. words: recipe -> its verdict relative to the reference.
    """
    stages: dict[str, dict[str, Stage]] = {}
    roles: dict[str, Role] = {}
    for name, trial in trials:
        if (stage := _judge(trial, store)) is not None:
            roles[name] = "model" if _is_model(trial) else "reference" if trial.cell.is_baseline else "fix"
            stages.setdefault(name, {})[stage.fingerprint] = stage
    if "model" not in roles.values():
        return None
    names = sorted(roles, key=lambda name: roles[name] != "model")
    files = {name: tuple(store.needed_file(stage, SCORES) for stage in stages[name].values()) for name in names}
    first, facts = _scored(files[names[0]][0]), store.metrics(next(iter(stages[names[0]].values())))
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
                told=attacks_found(files[name], access),
                trainings=len(files[name]),
                word=(words or {}).get(name, ""),
            )
            for name in names
        ),
    )


def _judge(trial: Trial, store: Store) -> Stage | None:
    """The stage that measured the membership of a trial's target; None where none did."""
    stage = inversion_stages(as_inversion(trial.settings), trial.seed).judges.get(stage_of("membership"))
    return stage if stage is not None and store.has(stage) else None


def _is_model(trial: Trial) -> bool:
    return isinstance(as_inversion(trial.settings).recipe, ImportedClassifier)


def verdict_words(data: ReportData, summary: Summary, access: str) -> dict[str, str]:
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


def _scored(file: Path) -> Scored:
    """Read the scores of every attack from the file of a judge of membership."""
    frame = read_rows(file)
    return Scored(
        scores={name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns if name in MEMBERSHIP_ATTACKS},
        member=frame["member"].to_numpy(dtype=bool),
        labels=frame["class"].to_numpy(),
    )


@lru_cache(maxsize=16)
def _within(file: Path) -> tuple[tuple[WithinPersons, ...], int]:
    """Attacks that see scores, the strongest first, and the number of people. Cached: the file never changes."""
    return measure_within_persons(_scored(file))


def read_shadows(trials: Sequence[Trial], store: Store) -> ByShadows | None:
    """Read the results of the sweep with shadow models; None where they did not attack the model.

    trials: the model's first, then the reference's, where there is one.
    """
    judged: dict[bool, Stage] = {}
    for trial in trials:
        if (stage := _judge(trial, store)) is not None:
            judged.setdefault(_is_model(trial), stage)
    if True not in judged:
        return None
    shadows = [source for source in judged[True].inputs.values() if source.name == "shadow"]
    attacks, persons = _within(store.needed_file(judged[True], SCORES))
    settings: Any = as_inversion(trials[0].settings).judges.settings["membership"]
    recipe = settings.shadow_recipe
    return ByShadows(
        count=len(shadows),
        recipe=recipe_words(recipe.defense.model_dump(mode="json", exclude_none=True)).label,
        architecture=recipe.architecture,
        epochs=shadows[0].config["epochs"],
        persons=persons,
        told=attacks,
        reference=_within(store.needed_file(judged[False], SCORES))[0] if False in judged else (),
        seconds=sum(float(store.manifest(one)["seconds"]) for one in shadows if store.has(one)),
    )


def shown_rate(value: float | None) -> str:
    """A rate as text, such as `5.2 %`; `too few test images` for None."""
    return "too few test images" if value is None else f"{100 * value:.1f}{NBSP}%"


_WORDS = {
    "count": count,
    "duration": duration,
    "shown_rate": shown_rate,
    "rate": lambda value: f"{100 * value:g}{NBSP}%",  # a round one
    "LEAST_OTHERS": LEAST_OTHERS,
    "LEAST_SEEDS": LEAST_SEEDS,
    "CHOSEN_BY_RESULT": CHOSEN_BY_RESULT,
    "RATES": RATES,
    "UNCLEAR": UNCLEAR,
    "WORDS": WORDS,
}
"""Names that the text knows."""
