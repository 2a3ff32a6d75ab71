"""CMA-ES as a row of the attack family: no gradients, the target's probabilities alone.

MIRROR (An et al., NDSS 2022; njuaplusplus/mirror, my_blackbox_mirror.py) searches a StyleGAN's latents by a genetic
algorithm from the best of a pool, within a box about the pool's mean; SMILE (arXiv 2503.16266) ends with an evolution
strategy from there. This row is neither: it takes the start and the box of the first, and the strategy that both kinds
of work compare with. A search costs at most `max_queries` beside the pool's two queries per image, which all classes
share.

The covariance is a diagonal one (sep-CMA-ES, Ros and Hansen 2008): within a few thousand queries a full one does not
learn more. What is minimised is the log margin, which goes on where a confidence of 1.0 ends.

`cma` takes a seed of 0 or none for the clock, and any other for NumPy's global generator: its draws are given to it
here, so that searches do not disturb each other. It reads a file of signals in the working directory: not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.attacks.latent_images import LatentImages
from smoothsweep.core.attacks.ppa.config import FromPool
from smoothsweep.core.attacks.shared.base import Aggregate, AttackInputs, Reconstructions
from smoothsweep.core.bounds import MOST, Latents, Positive
from smoothsweep.core.checks import present, require
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import ScoreView
    from smoothsweep.core.cards import NetworkCard

    Ask = Callable[[Tensor], Tensor]
    """Moves [N, k] -> the target's probabilities [N, C] of the images there, on the CPU."""

LEAST_DIRECTIONS = 2
"""Directions that a search needs."""


