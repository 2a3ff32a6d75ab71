"""Balanced accuracies, and numbers of images behind rates, computed from the tables that stages write.

They are computed from artifacts and not read from manifests, so that stores of earlier versions have them too. A
balanced accuracy is the mean over classes, which count alike whatever their numbers of test images; with equal numbers
it is the accuracy. The number of images gives a rate an interval even where all images were hits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path

from smoothsweep.core.attacks.surrogate.parts import SURROGATES
from smoothsweep.core.judges.base import ClassifierJudge
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.metrics.judge_check import check_judge
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.numbers.estimates import images_column
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.loaded import as_inversion
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


MOST_TO_FIT = 300_000_000
"""Images times features times classes up to which the driver fits a judge's head: seconds. It must not stand still."""


def answers_to_photographs(trial: Trial, store: Store, fitted: Stage | None = None) -> dict[str, float | None]:
    """Column -> what the trial's judges are known by now to say of real photographs, before any reconstruction.

    fitted: the features of real images on which to fit a judge's head, which its own stage does later.
    """
    known: dict[str, float | None] = {}
    for stage in trial.stages:
        if store.has(stage):
            known |= store.metrics(stage)
    known |= balanced_accuracies(trial, store)
    judges = {stage.name: stage for stage in trial.stages}
    for name, column in JUDGES_CLASSIFIERS.items():
        judge = judges.get(stage_of(name))
        if judge is not None and store.has(classifier := judge.inputs[name]):
            known[column.removesuffix("_balanced")] = store.metrics(classifier)["test_acc"]
            known[column] = _balanced(classifier, store)
    for name, kind in JUDGES.items():
        judge = judges.get(stage_of(name))
        if judge is None or fitted is None or kind.accompanies or not issubclass(kind, ByFeatures):
            continue
        if judge.inputs["real"] == fitted:
            from smoothsweep.tasks.judges import accuracy_of_head

            known[f"{name}_real_acc"] = accuracy_of_head(store.path(fitted), most=MOST_TO_FIT)
    return known


def surrogate_lines(trials: Sequence[Trial], store: Store, people: int | None) -> tuple[str, ...]:
    """A sentence on each attack whose surrogate has not learnt the target's answers, so that it finds nothing of it."""
    lines = []
    for trial in trials:
        for stage in with_ancestors(trial.stages):
            if stage.name == SURROGATES and people and store.has(stage):
                agreement = store.metrics(stage)["agreement"] or 0.0
                if check_judge(agreement, images=None, chance=1 / people).why:
                    attack = as_inversion(trial.settings).inverted_by.words
                    lines.append(
                        f"What {attack} finds says nothing of the target: its surrogate gives the target's answer to "
                        f"{100 * agreement:.1f} % of its pictures, and chance is {100 / people:.1f} %. Give it more "
                        "queries or steps."
                    )
    return tuple(dict.fromkeys(lines))


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
