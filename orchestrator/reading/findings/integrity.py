"""What the numbers say of controls, images and backdoors, in sentences: masked gradients, collapsed trainings."""

from __future__ import annotations

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.findings.tables import INTEGRITY
from smoothsweep.orchestrator.reading.findings.uncertainty import named, start
from smoothsweep.orchestrator.reading.numbers.format import count, listing, number
from smoothsweep.orchestrator.reading.numbers.model import ReportData
from smoothsweep.orchestrator.reading.numbers.summary import Summary

MASKED = 0.2  # a share of images that attacks without cross entropy change and PGD does not: too many for chance
PUBLISHED = ("fgsm_untargeted_correct", "pgd_untargeted_correct", "bim_untargeted_correct")
UNMASKING = ("margin_pgd_untargeted_correct", "auto_pgd_untargeted_correct")


def inverts_nothing(data: ReportData) -> bool:
    """Whether no trial of the sweep has an attack (attack: null)."""
    return "attack" in data.results and len(data.results) > 0 and bool(data.results["attack"].isna().all())


def first_measured(summary: Summary) -> Metric | None:
    """The metric of the first screen: the leak that decides, else what an attacker makes the targets answer."""
    if summary.primary is not None:
        return summary.spec
    known = (metric_of(key) for key in INTEGRITY if key in summary.measured)
    return next((spec for spec in known if spec.better), None)


def without_leak(data: ReportData, summary: Summary) -> str:
    """The answer of a sweep that measures the targets alone."""
    first = "This sweep inverts nothing: it measures what an attacker can make the targets answer"
    done, spec = int((data.results["status"] == "done").sum()), first_measured(summary)
    if spec is None:
        return f"{first} ({done}{NBSP}of {count(len(data.results), 'trial')} done)."
    values = summary.frame[spec.key].dropna()
    low, high = (
        f"{number(spec, values[row])} ({named(summary.frame.loc[row, 'recipe'])})"
        for row in (values.idxmin(), values.idxmax())
    )
    same = f"is {number(spec, values.min())} under every recipe"
    shown = same if values.min() == values.max() else f"lies between {low} and {high}"
    return f"{first}. {start(spec.label)} {shown}{_beside_baseline(summary, spec)}."


def _beside_baseline(summary: Summary, spec: Metric) -> str:
    """`; inconclusive against alpha 0 (37.9 %)`; empty where nothing can be compared."""
    frame = summary.frame
    compared = frame.loc[frame[f"{spec.key}_verdict"].fillna("") != "", ["recipe", f"{spec.key}_verdict"]]
    baselines = frame.loc[frame["is_baseline"], spec.key].dropna()
    if compared.empty or len(baselines) != 1:
        return ""
    told = compared[compared[f"{spec.key}_verdict"] != INCONCLUSIVE]
    words = [f"{named(recipe)} is {verdict}" for recipe, verdict in told.itertuples(index=False)]
    baseline = f"{named(frame.loc[baselines.index[0], 'recipe'])} ({number(spec, baselines.iloc[0])})"
    return f"; {listing(words)} than {baseline}" if words else f"; every recipe is inconclusive against {baseline}"


def integrity_lines(data: ReportData, summary: Summary) -> tuple[str, ...]:
    """What to beware of in these numbers, one sentence each."""
    return (*_masked(summary), *_collapsed(data))


def _masked(summary: Summary) -> tuple[str, ...]:
    """Recipes whose success against the paper's attacks is masked gradients."""
    if "zero_gradients" not in summary.measured:
        return ()
    found = []
    for row, cell in summary.frame.iterrows():
        published, unmasking = (cell[list(keys)].astype(float).max() for keys in (PUBLISHED, UNMASKING))
        if pd.notna(published) and pd.notna(unmasking) and unmasking - published >= MASKED:
            shown = number(metric_of(PUBLISHED[0]), published), number(metric_of(UNMASKING[0]), unmasking)
            found.append(f"{named(summary.frame.loc[row, 'recipe'])} ({shown[0]} against {shown[1]})")
    if not found:
        return ()
    return (
        f"Masked gradients, no robustness: of correctly answered images, attacks by cross entropy change far fewer "
        f"than attacks on the logits at {listing(found)}.",
    )


def _collapsed(data: ReportData) -> tuple[str, ...]:
    """How many trainings came to nothing: a backdoor's success in them says nothing."""
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
    """One sentence on the most that the judge credits to a control; none without controls."""
    metric = summary.primary
    found = summary.worst_of_control(metric) if metric else None
    if found is None:
        return ()
    attack, row = found
    return (
        f"What the judge credits to a control is no leak: {attack} reaches {summary.shown(row)} "
        f"at {named(summary.frame.loc[row, 'recipe'])}.",
    )
