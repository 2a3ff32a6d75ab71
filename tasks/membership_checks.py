"""What shadow models and the attacks on membership refuse before any work. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping

from smoothsweep.core.declared import build
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.halves import check_part
from smoothsweep.tasks.context import Config
from smoothsweep.tasks.counts import training_counts
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
    data = inputs.get("data")
    counts = None if data is None else training_counts(data)
    if data is None or counts is None or data["kind"] != "synthetic":
        return  # how many of a class are test images, the artifact tells
    check_part(tuple(count + data["test_per_class"] for count in counts), share, "judges.membership")
