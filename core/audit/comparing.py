"""Several models beside each other: what the strongest attack finds in each, and which differences are significant.

The choice of the strongest attack is paid for, see `core.metrics.reduction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.core.audit.results import Audit
from smoothsweep.core.audit.statistics import LEVEL, SPAN
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.reduction import reductions
from smoothsweep.core.metrics.verdicts import verdict


def compare_audits(audits: Mapping[str, Audit]) -> pd.DataFrame:
    """A row per audit; see `smoothsweep.compare`. Raises InputError for audits that cannot be paired."""
    names = list(audits)
    if len(names) < 2:
        raise InputError(f"compare: expected at least two audits, got {len(names)}")
    first = audits[names[0]]
    for name in names[1:]:
        _check_alike(f"compare: {name}", audits[name], first)
    leaks = {name: {attack: tally.shares for attack, tally in one.tallies.items()} for name, one in audits.items()}
    less = reductions(leaks, baseline=names[0], level=LEVEL, span=SPAN)
    rows: list[dict[str, Any]] = []
    for name, one in audits.items():
        best = one.attacks.iloc[0]
        row = {"model": name, "test_acc": one.test_acc, **best[["attack", "leak", "low", "high"]].to_dict()}
        gap = {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "verdict": ""}
        if name != names[0]:
            low, high = (None if end is None else -end for end in (less[name].high, less[name].low))
            gap = {"difference": -less[name].value, "difference_low": low, "difference_high": high,
                   "verdict": verdict(low, high, seeds=len(first.seeds))}  # fmt: skip
        rows.append(row | {key: np.nan if value is None else value for key, value in gap.items()})
    return pd.DataFrame(rows)


def _check_alike(where: str, one: Audit, first: Audit) -> None:
    """Refuse audits whose shares stand for different things."""
    if one.by is not first.by:
        raise InputError(f"{where}: expected the judge of the first audit (by=first.by), got another one")
    for what, mine, other in (
        ("people", list(one.strongest.classes), list(first.strongest.classes)),
        ("seeds", list(one.seeds), list(first.seeds)),
        ("attacks", sorted(one.attacks["attack"]), sorted(first.attacks["attack"])),
    ):
        if mine != other:
            raise InputError(f"{where}: expected the {what} of the first audit, {other}, got {mine}")
