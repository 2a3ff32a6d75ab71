"""The leak of each recipe against the number of queries to its target.

Queries are counted exactly, by what shows an attack its target. Some are asked per class, some once for all classes by
a part (a pool's scores, students that learn from answers): those are shared out over the classes attacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.access import ACCESS_LEVELS
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.numbers.format import is_null
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.common.base import Store

ASKS_NOTHING = "none"  # the access of an attack that sees no answer


def asked_by_parts(trials: list[Trial], store: Store) -> dict[str, float]:
    """Finished trial -> queries that the parts of its attack sent to its target, once for all classes."""
    queries = {}
    for trial in trials:
        if not all(store.has(stage) for stage in trial.stages):
            continue
        parts = [s for s in with_ancestors(trial.stages) if s.name in PARTS and "target" in s.inputs and store.has(s)]
        queries[trial.id] = sum(store.metrics(stage).get("queries") or 0.0 for stage in parts)
    return queries


def query_frame(summary: Summary, by_parts: Mapping[str, float]) -> pd.DataFrame:
    """One row per recipe and attack, of each recipe in the order of its queries.

    queries_class, queries_once: images shown while a class was attacked, and by parts for all classes; means over the
    seeds. queries: both per class. leak, low, high: by the metric that decides, in its unit. reached: the strongest
    leak among the recipe's attacks, controls left out, that ask at most so much; NaN for a control, and where the
    queries are not known.
    """
    rows = [_row(summary, index, cell, by_parts) for index, cell in summary.cells.items()] if summary.primary else []
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows)
    order = {recipe: place for place, recipe in enumerate(summary.recipes)}
    frame = frame.sort_values(
        ["recipe", "queries"],
        key=lambda column: column.map(order) if column.name == "recipe" else column,
        kind="stable",
    ).reset_index(drop=True)
    return frame.assign(reached=_reached(frame, summary.spec.sign))


def by_access(queries: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Access level -> the rows of what an attacker with it can run, `reached` by those alone; least access first.

    Only levels that an attack of its own reaches: controls make none.
    """
    sign, levels = metric_of(queries["metric"].iloc[0]).sign, {}
    for place, level in enumerate(ACCESS_LEVELS):
        if ((queries["access"] == level) & ~queries["control"] & queries["leak"].notna()).any():
            within = queries[queries["access"].isin(ACCESS_LEVELS[: place + 1])]
            levels[level] = within.assign(reached=_reached(within, sign))
    return levels


def _reached(frame: pd.DataFrame, sign: int) -> pd.Series:
    """The strongest leak among the recipe's attacks with at most as many queries; equal queries share one value."""
    counted = frame["leak"].where(~frame["control"] & frame["queries"].notna())
    strongest = (sign * counted).groupby(frame["recipe"]).cummax()
    strongest = strongest.groupby([frame["recipe"], frame["queries"]]).transform("max")
    return sign * strongest.where(counted.notna())


def _row(summary: Summary, index: Any, cell: Mapping[str, Any], by_parts: Mapping[str, float]) -> dict[str, Any]:
    """The queries and the leak of a cell; queries of parts are unknown per class where the classes are unknown."""
    key, leak = summary.deciding, summary.estimate(index, summary.deciding)
    queries = 0.0 if cell["access"] == ASKS_NOTHING else float("nan") if is_null(cell["queries"]) else cell["queries"]
    once = float(np.mean([by_parts[trial] for trial in cell["trials"] if trial in by_parts] or [0.0]))
    hits = [sample.by_class for sample in summary.samples[index][key].values()]
    classes = len(hits[0]) if hits and hits[0] is not None else None
    shared = 0.0 if once == 0 else once / classes if classes else float("nan")
    return {
        "recipe": cell["recipe"],
        "attack": cell["attack"],
        "access": cell["access"],
        "control": bool(cell["control"]),
        "n": int(cell["n"]),
        "classes": classes,
        "queries_class": queries,
        "queries_once": once,
        "queries": queries + shared,
        "metric": key,
        "leak": leak.mean,
        "low": leak.low,
        "high": leak.high,
    }
