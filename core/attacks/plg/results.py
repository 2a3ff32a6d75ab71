"""What PLG-MI leaves of a class."""

from __future__ import annotations

import torch

from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator, with_class
from smoothsweep.core.attacks.optimisation.descent import Descent
from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.attacks.shared.reconstructions import Reconstructions
from smoothsweep.core.attacks.shared.view import ScoreView


def reconstructions(
    made: ConditionalGenerator, view: ScoreView, descent: Descent, target_class: int
) -> Reconstructions:
    """Every restart, ordered by the target's confidence in its image as it is. rows: restart, the number of each."""
    execution, w = view.execution, with_class(descent.w, target_class)
    with torch.no_grad(), execution.arithmetic():
        images = execution.synthesizer(made)(w)
    scores = view.scores(images)[:, target_class]
    order, curve = best_first(scores), descent.loss.nanmean(1).cpu()
    return Reconstructions(
        w=w.cpu()[order],
        scores=scores[order],
        rows={"restart": order},
        curves={"loss": curve},
        facts={
            "loss_first": float(curve[0]),
            "loss_last": float(curve[-1]),
            "gradient_cosine": float(descent.image_cosine.nanmean()),
            "num_frozen": float(descent.frozen.sum()),
        },
    )
