"""The optimizer of a training recipe."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from smoothsweep.core.models.recipe import TrainingRecipe


def make_optimizer(parameters: Iterable[torch.nn.Parameter], recipe: TrainingRecipe) -> torch.optim.Optimizer:
    """The recipe's optimizer; the fused kernels give the same numbers in far fewer calls."""
    if recipe.optimizer == "adam":
        return torch.optim.Adam(
            parameters, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay, fused=True
        )
    return torch.optim.SGD(
        parameters, lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay, fused=True
    )
