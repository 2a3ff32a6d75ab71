"""What every attack leaves of a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from smoothsweep.core.checks import present


@dataclass(frozen=True, kw_only=True)
class Reconstructions:
    """The best k of one class, best first; all tensors on the CPU.

    Attributes:
        w: [k, 1 or num_ws, w_dim], latents of the attack's decoder; None where it searches in none and leaves images.
        images: float16 [k, 3, R, R], unclipped, of the attack's crop, where the attack says that it leaves them, else
            None: they are made of the latents.
        scores: [k], the target's own, None where the attack asked for none.
        rows: Name -> [k, ...], whatever belongs to each of them (where in the pool it started).
        curves: Name -> [steps], means over the candidates.
        facts: Name -> number, those that `Attack.facts` announces.
    """

    w: Tensor | None = None
    images: Tensor | None = None
    scores: Tensor | None = None
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    curves: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many there are. Raises ValueError where there are neither latents nor images."""
        return len(present(self.images, "images") if self.w is None else self.w)
