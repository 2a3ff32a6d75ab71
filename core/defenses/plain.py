"""Label smoothing alone: what a training does without any other defense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from smoothsweep.core.defenses.base import Defense


@dataclass(frozen=True, kw_only=True)
class LabelSmoothing(Defense):
    """No parameters of its own: the factor and its schedule belong to every defense, and 0 is plain training."""

    cites: ClassVar[tuple[str, ...]] = ("szegedy2016rethinking", "struppek2024careful")
