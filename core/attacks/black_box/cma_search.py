"""Covariance matrix adaptation (Hansen and Ostermeier 2001, by the package `cma`) against a target's probabilities.

The covariance is a diagonal one (sep-CMA-ES, Ros and Hansen 2008): within a few thousand queries a full one does not
learn more. What is minimised is the log margin, which goes on where a confidence of 1.0 ends.

`cma` takes a seed of 0 or none for the clock, and any other for NumPy's global generator: its draws are given to it
here, so that searches do not disturb each other. It reads a file of signals in the working directory: not here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.attacks.black_box.rlb_search import log_margin

Ask = Callable[[Tensor], Tensor]
"""Moves [N, k] -> the target's probabilities [N, C] of the images there, on the CPU."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What one search came to.

    Attributes:
        move: [k], the best that was looked at.
        margin, confidence: Its log margin and probability.
        generations: Generations that were run.
        converged: Whether it ended before its queries did.
        curve: Best margin so far, after the start and after every generation.
    """

    move: Tensor
    margin: float
    confidence: float
    generations: int
    converged: bool
    curve: list[float]


def evolve(
    ask: Ask, label: int, *, dimensions: int, population: int, sigma: float, generations: int, numpy_seed: int
) -> SearchResult:
    """Search from no move at all for at most so many generations of `population` queries, one query more for the start.

    Stops by itself where nothing tells one image of a generation from another. A probability that is no number counts
    as 0. numpy_seed: in [0, 2^32).
    """
    from cma import CMAEvolutionStrategy

    strategy = CMAEvolutionStrategy(
        np.zeros(dimensions),
        sigma,
        {
            "popsize": population,
            "CMA_diagonal": True,
            "seed": np.nan,
            "randn": np.random.RandomState(numpy_seed).randn,
            "verbose": -10,
            "verb_log": 0,
            "verb_disp": 0,
            "signals_filename": "",
            "maxiter": generations,
        },
    )
    best, margin, confidence = torch.zeros(dimensions), *_best(ask(torch.zeros(1, dimensions)), label)[1:]
    curve, done = [margin], 0
    while done < generations and not strategy.stop():
        moves = strategy.ask()
        answers = ask(torch.from_numpy(np.stack(moves)).float())
        row, top, sure = _best(answers, label)
        if top > margin:
            best, margin, confidence = torch.from_numpy(moves[row]).float(), top, sure
        strategy.tell(moves, (-log_margin(answers.nan_to_num(nan=0.0), label)).tolist())
        done += 1
        curve.append(margin)
    return SearchResult(
        move=best, margin=margin, confidence=confidence, generations=done, converged=done < generations, curve=curve
    )


def _best(answers: Tensor, label: int) -> tuple[int, float, float]:
    """Row, log margin and probability of the best of the answers [N, C]; of equals the first."""
    answers = answers.nan_to_num(nan=0.0)
    margins = log_margin(answers, label)
    row = int((margins == margins.max()).nonzero()[0])
    return row, float(margins[row]), float(answers[row, label])
