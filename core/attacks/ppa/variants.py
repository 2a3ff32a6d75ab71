"""Other ways to do a stage of Plug & Play: what each stage is worth is seen by leaving it out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.objective import Target, Transform, target_logits
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.pool import EXECUTION, best_first
from smoothsweep.core.attacks.ppa.results import OptimiseResult, Selection
from smoothsweep.core.attacks.shared.execution import Execution, as_execution, frozen
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import Prior

ROWS = 25  # images at once at most


def leave_as_sampled(
    prior: Prior, target: Target, w0: Tensor, target_class: int, config: OptimiseConfig, **_: Any
) -> OptimiseResult:
    """Stage 2 left out: the latents as they were sampled. There is one loss, not a number, and no gradient."""
    none = torch.full((1, len(w0)), torch.nan)
    frozen_rows = torch.zeros(len(w0), dtype=torch.bool)
    return OptimiseResult(
        w=w0.detach().cpu(), loss=none, gradient_cosine=none[:0], latent_cosine=none[:0], frozen=frozen_rows
    )


def select_by_confidence(
    prior: Prior,
    target: Target,
    w: Tensor,
    target_class: int,
    config: SelectConfig,
    *,
    keep: Mapping[str, Transform] | None = None,
    execution: Execution | ExecutionConfig = EXECUTION,
    device: torch.device | str,
    transform: Transform,
    **_: Any,
) -> Selection:
    """Stage 3 without augmentation: the softmax of `target_class` on the image itself, looked at once.

    Arguments and result as of `core.attacks.ppa.inversion.select`. Raises InputError for fewer than `selected` latents.
    """
    if len(w) < config.selected:
        raise InputError(f"selected: expected at most the {len(w)} candidates, got {config.selected}")
    if keep:
        raise InputError("keep: expected nothing of a selection that looks at each image once")
    run, w = as_execution(execution, device), w.to(device)
    with torch.no_grad(), frozen(prior, target), run.arithmetic():
        synthesize = run.synthesizer(prior, None)
        score = partial(_confidence, synthesize, transform, run.target(target), w, target_class)
        scores = torch.cat(run.forward_batch("selection", synthesize, most=ROWS).run(score, len(w))).cpu()
    order = best_first(scores)[: config.selected]
    return Selection(w=w.cpu()[order], scores=scores[order], order=order, all_scores=scores)


def _confidence(
    synthesize: Target, transform: Transform, target: Target, w: Tensor, target_class: int, rows: slice
) -> Tensor:
    return target_logits(target, transform(synthesize(w[rows])), None).float().softmax(1)[:, target_class]
