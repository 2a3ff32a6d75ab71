"""The cells of a sweep, what all compared recipes share, the strongest attack on each, and every comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import RecipeWords
from smoothsweep.core.judges.columns import METRICS, metric_of
from smoothsweep.core.metrics.comparisons import ACCURACY_MARGIN, compare_recipes, recommend
from smoothsweep.core.metrics.leak_comparisons import LeakComparison, LeakComparisons, compare_leaks
from smoothsweep.core.metrics.looks import settled
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.result.data import Axis, Measured
from smoothsweep.orchestrator.result.estimates import (
    LEVEL,
    NOTHING,
    SEED,
    Checks,
    Comparison,
    Evidence,
    Seeds,
    compare,
    compared,
    labelled,
    rates,
    stacked,
)
from smoothsweep.orchestrator.result.format import estimate as estimate_words
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.sweeps.search import SeedLooks

MOST = 0.75
"""A seed counts where at least this fraction of recipes has it, so that one failed trial does not cost all of them."""

Met = Mapping[str, Mapping[str, Collection[int]]]
"""Recipe -> attack -> the seeds under which the leak was measured."""


@dataclass(frozen=True, kw_only=True)
class CompleteCases:
    """What all compared recipes share.

    Attributes:
        attacks: Every attack that at least one recipe has met, in order of appearance.
        seeds: The seeds under which every complete recipe has met every attack, rising; empty without a complete
            recipe.
        unused: Seeds that some recipe has and that do not count, since too few recipes have them under every attack.
        recipes: The complete recipes, in the order given.
        missing: Incomplete recipe -> attack -> the seeds that it lacks there, rising; all seeds of the sweep where no
            recipe is complete.
    """

    attacks: tuple[str, ...]
    seeds: tuple[int, ...]
    recipes: tuple[str, ...]
    missing: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    unused: tuple[int, ...] = ()


def complete_cases(met: Met, *, baseline: str | None = None, front: Sequence[str] = ()) -> CompleteCases:
    """Choose attacks, seeds and recipes such that every chosen recipe has met every chosen attack under every seed.

    An attack that any recipe has met is never dropped, since it may be the strongest against the others. A seed is
    dropped where fewer than `MOST` of the recipes have it, or where the baseline lacks it. It is also dropped where the
    recipe in front lacks it, if two seeds or more remain: the recipe that a reader would choose should be compared.

    Args:
        met: Every recipe of the sweep, those without any measurement included.
        baseline: The recipe that the others are compared with, None without one.
        front: The recipes by rising leak, as far as it is known.
    """
    attacks = tuple(dict.fromkeys(attack for under in met.values() for attack, seeds in under.items() if seeds))
    known = sorted({seed for under in met.values() for seeds in under.values() for seed in seeds})
    every = {recipe: set(known).intersection(*(under.get(a, ()) for a in attacks)) for recipe, under in met.items()}
    able = {recipe: seeds for recipe, seeds in every.items() if seeds}
    needed = {recipe for recipe in able if recipe == baseline}
    first = [recipe for recipe in front if recipe in able][:1]
    seeds = shared_seeds(able, needed=needed.union(first))
    if len(seeds) < LEAST_SEEDS:
        seeds = shared_seeds(able, needed=needed)
    recipes = tuple(recipe for recipe, mine in able.items() if set(seeds) <= mine)
    wanted = seeds or tuple(known)
    missing = {
        recipe: {
            attack: lacking
            for attack in attacks
            if (lacking := tuple(seed for seed in wanted if seed not in under.get(attack, ())))
        }
        for recipe, under in met.items()
        if recipe not in recipes
    }
    unused = tuple(seed for seed in known if seed not in wanted)
    return CompleteCases(attacks=attacks, seeds=seeds, recipes=recipes, missing=missing, unused=unused)


def shared_seeds(seeds: Mapping[str, Collection[int]], *, needed: Collection[str] = ()) -> tuple[int, ...]:
    """As many seeds as most recipes share, rising.

    seeds: recipe -> its seeds. needed: recipes that must have every seed that is chosen.
    """
    everything: set[int] = set().union(*seeds.values())
    usable = [seed for seed in everything if all(seed in seeds[recipe] for recipe in needed)]
    count = {seed: sum(seed in mine for mine in seeds.values()) for seed in usable}
    by_count = sorted(count, key=lambda seed: (-count[seed], seed))
    chosen: tuple[int, ...] = tuple(by_count[:1])
    for many in range(2, len(by_count) + 1):
        kept = [recipe for recipe, mine in seeds.items() if set(by_count[:many]) <= set(mine)]
        if len(kept) >= MOST * len(seeds):
            chosen = tuple(sorted(by_count[:many]))
    return chosen


Answer = Literal["told", "small", "open", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The last look at a recipe so far.

    Attributes:
        look: Its number, from 1.
        answer: "told" (the interval of its reduction leaves out 0), "small" (it lies within the smallest difference of
            interest), "open" (neither, and further looks follow) or "undecided" (neither, at the last).
        comparison: The recipe beside the baseline over the seeds and by the error of this look; its p-value is one that
            all looks share, at most their error where the interval leaves out 0.
    """

    look: int
    answer: Answer
    comparison: LeakComparison


