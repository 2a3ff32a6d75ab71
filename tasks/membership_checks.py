"""What shadow models and the attacks on membership refuse before any work. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping

from smoothsweep.core.declared import build
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.halves import check_part
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.counts import image_counts
from smoothsweep.tasks.settings import check_training


def check_shadow(config: Config, inputs: Mapping[str, Config]) -> None:
    """The recipe, and the images of every class that the model would have. Raises InputError."""
    check_training(config, inputs)
    _check_counts(inputs, float(config["part"]["share"]))


def check_membership(config: Config, inputs: Mapping[str, Config]) -> None:
    """The settings, and images of every class, where their number is known. Raises InputError."""
    settings = build(Membership, dict(config["settings"]), what="judges.membership", prefix="judges.membership.")
    if settings.shadows:
        _check_counts(inputs, settings.share)


def _check_counts(inputs: Mapping[str, Config], share: float) -> None:
    counts = image_counts(inputs["data"]) if "data" in inputs else None
    if counts is not None:  # else the images tell when they are read
        check_part(counts, share, "judges.membership")
