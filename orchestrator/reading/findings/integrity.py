"""Cautions about the measurements: hits on controls, masked gradients, collapsed trainings."""

from __future__ import annotations

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.findings.display import INTEGRITY
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named, number, start
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary

MASKED = 0.2  # fraction of images that attacks without cross entropy change and PGD does not: too large for chance
ASKED = "what an attacker can make the targets answer"
PUBLISHED = ("fgsm_untargeted_correct", "pgd_untargeted_correct", "bim_untargeted_correct")
UNMASKING = ("margin_pgd_untargeted_correct", "auto_pgd_untargeted_correct")


def inverts_nothing(data: ReportData) -> bool:
    """Whether no trial of the sweep has an attack (attack: null)."""
    return "attack" in data.results and len(data.results) > 0 and bool(data.results["attack"].isna().all())


def first_measured(summary: Summary) -> Metric | None:
    """The metric of the first screen: the leak that decides, else the first measured metric; None without any."""
    if summary.primary is not None:
        return summary.spec
    known = (metric_of(key) for key in INTEGRITY if key in summary.measured)
    return next((spec for spec in known if spec.better), None)


def without_leak(data: ReportData, summary: Summary) -> str:
    """The answer of a sweep without inversion, which measures only targets."""
    done, spec = int((data.results["status"] == "done").sum()), first_measured(summary)
    tells = spec is not None and spec.group == "membership"
    what = "how well an attacker tells which images the targets were trained on" if tells else ASKED
    first = f"This sweep inverts nothing: it measures {what}"
    if spec is None:
        return f"{first} ({done}{NBSP}of {count(len(data.results), 'trial')} done)."
    values = summary.frame[spec.key].dropna()
    low, high = (
        f"{number(spec, values[row])} ({named(summary.frame.loc[row, 'recipe'])})"
        for row in (values.idxmin(), values.idxmax())
    )
    same = f"is {number(spec, values.min())} under every recipe"
    values_text = same if values.min() == values.max() else f"lies between {low} and {high}"
    return f"{first}. {start(spec.label)} {values_text}{_beside_baseline(summary, spec)}."


def _beside_baseline(summary: Summary, spec: Metric) -> str:
    """A phrase such as `; inconclusive against alpha 0 (37.9 %)`; empty where nothing can be compared."""
    frame = summary.frame
    compared = frame.loc[frame[f"{spec.key}_verdict"].fillna("") != "", ["recipe", f"{spec.key}_verdict"]]
    baselines = frame.loc[frame["is_baseline"], spec.key].dropna()
    if compared.empty or len(baselines) != 1:
        return ""
    decided = compared[compared[f"{spec.key}_verdict"] != INCONCLUSIVE]
    words = [f"{named(recipe)} is {verdict}" for recipe, verdict in decided.itertuples(index=False)]
    baseline = f"{named(frame.loc[baselines.index[0], 'recipe'])} ({number(spec, baselines.iloc[0])})"
    return f"; {listing(words)} than {baseline}" if words else f"; every recipe is inconclusive against {baseline}"


def integrity_lines(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """Cautions about the numbers of a sweep, one sentence each."""
    return (*_masked(summary), *_collapsed(data))


def _masked(summary: Summary) -> tuple[str, ...]:
    """A sentence on recipes that resist the paper's attacks by masked gradients; empty without any."""
    if "zero_gradients" not in summary.measured:
        return ()
    recipes = []
    for cell in summary.cells.values():
        published, unmasking = (
            pd.Series([cell[key] for key in keys], dtype=float).max() for keys in (PUBLISHED, UNMASKING)
        )
        if pd.notna(published) and pd.notna(unmasking) and unmasking - published >= MASKED:
            leaks = number(metric_of(PUBLISHED[0]), published), number(metric_of(UNMASKING[0]), unmasking)
            recipes.append(f"{named(cell['recipe'])} ({leaks[0]} against {leaks[1]})")
    if not recipes:
        return ()
    return (
        f"Masked gradients, no robustness: of correctly answered images, attacks by cross entropy change far fewer "
        f"than attacks on the logits at {listing(recipes)}.",
    )


def _collapsed(data: ReportData) -> tuple[str, ...]:
    """A sentence on collapsed trainings, in which the success of a backdoor is meaningless; empty without any."""
    if "backdoor_collapsed" not in data.results:
        return ()
    measured = data.results["backdoor_collapsed"].dropna()
    failed = int((measured > 0).sum())
    if not failed:
        return ()
    return (
        f"Of {count(len(measured), 'poisoned training')}, {failed}{NBSP}collapsed: the target gives nearly every clean "
        "image one class. A backdoor's success there says nothing, and neither do means over such seeds.",
    )


def control_line(summary: Summary) -> tuple[str, ...]:
    """One sentence on the largest leak that the judge finds in a control; empty without controls."""
    metric = summary.primary
    worst = summary.worst_of_control(metric) if metric else None
    if worst is None:
        return ()
    attack, row = worst
    return (
        f"What the judge credits to a control is no leak: {attack} reaches {summary.value_text(row)} "
        f"at {named(summary.frame.loc[row, 'recipe'])}.",
    )
