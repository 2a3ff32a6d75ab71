"""The mean of a cell's seeds with its interval, the verdict on two cells, and which judges can tell a leak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import BY_KEY, CEILINGS, CLASS_METRICS, METRICS, REACH_IMAGES
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.comparisons import Comparisons, Pair, Recommendation, compare_recipes
from smoothsweep.core.metrics.intervals import Interval, JudgeCheck, check_judge, rate_interval, seed_mean_interval
from smoothsweep.core.metrics.leak_comparisons import LeakComparison, LeakComparisons
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import Verdict, turned
from smoothsweep.orchestrator.result.data import Measured
from smoothsweep.orchestrator.result.format import is_null, number


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One metric of one trial: its value, and the hit rates by class where they are known.

    Attributes:
        images: How many yes-or-no outcomes the value is of, None where that is not known.
        counts: `images` by class, None where they are the same images under every seed.
    """

    value: float
    by_class: pd.Series | None = None
    images: int | None = None
    counts: pd.Series | None = None


Seeds = Mapping[int, Sample]
"""The samples of one metric in one cell, by seed."""


LEVEL = 0.95
"""Coverage of every interval."""
SEED = 0
"""Of the resamples that are drawn for a recommendation."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A cell minus its reference, over the `n` seeds both have, as `core.metrics.comparisons` decides it. low and high:
    NaN without an interval (one seed).

    Attributes:
        verdict: "" where there is nothing to compare.
    """

    difference: float
    low: float
    high: float
    n: int
    verdict: Verdict | Literal[""]


NOTHING = Comparison(difference=np.nan, low=np.nan, high=np.nan, n=0, verdict="")


