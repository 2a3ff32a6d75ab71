"""Tables for a paper: typed rows of means, intervals and n, with significant differences from the baseline marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result.display import incomplete_lines, seeds, shown_metrics
from smoothsweep.orchestrator.result.estimates import limited
from smoothsweep.orchestrator.result.format import (
    ABSENT,
    count,
    interval,
    is_null,
    number,
    signed,
    signed_interval,
)
from smoothsweep.orchestrator.result.summary import Summary

BY_RECIPE, BY_ATTACK = "recipes", "attacks"
OWN_ATTACKS = "The numbers of another judge are under the attack that works best by that judge."
"""Stems of the tables' files."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number of a table, in the unit of its metric (fractions for rates).

    Attributes:
        value: The mean, or a reduction; None where it was not measured.
        low: Lower end of its interval; None where none is known.
        high: Upper end.
        seeds: Seeds that it rests on.
        differs: Whether it is distinguishable from the baseline: the corrected interval of the difference leaves out 0.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    seeds: int | None = None
    differs: bool = False


@dataclass(frozen=True, kw_only=True)
class PrintedRow:
    """A recipe, or a recipe under one attack.

    Attributes:
        recipe: Its name in the report.
        attack: The attack that it is shown under; empty where the sweep varies none.
        role: "baseline", "control" (the attack is none) or empty.
        seeds: Its seeds as the report shows them: `3`, or `2 of 3`.
        metrics: Metric -> its number.
        reduction: Leak of the baseline minus leak of the recipe; None where the two were not compared.
        verdict: The word of the comparison; empty without one.
        p: The error at which the comparison would be clear; None where it is not known.
    """

    recipe: str
    attack: str
    role: str
    seeds: str
    metrics: Mapping[str, Estimate]
    reduction: Estimate | None = None
    verdict: str = ""
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """A table with what its caption says.

    Attributes:
        stem: Stem of the names of its files.
        caption: One or more sentences, plain text.
        metrics: Columns between n and the reduction.
        leak: The metric of the reduction; None where no leak was measured.
        rows: Rows in the order of the report.
        by_attack: Whether rows of one attack form a group.
        own_attacks: Whether the number of each judge is under the attack that works best by that judge, so that a
            row may hold numbers of several attacks.
    """

    stem: str
    caption: str
    metrics: tuple[str, ...]
    leak: str | None
    rows: tuple[PrintedRow, ...]
    by_attack: bool = False
    own_attacks: bool = False

    @property
    def compares(self) -> bool:
        """Whether some row has a reduction."""
        return any(row.reduction is not None for row in self.rows)

    @property
    def attacks(self) -> tuple[str, ...]:
        """The attacks of its rows, each once."""
        return tuple(dict.fromkeys(row.attack for row in self.rows if row.attack))


def printed_tables(summary: Summary, title: str, protocol: str) -> tuple[PrintedTable, ...]:
    """A table of recipes under their strongest attacks, and with several attacks one of recipes under each attack."""
    compares = summary.primary is not None and not summary.by_setting
    tables = [_by_recipe(summary, title, protocol)] if compares else []
    if len(summary.attacks) > 1 or not tables:
        tables.append(_by_attack(summary, title, protocol))
    return tuple(tables)


def shown_estimate(spec: Metric, estimate: Estimate) -> tuple[str, str]:
    """The mean without unit, which the column's head has, and the interval: `47.2`, `[34, 60]`."""
    if is_null(estimate.value):
        return ABSENT, ""
    return number(spec, estimate.value).removesuffix(f"{NBSP}%"), interval(spec, estimate.low, estimate.high)


def shown_reduction(spec: Metric, estimate: Estimate) -> tuple[str, str]:
    """A reduction and its interval as texts, such as `+20.5`, `[+2, +39]`; percentage points for rates."""
    return signed(spec, estimate.value), signed_interval(spec, estimate.low, estimate.high)


def _by_recipe(summary: Summary, title: str, protocol: str) -> PrintedTable:
    metrics, rows = tuple(shown_metrics(summary)), []
    for recipe, row in summary.rows(summary.deciding).items():
        cell, verdict = summary.cells[row], summary.verdict(recipe)
        reduction = None
        if verdict is not None:
            reduction = Estimate(
                value=verdict.reduction,
                low=verdict.low,
                high=verdict.high,
                seeds=verdict.seeds,
                differs=verdict.is_clear,
            )
        rows.append(
            PrintedRow(
                recipe=recipe,
                attack=str(cell["attack"]),
                role="baseline" if recipe in summary.references.values() else "",
                seeds=seeds(cell),
                metrics={key: _of_recipe(summary, recipe, key, cell) for key in metrics},
                reduction=reduction,
                verdict="" if verdict is None else verdict.word,
                p=None if verdict is None else verdict.p,
            )
        )
    several = ", each under the attack that works best against it" if len(summary.attacks) > 1 else ""
    names_attack = bool(several) and any(metric_of(key).is_leak and key != summary.primary for key in metrics)
    others = f" {OWN_ATTACKS}" if names_attack else ""
    caption = f"Recipes of the sweep {title}{several}.{others} {_reading(summary, protocol)}"
    leak = summary.primary
    return PrintedTable(
        stem=BY_RECIPE, caption=caption, metrics=metrics, leak=leak, rows=tuple(rows), own_attacks=names_attack
    )


