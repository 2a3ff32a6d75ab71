"""Trials to cells, one row per combination of axes, and the choice of the recipe that leaks least."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import RecipeWords, recipe_words
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.frontier import accuracy_leak_frontier
from smoothsweep.core.metrics.leak_comparisons import REDUCES
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.result.cells import Summary, measured_in
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.estimates import Checks, Seeds, collect, estimate, judge_checks, rows_by_trial
from smoothsweep.orchestrator.result.format import axis_words, defense_key, is_null

Key = tuple[Hashable, ...]
"""The values of all axes."""
UNCHANGED = "unchanged attack"


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


def recipe_label(axes: Sequence[Axis], values: Mapping[str, Any]) -> str:
    """`smoothing -0.2, ramp, epochs 20`: the defense in its own words, among the defender's other axes.

    Axes without a value are left out. A defense without words of its own is named by its axes."""
    return label(axes, values, "recipe") or "the recipe"


def attack_label(axes: Sequence[Axis], values: Mapping[str, Any]) -> str:
    """`attack loss Poincaré`: the attacker's axes in words; empty where the sweep has none. `UNCHANGED` where it has
    settings of an attack, and this one states none of them."""
    settings = any(axis.role == "attack" and not axis.bare for axis in axes)
    return label(axes, values, "attack") or (UNCHANGED if settings else "")


def label(axes: Sequence[Axis], values: Mapping[str, Any], role: str) -> str:
    """The axes of a role in words, empty without any."""
    parameters = [axis for axis in axes if axis.defenses]
    defense = parameters[0].defenses.get(defense_key(parameters, values)) if parameters else None
    mine = [(axis, values[axis.key]) for axis in axes if axis.role == role and not is_null(values.get(axis.key))]
    words = (defense if defense and axis in parameters else axis_words(axis, value) for axis, value in mine)
    return ", ".join(dict.fromkeys(words))  # a defense of several axes is named once


def summarise(data: ReportData) -> Summary:
    """The cells of `data`, and the metric that decides between them."""
    named = {name: hashable(value) for name, value in data.baseline.items()}
    groups = trials_by_cell(data.results, data.axes)
    keys = list(groups)
    of_baseline = [tuple(named.get(axis.key, v) for axis, v in zip(data.axes, key, strict=True)) for key in keys]
    place = {key: row for row, key in enumerate(keys)} if data.baseline else {}
    is_baseline = [bool(data.baseline) and key == other for key, other in zip(keys, of_baseline, strict=True)]
    references = [None if key == other else place.get(other) for key, other in zip(keys, of_baseline, strict=True)]
    by_trial = rows_by_trial(data.per_class)
    every = tuple(collect(trials, by_trial, data.real_images) for trials in groups.values())
    cell_of = zip(groups.values(), is_baseline, every, strict=True)
    frame = pd.DataFrame(
        [_counts(trials, data.axes) | {"is_baseline": it} | _means(seeds) for trials, it, seeds in cell_of]
    )
    baselines: set[str] = set()
    checks: Checks = {}
    if len(frame):
        recipes = frame["recipe"].tolist()
        frame["reference_recipe"] = [None if row is None else recipes[row] for row in references]
        baselines = set(frame.loc[frame["is_baseline"], "recipe"])
        # Judges by what each says of real photographs where it does worst, beside the mean accuracy of the targets.
        said = frame[[*BY_KEY]].min().to_dict() | {"test_acc": frame["test_acc"].mean()}
        checks = judge_checks(said, people=data.people, images=data.real_images)
    measured = measured_in(frame)
    leaks = (key for key in measured if metric_of(key).is_leak)
    asked = [data.primary] if data.primary else []
    told = [key for key in measured if key not in checks or not checks[key].why]
    first = every
    if data.looks is not None:
        seeds = data.looks.of_look(0)
        first = tuple({key: {s: mine[s] for s in mine if s in seeds} for key, mine in cell.items()} for cell in every)
    return Summary(
        frame=frame,
        samples=first,
        all_samples=every,
        rows_of_baselines=references,
        axes=data.axes,
        baseline_recipe=baselines.pop() if len(baselines) == 1 else None,
        primary=next((key for key in (*asked, *CLASS_METRICS, *leaks) if key in told), None),
        defenses=_defenses(data, frame),
        checks=checks,
        by_setting=compares_settings(frame, data.axes, data.baseline),
        min_test_acc=data.min_test_acc,
        accuracy_margin=data.accuracy_margin,
        looks=data.looks,
        people=data.people,
        judged_classes=data.judged_classes,
    )


def _defenses(data: ReportData, frame: pd.DataFrame) -> dict[str, tuple[str, RecipeWords]]:
    others = [axis for axis in data.axes if not axis.defense]
    needed = dict.fromkeys(("recipe", "trials", *(axis.key for axis in others)))
    defenses: dict[str, tuple[str, RecipeWords]] = {}
    for row in frame.filter(list(needed)).to_dict("records"):
        defense = data.defenses.get(row["trials"][0])
        if defense is not None and row["recipe"] not in defenses:
            defenses[row["recipe"]] = label(others, row, "recipe"), recipe_words(defense)
    return defenses


def _means(samples: Mapping[str, Seeds]) -> dict[str, Any]:
    """Every metric of a cell with its interval."""
    row: dict[str, Any] = {}
    for spec in METRICS:
        interval = estimate(spec, samples[spec.key])
        row |= {f"{spec.key}{end}": value for end, value in zip(("", "_low", "_high", "_n"), interval, strict=False)}
    return row


def _counts(trials: pd.DataFrame, axes: Sequence[Axis]) -> dict[str, Any]:
    values = {axis.key: trials[axis.key].iloc[0] for axis in axes}
    status, first = trials["status"].value_counts(), trials.iloc[0]
    return values | {
        "recipe": recipe_label(axes, values),
        "attack": attack_label(axes, values),
        "access": first.get("attack_access", ACCESS_LEVELS[-1]),
        "control": bool(first.get("attack_control", False)),
        "published": bool(first.get("attack_published", True)),
        "n": int(status.get("done", 0)),
        "failed": int(status.get("failed", 0)),
        "missing": int(status.get("missing", 0)),
        "trials": tuple(trials["trial"]),
    }


LEAST, LOWEST = "least leak", "lowest measured"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the choice among recipes rests on.

    Attributes:
        rows: Recipe -> its row of the frame under its worst attack, where the leak was measured.
        best: The row that leaks least among the recipes accurate enough, None where there is none.
        reference: The baseline's row, if known.
        clear: Whether the best reduces the leak of the reference.
        significant: Whether it does that of every other allowed recipe, too.
        ties: Other allowed recipes that leak exactly as little.
        front: Recipes accurate enough that no other such recipe beats in both test accuracy and leak, most accurate
            first.
        below: Recipes that miss the accuracy asked for.
        seeds: How many the recipes share.
    """

    rows: dict[str, int]
    best: int | None
    reference: int | None
    clear: bool = False
    significant: bool = False
    ties: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    seeds: int = 0

    @property
    def chosen(self) -> int:
        """The row `best`. Raises ValueError where no recipe is accurate enough."""
        return present(self.best, "best recipe")

    @property
    def baseline(self) -> int:
        """The row `reference`. Raises ValueError where the baseline was not measured."""
        return present(self.reference, "baseline")

    @property
    def marked(self) -> int | None:
        """The row that tables mark as leaking least; None with one recipe or one seed, or on a tie."""
        return self.best if len(self.rows) > 1 and not self.ties and self.seeds >= LEAST_SEEDS else None

    @property
    def mark(self) -> str:
        """The label of the row `marked`: `LEAST` where it differs significantly from all recipes, else `LOWEST`."""
        return LEAST if self.significant else LOWEST