Samples = Sequence[Mapping[str, Seeds]]
"""Of each row of the frame: metric -> seed -> sample."""


T = TypeVar("T")


def once(method: Callable[..., T]) -> Callable[..., T]:
    """A method of `Summary` whose answers are kept by its arguments, names or None."""

    @wraps(method)
    def kept(self: Summary, *names: str | None) -> T:
        key = (method, *filter(None, names))
        if key not in self.known:
            self.known[key] = method(self, *names)
        return self.known[key]

    return kept


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """The cells of a sweep, and what they say of each other.

    frame: one row per combination of axes, attacks outermost, numbers ascending: the axes, `recipe` and `attack`
    (labels), `access`, `control`, `published`, `n` (seeds done), `failed`, `missing`, `trials`, `is_baseline`,
    `reference_recipe` (the recipe of the baseline's row), and for every metric m of `METRICS`: m, m_low, m_high (mean
    over the seeds and its interval) and m_n (seeds measured). Means of rates have Wilson's interval
    (`core.metrics.intervals`), of hit rates over seeds and classes, the rest Student's t over seeds; with one seed the
    interval of a hit rate is over classes alone, and others have none (NaN).

    Attributes:
        rows_of_baselines: The baseline's row of each row of the frame, None for a baseline itself and where there is
            none.
        all_samples: With looks those of all seeds, while `samples` holds those of the first look: a recipe's comparison
            with the baseline rests on the seeds of its last look, and everything else on those of the first, whose
            number nothing has chosen.
        baseline_recipe: The label of the reference recipe, None where there is none or several.
        primary: The metric that decides, None where no leak was measured, or none by a judge that can tell one.
        defenses: Recipe label -> its other axes in words (an architecture, say; empty without any), and its defense,
            where that is known.
        checks: What the judges say of real photographs.
        by_setting: The sweep asks what settings of the attack change, see `compares_settings`.
        min_test_acc, accuracy_margin, looks, people, judged_classes: As of `ReportData`.
    """

    frame: pd.DataFrame
    samples: Samples
    all_samples: Samples = ()
    rows_of_baselines: Sequence[int | None] = ()
    axes: tuple[Axis, ...] = ()
    baseline_recipe: str | None = None
    primary: str | None = None
    defenses: Mapping[str, tuple[str, RecipeWords]] = field(default_factory=dict)
    checks: Checks = field(default_factory=dict)
    by_setting: bool = False
    min_test_acc: float | None = None
    accuracy_margin: float = ACCURACY_MARGIN
    looks: SeedLooks | None = None
    people: int | None = None
    judged_classes: int | None = None
    known: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False)

    # The cells.

    @cached_property
    def cells(self) -> Mapping[int, Mapping[str, Any]]:
        """Row number -> row of the frame, with its number as `row`; taking rows from a wide frame is slow."""
        columns = {str(key): values.tolist() for key, values in self.frame.items()} | {"row": self.frame.index.tolist()}
        rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        return {row["row"]: row for row in rows}

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The metrics with at least one value."""
        return measured_in(self.frame)

    @cached_property
    def recipes(self) -> list[str]:
        """Recipe labels in the order of the frame."""
        return list(dict.fromkeys(self.frame["recipe"]))

    @cached_property
    def attacks(self) -> list[str]:
        """Attack labels in the order of the frame, controls left out; [""] where the sweep varies no attack."""
        return list(dict.fromkeys(self.frame.loc[~self.frame["control"], "attack"]))

    @cached_property
    def controls(self) -> list[str]:
        """Labels of the controls in the order of the frame."""
        return list(dict.fromkeys(self.frame.loc[self.frame["control"], "attack"]))

    @cached_property
    def published(self) -> tuple[str, ...]:
        """Attacks that follow gradients as published, controls left out; empty where that is not known."""
        if "published" not in self.frame:
            return ()
        return tuple(dict.fromkeys(self.frame.loc[~self.frame["control"] & self.frame["published"], "attack"]))

    @cached_property
    def references(self) -> dict[str, str]:
        """Recipe -> the baseline that it is compared with, where there is one; several settings have several."""
        rows = enumerate(self.rows_of_baselines)
        pairs = [(self.cells[row], self.cells[other]) for row, other in rows if other is not None]
        return {cell["recipe"]: baseline["recipe"] for cell, baseline in pairs if not cell["control"]}

    def estimate(self, row: int, metric: str) -> Measured:
        """The estimate of a metric in a row of the frame."""
        cell = self.cells[row]
        return Measured(*(cell[f"{metric}{end}"] for end in ("", "_low", "_high", "_n")))

    def value_text(self, row: int) -> str:
        """The leak of a row for a sentence: `13 % [10, 17]`."""
        return estimate_words(metric_of(self.deciding), *self.estimate(row, self.deciding)[:3])

    # The metric that decides.

    @property
    def deciding(self) -> str:
        """`primary`, which is there where a leak was measured. Raises ValueError where none was."""
        return present(self.primary, "leak")

    @property
    def spec(self) -> Metric:
        """The metric that decides."""
        return self.metric(self.deciding)

    def metric(self, key: str) -> Metric:
        """A metric as this sweep shows it: a judge that is not good has its accuracy in the label."""
        return labelled(metric_of(key), self.checks)

    def is_told(self, metric: str) -> bool:
        """Whether a leak can be told by the judge that measures it; recipes are compared by no other."""
        return metric not in self.checks or not self.checks[metric].why

    # The strongest attack on each recipe.

    @once
    def worst(self, metric: str) -> Mapping[str, int]:
        """Complete recipe -> its row under the attack that works best against it, over the seeds that all share, by the
        numbers that recipes are compared by."""
        cases, attacked = self.cases(metric), self.attacked
        leaks = self._leaks_of(metric, cases, self.samples)
        return {
            recipe: max(
                ((attack, row) for attack, row in attacked[recipe] if attack in cases.attacks),
                key=lambda under: leaks[recipe][under[0]].mean(),
            )[1]
            for recipe in cases.recipes
        }

    def leak(self, row: int) -> float:
        """The leak of a row by the metric that decides, small is good."""
        return self.spec.sign * float(self.cells[row][self.deciding])

    def worst_of_control(self, metric: str) -> tuple[str, int] | None:
        """(control, row) with the largest leak that a judge credits to a control, whatever the recipe."""
        measured = self.frame.loc[self.frame["control"] & self.frame[metric].notna(), metric]
        if not len(measured):
            return None
        row = (metric_of(metric).sign * measured).idxmax()
        return str(self.cells[row]["attack"]), int(row)

    @once
    def cases(self, metric: str) -> CompleteCases:
        """The recipes that can be compared by a leak metric, each under every attack. Controls are no attacks."""
        means, sign, leaks = self.frame[metric], metric_of(metric).sign, {}
        for recipe, under in self.attacked.items():
            rows = [row for _, row in under if not is_null(means[row])]
            floor, accuracies = self.min_test_acc, [self.cells[row]["test_acc"] for row in rows]
            if rows and (floor is None or any(accuracy >= floor for accuracy in accuracies)):
                leaks[recipe] = max(sign * float(means[row]) for row in rows)
        met = self._met(metric, self.samples)
        return complete_cases(met, baseline=self.baseline_recipe, front=sorted(leaks, key=leaks.__getitem__))

    def _met(self, metric: str, samples: Samples) -> dict[str, dict[str, set[int]]]:
        """Recipe -> attack -> the seeds under which the metric was measured; every recipe, controls left out."""
        met: dict[str, dict[str, set[int]]] = {str(recipe): {} for recipe in self.frame["recipe"]}
        for recipe, under in self.attacked.items():
            for attack, row in under:
                met[recipe].setdefault(attack, set()).update(samples[row].get(metric, ()))
        return met

    @cached_property
    def attacked(self) -> dict[str, list[tuple[str, int]]]:
        """Recipe -> (attack, row) of its attacks, controls left out."""
        by_attack: dict[str, list[tuple[str, int]]] = {}
        for row, cell in self.cells.items():
            if not cell["control"]:
                by_attack.setdefault(str(cell["recipe"]), []).append((str(cell["attack"]), row))
        return by_attack

    def _leaks_of(self, metric: str, cases: CompleteCases, samples: Samples) -> dict[str, dict[str, np.ndarray]]:
        """Complete recipe -> attack -> [seeds, classes], large is bad: of the seeds and classes that all have."""
        if not cases.recipes:
            return {}
        named = [(r, a, row) for r in cases.recipes for a, row in self.attacked[r] if a in cases.attacks]
        flat, _ = rates([samples[row][metric][seed] for *_, row in named for seed in cases.seeds])
        matrices = metric_of(metric).sign * flat.reshape(len(named), len(cases.seeds), -1)
        leaks: dict[str, dict[str, np.ndarray]] = {}
        for (recipe, attack, _), matrix in zip(named, matrices, strict=True):
            leaks.setdefault(recipe, {})[attack] = matrix
        return leaks

    # The comparisons of recipes.

    @property
    def evidence(self) -> Evidence | None:
        """What can be told of the recipes by the primary metric, None where it was never measured."""
        return None if self.primary is None else self.evidence_by(self.primary)

    @property
    def compared(self) -> Evidence:
        """`evidence`, which is there where a leak was measured. Raises ValueError where none was."""
        return present(self.evidence, "leak")

    @once
    def evidence_by(self, metric: str, worst_by: str | None = None) -> Evidence | None:
        """What any metric tells of the complete recipes, each under the attack that works best against it by
        `worst_by`, by default the metric itself. None where it was not measured, or by a judge that tells nothing."""
        by = worst_by or metric
        if metric not in self.measured or not self.is_told(metric):
            return None
        cases = self.cases(by)
        rows = {recipe: row for recipe, row in self.worst(by).items() if not is_null(self.cells[row][metric])}
        if not rows:
            return None
        compares_leaks = by == metric and metric_of(metric).is_leak
        leaks = self._compared(metric, cases, self.samples, level=LEVEL) if compares_leaks else None
        evidence = replace(self.gather(metric, rows, cases.seeds, leaks), missing=cases.missing)
        if leaks is None or self.looks is None:
            return evidence
        # With looks each recipe stands beside the baseline as at its last look; without one it has no verdict.
        beside = {(recipe, str(self.baseline_recipe)): stop.comparison for recipe, stop in self.stops(metric).items()}
        others = {names: one for names, one in leaks.by_pair.items() if self.baseline_recipe not in names}
        return replace(evidence, leaks=replace(leaks, by_pair=beside | others))

    def _compared(self, metric: str, cases: CompleteCases, samples: Samples, **how: Any) -> LeakComparisons:
        """The recipes of `cases` compared by a leak metric, each under its strongest attack."""
        return compare_leaks(
            self._leaks_of(metric, cases, samples),
            baseline=self.baseline_recipe if self.baseline_recipe in cases.recipes else None,
            published=[attack for attack in self.published if attack in cases.attacks],
            span=metric_of(metric).span,
            available=self.people,
            **how,
        )

    def gather(
        self,
        metric: str,
        rows: Mapping[str, int],
        seeds: Sequence[int] | None = None,
        leaks: LeakComparisons | None = None,
    ) -> Evidence:
        """The evidence on the recipes of `rows`. All of them are compared, also those without the accuracy asked for,
        since tables print their differences too: one pair has one verdict wherever it is shown. On a tie the baseline
        is preferred, then the more accurate.

        seeds: those that may be used, None for all. leaks: the same recipes as compared under their strongest attacks,
        where that is what `rows` are.
        """
        spec, baseline = metric_of(metric), self.baseline_recipe
        accuracy = {recipe: float(self.cells[row]["test_acc"]) for recipe, row in rows.items()}
        enough = {recipe: value if value == value else -1.0 for recipe, value in accuracy.items()}
        ordered = sorted(rows, key=lambda recipe: (recipe != baseline, -enough[recipe]))
        of_rows = {recipe: self.samples[rows[recipe]][metric] for recipe in ordered}
        mine = {
            recipe: {seed: sample for seed, sample in known.items() if seeds is None or seed in seeds}
            for recipe, known in of_rows.items()
        }
        shared = shared_seeds(mine, needed={recipe for recipe in mine if recipe == baseline})
        kept = [recipe for recipe, known in mine.items() if set(shared) <= set(known)]
        values, by_class = stacked(mine, kept, shared, spec.sign)
        comparisons = leaks.pairs if leaks is not None and leaks.by_pair else None
        if comparisons is None and len(values) > 1:
            comparisons = compare_recipes(values, level=LEVEL, reference=baseline, span=spec.span)
        return Evidence(
            metric=metric,
            sign=spec.sign,
            rows=rows,
            values=values,
            seeds=shared,
            by_class=by_class,
            comparisons=comparisons,
            leaks=leaks,
            choose=lambda: recommend(
                values, comparisons, accuracy=enough, min_accuracy=self.min_test_acc, level=LEVEL, seed=SEED
            ),
        )

    def compare(self, metric: str, row: int, reference: int) -> Comparison:
        """Two rows of the frame, paired by seed and class, corrected for as many recipes as the deciding metric has."""
        evidence = self.evidence_by(metric, self.primary)
        return NOTHING if evidence is None else self.between_rows(evidence, row, reference)

    def between_rows(self, evidence: Evidence, row: int, reference: int) -> Comparison:
        """Two rows by the metric of the evidence: as found among all its pairs where both are among its rows, else by
        themselves, under the correction for as many pairs."""
        mine, theirs = (str(self.cells[each]["recipe"]) for each in (row, reference))
        if evidence.rows.get(mine) == row and evidence.rows.get(theirs) == reference:
            comparison = evidence.against(mine, theirs)
            if comparison.n:
                return comparison
        among = max(1, len(evidence.rows) * (len(evidence.rows) - 1) // 2)
        return self._alone(evidence.metric, row, reference, among)

    def _alone(self, metric: str, row: int, reference: int, among: int) -> Comparison:
        seeds = (self.samples[each].get(metric, {}) for each in (row, reference))
        return compare(metric_of(metric), *seeds, among=among)

    def reduction(self, metric: str, recipe: str, reference: str) -> LeakComparison | None:
        """How much less a recipe leaks than a reference by a leak metric, each under its strongest attack. None where
        one of them has not met every attack under the seeds that all share."""
        evidence = self.evidence_by(metric)
        return None if evidence is None else evidence.reduction(recipe, reference)

    def verdict(self, recipe: str, metric: str | None = None) -> LeakComparison | None:
        """A recipe beside the baseline, by default by the metric that decides: what every output shows of it. None for
        a baseline itself, and where the two were not compared."""
        reference, by = self.references.get(recipe), metric or self.primary
        return None if reference in (None, recipe) or by is None else self.reduction(by, recipe, str(reference))

    @once
    def stops(self, metric: str) -> dict[str, Stop]:
        """Recipe -> its last look by a leak metric; none for a recipe that lacks seeds or attacks of the first look,
        nor where the baseline does, nor in a sweep without looks."""
        by_recipe: dict[str, Stop] = {}
        looks, baseline = self.looks, self.baseline_recipe
        if looks is None or baseline is None:
            return by_recipe
        met = self._met(metric, self.all_samples)
        attacks = tuple(dict.fromkeys(attack for under in met.values() for attack, seeds in under.items() if seeds))
        pending = [recipe for recipe in met if recipe != baseline]
        among = len(pending)
        for number, error in enumerate(looks.design.errors):
            seeds = looks.of_look(number)
            able = tuple(
                recipe
                for recipe in (baseline, *pending)
                if all(set(seeds) <= met[recipe].get(attack, set()) for attack in attacks)
            )
            if baseline not in able or len(able) < 2:
                break
            cases = CompleteCases(attacks=attacks, seeds=seeds, recipes=able)
            how = {"level": 1 - error, "every_pair": False, "among": among, "smallest": looks.smallest}
            is_last = number + 1 == len(looks.looks)
            for recipe, found in self._compared(metric, cases, self.all_samples, **how).verdicts.items():
                # A p-value beside the error of all looks, as the interval of this look is beside its own.
                p = None if found.p is None else min(1.0, found.p * looks.alpha / error)
                answer: Answer = "told" if found.is_clear else "undecided" if is_last else "open"
                low, high = found.low, found.high
                if answer != "told" and low is not None and high is not None:
                    answer = "small" if settled(low, high, smallest=looks.smallest) else answer
                by_recipe[recipe] = Stop(look=number + 1, answer=answer, comparison=replace(found, p=p))
            pending = [recipe for recipe in able if recipe != baseline and by_recipe[recipe].answer == "open"]
        return by_recipe

    # Each row beside the baseline's.

    def gap(self, row: int, metric: str) -> Comparison:
        """A row beside the baseline's, as `core.metrics.comparisons` decides it among all recipes that meet the same
        attack, paired by seed and, where hit rates per class are known, by class; `NOTHING` where nothing compares."""
        return self.gaps(metric).get(row, NOTHING)

    @once
    def gaps(self, metric: str) -> dict[int, Comparison]:
        """Row -> its `gap`, of rows that have one.

        A row that shares no seed with most others is compared by itself, under the same correction. Those whose
        reference met another attack (a baseline may name the attack too) are compared with it by families, corrected
        for as many as they are. Two rows that are both the worst of their recipes, by this metric if it is a leak, else
        by the one that decides, are compared as the answer compares them, so that a pair has one verdict on a page.
        """
        found: dict[int, Comparison] = {}
        if metric not in self.measured or not self.is_told(metric):
            return found
        baseline_of = {row: other for row, other in enumerate(self.rows_of_baselines) if other is not None}
        attack_of = {row: cell["attack"] for row, cell in self.cells.items()}
        under: dict[str, list[int]] = {}
        for row in np.flatnonzero(self.frame[metric].notna()).tolist():
            under.setdefault(attack_of[row], []).append(row)
        for met in under.values():
            rows = {str(self.cells[row]["recipe"]): row for row in met}
            known = [row for row in met if baseline_of.get(row) in rows.values()]
            evidence = self.gather(metric, rows) if known else None
            found |= {row: self.between_rows(present(evidence, "evidence"), row, baseline_of[row]) for row in known}
        across = {row: other for row, other in baseline_of.items() if attack_of[row] != attack_of[other]}
        families: dict[tuple[int, str | None], list[int]] = {}
        for row, other in across.items():
            # What varies alike: other recipes under one attack, each a training of its own; and the reference's own
            # recipe under all other attacks, where the training drops out.
            same = self.cells[row]["recipe"] == self.cells[other]["recipe"]
            families.setdefault((other, None if same else attack_of[row]), []).append(row)
        for (other, _), members in families.items():
            found |= self._across(metric, other, members, among=len(across))
        by = metric if metric_of(metric).is_leak else self.primary if len(set(attack_of.values())) > 1 else None
        evidence = None if by is None else self.evidence_by(metric, None if by == metric else by)
        if evidence is not None:
            worst = set(evidence.rows.values())
            met = [(row, other) for row, other in baseline_of.items() if {row, other} <= worst]
            found |= {row: self.between_rows(evidence, row, other) for row, other in met}
        return found

    def _across(self, metric: str, other: int, rows: Sequence[int], *, among: int) -> dict[int, Comparison]:
        """Row -> its comparison with `other`, the variance over seeds pooled over all of them; rows that lack a seed of
        the others are compared by themselves."""
        seeds = {str(row): self.samples[row].get(metric, {}) for row in (other, *rows)}
        measured = {row: mine for row, mine in seeds.items() if mine}
        shared = shared_seeds(measured, needed={str(other)}) if str(other) in measured else ()
        kept = [row for row, mine in measured.items() if set(shared) <= set(mine)]
        found: dict[int, Comparison] = {}
        if shared and len(kept) > 1:
            values, _ = stacked(measured, kept, shared)
            span = metric_of(metric).span
            together = compare_recipes(values, level=LEVEL, among=among, span=span)
            for pair in (together.between(row, str(other)) for row in kept if row != str(other)):
                mine = pair.second if pair.first == str(other) else pair.first
                found[int(mine)] = compared(pair, len(shared), turn=1 if pair.first == mine else -1)
        return {row: found[row] if row in found else self._alone(metric, row, other, among) for row in rows}


def measured_in(frame: pd.DataFrame) -> tuple[str, ...]:
    """The metrics with at least one value in a frame of cells."""
    return tuple(spec.key for spec in METRICS if len(frame) and frame[spec.key].notna().any())
