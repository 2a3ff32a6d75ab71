"""Cells of a sweep by recipe and attack, with hit rates by class drawn around given means."""

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import METRICS
from smoothsweep.orchestrator.result.estimates import Sample, Settings
from smoothsweep.orchestrator.result.evidence import Cells

QUICK = Settings(resamples=200)
CLASSES = [f"c{i}" for i in range(12)]


def rates(seed, mean):
    return pd.Series(np.clip(np.random.default_rng(seed).normal(mean, 0.1, len(CLASSES)), 0, 1), index=CLASSES)


def audit(leaks, *, metric="embedder_acc1", accs=None, by_class=True):
    """leaks: (recipe, attack) -> seed -> mean leak. The frame, and the samples of its rows."""
    rows, samples = [], []
    for number, ((recipe, attack), seeds) in enumerate(leaks.items()):
        found = {}
        for seed, mean in seeds.items():
            hits = rates([number, seed], mean) if by_class else None
            found[seed] = Sample(value=float(hits.mean()) if by_class else mean, by_class=hits)
        mean = np.mean([sample.value for sample in found.values()]) if found else np.nan
        acc = (accs or {}).get(recipe, 0.9)
        rows.append(
            {spec.key: np.nan for spec in METRICS} | {"recipe": recipe, "attack": attack, metric: mean, "test_acc": acc}
        )
        accuracy = {seed: Sample(value=acc) for seed in seeds}
        samples.append({metric: found, "test_acc": accuracy})
    return pd.DataFrame(rows).assign(access="gradients", control=False), tuple(samples)


def cells(frame, samples, **asked):
    return Cells(frame=frame, samples=samples, settings=QUICK, **asked)
