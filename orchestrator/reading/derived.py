"""Balanced accuracies, and numbers of images behind rates, computed from the tables that stages write.

They are computed from artifacts and not read from manifests, so that stores of earlier versions have them too. A
balanced accuracy is the mean over classes, which count alike whatever their numbers of test images; with equal numbers
it is the accuracy. The number of images gives a rate an interval even where all images were hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from pathlib import Path

from smoothsweep.core.judges.base import ClassifierJudge
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.numbers.estimates import images_column
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.schema import InversionSweep

BY_CLASS = "per_class.parquet"
TARGET = "test_acc_balanced"
JUDGES_CLASSIFIERS = {
    name: kind.balanced for name, kind in JUDGES.items() if issubclass(kind, ClassifierJudge) and kind.balanced
}
"""Judge that is a classifier (also the name of its stage's input) -> the column of its balanced accuracy."""


def balanced_accuracies(trial: Trial, store: Store) -> dict[str, float]:
    """Column -> balanced accuracy in [0, 1] of the target and of judging classifiers, where artifacts hold it."""
    named = {stage.name: stage for stage in trial.stages}
    classifiers = {TARGET: named.get("target") or named.get("imported")}
    for name, column in JUDGES_CLASSIFIERS.items():
        judge = named.get(stage_of(name))
        classifiers[column] = judge.inputs.get(name) if judge is not None and store.has(judge) else None
    accuracies = {column: _balanced(stage, store) for column, stage in classifiers.items() if stage is not None}
    return {column: value for column, value in accuracies.items() if value is not None}


def mean_over_classes(path: Path) -> float:
    """The mean of the column test_acc over classes with test images (macro-averaged recall). path: a Parquet file."""
    shares = read_rows(path, ["test_acc"])["test_acc"]
    return fsum(shares) / len(shares)


def _balanced(stage: Stage, store: Store) -> float | None:
    path = store.file(stage, BY_CLASS) if store.has(stage) else None
    return None if path is None else mean_over_classes(path)


COUNTED = {stage_of(name): kind for name, kind in JUDGES.items() if kind.answers}
"""Stage of a judge whose table counts the images behind its rates -> the judge."""
TRAINING = "train_acc"


def image_counts(trial: Trial, store: Store) -> dict[str, int]:
    """`images_column` of a rate -> number of images behind it, for finished stages."""
    counts: dict[str, int] = {}
    all_attacked = isinstance(trial.settings, InversionSweep) and trial.settings.classes == "all"
    for stage in trial.stages:
        if stage.name in COUNTED and store.has(stage):
            counts |= _of_judge(stage, store, all_attacked)
        if stage.name in ("target", "imported") and store.has(stage) and store.has(stage.inputs["data"]):
            trained = store.manifest(stage.inputs["data"])["metrics"].get("num_train")
            counts |= {TRAINING: int(trained)} if trained else {}
    return {images_column(key): count for key, count in counts.items() if key in BY_KEY}


def _of_judge(stage: Stage, store: Store, all_attacked: bool) -> Mapping[str, int]:
    kind = COUNTED[stage.name]
    path = store.file(stage, kind.answers)
    if path is not None:
        return kind.counts(read_rows(path), {role: source.config for role, source in stage.inputs.items()})
    data = stage.inputs.get("data")
    return kind.counts_of_all(store.manifest(data)["metrics"]) if all_attacked and data and store.has(data) else {}
