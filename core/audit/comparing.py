"""Several models beside each other: what the strongest attack finds in each, and which differences can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from core.audit.results import Audit
from core.audit.statistics import LEVEL, SPAN
from core.errors import InputError
from core.metrics.comparisons import compare_recipes


def compare_audits(audits: Mapping[str, Audit]) -> pd.DataFrame:
    """A row per audit; see `smoothsweep.compare`. Raises InputError for audits that cannot be paired."""
    names = list(audits)
    if len(names) < 2:
        raise InputError(f"compare: expected at least two audits, got {len(names)}")
    first = audits[names[0]]
    for name in names[1:]:
        _check_alike(f"compare: {name}", audits[name], first)
    last = [*names[1:], names[0]]  # pairs are earlier minus later; a reader wants each model minus the first
    compared = compare_recipes({name: audits[name].strongest.shares for name in last}, level=LEVEL, span=SPAN)
    rows: list[dict[str, Any]] = []
    for name, one in audits.items():
        best = one.attacks.iloc[0]
        row = {"model": name, "test_acc": one.test_acc, **best[["attack", "leak", "low", "high"]].to_dict()}
        gap = {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "verdict": ""}
        if name != names[0]:
            pair = compared.between(name, names[0])
            gap = {"difference": pair.difference, "difference_low": pair.low, "difference_high": pair.high,
                   "verdict": pair.verdict}  # fmt: skip
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
