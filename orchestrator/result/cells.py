"""Recipes by attack: which are complete, the strongest attack on each, the look at which each was decided."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import Bounded, LeakComparisons, compare_leaks, reductions
from smoothsweep.core.metrics.looks import settled
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.result.data import Axis, Measured
from smoothsweep.orchestrator.result.estimates import Checks, Seeds, Settings, rates
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.sweeps.search import SeedLooks

Samples = Sequence[Mapping[str, Seeds]]
Key = tuple[Hashable, ...]
"""The values of all axes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedCells:
    """What is compared.

    Attributes:
        frame: A row per cell, and `samples` of each: metric -> seed -> sample.
        min_test_acc: The accuracy a recipe needs to be chosen, if one was asked for.
        baseline_recipe: The label of the reference recipe, None where there is none or several.
        people: Classes of the private data, attacked or not; None where not known.
        checks: What the judges say of real photographs.
    """

    frame: pd.DataFrame
    samples: Samples
    settings: Settings = field(default_factory=Settings)
    min_test_acc: float | None = None
    baseline_recipe: str | None = None
    people: int | None = None
    checks: Checks = field(default_factory=dict)
    _known: dict[tuple[str, str | None], tuple[CompleteCases, dict[str, int]]] = field(default_factory=dict, repr=False)

    def is_told(self, metric: str) -> bool:
        """Whether a leak can be told by the judge that measures it; recipes are compared by no other."""
        return metric not in self.checks or not self.checks[metric].why

    @cached_property
    def cells(self) -> Mapping[int, Mapping[str, Any]]:
        """Row number -> row of the frame; cached, since taking rows from a wide frame is slow."""
        columns = {str(key): values.tolist() for key, values in self.frame.items()}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return dict(zip(self.frame.index.tolist(), rows, strict=True))

    def estimate(self, row: int, metric: str) -> Measured:
        """The estimate of a metric in a row of the frame."""
        cell = self.cells[row]
        return Measured(*(cell[f"{metric}{end}"] for end in ("", "_low", "_high", "_n")))

    def cases(self, metric: str, access: str | None = None) -> CompleteCases:
        """The recipes that can be compared by a leak metric, each under every attack. Controls are no attacks.

        access: count only the attacks that see no more of a target than that.
        """
        return self._cases_and_worst(metric, access)[0]

    def worst(self, metric: str, access: str | None = None) -> dict[str, int]:
        """Complete recipe -> its row under the attack that works best against it, over the seeds that all share."""
        return dict(self._cases_and_worst(metric, access)[1])

    def _cases_and_worst(self, metric: str, access: str | None) -> tuple[CompleteCases, dict[str, int]]:
        key = metric, access
        if key not in self._known:
            cases = self._complete(metric, access)
            self._known[key] = cases, self._strongest(cases, metric, access)
        return self._known[key]

    def _complete(self, metric: str, access: str | None) -> CompleteCases:
        met = self.met(metric, access)
        return complete_cases(met, baseline=self.baseline_recipe, front=self._by_leak(metric, access))

    def met(self, metric: str, access: str | None = None) -> dict[str, dict[str, set[int]]]:
        """Recipe -> attack -> the seeds under which the metric was measured; every recipe, controls left out."""
        met: dict[str, dict[str, set[int]]] = {str(recipe): {} for recipe in self.frame["recipe"]}
        for recipe, under in self._attacked(access).items():
            for attack, row in under:
                met[recipe].setdefault(attack, set()).update(self.samples[row].get(metric, ()))
        return met

    def _by_leak(self, metric: str, access: str | None) -> list[str]:
        """Accurate enough recipes by rising leak, each under the strongest attack that ran on it."""
        means, sign, leaks = self.frame[metric], metric_of(metric).sign, {}
        for recipe, under in self._attacked(access).items():
            measured = [row for _, row in under if not is_null(means[row])]
            accurate = self.min_test_acc is None or any(
                self.frame.loc[row, "test_acc"] >= self.min_test_acc for row in measured
            )
            if measured and accurate:
                leaks[recipe] = max(sign * float(means[row]) for row in measured)
        return sorted(leaks, key=leaks.__getitem__)

    def _strongest(self, cases: CompleteCases, metric: str, access: str | None) -> dict[str, int]:
        """Complete recipe -> row of its strongest attack, by the numbers of `comparisons`, so that both agree."""
        attacked, leaks = self._attacked(access), self.leaks_of(metric, cases)
        return {
            recipe: max(
                ((attack, row) for attack, row in attacked[recipe] if attack in cases.attacks),
                key=lambda under: leaks[recipe][under[0]].mean(),
            )[1]
            for recipe in cases.recipes
        }

    def _attacked(self, access: str | None) -> dict[str, list[tuple[str, int]]]:
        """Recipe -> (attack, row) of its attacks, controls left out."""
        most = ACCESS_LEVELS[-1] if access is None else access
        allowed = ACCESS_LEVELS[: ACCESS_LEVELS.index(most) + 1]
        by_attack: dict[str, list[tuple[str, int]]] = {}
        for row, cell in self.cells.items():
            if not cell["control"] and cell["access"] in allowed:
                by_attack.setdefault(str(cell["recipe"]), []).append((str(cell["attack"]), int(row)))
        return by_attack

    def leaks_of(self, metric: str, cases: CompleteCases) -> dict[str, dict[str, np.ndarray]]:
        """Complete recipe -> attack -> [seeds, classes], large is bad: of the seeds and classes that all have."""
        if not cases.recipes:
            return {}
        attacked = self._attacked(None)
        named = [(r, a, row) for r in cases.recipes for a, row in attacked[r] if a in cases.attacks]
        flat, _ = rates([self.samples[row][metric][seed] for *_, row in named for seed in cases.seeds])
        matrices = metric_of(metric).sign * flat.reshape(len(named), len(cases.seeds), -1)
        leaks: dict[str, dict[str, np.ndarray]] = {}
        for (recipe, attack, _), matrix in zip(named, matrices, strict=True):
            leaks.setdefault(recipe, {})[attack] = matrix
        return leaks

    @property
    def published(self) -> tuple[str, ...]:
        """Attacks that follow gradients as published, controls left out; empty where that is not known."""
        if "published" not in self.frame:
            return ()
        counted = self.frame[~self.frame["control"] & self.frame["published"]]
        return tuple(dict.fromkeys(counted["attack"]))

    def comparisons(self, metric: str, cases: CompleteCases) -> LeakComparisons:
        """The complete recipes compared by a leak metric, each under its strongest attack."""
        return compare_leaks(
            self.leaks_of(metric, cases),
            baseline=self.baseline_recipe if self.baseline_recipe in cases.recipes else None,
            published=[attack for attack in self.published if attack in cases.attacks],
            level=self.settings.level,
            span=metric_of(metric).span,
            available=self.people,
        )


