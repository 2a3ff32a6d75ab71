"""GPUs that a cluster will have once they are asked for: one that scales from zero has none before."""

from __future__ import annotations

import math
import os

from smoothsweep.core.errors import InputError

PROMISED_GPUS = "SMOOTHSWEEP_CLUSTER_GPUS"  # that the cluster can grow to
PROMISED_PER_NODE = "SMOOTHSWEEP_NODE_GPUS"  # of the largest machine that may come


def promised_gpus(variable: str = PROMISED_GPUS) -> float | None:
    """The number in the environment variable, None where it is not set. Raises InputError for what is no number."""
    promised = os.environ.get(variable)
    if promised is None:
        return None
    try:
        number = float(promised)
    except ValueError:
        number = -1.0
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{variable}: expected a number of GPUs, got {promised!r}")
    return number
