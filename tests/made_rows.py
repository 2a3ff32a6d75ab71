"""A sweep's rows made up by hand: what each trial reached, by class where that is an array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.orchestrator.result.data import Axis, ReportData

ALPHA = Axis(key="alpha")
ATTACK = Axis(key="attack_settings", role="attack", bare=True)


def made_data(rows: Iterable[Mapping[str, Any]], *axes: Axis, **fields: Any) -> ReportData:
    """rows: one per trial, with `seed` and the axes; an array is hit rates by class, whose mean is the trial's."""
    results, hits = [], []
    for row in rows:
        trial = "/".join(str(row.get(name)) for name in (*(axis.key for axis in axes), "seed"))
        by_class = {key: value for key, value in row.items() if isinstance(value, np.ndarray)}
        means = {key: float(value.mean()) for key, value in by_class.items()}
        results.append({"trial": trial, "status": "done", "test_acc": 0.9, **row, **means})
        if by_class:
            names = [f"c{place:02}" for place in range(len(next(iter(by_class.values()))))]
            hits.append(pd.DataFrame({"trial": results[-1]["trial"], "class": names, **by_class}))
    known: dict[str, Any] = {"title": "t", "results": pd.DataFrame(results), "axes": axes}
    return ReportData(**(known | {"per_class": pd.concat(hits, ignore_index=True) if hits else None} | fields))


def of_attack(name: str, access: str = "gradients", *, control: bool = False, published: bool = True) -> dict[str, Any]:
    """The columns of an attack, for `ATTACK`."""
    return {
        "attack_settings": name,
        "attack_access": access,
        "attack_control": control,
        "attack_published": published,
    }
