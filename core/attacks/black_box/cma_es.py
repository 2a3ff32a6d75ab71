"""CMA-ES as a row of the attack family: no gradients, the target's probabilities alone.

MIRROR (An et al., NDSS 2022; njuaplusplus/mirror, my_blackbox_mirror.py) searches a StyleGAN's latents by a genetic
algorithm from the best of a pool, within a box about the pool's mean; SMILE (arXiv 2503.16266) ends with an evolution
strategy from there. This row is neither: it takes the start and the box of the first, and the strategy that both kinds
of work compare with. A search costs at most `max_queries` beside the pool's two queries per image, which all classes
share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.black_box.cma_config import LEAST_DIRECTIONS, Evolution
from smoothsweep.core.attacks.ppa.pool_parts import FromPool
from smoothsweep.core.attacks.shared.base import Access, Aggregate, AttackInputs, Reconstructions
from smoothsweep.core.bounds import Latents
from smoothsweep.core.checks import present, require
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import ScoreView
    from smoothsweep.core.cards import NetworkCard


@dataclass(frozen=True, kw_only=True)
class CMAES(Evolution, FromPool):
    """`selected` searches per class, from the best of a pool, with an equal share of `max_queries` each; best first.

    The rest is described with `Evolution`.
    """

    title: ClassVar[str] = "CMA-ES"
    cites: ClassVar[tuple[str, ...]] = ("hansen2016cma", "li2025head")
    access: ClassVar[Access] = "scores"
    revision: ClassVar[int] = 2  # 1: under a MobileStyleGAN the box of latents was measured after the activation
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "log_margin": "mean",
        "generations": "mean",
        "converged": "sum",
        "dimensions": "mean",
    }

    selected: Latents = 1

    def __post_init__(self) -> None:
        FromPool.__post_init__(self)
        require(self.pool.size >= 3, "attack.pool.size", "at least 3, which span two directions", self.pool.size)
        fewest_queries = self.selected * (self.population + 1)
        require(
            self.max_queries >= fewest_queries,
            "attack.max_queries",
            f"at least {fewest_queries}, a generation for each of {self.selected} selected",
            self.max_queries,
        )

    def check_prior(self, card: Callable[[], NetworkCard]) -> None:
        """Raises InputError for latents of fewer directions than it searches."""
        if (dimensions := card().config.w_dim) < LEAST_DIRECTIONS:
            expected = f"expected latents of at least {LEAST_DIRECTIONS} directions for cma_es"
            raise InputError(f"prior: {expected}, got {dimensions}")

    @property
    def generations(self) -> int:
        """The most generations of one search."""
        return (self.max_queries // self.selected - 1) // self.population

    def most_queries(self, protocol: str) -> int:
        """The most queries of all searches of a class."""
        return self.max_queries

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """One search after the other."""
        import torch

        from smoothsweep.core.attacks.black_box.cma_search import evolve
        from smoothsweep.core.attacks.black_box.latent_images import LatentImages
        from smoothsweep.core.attacks.black_box.latent_settings import LatentSettings
        from smoothsweep.core.attacks.black_box.principal_space import principal_space
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
        crop = LatentSettings(image_crop=self.pool.crop)
        images = LatentImages(present(inputs.prior, "prior"), crop, view.execution, image_size=view.image_size)
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
            curves={"log_margin": _mean_curve([run.curve for run in runs], self.generations + 1)},
            facts={
                "log_margin": runs[order[0]].margin,
                "generations": sum(run.generations for run in runs) / len(runs),
                "converged": float(sum(run.converged for run in runs)),
                "dimensions": float(len(space.basis)),
            },
        )


def _mean_curve(curves: list[list[float]], length: int) -> Tensor:
    """[length], the mean over searches; one that ended by itself stays where it came to."""
    import torch

    whole = [[*curve, *[curve[-1]] * (length - len(curve))] for curve in curves]
    return torch.tensor(whole, dtype=torch.float32).mean(0)
