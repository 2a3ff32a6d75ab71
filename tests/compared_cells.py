"""Cells of a sweep by recipe and attack, with hit rates by class drawn around given means."""

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import METRICS
from smoothsweep.orchestrator.result.cells import Summary
from smoothsweep.orchestrator.result.estimates import Sample

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
    return Summary(frame=frame, samples=samples, **asked)


def with_gaps(summary):
    """The frame of a summary with each metric's difference from the baseline: m_diff, its ends, m_verdict."""
    ends = {"": "difference", "_low": "low", "_high": "high", "_n": "n"}
    columns = {}
    for key in summary.measured:
        gaps = [summary.gap(row, key) for row in summary.frame.index]
        columns |= {f"{key}_diff{end}": [getattr(gap, name) for gap in gaps] for end, name in ends.items()}
        columns[f"{key}_verdict"] = [gap.verdict for gap in gaps]
    return summary.frame.assign(**columns)
