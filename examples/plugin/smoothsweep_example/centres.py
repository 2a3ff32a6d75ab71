"""An attack by scores with a part of its own: between a class's centre in the pool and the pool's best images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from smoothsweep.core.attacks.ppa.config import FromPool
from smoothsweep.core.attacks.shared.base import (
    Access,
    AttackInputs,
    MadePart,
    Part,
    PartContext,
    PartKind,
    Reconstructions,
)
from smoothsweep.core.bounds import Fraction, Positive

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import ScoreView, View

CENTRES = "own_centres"


@dataclass(frozen=True, kw_only=True)
class Centres(FromPool):
    """Latents between the centre of a class, the mean of the pool weighted by the target's confidence, and its best.

    Attributes:
        towards: Where between the centre (0) and the pool's best images (1) the reconstructions lie.
        power: Of the confidences that weigh the mean.
    """

    title: ClassVar[str] = "centre of the pool"
    access: ClassVar[Access] = "scores"
    own_parts: ClassVar[Mapping[str, PartKind]] = {
        CENTRES: PartKind(
            version=1,
            make="smoothsweep_example.centres:make_centres",
            title="centres of classes",
            told_protocol=False,
            distilled=True,
        )
    }

    towards: Fraction = 0.5
    power: Positive = 1.0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pool, the target's scores of it, and the centres."""
        return (
            *super().parts,
            Part(name=CENTRES, needs=("pool", "candidates"), settings={"power": self.power}),
        )

    def most_queries(self, protocol: str) -> int:
        """Nothing beside the pool."""
        return 0

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Nothing is asked beside the scores of the pool, and nothing is drawn."""

        confidence = inputs.parts["candidates"]["confidences"][:, target_class]
        scores, best = confidence.topk(self.selected)
        centre = inputs.parts[CENTRES]["w"][target_class]
        return Reconstructions(w=centre.lerp(inputs.parts["pool"]["w"][best], self.towards), scores=scores)


def make_centres(settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext) -> MadePart:
    """w [C, num_ws, w_dim]: of every class the mean of the pool's latents, weighted by the target's confidence."""

    weights = inputs.parts["candidates"]["confidences"].pow(settings["power"])
    w = inputs.parts["pool"]["w"]
    return MadePart(tensors={"w": ((weights / weights.sum(0)).T @ w.flatten(1)).unflatten(1, w.shape[1:])})