@dataclass(frozen=True, kw_only=True)
class CMAES(FromPool):
    """`selected` searches per class, from the best of a pool, with an equal share of `max_queries` each; best first.

    Attributes:
        components: Principal directions of the pool's latents that are searched, fewer where latents or pool have
            fewer.
        population: Images of a generation.
        sigma: Spread of the first generation, in standard deviations of the pool along each direction.
        box: Coordinates of a latent stay within so many standard deviations of the pool's mean, or where the search
            began.
        max_queries: Images that the target is shown for one class at most.
    """

    title = "CMA-ES"
    cites = ("hansen2016cma", "li2025head")
    access = "scores"
    revision = 2  # 1: under a MobileStyleGAN the box of latents was measured after the activation
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "log_margin": "mean",
        "generations": "mean",
        "converged": "sum",
        "dimensions": "mean",
    }

    selected: Latents = 1
    components: Annotated[int, Ge(LEAST_DIRECTIONS), Le(MOST)] = 64
    population: Annotated[int, Ge(4), Le(MOST)] = 24
    sigma: Positive = 0.5
    box: Positive = 1.7
    max_queries: Annotated[int, Ge(5), Le(MOST)] = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.pool.size >= 3, "attack.pool.size", "at least 3, which span two directions", self.pool.size)
        fewest_queries = self.selected * (self.population + 1)
        expected = f"at least {fewest_queries}, a generation for each of {self.selected} selected"
        require(self.max_queries >= fewest_queries, "attack.max_queries", expected, self.max_queries)

    def check_prior(self, card: Callable[[], NetworkCard]) -> None:
        if (dimensions := card().config.w_dim) < LEAST_DIRECTIONS:
            expected = f"expected latents of at least {LEAST_DIRECTIONS} directions for cma_es"
            raise InputError(f"prior: {expected}, got {dimensions}")

    @property
    def generations(self) -> int:
        """The most generations of one search."""
        return (self.max_queries // self.selected - 1) // self.population

    def most_queries(self, protocol: str) -> int:
        return self.max_queries

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        import torch

        from smoothsweep.core.attacks.ppa.config import CandidateConfig
        from smoothsweep.core.attacks.ppa.pool import sample_candidates
        from smoothsweep.core.priors.base import PriorNetwork
        from smoothsweep.core.seeds import derive_seed

        pool = inputs.parts["pool"]["w"]
        starts, index, _ = sample_candidates(
            inputs.parts["candidates"]["confidences"], pool, target_class, CandidateConfig(candidates=self.selected)
        )
        slope = inputs.prior.mapping_slope if isinstance(inputs.prior, PriorNetwork) else None
        space = principal_space(pool[:, 0], self.components, width=self.box, slope=slope)
        images = LatentImages(present(inputs.prior, "prior"), view, image_crop=self.pool.crop)
        runs = [
            evolve(
                lambda moves, start=start: view.scores(images.of(space.around(start, moves)[:, None])),
                target_class,
                dimensions=len(space.basis),
                population=self.population,
                sigma=self.sigma,
                generations=self.generations,
                numpy_seed=derive_seed(seed, target_class, "cma", slot) % 2**32,
            )
            for slot, start in enumerate(starts[:, 0])
        ]
        order = sorted(range(len(runs)), key=lambda slot: -runs[slot].margin)
        w = torch.cat([space.around(starts[slot, 0], runs[slot].move[None]) for slot in order])
        return Reconstructions(
            w=w[:, None],
            scores=torch.tensor([runs[slot].confidence for slot in order]),
            rows={"pool_index": index[order]},
            curves={"log_margin": torch.tensor([run.curve for run in runs], dtype=torch.float32).mean(0)},
            facts={
                "log_margin": runs[order[0]].margin,
                "generations": sum(run.generations for run in runs) / len(runs),
                "converged": float(sum(run.converged for run in runs)),
                "dimensions": float(len(space.basis)),
            },
        )


@dataclass(frozen=True, kw_only=True)
class Evolved:
    """What one search came to.

    Attributes:
        move: [k], the best that was looked at.
        margin, confidence: Its log margin and probability.
        generations: Generations that were run.
        converged: Whether it ended before its queries did.
        curve: Best margin so far, after the start and after every generation; it stays where an early end left it.
    """

    move: Tensor
    margin: float
    confidence: float
    generations: int
    converged: bool
    curve: list[float]


def evolve(
    ask: Ask, label: int, *, dimensions: int, population: int, sigma: float, generations: int, numpy_seed: int
) -> Evolved:
    """Search from no move at all for at most so many generations of `population` queries, one query more for the start.

    Stops by itself where nothing tells one image of a generation from another. A probability that is no number counts
    as 0. numpy_seed: in [0, 2^32).
    """
    import numpy as np
    import torch
    from cma import CMAEvolutionStrategy

    from smoothsweep.core.attacks.rlb_search import log_margin

    def best_of(answers: Tensor) -> tuple[int, float, float]:
        """Row, log margin and probability of the best of the answers [N, C]; of equals the first."""
        margins = log_margin(answers, label)
        row = int((margins == margins.max()).nonzero()[0])
        return row, float(margins[row]), float(answers[row, label])

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
    best, answers = torch.zeros(dimensions), ask(torch.zeros(1, dimensions)).nan_to_num(nan=0.0)
    _, margin, confidence = best_of(answers)
    curve, done = [margin], 0
    while done < generations and not strategy.stop():
        moves = strategy.ask()
        answers = ask(torch.from_numpy(np.stack(moves)).float()).nan_to_num(nan=0.0)
        row, top, sure = best_of(answers)
        if top > margin:
            best, margin, confidence = torch.from_numpy(moves[row]).float(), top, sure
        strategy.tell(moves, (-log_margin(answers, label)).tolist())
        done += 1
        curve.append(margin)
    return Evolved(
        move=best,
        margin=margin,
        confidence=confidence,
        generations=done,
        converged=done < generations,
        curve=[*curve, *[margin] * (generations - done)],
    )


@dataclass(frozen=True, kw_only=True)
class PrincipalSpace:
    """Where a search moves: along the principal directions of a pool, each as long as the pool is wide, within a box.

    In the 512 coordinates of a StyleGAN2 the covariance of an evolution strategy does not move within thousands of
    queries; in a few dozen directions of equal spread it need not.

    Attributes:
        basis: [k, D], a principal direction a row, its length the pool's standard deviation along it.
        low, high: [D], of the box that latents stay in, which is widened to hold the start of a search.
    """

    basis: Tensor
    low: Tensor
    high: Tensor

    def around(self, start: Tensor, moves: Tensor) -> Tensor:
        """Latents [N, D] at moves [N, k] from start [D], cut to the box."""
        low, high = self.low.minimum(start), self.high.maximum(start)
        return (start + moves.to(self.basis) @ self.basis).clamp(low, high)


def principal_space(w: Tensor, components: int, *, width: float, slope: float | None) -> PrincipalSpace:
    """At most `components` directions of latents w [S, D], and the box of `width` standard deviations about the mean.

    slope: of the leaky ReLU that ends the prior's mapping (`PriorNetwork.mapping_slope`), before which the box is
    measured: a StyleGAN2's latents are nearly Gaussian there, and a negative coordinate counts 1 / slope times
    (njuaplusplus/mirror, my_blackbox_mirror.py). None: the latents' own box. Directions without any spread are left
    out. The largest coordinate of a direction is positive. Raises InputError for fewer than `LEAST_DIRECTIONS`.
    """
    import torch

    w = w.double()
    before = w if slope is None else torch.where(w < 0, w / slope, w)
    reach = width * before.std(0, unbiased=False)
    low, high = before.mean(0) - reach, before.mean(0) + reach
    if slope is not None:
        low, high = (torch.where(end < 0, end * slope, end) for end in (low, high))
    centred = w - w.mean(0)
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(w))
    kept = int((variances > 1e-12 * variances[-1].clamp_min(1e-30)).sum().clamp(max=components))
    if kept < LEAST_DIRECTIONS:
        expected = f"expected latents that differ in at least {LEAST_DIRECTIONS} directions"
        raise InputError(f"attack.pool: {expected}, got {kept}")
    rows, variances = directions.T.flip(0)[:kept], variances.flip(0)[:kept]
    rows = rows * torch.where(rows.gather(1, rows.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0)
    return PrincipalSpace(basis=(rows * variances.sqrt()[:, None]).float(), low=low.float(), high=high.float())