def _of_recipe(summary: Summary, recipe: str, key: str, cell: Mapping[str, Any]) -> Estimate:
    """A leak under the attack that works best by its own judge, as its comparison is; another metric of the row."""
    if not metric_of(key).is_leak:
        return _estimate(cell, key)
    row = summary.rows(key).get(recipe)
    if row is None:
        return Estimate(value=None)
    verdict = summary.verdict(recipe, key)
    return _estimate(summary.cells[row], key, differs=verdict is not None and verdict.is_clear)


def _by_attack(summary: Summary, title: str, protocol: str) -> PrintedTable:
    metrics, rows = tuple(shown_metrics(summary)), []
    for cell in summary.cells.values():
        reduction = _reduction(summary, cell)
        rows.append(
            PrintedRow(
                recipe=cell["recipe"],
                attack=cell["attack"],
                role="control" if cell["control"] else "baseline" if cell["is_baseline"] else "",
                seeds=seeds(cell),
                metrics={key: _estimate(cell, key) for key in metrics},
                reduction=reduction,
            )
        )
    caption = f"Every recipe under every attack of the sweep {title}. {_reading(summary, protocol)}"
    return PrintedTable(
        stem=BY_ATTACK, caption=caption, metrics=metrics, leak=summary.primary, rows=tuple(rows), by_attack=True
    )


def _reduction(summary: Summary, cell: Mapping[str, Any]) -> Estimate | None:
    """The reduction of a row relative to the baseline's row under the same attack; None without a comparison."""
    key = summary.primary
    if key is None or f"{key}_diff" not in cell or is_null(cell[f"{key}_diff"]):
        return None
    sign = summary.spec.sign
    ends = [-sign * cell[f"{key}_diff{end}"] for end in ("_low", "_high")]
    low, high = (None, None) if any(map(is_null, ends)) else sorted(map(float, ends))
    return Estimate(
        value=-sign * float(cell[f"{key}_diff"]),
        low=low,
        high=high,
        seeds=int(cell[f"{key}_diff_n"]),
        differs=_differs(cell, key),
    )


def _estimate(cell: Mapping[str, Any], key: str, *, differs: bool | None = None) -> Estimate:
    if is_null(cell[key]):
        return Estimate(value=None)
    low, high = (None if is_null(cell[f"{key}{end}"]) else float(cell[f"{key}{end}"]) for end in ("_low", "_high"))
    is_clear = _differs(cell, key) if differs is None else differs
    return Estimate(value=float(cell[key]), low=low, high=high, seeds=int(cell[f"{key}_n"]), differs=is_clear)


def _differs(cell: Mapping[str, Any], key: str) -> bool:
    return cell.get(f"{key}_verdict", "") not in ("", INCONCLUSIVE)


def _reading(summary: Summary, protocol: str) -> str:
    """Sentences of the caption: what the numbers are, what bold means, and what to compare a leak with."""
    level, parts = f"{100 * summary.settings.level:g} %", []
    classes = f" and {count(summary.judged_classes, 'class', 'classes')}" if summary.judged_classes else ""
    parts.append(f"Means over n training seeds{classes}, with {level} intervals.")
    if summary.primary is not None and summary.references:
        unit = ", in percentage points" if summary.spec.unit == "percent" else ""
        parts.append(
            f"Reduction: {summary.spec.label} of the baseline minus that of the recipe{unit}; positive leaks less. "
            f"Bold: distinguishable from the baseline, i.e. the {level} interval of the difference, corrected for all "
            "recipes, leaves out zero."
        )
    if summary.primary is not None:
        control = summary.worst_of_control(summary.primary)
        if control is not None:
            parts.append(f"Control ({control[0]}): {summary.value_text(control[1])}.")
        if summary.judged_classes and summary.spec.unit == "percent":
            parts.append(f"Chance: {number(summary.spec, 1 / summary.judged_classes)}.")
    return " ".join([*parts, *limited(summary.checks), f"Protocol {protocol}.", *incomplete_lines(summary)])
