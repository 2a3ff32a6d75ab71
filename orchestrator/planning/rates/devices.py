"""Devices that a stated rate can be told for: the one that its source names, and others by their data sheets.

The work is convolutions in single precision. Of the ratios that the vendor's data sheets give between two of these
devices, memory bandwidth is the smallest (arithmetic grew more), so a rate divided by it promises the least.
"""

from __future__ import annotations

from smoothsweep.core.attacks.shared.stated_work import StatedRate

TERABYTES_PER_S = {"A100": 2.039, "H100": 3.35, "H200": 4.8}
SHEETS = "NVIDIA's data sheets of the A100 80GB, H100 and H200, all SXM"
"""Memory bandwidth, and where it is stated."""
DEVICES = tuple(TERABYTES_PER_S)


def speed(rate: StatedRate, device: str) -> float:
    """How many times the rate's device the other one is taken to be; 1 for the rate's own."""
    return TERABYTES_PER_S[device] / TERABYTES_PER_S[rate.device]


def derived(rate: StatedRate, device: str) -> str:
    """How the rate of the other device comes about, in words; empty for the rate's own."""
    if device == rate.device:
        return ""
    return (
        f"; for an {device} divided by {speed(rate, device):.2f}, the ratio of memory bandwidths "
        f"({TERABYTES_PER_S[device]:g} and {TERABYTES_PER_S[rate.device]:g} TB/s, {SHEETS})"
    )
