"""The smoothing factor's range. Apart from the loss, so that schedules can be checked without loading torch."""

from __future__ import annotations

import math

from smoothsweep.core.errors import InputError


def check_alpha(alpha: float, *, name: str = "alpha") -> float:
    """`alpha` as a float if it is finite and at most 1; otherwise InputError, which calls it `name`."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha) or alpha > 1:
        raise InputError(f"{name}: expected a finite number of at most 1, got {alpha!r}")
    return float(alpha)
