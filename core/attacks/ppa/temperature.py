"""The temperature at which a target is as sure of public images as one wants: a part, fitted once per target.

It is fitted to what the target says of the prior's images, without labels: the likelihood of its own decisions would
drive the temperature to 0. The mean top-1 softmax falls from 1 to 1/C as the temperature rises, so that there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.ppa.adaptive_config import TemperatureScaling
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, Part, PartContext
from smoothsweep.core.checks import require

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import GradientView

TEMPERATURE = "temperature"
_HALVINGS = 200  # of the bracket in log T: far beyond what float64 can tell apart
_BRACKET = 60.0  # log T within +- this of the logits' own scale


def temperature_part(tempering: TemperatureScaling) -> Part:
    """The part that fits the temperature of a target to its answers on a pool."""
    return Part(name=TEMPERATURE, needs=("target", "pool"), settings=asdict(tempering))


def make_temperature(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """temperature float64 [1]; every image of the pool is a query. Facts: it, and the mean confidence without it."""
    import torch

    from smoothsweep.core.attacks.optimisation.objective import target_logits
    from smoothsweep.core.attacks.shared.view import FORWARD_ROWS

    images, run = inputs.parts["pool"]["images"], view.execution
    with torch.no_grad(), run.arithmetic():

        def answer(rows: slice) -> Tensor:
            return target_logits(view.logits, images[rows].to(run.device), None).double().cpu()

        batch = run.forward_batch("classification", view.logits, most=FORWARD_ROWS)
        logits = torch.cat(batch.run(answer, len(images)))
    temperature = fitted_temperature(logits, settings["mean_confidence"])
    return MadePart(
        tensors={TEMPERATURE: torch.tensor([temperature], dtype=torch.float64)},
        facts={TEMPERATURE: temperature, "pool_confidence": mean_confidence(logits, 1.0)},
    )


def mean_confidence(logits: Tensor, temperature: float) -> float:
    """Mean over the rows of logits [N, C] of the largest softmax of logits / temperature, in float64."""
    return float((logits.double() / temperature).softmax(1).amax(1).mean())


def fitted_temperature(logits: Tensor, wanted: float) -> float:
    """The temperature at which the mean top-1 softmax of logits [N, C] is `wanted`, by bisection of its logarithm.

    Raises InputError where no temperature gives that: not above 1/C, or a target that does not decide.
    """
    import math

    centred = logits.double() - logits.double().mean(1, keepdim=True)
    scale = float(centred.abs().amax()) or 1.0
    low, high = math.log(scale) - _BRACKET, math.log(scale) + _BRACKET
    highest, lowest = (mean_confidence(centred, math.exp(end)) for end in (low, high))
    require(
        lowest < wanted < highest,
        "attack.temperature.mean_confidence",
        f"more than {lowest:.4g} and less than {highest:.4g}, what this target reaches",
        wanted,
    )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_confidence(centred, math.exp(middle)) > wanted else (low, middle)
    return math.exp((low + high) / 2)
