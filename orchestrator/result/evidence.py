"""Compare all recipes simultaneously, each under the attack that works best against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import METRICS, metric_of
from smoothsweep.core.metrics.comparisons import Pair, Recommendation, compare_recipes, recommend
from smoothsweep.core.metrics.leak_comparisons import LeakComparison, LeakComparisons, compare_leaks
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.result.cells import AttackedCells, Samples, Stop, shared_seeds, stops
from smoothsweep.orchestrator.result.estimates import NOTHING, Comparison, compare, compared, only, stacked
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.sweeps.search import SeedLooks

COLUMNS = {"_diff": "difference", "_diff_low": "low", "_diff_high": "high", "_diff_n": "n", "_verdict": "verdict"}
"""Ending of a column of the frame -> field of the comparison it holds."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Each recipe's leak under its worst attack.

    Attributes:
        rows: Recipe -> its row of the frame under that attack.
        values: Recipe -> leak [seeds, classes] times `sign`, so that small is good; [seeds, 1] unless `by_class`.
        seeds: Seeds that all of them share.
        left_out: Recipes that are compared with no other, since they lack an attack or one of these seeds.
        missing: Recipe -> attack -> the seeds it lacks; such a recipe has no row.
        leaks: The recipes compared under their strongest attacks; None where the metric did not choose the attacks.
    """

    metric: str
    sign: int
    rows: Mapping[str, int]
    values: Mapping[str, np.ndarray]
    seeds: tuple[int, ...]
    by_class: bool
    recommendation: Recommendation
    left_out: tuple[str, ...] = ()
    missing: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    leaks: LeakComparisons | None = None
    _by_pair: Mapping[frozenset[str], Pair] = field(default_factory=dict, repr=False)
    _seeds_by_pair: Mapping[frozenset[str], int] = field(default_factory=dict, repr=False)  # other than `seeds`

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
        """The recipe with the least leak among those accurate enough; None with one seed, which proves nothing."""
        return self.recommendation.best if len(self.seeds) >= LEAST_SEEDS else None

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
        both = frozenset((recipe, reference))
        pair = self._by_pair.get(both)
        if pair is None:
            return NOTHING
        seeds = self._seeds_by_pair.get(both, len(self.seeds))
        return compared(pair, seeds, turn=self.sign * (1 if pair.first == recipe else -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells(AttackedCells):
    """The cells of a sweep and their comparisons.

    looks: when recipes got more seeds; None where all have the same. With looks, `samples` holds those of the first
    look, `all_samples` the rest too: a recipe's comparison with the baseline rests on the seeds of its last look, and
    everything else on those of the first, whose number nothing has chosen.
    """

    looks: SeedLooks | None = None
    all_samples: Samples = ()
    _stops: dict[str, dict[str, Stop]] = field(default_factory=dict, repr=False)

    def stops(self, metric: str) -> dict[str, Stop]:
        """Recipe -> its last look by a leak metric; empty in a sweep without looks."""
        if self.looks is None or self.baseline_recipe is None:
            return {}
        if metric not in self._stops:
            self._stops[metric] = stops(self._whole, metric, self.looks, self.baseline_recipe)
        return self._stops[metric]

    @property
    def _whole(self) -> AttackedCells:
        return AttackedCells(frame=self.frame, samples=self.all_samples, settings=self.settings)

    def gather_worst(self, metric: str, worst_by: str | None = None) -> Evidence | None:
        """The evidence on the complete recipes, each under the attack that works best against it by `worst_by`."""
        by = worst_by or metric
        cases, worst = self.cases(by), self.worst(by)
        rows = {recipe: row for recipe, row in worst.items() if not is_null(self.frame.loc[row, metric])}
        compares_leaks = by == metric and metric_of(metric).is_leak and bool(rows)
        leaks = self.comparisons(metric, cases) if compares_leaks else None
        evidence = self.gather(metric, rows, seeds=cases.seeds, leaks=leaks)
        if evidence is None:
            return None
        evidence = replace(evidence, missing=cases.missing, left_out=(*cases.missing, *evidence.left_out), leaks=leaks)
        return self._at_looks(metric, evidence) if leaks is not None and self.looks is not None else evidence

    def _at_looks(self, metric: str, evidence: Evidence) -> Evidence:
        """The evidence with each recipe at its last look, by that look's seeds and error; without one, no verdict."""
        last = self.stops(metric)
        stops = {stop.look: stop for stop in last.values()}
        at_look = {
            look: compare_leaks(
                self._whole.leaks_of(metric, stop.cases),
                baseline=self.baseline_recipe,
                published=[attack for attack in self.published if attack in stop.cases.attacks],
                level=1 - stop.error,
                span=metric_of(metric).span,
                every_pair=False,
                among=stop.among,
                smallest=present(self.looks, "looks").smallest,
                available=self.people,
            ).verdicts
            for look, stop in stops.items()
        }
        differences = {
            # A p-value beside 1 - level, as the interval of this look is beside the look's own error.
            (recipe, self.baseline_recipe): replace(at_look[stop.look][recipe], p=stop.repeated.p)
            for recipe, stop in last.items()
        }
        compared = present(evidence.leaks, "leaks")
        others = {names: pair for names, pair in compared.by_pair.items() if self.baseline_recipe not in names}
        leaks = replace(compared, by_pair=differences | others)
        pairs = {frozenset((pair.first, pair.second)): pair for pair in leaks.pairs.pairs}
        many = {frozenset(names): difference.seeds for names, difference in differences.items()}
        return replace(evidence, leaks=leaks, _by_pair={**evidence._by_pair, **pairs}, _seeds_by_pair=many)

    def gather(
        self,
        metric: str,
        rows: Mapping[str, int],
        *,
        seeds: Sequence[int] | None = None,
        leaks: LeakComparisons | None = None,
    ) -> Evidence | None:
        """The evidence on the recipes of `rows`. All of them are compared, also those without the accuracy asked for,
        since tables print their differences too: one pair has one verdict wherever it is shown. On a tie the baseline
        is preferred, then the more accurate. None without rows.

        seeds: those that may be used, None for all. leaks: the same recipes as compared under their strongest attacks,
        where that is what `rows` are.
        """
        row_of = dict(rows)
        if not row_of:
            return None
        sign, floor, baseline = metric_of(metric).sign, self.min_test_acc, self.baseline_recipe
        accuracy = {recipe: float(self.frame.loc[row, "test_acc"]) for recipe, row in row_of.items()}
        enough = {recipe: value if value == value else -1.0 for recipe, value in accuracy.items()}
        ordered = sorted(row_of, key=lambda recipe: (recipe != baseline, -enough[recipe]))
        mine = {recipe: only(self.samples[row_of[recipe]][metric], seeds) for recipe in ordered}
        shared = shared_seeds(mine, needed={recipe for recipe in mine if recipe == baseline})
        kept = [recipe for recipe, known in mine.items() if set(shared) <= set(known)]
        values, by_class = stacked(mine, kept, shared, sign)
        choice = recommend(
            values,
            accuracy=enough,
            min_accuracy=floor,
            reference=baseline,
            comparisons=leaks.pairs if leaks is not None and leaks.by_pair else None,
            span=metric_of(metric).span,
            **asdict(self.settings),
        )
        pairs = choice.comparisons.pairs if choice.comparisons else ()
        return Evidence(
            metric=metric,
            sign=sign,
            rows=row_of,
            values=values,
            seeds=shared,
            by_class=by_class,
            recommendation=choice,
            left_out=tuple(recipe for recipe in row_of if recipe not in values),
            _by_pair={frozenset((pair.first, pair.second)): pair for pair in pairs},
        )

    def between_rows(self, evidence: Evidence, row: int, reference: int) -> Comparison:
        """Two rows by the metric of the evidence: as found among all its pairs where both are among its rows, else by
        themselves, under the correction for as many pairs."""
        mine, theirs = (str(self.frame.loc[cell, "recipe"]) for cell in (row, reference))
        if evidence.rows.get(mine) == row and evidence.rows.get(theirs) == reference:
            comparison = evidence.against(mine, theirs)
            if comparison.n:
                return comparison
        among = max(1, len(evidence.rows) * (len(evidence.rows) - 1) // 2)
        seeds = (self.samples[cell][evidence.metric] for cell in (row, reference))
        return compare(metric_of(evidence.metric), *seeds, self.settings, among=among)

    def with_differences(self, references: Sequence[int | None], primary: str | None = None) -> pd.DataFrame:
        """The frame with m_diff, m_diff_low, m_diff_high, m_diff_n and m_verdict of every metric m, corrected for how
        many recipes meet the same attack.

        references: the row that each row is compared with. A row that shares no seed with most others is compared by
        itself, under the same correction. Those whose reference met another attack (a baseline may name the attack too)
        are compared with it by families, corrected for as many as they are. primary: the metric that decides. Two rows
        that are both the worst of their recipes are compared as the answer compares them, so that a pair has one
        verdict on a page.
        """
        columns: dict[str, list] = {}
        attacks, recipes = self.frame["attack"].tolist(), self.frame["recipe"].tolist()
        pairs = [(row, other) for row, other in enumerate(references) if other is not None]
        differences = dict(pairs)
        several = len(set(attacks)) > 1
        across = [(row, other) for row, other in pairs if attacks[row] != attacks[other]]
        for spec in METRICS:
            gaps = [NOTHING] * len(self.frame)
            under: dict[str, list[int]] = {}
            for row in np.flatnonzero(self.frame[spec.key].notna() & self.is_told(spec.key)).tolist():
                under.setdefault(attacks[row], []).append(row)
            for met in under.values():
                rows = {str(recipes[row]): row for row in met}
                known = [row for row in met if differences.get(row) in rows.values()]
                evidence = self.gather(spec.key, rows) if known else None
                for row in known:
                    gaps[row] = self.between_rows(present(evidence, "evidence"), row, differences[row])
            for other, rows in self._families(across) if self.is_told(spec.key) else ():
                for row, gap in self._across(spec.key, other, rows, among=len(across)):
                    gaps[row] = gap
            decides = (several or spec.is_leak) and self.is_told(spec.key)
            for row, gap in self._decided(spec.key, pairs, primary) if decides else ():
                gaps[row] = gap
            columns |= {f"{spec.key}{end}": [getattr(gap, name) for gap in gaps] for end, name in COLUMNS.items()}
        return pd.concat([self.frame, pd.DataFrame(columns, index=self.frame.index)], axis=1)

    def _families(self, across: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
        """(reference, rows) whose differences vary alike: other recipes under one attack, each a training of its own;
        and the reference's own recipe under all other attacks, where the training drops out."""
        families: dict[tuple[int, str | None], list[int]] = {}
        for row, other in across:
            mine, theirs = self.cells[row], self.cells[other]
            attack = None if mine["recipe"] == theirs["recipe"] else mine["attack"]
            families.setdefault((other, attack), []).append(row)
        return [(other, rows) for (other, _), rows in families.items()]

    def _across(self, metric: str, other: int, rows: Sequence[int], *, among: int) -> list[tuple[int, Comparison]]:
        """Row -> its comparison with `other`, the variance over seeds pooled over all of them; rows that lack a seed of
        the others are compared by themselves."""
        seeds = {str(row): self.samples[row].get(metric, {}) for row in (other, *rows)}
        measured = {row: mine for row, mine in seeds.items() if mine}
        shared = shared_seeds(measured, needed={str(other)}) if str(other) in measured else ()
        kept = [row for row, mine in measured.items() if set(shared) <= set(mine)]
        pairs = {}
        if shared and len(kept) > 1:
            values, _ = stacked(measured, kept, shared)
            compared_all = compare_recipes(
                values, level=self.settings.level, among=among, span=metric_of(metric).span, p_values=False
            )
            pairs = {row: compared_all.between(row, str(other)) for row in kept if row != str(other)}
        alone = {
            row: compare(metric_of(metric), seeds[str(row)], seeds[str(other)], self.settings, among=among)
            for row in rows
            if str(row) not in pairs
        }
        together = {
            int(row): compared(pair, len(shared), turn=1 if pair.first == row else -1) for row, pair in pairs.items()
        }
        return [*alone.items(), *together.items()]

    def _decided(
        self, metric: str, pairs: Sequence[tuple[int, int]], primary: str | None
    ) -> list[tuple[int, Comparison]]:
        """Row -> its comparison, of the pairs whose rows are both the worst of their recipes: by this metric if it is a
        leak, else by the one that decides."""
        by = metric if metric_of(metric).is_leak else primary
        if by is None:
            return []
        worst = {row for row in self.worst(by).values() if not is_null(self.frame.loc[row, metric])}
        met = [(row, other) for row, other in pairs if {row, other} <= worst]
        evidence = self.gather_worst(metric, by) if met else None
        return [(row, self.between_rows(present(evidence, "evidence"), row, other)) for row, other in met]