@lru_cache(maxsize=2)
def decide(summary: Summary) -> Decision:
    """The defender picks the recipe, the attacker the attack; recipes below `min_test_acc` cannot win.

    Who leaks least is decided on the seeds that the recipes share, see `Evidence`.
    """
    evidence = summary.evidence
    if evidence is None:
        return Decision(rows={}, best=None, reference=None)
    rows, choice, baseline = dict(evidence.rows), evidence.recommendation, summary.baseline_recipe
    floor, accuracy = summary.min_test_acc, summary.frame["test_acc"]
    columns = list(dict.fromkeys(("recipe", "test_acc", summary.primary)))
    places = summary.frame.loc[list(rows.values()), columns].dropna(subset="test_acc")
    front: tuple[str, ...] = ()
    if len(places):
        leak = evidence.sign * places[summary.primary].to_numpy(float)
        members = accuracy_leak_frontier(places["test_acc"].to_numpy(float), leak, min_accuracy=floor)
        front = tuple(places["recipe"].iloc[list(members)])
    known = Decision(
        rows=rows,
        best=None,
        reference=None if baseline is None else rows.get(baseline),
        front=front,
        below=() if floor is None else tuple(recipe for recipe, row in rows.items() if not accuracy[row] >= floor),
        seeds=len(evidence.seeds),
    )
    if choice.best is None:
        return known
    against = None if baseline is None else evidence.reduction(choice.best, baseline)
    clear, lowest = against is not None and against.word == REDUCES, evidence.mean(choice.best)
    return replace(
        known,
        best=rows[choice.best],
        clear=clear,
        ties=tuple(one for one in choice.allowed if one != choice.best and evidence.mean(one) == lowest),
        significant=clear and not choice.runners_up,
    )