def rows_by_trial(per_class: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """Trial -> its rows by class, in the order of the classes."""
    groups = () if per_class is None else per_class.groupby("trial")
    return {str(trial): rows.set_index("class").sort_index() for trial, rows in groups}


def collect(
    trials: pd.DataFrame, by_trial: Mapping[str, pd.DataFrame], test_images: int | None = None
) -> dict[str, dict[int, Sample]]:
    """metric -> seed -> sample, from the trials that are done. test_images: of the private data, None if not known."""
    samples: dict[str, dict[int, Sample]] = {key: {} for key in BY_KEY}
    known = trials.filter(["trial", "seed", *dict.fromkeys((*BY_KEY, *map(images_column, OWN)))])
    for trial in known[trials["status"] == "done"].to_dict("records"):
        rows = by_trial.get(trial["trial"])
        for key, spec in BY_KEY.items():
            if key in trial and not is_null(trial[key]):
                images, counts = _counted(trial, rows, spec, test_images)
                by_class = None
                if rows is not None and key in CLASS_METRICS and key in rows:
                    by_class = rows[key].dropna().astype(float)
                samples[key][int(trial["seed"])] = Sample(
                    value=float(trial[key]),
                    by_class=None if by_class is None or by_class.empty else by_class,
                    images=images,
                    counts=counts,
                )
    return samples


def images_column(metric: str) -> str:
    """The column of rows, by class or by trial, that says how many images a rate is of."""
    return f"{metric}_images"


OWN = tuple(key for key, spec in BY_KEY.items() if spec.counted == "own images")
"""Rates of images that their stage chose: a trial's row says how many."""


def _counted(
    trial: Mapping[str, Any], rows: pd.DataFrame | None, spec: Metric, test_images: int | None
) -> tuple[int | None, pd.Series | None]:
    """Number of images behind a rate, in all and by class; None where unknown."""
    if spec.counted == "trainings":
        return 1, None
    if spec.counted == "test images":
        return test_images, None
    if spec.counted == "own images":
        images = trial.get(images_column(spec.key))
        return (None if images is None or is_null(images) else int(images)), None
    judge = next((key for key in CLASS_METRICS if BY_KEY[key].measured_by == spec.measured_by), None)
    column = None if judge is None or spec.counted is None else images_column(judge)
    if rows is None or column not in rows.columns:
        return None, None
    counts = rows[column].dropna().astype(int)
    if spec.counted == "classes":
        return len(counts) or None, None
    return (int(counts.sum()), counts) if len(counts) else (None, None)


def rates(samples: Sequence[Sample]) -> tuple[np.ndarray, bool]:
    """Hit rates [samples, classes] of the classes that all samples have, else values [samples, 1]; and which it is."""
    hits = [sample.by_class for sample in samples if sample.by_class is not None]
    if len(hits) == len(samples):
        if all(by_class.index.equals(hits[0].index) for by_class in hits):
            return np.stack([by_class.to_numpy() for by_class in hits]), True
        classes = reduce(pd.Index.intersection, (by_class.index for by_class in hits))
        if len(classes):
            return np.stack([by_class.loc[classes].to_numpy() for by_class in hits]), True
    return np.array([[sample.value] for sample in samples]), False


def estimate(spec: Metric, seeds: Seeds) -> Measured:
    """The interval of a rate, over seeds and, where every seed has hit rates by class, over classes; of other metrics
    Student's t over seeds."""
    if not seeds:
        return Measured(np.nan, np.nan, np.nan, 0)
    values = [sample.value for sample in seeds.values()]
    if spec.is_rate:
        interval = _of_rates(spec, list(seeds.values()))
    else:
        interval = seed_mean_interval(values, level=LEVEL, bounds=spec.range)
    return Measured(float(np.mean(values)), *ends(interval.low, interval.high), len(seeds))


def _of_rates(spec: Metric, samples: Sequence[Sample]) -> Interval:
    hits, by_class = rates(samples)
    counts = [sample.images for sample in samples if sample.images is not None]
    total = None
    if len(counts) == len(samples):
        # The same real images come back under every seed; reconstructions and trainings are others each time.
        total = min(counts) if spec.counted in ("test images", "own images") else sum(counts)
    if by_class:
        in_all = hits.size / sum(len(present(sample.by_class, "by class")) for sample in samples)
        images = None if total is None else max(hits.size, round(total * in_all))
        return rate_interval(hits, images=images, level=LEVEL)
    groups = None if samples[0].counts is None else len(samples[0].counts)
    return rate_interval(hits[:, 0], images=total, groups=groups, level=LEVEL)


def compare(spec: Metric, mine: Seeds, reference: Seeds, *, among: int) -> Comparison:
    """`mine` minus `reference` by themselves, paired by seed and, where hit rates are known, by class; corrected for
    the `among` comparisons that this is one of. spec: the metric of both."""
    shared = [seed for seed in mine if seed in reference]
    if not shared:
        return NOTHING
    hits, _ = rates([cell[seed] for cell in (mine, reference) for seed in shared])
    sides = dict(zip(("mine", "reference"), np.split(hits, 2), strict=True))
    (pair,) = compare_recipes(sides, level=LEVEL, among=among, span=spec.span).pairs
    return compared(pair, len(shared))


def compared(pair: Pair, seeds: int, turn: int = 1) -> Comparison:
    """Convert a pair of `core.metrics` to a comparison. turn: 1, or -1 for the second minus the first."""
    low, high = sorted(turn * end for end in ends(pair.low, pair.high))
    side = pair.verdict if turn > 0 else turned(pair.verdict)
    return Comparison(difference=turn * pair.difference, low=low, high=high, n=seeds, verdict=side)


def ends(low: float | None, high: float | None) -> tuple[float, float]:
    """An interval's ends, NaN where there is none."""
    return (np.nan, np.nan) if low is None or high is None else (float(low), float(high))


def stacked(
    seeds: Mapping[str, Seeds], kept: Sequence[str], shared: Sequence[int], sign: int = 1
) -> tuple[dict[str, np.ndarray], bool]:
    """Name in `kept` -> its values times `sign`, [seeds, classes] over shared seeds; and whether classes are known."""
    flat, by_class = rates([seeds[sample][seed] for sample in kept for seed in shared])
    return dict(zip(kept, sign * flat.reshape(len(kept), len(shared), -1), strict=True)), by_class


Checks = Mapping[str, JudgeCheck]
"""Leak metric -> the check of the judge that measures it, where that was shown real photographs."""
FIRST = {ceiling: next(spec for spec in METRICS if spec.ceiling == ceiling) for ceiling in CEILINGS.values()}
"""What a judge reaches on real photographs -> the leak of which that is the ceiling."""


def judge_checks(known: Mapping[str, float | None], *, people: int | None, images: int | None) -> Checks:
    """Check the judges of all leaks.

    Args:
        known: Column of results -> value; None or NaN where it was not measured.
        people: Classes of the private data.
        images: Their test images.
    """
    measured = {key: float(value) for key, value in known.items() if value is not None and not is_null(value)}
    by_ceiling: dict[str, JudgeCheck] = {}
    for ceiling, spec in FIRST.items():
        if ceiling in measured:
            names, reach = not spec.verifies, measured.get(spec.reach or "")  # names the right one of all people
            of_images = int(measured.get(REACH_IMAGES[spec.reach], 0)) if spec.reach else 0
            by_ceiling[ceiling] = check_judge(
                # One person's name for all counts once.
                min(measured[ceiling], measured.get(f"{ceiling}_balanced", 1.0)),
                images=images,
                chance=(1 / people if people else None) if names else spec.chance,
                targets=measured.get("test_acc") if names else None,
                reach=None if reach is None else (reach, of_images),
            )
    return {key: by_ceiling[ceiling] for key, ceiling in CEILINGS.items() if ceiling in by_ceiling}


def untold(checks: Checks) -> tuple[str, ...]:
    """A sentence on every judge by which no leak can be told."""
    blind = {CEILINGS[key]: check for key, check in checks.items() if check.why}
    lines = []
    for ceiling, check in blind.items():
        spec = FIRST[ceiling]
        learns = JUDGES[spec.measured_by or ""].learns_private
        remedy = "Train it for more epochs" if learns else "Use an embedder made for such pictures"
        lines.append(f"No leak can be told by the {spec.label}: {check.words}. {remedy}, or judge by another.")
    return tuple(lines)


def limited(checks: Checks) -> tuple[str, ...]:
    """A sentence on every judge that can tell leaks and is often wrong about real photographs."""
    judges = {CEILINGS[key]: check for key, check in checks.items() if not check.why and not check.is_good}
    return tuple(f"Of the {FIRST[ceiling].label}: {check.words}." for ceiling, check in judges.items())


def labelled(spec: Metric, checks: Checks) -> Metric:
    """The metric with its judge's accuracy on real photographs in its label, unless that is good."""
    check = checks.get(spec.key)
    if check is None or check.is_good:
        return spec
    real = number(FIRST[CEILINGS[spec.key]], check.real, rough=True)
    return replace(spec, label=f"{spec.label} (real photographs: {real})")


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Recipes compared by one metric, each in one row of the frame.

    Attributes:
        rows: Recipe -> its row.
        values: Recipe -> leak [seeds, classes] times `sign`, so that small is good; [seeds, 1] unless `by_class`.
        seeds: Seeds that all of them share.
        missing: Recipe -> attack -> the seeds it lacks; such a recipe has no row.
        comparisons: Every pair of them; None for a single recipe.
        leaks: The recipes compared under their strongest attacks, with looks each beside the baseline as at its last;
            None where the metric did not choose the attacks.
        choose: Finds the recipe that leaks least.
    """

    metric: str
    sign: int
    rows: Mapping[str, int]
    values: Mapping[str, np.ndarray]
    seeds: tuple[int, ...]
    by_class: bool
    comparisons: Comparisons | None
    leaks: LeakComparisons | None
    choose: Callable[[], Recommendation] = field(repr=False)
    missing: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)

    @cached_property
    def recommendation(self) -> Recommendation:
        """The recipe that leaks least among those accurate enough, and how sure that is."""
        return self.choose()

    @cached_property
    def _by_pair(self) -> dict[frozenset[str], Pair]:
        known = (self.comparisons, None if self.leaks is None else self.leaks.pairs)
        return {frozenset((pair.first, pair.second)): pair for found in known if found for pair in found.pairs}

    @property
    def classes(self) -> int | None:
        """How many classes the comparisons rest on, None without class values."""
        return next(iter(self.values.values())).shape[1] if self.by_class else None

    @property
    def pairs(self) -> int:
        """How many comparisons the correction counts."""
        return len(self._by_pair)

    def mean(self, recipe: str) -> float:
        """Mean leak over the common seeds, in the metric's own unit."""
        return self.sign * float(self.values[recipe].mean())

    def reduction(self, recipe: str, reference: str) -> LeakComparison | None:
        """How much less a recipe leaks than a reference; None where the two were not compared as leaks."""
        return None if self.leaks is None else self.leaks.against(recipe, reference)

    def against(self, recipe: str, reference: str) -> Comparison:
        """recipe minus reference in the metric's unit: simultaneous interval and verdict. `NOTHING`
        where the two were not compared."""
        pair, leak = self._by_pair.get(frozenset((recipe, reference))), self.reduction(recipe, reference)
        if pair is None:
            return NOTHING
        turn = self.sign * (1 if pair.first == recipe else -1)
        return compared(pair, len(self.seeds) if leak is None else leak.seeds, turn=turn)
