"""Several classes of Plug & Play side by side on a CPU, each with the bits that it has by itself.

A pass through small networks costs a row the less, the more rows it has, and a class of few candidates has few. Classes
share nothing: every one keeps its own draws, batches and means, and Adam works on every coordinate by itself. Whether
networks give a row the same bits in a larger pass is a matter of the machine's kernels. So it is tried on the networks,
once for each number of classes, by the first, the middle and the last of them; where it does not hold, the classes are
computed one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.ppa.config import PPAConfig
from smoothsweep.core.attacks.ppa.inversion import Stages, starts_of
from smoothsweep.core.attacks.ppa.pool import preprocess_of
from smoothsweep.core.attacks.ppa.results import ClassReconstruction, OptimiseResult, Selection, Starts, reconstructed
from smoothsweep.core.attacks.ppa.shared_inputs import SharedInputs
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.priors.base import Prior


@dataclass(frozen=True, kw_only=True)
class Together:
    """The stages: `sample` of one class, the other two of several. As `StageKind.function_together` gives them."""

    sample: Callable[..., Starts]
    optimise: Callable[..., list[OptimiseResult]]
    select: Callable[..., list[Selection]]


def invert_together(
    prior: Prior,
    view: GradientView,
    confidences: Tensor,
    w_pool: Tensor,
    classes: Sequence[int],
    config: PPAConfig,
    *,
    temperature: float | None,
    stages: Together,
    seed: int,
    protocol: Protocol,
) -> list[ClassReconstruction]:
    """The whole attack on every class, bit for bit what `invert_class` leaves of it. Arguments as there.

    The view counts what `invert_class` would show it. Raises InputError.
    """
    shared = SharedInputs(prior=prior, view=view, seed=seed, protocol=protocol, transform=preprocess_of(config.pool))
    sampling = Stages(sample=stages.sample)
    starts = [starts_of(sampling, confidences, w_pool, c, config.candidates, seed=seed) for c in classes]
    optimised = stages.optimise(
        shared, [start[0] for start in starts], classes, config.optimise, temperature=temperature
    )
    best = stages.select(shared, [result.w for result in optimised], classes, config.select)
    return [reconstructed(*of_class) for of_class in zip(classes, starts, optimised, best, strict=True)]
