"""Read from the store the membership attacks by shadow models on the model under audit and on the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.judges.table import stage_of
from smoothsweep.core.membership.measuring import WITH_SHADOWS, Measured, WithinPersons, measure_within_persons
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.trial import Trial, inversion_stages
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.loaded import as_inversion

SCORES = "scores.parquet"


@dataclass(frozen=True, kw_only=True)
class ByShadows:
    """Results of attacks with shadow models of the reference's recipe, and of thresholds on the same scores.

    Attributes:
        count: Number of shadow models.
        recipe: Their recipe in words.
        architecture: Architecture of their networks.
        epochs: Epochs of their trainings.
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
    def by_shadows(self) -> tuple[WithinPersons, ...]:
        return tuple(one for one in self.told if one.has_shadows)

    @property
    def strongest(self) -> WithinPersons:
        """The attack with shadow models that has the highest AUC on the model."""
        return self.by_shadows[0]

    @property
    def beforehand(self) -> WithinPersons:
        """The attack with shadow models that was chosen before any result."""
        return next((one for one in self.by_shadows if one.attack == WITH_SHADOWS), self.strongest)

    @property
    def threshold(self) -> WithinPersons:
        """The strongest attack without shadow models."""
        return next(one for one in self.told if not one.has_shadows)

    def of_reference(self, attack: str) -> WithinPersons | None:
        """The result of an attack on the reference; None where it did not run."""
        return next((one for one in self.reference if one.attack == attack), None)


def read_shadows(trials: Sequence[Trial], store: Store) -> ByShadows | None:
    """Read the results of the sweep with shadow models; None where they did not attack the model.

    trials: the model's first, then the reference's, where there is one.
    """
    judged: dict[bool, Stage] = {}
    for trial in trials:
        settings = as_inversion(trial.settings)
        stage = inversion_stages(settings, trial.seed).judges.get(stage_of("membership"))
        if stage is not None and store.has(stage):
            judged.setdefault(isinstance(settings.recipe, ImportedClassifier), stage)
    if True not in judged:
        return None
    shadows = [source for source in judged[True].inputs.values() if source.name == "shadow"]
    attacks, persons = _within(store.needed_file(judged[True], SCORES))
    recipe: Any = as_inversion(trials[0].settings).judges.settings["membership"]
    recipe = recipe.shadow_recipe
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


def measured_in(file: Path) -> Measured:
    """Read the scores of every attack from the file of a judge of membership."""
    frame = read_rows(file)
    return Measured(
        scores={name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns if name in MEMBERSHIP_ATTACKS},
        member=frame["member"].to_numpy(dtype=bool),
        labels=frame["class"].to_numpy(),
    )


@lru_cache(maxsize=16)
def _within(file: Path) -> tuple[tuple[WithinPersons, ...], int]:
    """Attacks that see scores, the strongest first, and the number of people. Cached: the file never changes."""
    return measure_within_persons(measured_in(file))
