"""IF-GMI (Qiu et al., ECCV 2024, arXiv 2407.13863; final-solution/IF-GMI) as a row of the attack family.

Plug & Play moves w. IF-GMI goes on, one block of the StyleGAN2 after the other, with the features that enter the block
beside w. Steps, radii and rates are the official ones for FaceScrub. The official centre crop of 800 pixels is not a
default (`pool.crop`), and the official batch of 15 over three GPUs is one of 25 here. The method itself is
core/attacks/if_gmi_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from smoothsweep.core.attacks.ppa.config import (
    CandidateConfig,
    FromPool,
    Loss,
    OptimiseConfig,
    SelectConfig,
    check_stages,
)
from smoothsweep.core.attacks.shared.base import DESCENT_FACTS, Aggregate, AttackInputs, Reconstructions
from smoothsweep.core.bounds import Beta, Count, Positive
from smoothsweep.core.checks import present, require

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView
    from smoothsweep.core.cards import NetworkCard
    from smoothsweep.core.priors.stylegan2 import StyleGAN2

RADII = (1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 8000.0, 8000.0)
"""The published ones, of stages 0 to 7."""


@dataclass(frozen=True, kw_only=True)
class IFGMI(SelectConfig, FromPool):
    """Latents of a pool that the target is surest of, optimised in w and then in one feature map after the other.

    pool: the latents to begin with, shared with Plug & Play;

    The other selection_ settings are of the same views.

    Attributes:
        candidates: Latents per class that are optimised.
        stage_steps: Steps of each stage, the first in w alone; there are as many stages as entries, at most one for
            each block of the prior.
        radii: Radii of the L1 balls around where each stage begins, of w and of the features alike and of every image
            by itself, None for the published ones of as many stages.
        lr: Learning rate of every stage's own Adam.
        betas: Adam's two decay rates.
        loss: What the descent minimises, by name, as with Plug & Play.
        crop_scale: Smallest and largest fraction of the area that the random crop of each step keeps.
        batch_size: Candidates that share an optimizer state.
        rgb_skip: Whether a stage keeps the RGB sum of the blocks before its own (then it begins with the image that the
            one before has left), or drops it, as the official code does; None for what the protocol does.
        selection_repeats: Random views of each image by which the target grades each stage.
    """

    title = "IF-GMI"
    cites = ("qiu2024closer",)
    access = "gradients"
    leaves_images = True
    facts: ClassVar[Mapping[str, Aggregate]] = {"chosen_stage": "mean", **DESCENT_FACTS}

    candidates: Count = 50
    stage_steps: tuple[Count, ...] = (50, 10, 10, 10, 10, 10, 10, 10)
    radii: tuple[Positive, ...] | None = None
    lr: Positive = 0.005
    betas: tuple[Beta, Beta] = (0.1, 0.1)
    loss: Loss = "poincare"
    crop_scale: tuple[float, float] = (0.9, 1.0)
    batch_size: Count = 25
    rgb_skip: Literal["kept", "dropped"] | None = None
    selection_repeats: Count = 10

    def __post_init__(self) -> None:
        for declaring in (FromPool, SelectConfig):
            declaring.__post_init__(self)
        check_stages(self.pool, CandidateConfig(candidates=self.candidates), self)
        require(len(self.stage_steps) > 0, "attack.stage_steps", "at least one stage", self.stage_steps)
        inputs, stages = self.radii, len(self.stage_steps)
        expected = "no value with a single stage, before which there is no block"
        require(self.rgb_skip is None or stages > 1, "attack.rgb_skip", expected, self.rgb_skip)
        expected = f"one for each of the {stages} stages of stage_steps, of which {len(RADII)} are published"
        require(
            len(RADII if inputs is None else inputs) >= stages and (inputs is None or len(inputs) == stages),
            "attack.radii",
            expected,
            inputs,
        )
        self._descents()

    @property
    def variant(self) -> str | None:
        skip = f"rgb skip {self.rgb_skip}" if self.rgb_skip else None
        return " ".join(filter(None, (None if self.loss == "poincare" else self.loss, skip))) or None

    @property
    def published(self) -> bool:
        return self.loss == "poincare"

    def check_prior(self, card: Callable[[], NetworkCard]) -> None:
        network = card()
        require(network.kind == "stylegan2", "prior", "a StyleGAN2, whose feature maps this attack moves", network.kind)
        side, blocks, stages = network.config.resolution, len(network.config.sides), len(self.stage_steps)
        expected = f"at most {blocks} stages, as many as a prior of {side} pixels has blocks"
        require(stages <= blocks, "attack.stage_steps", expected, stages)

    def invert(self, view: GradientView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Every stage on one class; what the target grades best is left, as images."""
        from smoothsweep.core.attacks.if_gmi_search import StagedSearch
        from smoothsweep.core.attacks.optimisation.crops import Preprocess
        from smoothsweep.core.attacks.ppa.pool import sample_candidates
        from smoothsweep.core.priors.registry import card_of

        self.check_prior(lambda: card_of(present(inputs.prior, "prior")))
        w0, index, _ = sample_candidates(
            inputs.parts["candidates"]["confidences"],
            inputs.parts["pool"]["w"],
            target_class,
            CandidateConfig(candidates=self.candidates),
        )
        protocol = present(inputs.protocol, "protocol")
        search = StagedSearch(
            prior=cast("StyleGAN2", inputs.prior),  # by its card
            target=view.logits,
            descents=self._descents(),
            radii=self.radii or RADII,
            select=self,
            transform=Preprocess(size=view.image_size, crop=self.pool.crop),
            rgb=(self.rgb_skip or ("dropped" if protocol == "paper" else "kept")) == "kept",
            protocol=protocol,
            run=view.execution,
        )
        return search.invert(w0, index, target_class, seed=seed)

    def _descents(self) -> list[OptimiseConfig]:
        """The settings of each stage's descent. Raises InputError for those that none has."""
        common = {name: getattr(self, name) for name in ("lr", "betas", "loss", "crop_scale", "batch_size")}
        return [OptimiseConfig(steps=steps, **common) for steps in self.stage_steps]
