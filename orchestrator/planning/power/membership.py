"""What a plan's membership attacks can tell: the smallest false positive rate, and shadow models for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.metrics.membership import smallest_rate
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.counts import test_count


def membership_of_plan(stages: Sequence[Stage]) -> dict[str, Any]:
    """{"membership": ...} of a plan with membership attacks, else nothing.

    Shadow models of a recipe, answers of them with and without each image, test images, and the smallest false positive
    rate where their number is known.
    """
    name = next(stage_of(name) for name, kind in JUDGES.items() if kind is Membership)
    judge = next((stage for stage in stages if stage.name == name), None)
    if judge is None:
        return {}
    settings = {"shadows": Membership.shadows, "share": Membership.share, **judge.config["settings"]}
    others = test_count({**judge.inputs["data"].config, **judge.inputs["data"].hints})
    inside = round(settings["shadows"] * settings["share"])
    return {
        "membership": {
            "shadows": settings["shadows"],
            "with_image": inside,
            "without_image": settings["shadows"] - inside,
            "test_images": others,
            "smallest_fpr": None if others is None else smallest_rate(others),
        }
    }


def membership_lines(limits: dict[str, Any] | None) -> list[str]:
    """Lines on the limits of the membership attacks for a terminal; none without membership attacks."""
    if limits is None:
        return []
    rate = "the number of test images, known once the data are read"
    if limits["smallest_fpr"] is not None:
        smallest = f"{100 * limits['smallest_fpr']:.3g} %"
        rate = f"{limits['test_images']:,} test images show no false positive rate below {smallest}"
    shadows = "no shadow models: thresholds and labels alone"
    if limits["shadows"]:
        shadows = (
            f"{limits['shadows']} shadow models per recipe give each image "
            f"about {limits['with_image']} answers with it and {limits['without_image']} without"
        )
    return ["", f"membership: {rate}; {shadows}"]
