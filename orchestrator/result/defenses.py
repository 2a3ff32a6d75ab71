"""Recipes grouped by defense, each a curve over its strength; and what the sweep cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.defenses.labels import SMOOTHING, RecipeWords, family_of
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import comparison_columns
from smoothsweep.orchestrator.result.estimates import NOTHING
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.tasks.registry import stage_title

NONE = "none"
"""The kind of plain training."""
COST = "seconds_target"
"""Column of the results that holds the seconds of a training."""

Words = Mapping[str, RecipeWords]
"""Recipe -> its defense in words."""


def by_setting(summary: Summary) -> dict[str, dict[str, RecipeWords]]:
    """Setting (the defender's other axes in words, empty without any) -> its recipes: plain training, then by defense,
    weakest first, combinations last. {} where the sweep tries fewer than two defenses, as nothing is there to group."""
    order = list(families(summary))
    if len(order) < 2:
        return {}

    def rank(recipe: str) -> tuple:
        words = summary.defenses[recipe][1]
        if words.plain:
            return (-1,)
        strength = (words.combined, words.arm, words.order is None, words.order or (), words.strength)
        return (order.index(words.family), *strength)

    found: dict[str, dict[str, RecipeWords]] = {setting: {} for setting, _ in summary.defenses.values()}
    for recipe in sorted(summary.defenses, key=rank):
        setting, words = summary.defenses[recipe]
        found[setting][recipe] = words
    return found


def families(summary: Summary) -> dict[str, int]:
    """Family that the sweep tries -> the place of its colour and mark, the same in every report for those of the table
    of defenses; others follow in order of appearance. Plain training is no family."""
    met = dict.fromkeys(words.family for _, words in summary.defenses.values() if not words.plain)
    table, places = list(DEFENSES), {}
    for key in met:
        at = table.index(key) if key in table else None
        places[key] = len(table) + sum(place >= len(table) for place in places.values()) if at is None else at
    return dict(sorted(places.items(), key=itemgetter(1)))


def family_columns(summary: Summary, recipe: str) -> dict[str, Any]:
    """A recipe's kind of defense, and the place of that; nulls where none is stated."""
    _, words = summary.defenses.get(recipe, ("", None))
    if words is None or words.plain:
        return {"family": words and NONE, "family_place": None}
    return {"family": words.family, "family_place": families(summary)[words.family]}


def numbers_of(summary: Summary) -> dict[str, float]:
    """Recipe -> its value, where the recipes differ in a single number and one of them is the baseline; else {}."""
    axes = [axis for axis in summary.axes if axis.role == "recipe"]
    if len(axes) != 1 or summary.baseline_recipe is None:
        return {}
    values = {row["recipe"]: row[axes[0].key] for row in summary.cells.values()}
    if any(is_null(value) or isinstance(value, (str, bool, dict, list, tuple)) for value in values.values()):
        return {}
    return {recipe: float(value) for recipe, value in values.items()}


def defense_frame(data: ReportData, summary: Summary) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the frame `defenses`, and of each setting what holds for all of its recipes and for every defense:
    `plain`, `reference` and its `words`, `families`, each with `curves` and `why` not from plain training."""
    rows, facts = [], []
    measured = summary.primary is not None and summary.primary in summary.measured
    frame = summary.frame
    for setting, words in by_setting(summary).items() if measured else ():
        plain = next((recipe for recipe, one in words.items() if one.plain), None)
        stated = frame.loc[frame["is_baseline"] & frame["recipe"].isin(words), "recipe"].unique()
        reference = str(stated[0]) if len(stated) == 1 else plain
        mine = _rows(data, summary, words, plain, reference)
        against = "plain training" if plain is not None and reference == plain else f"the baseline ({reference})"
        described = []
        for key in dict.fromkeys(row["family"] for row in mine if row["family"] != NONE):
            own = [row for row in mine if row["family"] == key]
            first, known = words[own[0]["recipe"]], None if key == SMOOTHING else family_of(key)
            why = known.why if known else "its weakest setting is not known here"
            described.append(
                {
                    "key": key,
                    "name": first.name,
                    "place": families(summary)[key],
                    "why": "" if first.starts_plain else why,
                    "curves": curves_of({row["recipe"]: words[row["recipe"]] for row in own}, words, plain),
                }
            )
        rows += [row | {"setting": setting} for row in mine]
        held = {"setting": setting, "plain": plain, "reference": reference, "words": against}
        facts.append(held | {"families": described})
    return rows, facts


def _rows(
    data: ReportData, summary: Summary, words: Words, plain: str | None, reference: str | None
) -> list[dict[str, Any]]:
    """The rows of one setting."""
    at, spent, rows = summary.worst(summary.deciding), training_costs(data, summary, words, plain), []
    for recipe, one in words.items():
        leak, accuracy = None, NOTHING
        if reference is not None and reference != recipe and {recipe, reference} <= {*at}:
            leak = summary.reduction(summary.deciding, recipe, reference)
            accuracy = summary.compare("test_acc", at[recipe], at[reference])
        columns = comparison_columns(leak, reference)
        rows.append(
            {
                "section": "No defense" if one.plain else one.name,
                "recipe": recipe,
                "family": NONE if one.plain else one.family,
                **{name: getattr(one, name) for name in ("label", "strength", "mark", "combined")},
                "reference": reference,
                "measured": recipe in at,
                **{name: columns[name] for name in ("verdict", *REDUCTION, "seeds", "needed")},
                "accuracy": accuracy.difference,
                **{f"accuracy_{end}": getattr(accuracy, end) for end in ("low", "high")},
                "accuracy_word": accuracy.verdict or None,
                **dict(zip(("time", "time_low", "time_high"), spent.get(recipe, (None,) * 3), strict=True)),
            }
        )
    return rows


REDUCTION = ("reduction", "reduction_low", "reduction_high")


def curves_of(mine: Words, every: Words, plain: str | None) -> list[tuple[str, list[str]]]:
    """Curves through the recipes of a defense, weakest first, each with what its recipes share beside the defense.

    One where all parameters grow together, else one for each value of the others. The weakest end may be another
    recipe: what the defense fades into, plain training or the smoothing that it is combined with.
    """
    arms, curves = dict.fromkeys(one.arm for one in mine.values()), []
    labels = {one.label: recipe for recipe, one in every.items()}
    for arm in arms:
        of_arm = {recipe: one for recipe, one in mine.items() if one.arm == arm}
        known = {recipe: one.order for recipe, one in of_arm.items() if one.order is not None}
        chains = [[*known]]
        if not all(_grows(known[weaker], known[stronger]) for weaker, stronger in pairwise(known)):
            apart = dict.fromkeys(order[:-1] for order in known.values())
            chains = [[recipe for recipe in known if known[recipe][:-1] == others] for others in apart]
        for chain in filter(None, chains):
            first, order = of_arm[chain[0]], {recipe: known[recipe] for recipe in chain}
            start = labels.get(first.smoothing) if first.combined else plain
            if start is not None and first.starts_plain:
                order = {start: (0.0,) * len(known[chain[0]])} | order
            curves.append((arm, sorted(order, key=order.__getitem__)))
        curves += [(arm, [recipe]) for recipe in of_arm if recipe not in known]
    return curves


def _grows(weaker: Sequence[float], stronger: Sequence[float]) -> bool:
    return len(weaker) == len(stronger) and all(a <= b for a, b in zip(weaker, stronger, strict=True))


def training_costs(
    data: ReportData, summary: Summary, recipes: Iterable[str], plain: str | None
) -> dict[str, tuple[float, float, float]]:
    """Recipe -> its training time relative to plain training: geometric mean over common seeds, smallest, largest.

    From the column `seconds_target` of the results, where it is there; one training serves several attacks and counts
    once. Empty without plain training to compare with.
    """
    if COST not in data.results or plain is None:
        return {}
    by_trial = data.results.drop_duplicates("trial").set_index("trial")
    spent = {}
    for recipe in recipes:
        mine = summary.frame.loc[summary.frame["recipe"] == recipe, "trials"]
        known = by_trial.loc[[trial for trials in mine for trial in trials], ["seed", COST]].dropna()
        spent[recipe] = known[known[COST] > 0].groupby("seed")[COST].min()
    base = spent[plain]
    costs_of_points = {}
    for recipe, seconds in spent.items():
        ratios = (seconds.astype(float) / base.astype(float)).dropna()
        if len(ratios):
            costs_of_points[recipe] = (float(np.exp(np.log(ratios).mean())), float(ratios.min()), float(ratios.max()))
    return costs_of_points


SHARED = "shared by several recipes"
OTHERS = "cheap attacks and fresh seeds"


def cost_rows(data: ReportData, summary: Summary) -> pd.DataFrame:
    """Device time by kind of stage, by the recipe that alone needs a stage, and of all, from the manifests of all
    trials: the frame `costs`. Every stage counts once; empty without any manifest."""
    owner = {trial: row["recipe"] for row in summary.cells.values() for trial in row["trials"]}
    uses = pd.DataFrame(
        [
            {
                "path": link.path,
                "stage": stage_title(link.stage),
                "device_s": link.seconds * link.devices,
                "trial": trial,
                "recipe": owner.get(trial, OTHERS),
            }
            for trial, links in data.links.items()
            for link in links
        ]
    )
    if not len(uses):
        return pd.DataFrame()
    by_stage = uses.groupby("path", sort=False)
    stages = by_stage[["stage", "device_s", "recipe"]].last()
    stages["saved_s"] = stages["device_s"] * (by_stage["trial"].nunique() - 1)
    stages.loc[by_stage["recipe"].nunique() > 1, "recipe"] = SHARED
    parts = []
    for by in ("stage", "recipe", "all"):
        groups = stages.assign(all="").groupby(by, sort=False)
        counted = groups[["device_s", "saved_s"]].sum().assign(stages=groups.size())
        parts.append(counted.rename_axis("name").reset_index().assign(by=by))
    return pd.concat(parts, ignore_index=True)[["by", "name", "stages", "device_s", "saved_s"]]
