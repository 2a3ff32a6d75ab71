"""The false-accept rates that verification is asked for at, and how much it looks at. Loads no torch."""

from __future__ import annotations

RATES = {"far1": 0.01, "far01": 0.001}
"""Name in a column -> false-accept rate."""
FIRST = "far1"
"""The rate that every verification has strangers for."""
STRANGERS = 1000
"""Public images that thresholds and ranks are taken from, at most."""
PROJECTED = 50
"""Private photographs that the reach of a prior is measured on, at most."""


def strangers_needed(false_accepts: float) -> int:
    """How many strangers a threshold needs: with 50 people, every 100th score of 50 strangers is still 25 scores."""
    return max(1, round(0.5 / false_accepts))
