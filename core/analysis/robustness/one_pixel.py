"""The one-pixel attack: differential evolution over a place and a colour, on SciPy's.

The settings are those of torchattacks' OnePixel, whose names and defaults the paper states (pixels 1, steps 10,
population size 10): strategy best1bin, mutation in (0.5, 1), recombination 1, random first generation, no polish. That
library draws from numpy's global generator; here every image has its own, so rates can be compared and images cannot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import OptimizeResult, differential_evolution
from torch import Tensor, nn

GENES = 5  # row, column, red, green, blue


def one_pixel(
    model: nn.Module,
    picture: Tensor,
    label: int,
    *,
    targeted: bool,
    generations: int,
    population: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, int]:
    """A picture [3, H, W] in [0, 1] with one pixel changed, and how many changed pictures the model was shown.

    Args:
        label: The true class, or the class to reach if `targeted`.
        generations: Generations of the search at most.
        population: Candidates of each, rounded down to a multiple of the five genes.

    It ends with the first generation whose best candidate succeeds.
    """
    height, width = picture.shape[-2:]
    count = 0

    def probability(candidates: np.ndarray) -> np.ndarray:
        """What is to be made small, float64 [S], of genes [5, S]."""
        nonlocal count
        count += candidates.shape[1]
        with torch.no_grad():
            scores = model(_painted(picture, candidates).to(device)).softmax(1)[:, label].double().cpu().numpy()
        return 1 - scores if targeted else scores

    def enough(intermediate_result: OptimizeResult) -> None:
        with torch.no_grad():
            best = model(_painted(picture, intermediate_result.x[:, None]).to(device)).argmax(1).item()
        if (best == label) == targeted:
            raise StopIteration

    optimum: Any = differential_evolution(
        probability,
        [(0, height), (0, width), (0, 1), (0, 1), (0, 1)],
        strategy="best1bin",
        maxiter=generations,
        popsize=max(1, population // GENES),
        tol=0.01,
        atol=-1,
        mutation=(0.5, 1),
        recombination=1,
        init="random",
        polish=False,
        updating="deferred",
        vectorized=True,
        callback=enough,
        rng=np.random.default_rng(seed),
    )
    return _painted(picture, optimum.x[:, None])[0], count


def _painted(picture: Tensor, genes: np.ndarray) -> Tensor:
    """[S, 3, H, W]: one copy of the picture for every column of genes [5, S], each with its pixel."""
    height, width = picture.shape[-2:]
    copies = picture.repeat(genes.shape[1], 1, 1, 1)
    for copy, (row, column, *colour) in zip(copies, genes.T, strict=True):
        copy[:, min(int(row), height - 1), min(int(column), width - 1)] = copy.new_tensor(colour)
    return copies
