"""Which judges can tell a leak, by their answers to real photographs: one rule for the run and for all that is written.

A judge that cannot decides nothing: its numbers are shown beside its own accuracy, without a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from smoothsweep.core.judges.columns import CEILINGS, METRICS, REACH_IMAGES
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.judge_check import JudgeCheck, check_judge
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.reading.numbers.format import is_null, number

Checks = Mapping[str, JudgeCheck]
"""Leak metric -> the check of the judge that measures it, where that was shown real photographs."""
FIRST = {ceiling: next(spec for spec in METRICS if spec.ceiling == ceiling) for ceiling in CEILINGS.values()}
"""What a judge reaches on real photographs -> the leak of which that is the ceiling."""


def judge_checks(known: Mapping[str, float | None], *, people: int | None, images: int | None) -> Checks:
    """Check the judges of all leaks.

    Args:
        known: Column of results -> value; None or NaN where it was not measured.
        people: Classes of the private data.
        images: Their test images.
    """
    measured = {key: float(value) for key, value in known.items() if value is not None and not is_null(value)}
    by_ceiling = {
        ceiling: _check(spec, ceiling, measured, people, images)
        for ceiling, spec in FIRST.items()
        if ceiling in measured
    }
    return {key: by_ceiling[ceiling] for key, ceiling in CEILINGS.items() if ceiling in by_ceiling}


def _check(
    spec: Metric, ceiling: str, known: Mapping[str, float], people: int | None, images: int | None
) -> JudgeCheck:
    names = not spec.verifies  # the right one of all people, as the targets do
    reach = known.get(spec.reach or "")
    return check_judge(
        min(known[ceiling], known.get(f"{ceiling}_balanced", 1.0)),  # one person's name for all counts once
        images=images,
        chance=(1 / people if people else None) if names else spec.chance,
        targets=known.get("test_acc") if names else None,
        reach=None if spec.reach is None or reach is None else (reach, int(known.get(REACH_IMAGES[spec.reach], 0))),
    )


def untold(checks: Checks) -> tuple[str, ...]:
    """A sentence on every judge by which no leak can be told."""
    blind = {CEILINGS[key]: check for key, check in checks.items() if check.why}
    return tuple(_sentence(FIRST[ceiling], check) for ceiling, check in blind.items())


def _sentence(spec: Metric, check: JudgeCheck) -> str:
    learns = JUDGES[spec.measured_by or ""].learns_private
    remedy = "Train it for more epochs" if learns else "Use an embedder made for such pictures"
    return f"No leak can be told by the {spec.label}: {check.words}. {remedy}, or judge by another."


def limited(checks: Checks) -> tuple[str, ...]:
    """A sentence on every judge that can tell leaks and is often wrong about real photographs."""
    judges = {CEILINGS[key]: check for key, check in checks.items() if not check.why and not check.is_good}
    return tuple(f"Of the {FIRST[ceiling].label}: {check.words}." for ceiling, check in judges.items())


def labelled(spec: Metric, checks: Checks) -> Metric:
    """The metric with its judge's accuracy on real photographs in its label, unless that is good."""
    check = checks.get(spec.key)
    if check is None or check.is_good:
        return spec
    real = number(FIRST[CEILINGS[spec.key]], check.real, rough=True)
    return replace(spec, label=f"{spec.label} (real photographs: {real})")
