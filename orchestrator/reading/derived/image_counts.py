"""How many images a rate is of, where its stage chose them: so that all of them being hits still has an interval.

Counted from the rows that a judge's artifact holds beside its manifest (`Judge.counts`). Of the training accuracy, and
of artifacts that are older than such rows (`Judge.counts_of_all`), from the manifest of the data.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.numbers.estimates import images_column
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.schema import InversionSweep

COUNTED = {stage_of(name): kind for name, kind in JUDGES.items() if kind.answers}
"""Stage of each judge whose rows say how many images its rates are of -> the judge."""
TRAINING = "train_acc"


def image_counts(trial: Trial, store: Store) -> dict[str, int]:
    """`images_column` of a rate -> how many images it is of, of what has finished."""
    found: dict[str, int] = {}
    all_attacked = isinstance(trial.settings, InversionSweep) and trial.settings.classes == "all"
    for stage in trial.stages:
        if stage.name in COUNTED and store.has(stage):
            found |= _of_judge(stage, store, all_attacked)
        if stage.name in ("target", "imported") and store.has(stage) and store.has(stage.inputs["data"]):
            trained = store.manifest(stage.inputs["data"])["metrics"].get("num_train")
            found |= {TRAINING: int(trained)} if trained else {}
    return {images_column(key): count for key, count in found.items() if key in BY_KEY}


def _of_judge(stage: Stage, store: Store, all_attacked: bool) -> Mapping[str, int]:
    kind = COUNTED[stage.name]
    path = store.file(stage, kind.answers)
    if path is not None:
        return kind.counts(pd.read_parquet(path), {role: one.config for role, one in stage.inputs.items()})
    data = stage.inputs.get("data")
    return kind.counts_of_all(store.manifest(data)["metrics"]) if all_attacked and data and store.has(data) else {}
