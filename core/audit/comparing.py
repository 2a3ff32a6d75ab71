"""Compare the audits of several models: the strongest attack on each, and which differences are significant.

Intervals account for the choice of the strongest attack (`core.metrics.leak_comparisons`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.audit.results import Audit
from smoothsweep.core.audit.statistics import LEVEL, SPAN
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.leak_comparisons import compare_leaks


def compare_audits(audits: Mapping[str, Audit]) -> pd.DataFrame:
    """One row per audit, as `smoothsweep.compare` returns it. Raises InputError for audits that cannot be paired."""
    names = list(audits)
    if len(names) < 2:
        raise InputError(f"compare: expected at least two audits, got {len(names)}")
    first = audits[names[0]]
    for name in names[1:]:
        _check_alike(f"compare: {name}", audits[name], first)
    leaks = {name: {attack: tally.shares for attack, tally in audit.tallies.items()} for name, audit in audits.items()}
    comparisons = compare_leaks(
        leaks, baseline=names[0], published=first.published, level=LEVEL, span=SPAN, every_pair=False
    ).verdicts
    if any(audit.check.why for audit in audits.values()):
        comparisons = {}  # no leak can be told by this judge
    rows: list[dict[str, Any]] = []
    for name, audit in audits.items():
        best = audit.attacks.iloc[0]
        row = {"model": name, "test_acc": audit.test_acc, **best[["attack", "leak", "low", "high"]].to_dict()}
        gap = comparisons.get(name)
        size = (np.nan,) * 3 if gap is None else (gap.reduction, _known(gap.low), _known(gap.high))
        row |= dict(zip(("reduction", "reduction_low", "reduction_high"), size, strict=True))
        needed = gap.needed.seeds if gap is not None and gap.needed is not None else None
        row |= {"verdict": gap.word if gap else "", "seeds_needed": _known(needed)}
        earlier = ("difference", "difference_low", "difference_high")
        row |= dict(zip(earlier, (-size[0], -size[2], -size[1]), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def _known(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _check_alike(where: str, audit: Audit, first: Audit) -> None:
    """Raise InputError for audits that differ in judge, classes, seeds or attacks."""
    if audit.by is not first.by:
        raise InputError(f"{where}: expected the judge of the first audit (by=first.by), got another one")
    for what, mine, other in (
        ("people", list(audit.strongest.classes), list(first.strongest.classes)),
        ("seeds", list(audit.seeds), list(first.seeds)),
        ("attacks", sorted(audit.attacks["attack"]), sorted(first.attacks["attack"])),
    ):
        if mine != other:
            raise InputError(f"{where}: expected the {what} of the first audit, {other}, got {mine}")
