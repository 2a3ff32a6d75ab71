"""Balanced accuracy on real images: the mean over classes, each counting alike however many test images it has.

Read from the accuracies by class that a classifier's artifact holds beside its manifest, so that it is there for stores
of any age that have them. Equal to the accuracy where all classes have equally many test images.
"""

from __future__ import annotations

from math import fsum
from pathlib import Path

import pandas as pd

from smoothsweep.core.judges.base import ClassifierJudge
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store

BY_CLASS = "per_class.parquet"
TARGET = "test_acc_balanced"
JUDGES_CLASSIFIERS = {
    name: kind.balanced for name, kind in JUDGES.items() if issubclass(kind, ClassifierJudge) and kind.balanced
}
"""Judge that is a classifier, which is its stage's input of that name -> the column of its balanced accuracy."""


def balanced_accuracies(trial: Trial, store: Store) -> dict[str, float]:
    """Column -> balanced accuracy in [0, 1] of the target and of judging classifiers, where their artifacts say it."""
    named = {stage.name: stage for stage in trial.stages}
    classifiers = {TARGET: named.get("target") or named.get("imported")}
    for name, column in JUDGES_CLASSIFIERS.items():
        judge = named.get(stage_of(name))
        classifiers[column] = judge.inputs.get(name) if judge is not None and store.has(judge) else None
    found = {column: _balanced(stage, store) for column, stage in classifiers.items() if stage is not None}
    return {column: value for column, value in found.items() if value is not None}


def mean_over_classes(path: Path) -> float:
    """The mean of the column test_acc, one row per class that has test images (recall, macro averaged)."""
    shares = pd.read_parquet(path, columns=["test_acc"])["test_acc"]
    return fsum(shares) / len(shares)


def _balanced(stage: Stage, store: Store) -> float | None:
    path = store.file(stage, BY_CLASS) if store.has(stage) else None
    return None if path is None else mean_over_classes(path)
