"""The weakest attack by scores: the pool's images that the target is surest of (Plug & Play's first stage alone)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.attacks.ppa.config import FromPool
from smoothsweep.core.attacks.shared.base import Access, AttackInputs, Reconstructions

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import ScoreView


@dataclass(frozen=True, kw_only=True)
class SelectionOnly(FromPool):
    """The best `selected` of a pool, as they are."""

    title: ClassVar[str] = "selection alone"
    cites: ClassVar[tuple[str, ...]] = ("struppek2022plug",)
    access: ClassVar[Access] = "scores"

    def most_queries(self, protocol: str) -> int:
        """Nothing beside the pool."""
        return 0

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """The target is not asked anything beside the scores of the pool; nothing is drawn."""
        from smoothsweep.core.attacks.ppa.config import CandidateConfig
        from smoothsweep.core.attacks.ppa.pool import sample_candidates

        w, index, confidence = sample_candidates(
            inputs.parts["candidates"]["confidences"],
            inputs.parts["pool"]["w"],
            target_class,
            CandidateConfig(candidates=self.selected, single_w=False),
        )
        return Reconstructions(w=w, scores=confidence, rows={"pool_index": index})
