"""What the audit can tell of the recipes: each under the attack that works best against it, all compared at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pandas as pd

from core.attacks.access import ACCESS_LEVELS
from core.metrics.comparisons import Pair, on_common_seeds
from core.metrics.recommendation import Recommendation, recommend
from core.metrics.table import METRICS, metric_of
from core.metrics.verdicts import LEAST_SEEDS
from orchestrator.reading.numbers.estimates import (
    NOTHING,
    Comparison,
    Sample,
    Seeds,
    Settings,
    aligned,
    compare,
    compared,
)

MOST = 0.75
"""A seed counts where at least this share of the recipes has it: one failed trial must not cost all of them a seed."""

COLUMNS = {"_diff": "difference", "_diff_low": "low", "_diff_high": "high", "_diff_n": "n", "_verdict": "verdict"}
"""Ending of a column of the frame -> field of the comparison it holds."""

Samples = Sequence[Mapping[str, Mapping[int, Sample]]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """rows: recipe -> its row of the frame under its worst attack. values: recipe -> leak [seeds, classes] of those
    compared, times `sign`, so that small is good; [seeds, 1] where no hit rates by class are known. seeds: those that
    all of them share. left_out: recipes that lack one of these seeds and are compared with nobody. by_class: whether
    `values` has classes.
    """

    metric: str
    sign: int
    rows: Mapping[str, int]
    values: Mapping[str, np.ndarray]
    seeds: tuple[int, ...]
    by_class: bool
    recommendation: Recommendation
    left_out: tuple[str, ...] = ()
    _by_pair: Mapping[frozenset[str], Pair] = field(default_factory=dict, repr=False)

    @property
    def classes(self) -> int | None:
        """How many classes the comparisons rest on, None without class values."""
        return next(iter(self.values.values())).shape[1] if self.by_class else None

    @property
    def compared(self) -> tuple[str, ...]:
        """The recipes that are compared pairwise: all that share the seeds."""
        return tuple(self.recommendation.comparisons.means) if self.recommendation.comparisons else ()

    @property
    def recommended(self) -> str | None:
        """The recipe with the least leak among those accurate enough; None with one seed, which cannot tell."""
        return self.recommendation.best if len(self.seeds) >= LEAST_SEEDS else None

    @property
    def pairs(self) -> int:
        """How many comparisons the correction counts."""
        return len(self._by_pair)

    def mean(self, recipe: str) -> float:
        """Mean leak over the common seeds, in the metric's own unit."""
        return self.sign * float(self.values[recipe].mean())

    def against(self, recipe: str, reference: str) -> Comparison:
        """recipe minus reference in the metric's unit: simultaneous interval, corrected p-value and verdict. `NOTHING`
        where the two were not compared."""
        pair = self._by_pair.get(frozenset((recipe, reference)))
        if pair is None:
            return NOTHING
        return compared(pair, len(self.seeds), turn=self.sign * (1 if pair.first == recipe else -1))


def worst_rows(frame: pd.DataFrame, metric: str, access: str | None = None) -> dict[str, int]:
    """Recipe -> its row under the attack that works best against it by this leak metric, where it was measured.

    Controls are no attacks. access: only attacks that see no more of a target than that.
    """
    counted = frame[~frame["control"] & frame[metric].notna()]
    if access is not None:
        counted = counted[counted["access"].map(ACCESS_LEVELS.index) <= ACCESS_LEVELS.index(access)]
    worst = (metric_of(metric).sign * counted[metric]).groupby(counted["recipe"], sort=False).idxmax()
    return {str(recipe): int(row) for recipe, row in worst.items()}


