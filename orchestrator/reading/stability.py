"""The gradient stability of every recipe, as curves for a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from orchestrator.planning.trial import Trial
from orchestrator.store.base import Store

STAGE, CURVES = "judge_gradients", "gradients.parquet"


def stability_curves(
    trials: Sequence[Trial], store: Store, label_of: Callable[[Trial], str]
) -> dict[str, pd.DataFrame]:
    """Recipe label -> the curves of its first finished seed (`tasks.gradients`); recipes without any are left out."""
    found: dict[str, pd.DataFrame] = {}
    for trial in trials:
        stage = next((stage for stage in trial.stages if stage.name == STAGE), None)
        label = label_of(trial)
        if stage is None or label in found or not store.has(stage):
            continue
        found[label] = pd.read_parquet(store.file(stage, CURVES))
    return found
