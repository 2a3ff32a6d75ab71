"""The parts that pool-based attacks share: the decoded candidate pool, and the target's confidence in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.ppa.config import Pool, PoolConfig
from smoothsweep.core.attacks.shared.base import Attack, AttackInputs, MadePart, Part, PartContext
from smoothsweep.core.checks import present, require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView, ScoreView, View

FEATURES = "pool_features"
DECODE_BATCH = 64  # images at once at most


@lru_cache
def pool_and_candidates(pool: Pool) -> tuple[Part, Part]:
    """The two parts; the pool is one for all targets of an input size, the confidences belong to a target."""
    return (
        Part(name="pool", needs=("prior",), settings=asdict(pool)),
        Part(name="candidates", needs=("target", "pool")),
    )


@dataclass(frozen=True, kw_only=True)
class FromPool(Attack):
    """An attack that begins with the best `selected` of a pool.

    pool: the latents to begin with, shared with Plug & Play.
    """

    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.selected <= self.pool.size, "attack.selected", f"at most pool.size ({self.pool.size})", self.selected
        )

    @property
    def most_queries_once(self) -> int:
        """Every image of the pool and its mirror."""
        return 2 * self.pool.size

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pool and the target's scores of it."""
        return pool_and_candidates(self.pool)

    @property
    def crop(self) -> int | None:
        """The pool's crop."""
        return self.pool.crop


def pool_features() -> Part:
    """The mean of the target's penultimate features over the pool."""
    return Part(name=FEATURES, needs=("target", "pool"))


def make_pool(settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext) -> MadePart:
    """w [S, num_ws, w_dim], and images [S, 3, image_size, image_size] as a target will be shown them."""
    from smoothsweep.core.attacks.ppa.pool import decode_pool

    w, images = decode_pool(
        present(inputs.prior, "prior"),
        PoolConfig(**settings, image_size=view.image_size),
        device=view.execution.device,
        batch_size=DECODE_BATCH,
        execution=view.execution,
    )
    return MadePart(tensors={"w": w, "images": images}, facts={"pool_size": len(w)})


def make_candidates(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """confidences [S, C]: the target's softmax on every pool image, averaged over the image and its mirror."""
    from smoothsweep.core.attacks.ppa.pool import ask_pool

    return MadePart(tensors={"confidences": ask_pool(view, inputs.parts["pool"]["images"])})


def make_pool_features(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """mean [D] over the pool's images: what the attacker has of the public images that the prior was trained on."""
    import torch

    images = inputs.parts["pool"]["images"]
    with torch.no_grad(), view.execution.arithmetic():
        batches = images.split(DECODE_BATCH)
        features = [view.features(batch.to(view.execution.device))[0].float().cpu() for batch in batches]
    return MadePart(tensors={"mean": torch.cat(features).mean(0)}, facts={"pool_images": float(len(images))})