def gather(
    frame: pd.DataFrame,
    samples: Samples,
    metric: str,
    *,
    settings: Settings,
    rows: Mapping[str, int] | None = None,
    min_test_acc: float | None = None,
    baseline: str | None = None,
) -> Evidence | None:
    """The evidence on the recipes of `rows`, by default each at its worst. All of them are compared, also those without
    the accuracy asked for, since tables print their differences too: one pair has one verdict wherever it is shown.
    baseline: preferred on a tie, then the more accurate. None where the metric was measured for none.
    """
    found = dict(worst_rows(frame, metric) if rows is None else rows)
    if not found:
        return None
    sign = metric_of(metric).sign
    accuracy = {recipe: float(frame.loc[row, "test_acc"]) for recipe, row in found.items()}
    enough = {recipe: value if value == value else -1.0 for recipe, value in accuracy.items()}
    ordered = sorted(found, key=lambda recipe: (recipe != baseline, -enough[recipe]))
    seeds = {recipe: samples[found[recipe]][metric] for recipe in ordered}
    least = min(
        (recipe for recipe in ordered if min_test_acc is None or accuracy[recipe] >= min_test_acc),
        key=lambda recipe: sign * frame.loc[found[recipe], metric],
        default=None,
    )
    shared, kept = _common(seeds, {least, baseline} - {None})
    values, by_class = _matrices({recipe: seeds[recipe] for recipe in kept}, shared)
    values = {recipe: sign * matrix for recipe, matrix in values.items()}
    choice = recommend(
        values, accuracy=enough, min_accuracy=min_test_acc, beside=tuple(values), **asdict(settings)
    )
    pairs = choice.comparisons.pairs if choice.comparisons else ()
    return Evidence(
        metric=metric, sign=sign, rows=found, values=values, seeds=shared, by_class=by_class, recommendation=choice,
        left_out=tuple(recipe for recipe in found if recipe not in values),
        _by_pair={frozenset((pair.first, pair.second)): pair for pair in pairs},
    )  # fmt: skip


def _common(seeds: Mapping[str, Seeds], needed: set[str]) -> tuple[tuple[int, ...], list[str]]:
    """As many seeds as most recipes share, the needed ones among them, and the recipes that have them all."""
    count = {seed: sum(seed in mine for mine in seeds.values()) for seed in set().union(*seeds.values())}
    by_count = sorted(count, key=lambda seed: (-count[seed], seed))
    chosen: tuple[int, ...] = tuple(by_count[:1])
    for many in range(2, len(by_count) + 1):
        kept = {recipe for recipe, mine in seeds.items() if set(by_count[:many]) <= set(mine)}
        if needed <= kept and len(kept) >= MOST * len(seeds):
            chosen = tuple(sorted(by_count[:many]))
    return chosen, [recipe for recipe, mine in seeds.items() if set(chosen) <= set(mine)]


def _matrices(seeds: Mapping[str, Seeds], shared: Sequence[int]) -> tuple[dict[str, np.ndarray], bool]:
    """recipe -> [seeds, classes] on the classes that all have, else [seeds, 1]; and whether there are classes."""
    rates = aligned([mine[seed].by_class for mine in seeds.values() for seed in shared])
    if rates is None:
        return {recipe: np.array([[mine[seed].value] for seed in shared]) for recipe, mine in seeds.items()}, False
    by_seed = iter(rates)
    return on_common_seeds({recipe: {seed: next(by_seed) for seed in shared} for recipe in seeds})[1], True


def with_differences(
    frame: pd.DataFrame,
    samples: Samples,
    references: Sequence[int | None],
    *,
    settings: Settings,
    min_test_acc: float | None = None,
    baseline: str | None = None,
) -> pd.DataFrame:
    """The frame with m_diff, m_diff_low, m_diff_high, m_diff_n and m_verdict of every metric m, corrected for how many
    recipes meet the same attack.

    references: the row that each row is compared with. A row that shares no seed with most others is compared by
    itself, under the same correction.
    """
    columns: dict[str, list] = {}
    for spec in METRICS:
        gaps = [NOTHING] * len(frame)
        for attack in dict.fromkeys(frame["attack"]):
            mine = frame.index[(frame["attack"] == attack) & frame[spec.key].notna()]
            rows = {str(frame.loc[row, "recipe"]): int(row) for row in mine}
            known = [row for row in mine if references[row] in rows.values()]
            evidence = gather(
                frame, samples, spec.key, settings=settings, rows=rows, min_test_acc=min_test_acc, baseline=baseline
            ) if known else None  # fmt: skip
            for row in known:
                gaps[row] = between_rows(frame, samples, evidence, row, references[row], settings)
        columns |= {f"{spec.key}{end}": [getattr(gap, name) for gap in gaps] for end, name in COLUMNS.items()}
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def between_rows(
    frame: pd.DataFrame, samples: Samples, evidence: Evidence, row: int, reference: int, settings: Settings
) -> Comparison:
    """Two rows of the frame by the metric of the evidence: as found among all its pairs where both are among its rows,
    else by themselves, under the correction for as many pairs."""
    mine, theirs = str(frame.loc[row, "recipe"]), str(frame.loc[reference, "recipe"])
    if evidence.rows.get(mine) == row and evidence.rows.get(theirs) == reference:
        found = evidence.against(mine, theirs)
        if found.n:
            return found
    metric = evidence.metric
    among = max(1, len(evidence.rows) * (len(evidence.rows) - 1) // 2)
    return compare(samples[row][metric], samples[reference][metric], settings, among=among)
