"""One recipe over its seeds as a run of its own: means with their intervals under the names the trials use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.estimates import Settings, collect, estimate
from smoothsweep.orchestrator.result.rows import least_of_data, per_class_rows, trial_row
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs.names import metrics_of, recipe_params, run_words
from smoothsweep.orchestrator.tracking.runs.points import finished_at, work_ms
from smoothsweep.sweeps.loaded import LoadedSweep

SETTINGS = Settings()
NOTE = (
    "Means over the seeds {seeds}. `_low` and `_high`: 95 % intervals, of rates Wilson's over seeds and, where "
    "hit rates by class are known, over classes, else Student's t over seeds."
)


@dataclass(frozen=True, kw_only=True)
class RecipeMeans:
    """What a recipe's run holds.

    Attributes:
        metrics: Name -> mean, with name_low and name_high where one direction is better, and n_seeds.
        content: Fingerprint of the trials the means are over.
        at: When the last of them finished, in milliseconds.
        worked: How long the trials' stages took, one after the other, in milliseconds.
        rows: The trials' rows in the order of their seeds.
        trial: The first of them.
        target: Fingerprint of what was trained, whatever the seed: cells that differ in the attack alone share it.
    """

    label: str
    target: str
    trial: Trial
    params: dict[str, str]
    metrics: dict[str, float]
    seeds: tuple[int, ...]
    content: str
    at: int
    worked: int
    rows: list[dict[str, Any]]

    @property
    def points(self) -> list[Any]:
        """The means as MLflow's metrics; their step is the number of seeds."""
        from mlflow.entities import Metric

        return [Metric(name, value, self.at, len(self.seeds)) for name, value in self.metrics.items()]

    @property
    def note(self) -> str:
        return NOTE.format(seeds=", ".join(map(str, self.seeds)))


def recipe_id(trial: Trial) -> str:
    """Fingerprint of the recipe, attack and judges included, whatever the seed: the trial's own under seed 0."""
    without_seed = Trial(cell=trial.cell, seed=0).id
    return without_seed if phase_of(trial) == "sweep" else f"{without_seed}-{phase_of(trial)}"


def phase_of(trial: Trial) -> str:
    """sweep, or what else of a search the trial belongs to: proxy (a cheap rung), reaudit (fresh seeds)."""
    return trial.phase


def target_of(trial: Trial) -> str:
    """Fingerprint of what is trained, whatever the seed: trials that differ in the attack alone share it."""
    stages = Trial(cell=trial.cell, seed=0).stages
    return next((stage.fingerprint for stage in stages if stage.name in ("target", "imported")), stages[0].fingerprint)


def recipe_content(trials: Iterable[Trial]) -> str:
    """Fingerprint of a set of trials."""
    return sha256(" ".join(sorted(trial.id for trial in trials)).encode()).hexdigest()[:12]


def recipe_means(trials: Sequence[Trial], store: Store, loaded: LoadedSweep | None = None) -> RecipeMeans:
    """The means of one recipe over its finished trials, at least one of them. loaded: the sweep, for their words."""
    trials = sorted(trials, key=lambda trial: trial.seed)
    rows = [trial_row(trial, store) for trial in trials]
    samples = collect(pd.DataFrame(rows), per_class_rows(trials, store), least_of_data(trials, store, "num_test"))
    measured = [metrics_of(row) for row in rows]
    metrics: dict[str, float] = {}
    for name in dict.fromkeys(name for row in measured for name in row):
        values = [row[name] for row in measured if name in row]
        metrics[name] = math.fsum(values) / len(values)
        if name in BY_KEY and BY_KEY[name].better:
            known = estimate(BY_KEY[name], samples[name], SETTINGS)
            ends = {f"{name}_low": known.low, f"{name}_high": known.high}
            metrics.update({key: end for key, end in ends.items() if math.isfinite(end)})
    metrics["n_seeds"] = float(len(trials))
    return RecipeMeans(
        label=run_words(trials[0], loaded),
        target=target_of(trials[0]),
        trial=trials[0],
        params=recipe_params(trials[0], rows[0]),
        metrics=metrics,
        seeds=tuple(trial.seed for trial in trials),
        content=recipe_content(trials),
        at=max(finished_at(trial, store) for trial in trials),
        worked=sum(work_ms(trial, store) for trial in trials),
        rows=rows,
    )
