"""Plug & Play Attacks (Struppek et al., ICML 2022) as a row of the attack family.

Defaults are the paper's for FaceScrub (Appendix B.4; LukasStruppek/Plug-and-Play-Attacks, configs/attacking/). The
method itself is core/attacks/ppa/inversion.py; its three stages can be chosen one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from smoothsweep.core.attacks.ppa.config import (
    MOST_ROWS,
    CandidateConfig,
    OptimiseConfig,
    Pool,
    SelectConfig,
    check_stages,
    pool_and_candidates,
)
from smoothsweep.core.attacks.shared.base import (
    DESCENT_FACTS,
    Attack,
    AttackInputs,
    Part,
    Reconstructions,
    StatedWork,
)
from smoothsweep.core.bounds import Count
from smoothsweep.core.checks import present, require_choice
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import PRIORS

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView

TEMPERATURE, FEATURES = "temperature", "pool_features"
"""Parts: the temperature of a target, and the mean of its penultimate features, by its answers on the pool."""

Stages = Mapping[str, Mapping[str, frozenset[str]]]
"""Stage -> kind of it, the usual one first -> the attack's parameters that this kind reads, of those not all do."""

_NOTHING: frozenset[str] = frozenset()
_VIEWED = frozenset({"selection_repeats", "selection_crop_scale", "selection_crop_ratio"})
_MOVED = frozenset({"loss", "steps", "lr", "betas", "crop_scale", "batch_size", "clip"}) | {
    *("discriminator_weight", "temperature", "average", "restarts", "feature_weight")
}
STAGES: Stages = {
    "sample": {"top_confidence": _NOTHING, "random": _NOTHING},
    "optimise": {"adam": _MOVED, "none": _NOTHING},
    "select": {"augmented_confidence": _VIEWED, "augmented_margin": _VIEWED, "top_confidence": _NOTHING},
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Stage 1, where the optimisation starts.

    kind: top_confidence, the latents of the pool that the target is surest of, or random, any of the pool.
    """

    kind: Literal["top_confidence", "random"] = "top_confidence"


@dataclass(frozen=True, kw_only=True)
class Optimise:
    """Stage 2, how latents are moved.

    kind: adam, or none, which leaves them as they were sampled.
    """

    kind: Literal["adam", "none"] = "adam"


@dataclass(frozen=True, kw_only=True)
class Select:
    """Stage 3, which of them are kept.

    kind: augmented_confidence, by the mean softmax of the class over random views; augmented_margin, by the mean logit
    margin over them; top_confidence, by the softmax on the image itself.
    """

    kind: Literal["augmented_confidence", "augmented_margin", "top_confidence"] = "augmented_confidence"


@dataclass(frozen=True, kw_only=True)
class PlugAndPlay(CandidateConfig, OptimiseConfig, SelectConfig, Attack):
    """Latents of a pool that the target is surest of, optimised, and selected under augmentation.

    The settings of the stages are described with their classes; one that no chosen stage reads is refused.

    Attributes:
        stages: The kinds of each stage; an attack that derives from this one may add to them, and to `ways`.
        pool: The latents to begin with.
        sample: How stage 1 chooses latents of the pool.
        optimise: How stage 2 moves them.
        select: How stage 3 chooses the reconstructions. sampling_target: another trial of the sweep, whose target
            scores the pool in stage 1; selection_target: another trial, whose target selects in stage 3; None for the
            attacked target.
    """

    title = "Plug & Play"
    cites = ("struppek2022plug",)
    access = "gradients"
    facts = DESCENT_FACTS
    stages: ClassVar[Stages] = STAGES
    other_targets: ClassVar[Mapping[str, str | None]] = {"sampling_target": "candidates", "selection_target": None}

    steps: Count = 50
    pool: Pool = field(default_factory=Pool)
    sample: Sample = field(default_factory=Sample)
    optimise: Optimise = field(default_factory=Optimise)
    select: Select = field(default_factory=Select)

    def __post_init__(self) -> None:
        for declaring in (Attack, CandidateConfig, OptimiseConfig, SelectConfig):
            declaring.__post_init__(self)
        check_stages(self.pool, self, self)
        for stage, table in self.stages.items():
            chosen = getattr(self, stage).kind
            require_choice(f"attack.{stage}.kind", chosen, tuple(table))
            self._refuse_unread(stage, table, chosen)

    def _refuse_unread(self, stage: str, table: Mapping[str, frozenset[str]], chosen: str) -> None:
        defaults = {f.name: f.default for f in fields(self)}
        for name in sorted(frozenset().union(*table.values()) - table[chosen]):
            if getattr(self, name) != defaults[name]:
                raise InputError(f"attack.{name}: expected no value with {stage} {chosen}, which does not read it")

    @property
    def citations(self) -> tuple[str, ...]:
        """The averaged gradients have a source of their own."""
        return self.cites if self.average is None else (*self.cites, "peng2025generative")

    @property
    def variant(self) -> str:
        return " ".join([*self._stated, *(f"{stage} {kind}" for stage, kind in self._changed_stages.items())])

    @property
    def words(self) -> str:
        """`Plug & Play, logit, 8 transforms averaged, select by augmented margin`."""
        stated = ["Poincaré" if word == "poincare" else word for word in self._stated]
        others = (f"{stage} by {kind}" for stage, kind in self._changed_stages.items())
        return ", ".join([self.title, *stated, *others]).replace("_", " ")

    @property
    def _stated(self) -> list[str]:
        again = (f"{self.restarts.count} descents each",) if self.restarts else ()
        weights = {"discriminator": self.discriminator_weight, "feature pull": self.feature_weight}
        weighed = (f"{name} {weight:g}" for name, weight in weights.items() if weight)
        return [self.loss, *weighed, *self.adapted, *again]

    @property
    def _changed_stages(self) -> dict[str, str]:
        """Stage -> its kind, of those that are not the usual ones."""
        chosen = {stage: getattr(self, stage).kind for stage in self.stages}
        return {stage: kind for stage, kind in chosen.items() if kind != next(iter(self.stages[stage]))}

    @property
    def published(self) -> bool:
        """Whether it has one of the two published losses, is not adapted to the target, and selects as published."""
        adapted = self.adapted or self.restarts or self.feature_weight
        usual = self.select.kind == "augmented_confidence" and self.optimise.kind == "adam"
        return self.loss in ("poincare", "cross_entropy") and usual and not adapted

    @property
    def parts(self) -> tuple[Part, ...]:
        """The decoded pool, shared by all targets of one input size, the target's confidence in it, its temperature and
        its mean feature, where they are asked for."""
        fitted: dict[str, Any] = {TEMPERATURE: asdict(self.temperature)} if self.temperature else {}
        fitted |= {FEATURES: {}} if self.feature_weight else {}
        more = (Part(name=name, needs=("target", "pool"), settings=settings) for name, settings in fitted.items())
        return (*pool_and_candidates(self.pool), *more)

    @property
    def needs(self) -> tuple[str, ...]:
        return (*super().needs, *(("discriminator",) if self.discriminator_weight else ()))

    @property
    def crop(self) -> int | None:
        return self.pool.crop

    @property
    def stated_work(self) -> StatedWork:
        return StatedWork(
            latents=self.candidates,
            steps=self.steps,
            crop=self.crop,
            device="A100",
            rate_hours=14.0,
            rate_latents=25_000,  # 500 classes of 50 candidates each
            side=1024,
            source="the authors' issue tracker, see docs/cluster.md; it does not say of how many steps",
        )

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        able = [kind for kind, row in PRIORS.items() if row.settings.with_discriminator]
        if self.discriminator_weight and prior_kind not in able:
            raise InputError(
                f"attack.discriminator_weight: expected a prior of kind {' or '.join(able)}, which has its "
                f"discriminator beside it, got a prior of kind {prior_kind}"
            )

    def side_by_side(self, device: str) -> int:
        """So many classes that their candidates fill a pass, on a CPU and where no term looks at more than a row."""
        if device != "cpu" or self.discriminator_weight or self.average or self.feature_weight:
            return 1
        if self.optimise.kind != "adam" or self.select.kind == "top_confidence":
            return 1
        return max(1, MOST_ROWS // (self.candidates * (self.restarts.count if self.restarts else 1)))

    def ways(self) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
        """Stage -> kind of it -> the function that does it, called as `core.attacks.ppa.inversion` does."""
        from smoothsweep.core.attacks.ppa.inversion import leave_as_sampled, optimise
        from smoothsweep.core.attacks.ppa.pool import sample_at_random, sample_candidates
        from smoothsweep.core.attacks.ppa.selection import select, select_by_confidence, select_by_margin

        return {
            "sample": {"top_confidence": sample_candidates, "random": sample_at_random},
            "optimise": {"adam": optimise, "none": leave_as_sampled},
            "select": {
                "augmented_confidence": select,
                "augmented_margin": select_by_margin,
                "top_confidence": select_by_confidence,
            },
        }

    def invert_batch(
        self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> list[Reconstructions]:
        """The three stages, on `side_by_side` classes at once; one by one where another trial's target selects."""
        from smoothsweep.core.attacks.optimisation.crops import Preprocess
        from smoothsweep.core.attacks.ppa.inversion import invert_classes

        ways = self.ways()
        selector = inputs.targets.get("selection_target")
        mean = inputs.parts[FEATURES]["mean"].to(view.execution.device) if self.feature_weight else None
        width = self.side_by_side(view.execution.device.type) if selector is None else 1
        reconstructions: list[Reconstructions] = []
        for first in range(0, len(classes), width):
            reconstructions += invert_classes(
                present(inputs.prior, "prior"),
                view.logits,
                inputs.parts["candidates"]["confidences"],
                inputs.parts["pool"]["w"],
                classes[first : first + width],
                candidates=self,
                descent=self,
                selection=self,
                transform=Preprocess(size=view.image_size, crop=self.pool.crop),
                seed=seed,
                protocol=present(inputs.protocol, "protocol"),
                run=view.execution,
                sample=ways["sample"][self.sample.kind],
                move=ways["optimise"][self.optimise.kind],
                keep=ways["select"][self.select.kind],
                selector=None if selector is None else selector.logits,
                discriminator=present(inputs.discriminator, "discriminator")() if self.discriminator_weight else None,
                temperature=float(inputs.parts[TEMPERATURE][TEMPERATURE]) if self.temperature else None,
                features=view.features,
                mean_feature=mean,
            )
        return reconstructions
