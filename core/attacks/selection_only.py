"""A control: the pool's images that the target is surest of, nothing optimised (Plug & Play's first stage alone)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from core.attacks.access import Access
from core.attacks.base import Attack, Part
from core.attacks.ppa.config import Pool
from core.attacks.ppa.pool_parts import pool_and_candidates
from core.checks import require

if TYPE_CHECKING:
    from core.attacks.given import Given
    from core.attacks.reconstructions import Reconstructions
    from core.attacks.view import ScoreView


@dataclass(frozen=True, kw_only=True)
class SelectionOnly(Attack):
    """The best `selected` of a pool, as they are. pool: as of Plug & Play, and shared with it."""

    access: ClassVar[Access] = "scores"
    control: ClassVar[bool] = True

    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.selected <= self.pool.size, "attack.selected", f"at most pool.size ({self.pool.size})",
                self.selected)  # fmt: skip

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pool and the target's scores of it."""
        return pool_and_candidates(self.pool)

    @property
    def crop(self) -> int | None:
        """As of the pool."""
        return self.pool.crop

    def invert(self, view: ScoreView, given: Given, target_class: int, *, seed: int) -> Reconstructions:
        """The target is not asked anything beside the scores of the pool; nothing is drawn."""
        from core.attacks.ppa.config import CandidateConfig
        from core.attacks.ppa.pool import sample_candidates
        from core.attacks.reconstructions import Reconstructions

        w, index, confidence = sample_candidates(
            given.parts["candidates"]["confidences"], given.parts["pool"]["w"], target_class,
            CandidateConfig(candidates=self.selected, single_w=False),
        )  # fmt: skip
        return Reconstructions(w=w, scores=confidence, rows={"pool_index": index})
