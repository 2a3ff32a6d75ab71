"""Whether an accuracy is as good as another: only an interval shows that, never the lack of a clear difference.

A difference that may be chance is no proof of none. "Not lost" is claimed as in trials of non-inferiority (Piaggio and
others, 2012, J. Am. Med. Assoc. 308): if the whole interval lies above minus a margin that was stated beforehand.
"""

from __future__ import annotations

import math

ACCURACY_MARGIN = 0.01
"""The loss of accuracy that counts as none where a sweep file states no other: one percentage point."""


def is_kept(low: float | None, high: float | None, margin: float = ACCURACY_MARGIN) -> bool:
    """Whether a difference (positive: better) with this interval is no loss of `margin` or more.

    low, high: None or NaN without an interval. One without width is no proof: values without any spread do not say how
    far they may lie from the truth. Raises ValueError for a margin that is not above 0.
    """
    if not margin > 0:
        raise ValueError(f"margin: expected a number above 0, got {margin}")
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return False
    return -margin < low < high