def hashable(value: Any) -> Hashable:
    """Axis values as dictionary keys: null is None, 0 equals 0.0, a list or mapping is its JSON."""
    if isinstance(value, (dict, list, tuple, np.ndarray)):
        return json.dumps(value, sort_keys=True, default=list)
    if is_null(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def trials_by_cell(results: pd.DataFrame, axes: Sequence[Axis]) -> dict[Key, pd.DataFrame]:
    """Trials by cell; attacks outermost, numbers ascending, other values in order of appearance."""
    columns = {axis.key: [hashable(value) for value in results[axis.key]] for axis in axes}
    ranks = [_ranks(columns[axis.key]) for axis in axes]
    keys: list[Key] = list(zip(*columns.values(), strict=True)) if axes else [()] * len(results)
    outermost = sorted(range(len(axes)), key=lambda index: axes[index].role != "attack")
    order = sorted(set(keys), key=lambda key: [ranks[index][key[index]] for index in outermost])
    return {key: results[[other == key for other in keys]] for key in order}


def _ranks(values: Sequence[Hashable]) -> dict[Hashable, int]:
    unique = list(dict.fromkeys(values))
    if all(value is None or isinstance(value, float) for value in unique):
        unique.sort(key=lambda value: (value is not None, value or 0.0))
    return {value: rank for rank, value in enumerate(unique)}


def compares_settings(frame: pd.DataFrame, axes: Sequence[Axis], baseline: Mapping[str, Any]) -> bool:
    """Whether a sweep compares settings of training and attack with one of them, and no recipes: its baseline names the
    attack, too, and at most one recipe is planned under every attack."""
    named = any(axis.role == "attack" and axis.key in baseline for axis in axes)
    if not named or not len(frame) or int(frame["is_baseline"].sum()) != 1:
        return False
    planned = frame.loc[~frame["control"]].groupby("recipe")["attack"].nunique()
    attacks = frame.loc[~frame["control"], "attack"].nunique()
    return attacks > 1 and int((planned == attacks).sum()) < 2


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
    whole = {recipe: _under_all(under, attacks) for recipe, under in met.items()}
    able = {recipe: seeds for recipe, seeds in whole.items() if seeds}
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


def _under_all(under: Mapping[str, Collection[int]], attacks: Iterable[str]) -> set[int]:
    """The seeds that a recipe has under every attack."""
    seeds_of_attacks = [set(under.get(attack, ())) for attack in attacks]
    return set.intersection(*seeds_of_attacks) if seeds_of_attacks else set()


Answer = Literal["told", "small", "open", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The last look at a recipe so far.

    Attributes:
        look: Its number, from 1.
        answer: "told" (the interval of its reduction leaves out 0), "small" (it lies within the smallest difference of
            interest), "open" (neither, and further looks follow) or "undecided" (neither, at the last).
        error: The error that this look spends, for all recipes together.
        alpha: The error of all looks.
        among: How many recipes are compared with the baseline.
        cases: What was compared here.
    """

    look: int
    answer: Answer
    error: float
    alpha: float
    among: int
    reduction: Bounded
    cases: CompleteCases

    @property
    def repeated(self) -> Bounded:
        """The reduction with a p-value that all looks share: at most alpha where the interval leaves out 0."""
        if self.reduction.p is None:
            return self.reduction
        return replace(self.reduction, p=min(1.0, self.reduction.p * self.alpha / self.error))

    @property
    def seeds(self) -> int:
        """How many seeds the answer rests on."""
        return len(self.cases.seeds)


def stops(cells: AttackedCells, metric: str, looks: SeedLooks, baseline: str | None) -> dict[str, Stop]:
    """Recipe -> its last look; none for a recipe that lacks seeds or attacks of the first look, nor where the baseline
    does. cells: with all the samples there are."""
    met = cells.met(metric)
    attacks = tuple(dict.fromkeys(attack for under in met.values() for attack, seeds in under.items() if seeds))
    by_recipe: dict[str, Stop] = {}
    pending = [recipe for recipe in met if recipe != baseline]
    among = len(pending)
    for number, error in enumerate(looks.design.errors):
        seeds = looks.of_look(number)
        able = [recipe for recipe in (baseline, *pending) if recipe in met and _has(met[recipe], attacks, seeds)]
        if baseline not in able or len(able) < 2:
            break
        cases = CompleteCases(attacks=attacks, seeds=seeds, recipes=tuple(able))
        estimates = reductions(
            cells.leaks_of(metric, cases),
            baseline=present(baseline, "baseline"),
            level=1 - error,
            span=metric_of(metric).span,
            among=among,
        )
        is_last = number + 1 == len(looks.looks)
        for recipe, estimate in estimates.items():
            by_recipe[recipe] = Stop(
                look=number + 1,
                answer=_answer(estimate, looks.smallest, is_last=is_last),
                error=error,
                alpha=looks.alpha,
                among=among,
                reduction=estimate,
                cases=cases,
            )
        pending = [recipe for recipe in able if recipe != baseline and by_recipe[recipe].answer == "open"]
    return by_recipe


def _has(under: Mapping[str, set[int]], attacks: tuple[str, ...], seeds: tuple[int, ...]) -> bool:
    return all(set(seeds) <= under.get(attack, set()) for attack in attacks)


def _answer(interval: Bounded, smallest: float, *, is_last: bool) -> Answer:
    if interval.above_zero or interval.below_zero:
        return "told"
    if (
        interval.low is not None
        and interval.high is not None
        and settled(interval.low, interval.high, smallest=smallest)
    ):
        return "small"
    return "undecided" if is_last else "open"
