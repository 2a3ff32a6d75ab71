"""Interpretation of leaks: reduced or hidden, exposure of people, queries, the attacker's advantage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.intervals import TOP, exposures
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.estimates import LEVEL, rates
from smoothsweep.orchestrator.result.format import axis_value, is_null
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store


def verdicts(summary: Summary) -> dict[str, LeakComparison]:
    """Recipe -> its comparison with its baseline by the metric that decides, in the order of the sweep."""
    return {recipe: told for recipe in summary.recipes if (told := summary.verdict(recipe)) is not None}


def hiding_not_looked_for(summary: Summary) -> str | None:
    """Why no verdict can say that a recipe hides its leak; None where one can."""
    published, attacks, told = summary.published, summary.attacks, verdicts(summary)
    if summary.primary is None:
        return "no leak can be told" if summary.checks else "no leak was measured"
    if not published or len(published) == len(attacks):
        kind = "a published one that follows gradients" if published else "an adapted one or one without gradients"
        return f"every attack of this sweep is {kind}: hiding shows where both kinds are tried"
    if all(verdict.hidden is None for verdict in told.values()):
        return "too few recipes have results of all attacks, of both kinds, under the seeds of one baseline"
    return None


AMONG = {5: "five"}[TOP]
"""`TOP` in a sentence."""


def exposed(summary: Summary, row: int, metric: str) -> list[dict[str, Any]]:
    """The people of a row of the summary's frame, the most probably exposed first; empty without hit rates by class.

    Of each `class`, its `share` (mean over the seeds), that shrunk towards the mean of all classes as `rate` with `low`
    and `high`, and `among_top`, the probability that it is one of the `TOP` most exposed.
    """
    seeds = summary.samples[row].get(metric, {})
    if not seeds or any(sample.by_class is None for sample in seeds.values()):
        return []
    hits, by_class = rates(list(seeds.values()))
    if not by_class:
        return []
    keys = list(reduce(pd.Index.intersection, (present(one.by_class, "by class").index for one in seeds.values())))
    images = [[1 if sample.counts is None else sample.counts.get(key, 1) for key in keys] for sample in seeds.values()]
    exposure = exposures(hits, np.array(images), level=LEVEL)
    names = ("share", "rate", "low", "high", "among_top")
    people = zip(keys, *(getattr(exposure, name).tolist() for name in names), strict=True)
    rows = (dict(zip(("class", *names), person, strict=True)) for person in people)
    return sorted(rows, key=lambda one: (-round(one["among_top"], 9), -round(one["rate"], 9), one["class"]))


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
    rows = []
    for index, cell in summary.cells.items() if summary.primary else ():
        leak = summary.estimate(index, summary.deciding)
        shown = math.nan if is_null(cell["queries"]) else cell["queries"]
        once = float(np.mean([by_parts[trial] for trial in cell["trials"] if trial in by_parts] or [0.0]))
        hits = [sample.by_class for sample in summary.samples[index][summary.deciding].values()]
        classes = len(hits[0]) if hits and hits[0] is not None else None
        shown = 0.0 if cell["access"] == "none" else shown  # it sees no answer
        rows.append(
            {
                "recipe": cell["recipe"],
                "attack": cell["attack"],
                "access": cell["access"],
                "control": bool(cell["control"]),
                "n": int(cell["n"]),
                "classes": classes,
                "queries_class": shown,
                "queries_once": once,
                # Those of parts are unknown per class where the classes are unknown.
                "queries": shown + (0.0 if once == 0 else once / classes if classes else math.nan),
                "metric": summary.deciding,
                "leak": leak.value,
                "low": leak.low,
                "high": leak.high,
            }
        )
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


def _reached(frame: pd.DataFrame, sign: int) -> pd.Series:
    """The strongest leak among the recipe's attacks with at most as many queries; equal queries share one value."""
    counted = frame["leak"].where(~frame["control"] & frame["queries"].notna())
    strongest = (sign * counted).groupby(frame["recipe"]).cummax()
    strongest = strongest.groupby([frame["recipe"], frame["queries"]]).transform("max")
    return sign * strongest.where(counted.notna())


