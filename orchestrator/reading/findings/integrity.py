"""What the numbers say of adversarial images and backdoors, in sentences: masked gradients, collapsed trainings."""

from __future__ import annotations

import pandas as pd

from core.metrics.table import metric_of
from core.words import NBSP
from orchestrator.reading.findings.sureness import named
from orchestrator.reading.numbers.format import count, listing, number
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary

MASKED = 0.2  # a share of images that attacks without cross entropy change and PGD does not: too many for chance
PUBLISHED = ("fgsm_untargeted_correct", "pgd_untargeted_correct", "bim_untargeted_correct")
UNMASKING = ("margin_pgd_untargeted_correct", "auto_pgd_untargeted_correct")


def inverts_nothing(data: ReportData) -> bool:
    """Whether no trial of the sweep has an attack (attack: null)."""
    return "attack" in data.results and len(data.results) > 0 and bool(data.results["attack"].isna().all())


def without_leak(data: ReportData) -> str:
    """The answer of a sweep that measures the targets alone."""
    done = int((data.results["status"] == "done").sum())
    return (
        f"This sweep inverts nothing, so it says nothing of leaks: it measures what an attacker can make the targets "
        f"answer ({done}{NBSP}of {count(len(data.results), 'trial')} done)."
    )


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