JUDGED = ("attack_acc1", "embedder_acc1", "xi_train", "dist_face", "dist_eval")
"""Leaks whose change is shown, where they were measured."""
ALPHA, SAMPLES = "alpha", "samples_per_class"
LEAST = 3  # factors, or two sizes of a training set, that make a curve


class AdvantagePoint(NamedTuple):
    """A point of the figure on the attacker's advantage.

    Attributes:
        x: A smoothing factor, or a number of images per class.
        value, low, high: The attacker's relative gain over plain training, positive where more leaks; of a distance, by
            how much it shrank. low and high are NaN without an interval, and hold the plain value fixed.
    """

    x: float
    value: float
    low: float
    high: float


class AdvantagePanel(NamedTuple):
    """Curves over one quantity. title: the metric, or what the sweep varies beside; curves: name -> points by x."""

    title: str
    x_label: str
    curves: dict[str, list[AdvantagePoint]]


def advantage_panels(summary: Summary) -> list[AdvantagePanel]:
    """Figure 2b where a sweep has several smoothing factors, 2a where it has several sizes of the training set: then
    one panel per metric with a curve per smoothing factor but that of plain training.

    Empty where the sweep varies no smoothing factor, or names no plain training to compare with.
    """
    axes = {axis.key: axis for axis in summary.axes}
    judged = [key for key in JUDGED if key in summary.measured]
    if ALPHA not in axes or not judged:
        return []
    varied = [key for key in (ALPHA, SAMPLES) if key in axes]
    frame = summary.frame[~summary.frame["control"] & summary.frame[varied].map(_is_number).all(axis=1)]
    others, panels = [axis for axis in summary.axes if axis.key not in varied], []
    shared = [frame[axis.key].map(str) for axis in others] or [pd.Series("", index=frame.index)]
    for _, rows in frame.groupby(shared, sort=False):  # rows that differ only in smoothing and samples
        title = ", ".join(axis_value(axis, rows[axis.key].iloc[0]) for axis in others)
        if SAMPLES in axes and rows[SAMPLES].nunique() >= LEAST - 1:
            by_alpha = [(f"alpha {alpha:g}", same) for alpha, same in rows.groupby(ALPHA) if alpha != 0]
            for key in judged:
                curves = {name: _points(summary, same, key, SAMPLES) for name, same in by_alpha}
                name = " \u00b7 ".join(filter(None, (metric_of(key).label, title)))
                panels.append(AdvantagePanel(name, "training images per class", curves))
        elif SAMPLES not in axes and rows[ALPHA].nunique() >= LEAST:
            curves = {metric_of(key).label: _points(summary, rows, key, ALPHA) for key in judged}
            panels.append(AdvantagePanel(title, "smoothing factor alpha", curves))
    lines = [{name: points for name, points in panel.curves.items() if len(points) > 1} for panel in panels]
    return [panel._replace(curves=of) for panel, of in zip(panels, lines, strict=True) if of]


def _points(summary: Summary, rows: pd.DataFrame, key: str, over: str) -> list[AdvantagePoint]:
    sign, points = metric_of(key).sign, []
    for index in rows.sort_values(over).index:
        row, gap = summary.cells[index], summary.gap(index, key)
        difference = 0.0 if row["is_baseline"] else gap.difference
        plain = row[key] - difference
        if is_null(difference) or is_null(plain) or not plain:
            continue
        ends = [math.nan] * 2 if row["is_baseline"] else [gap.low, gap.high]
        value, low, high = (sign * float(value) / abs(plain) for value in (difference, *ends[::sign]))
        points.append(AdvantagePoint(float(row[over]), value, low, high))
    return points


def _is_number(value: object) -> bool:
    return not is_null(value) and isinstance(value, Real) and not isinstance(value, bool)
