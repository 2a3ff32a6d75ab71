"""The settings of Plug & Play Attacks, and the values of the paper. Declared here and nowhere else; needs no torch.

Defaults are the values that every shipped configuration shares (`LukasStruppek/Plug-and-Play-Attacks`,
configs/attacking/); what differs between data sets has no default here. Each stage has a class of its own settings;
a whole attack is all of them at once (core/attacks/ppa/attack.py), so their names differ. What fits the attack to a
target that hides its gradients, or its differences, belongs to no published attack and is absent by default.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Le

from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.bounds import (
    MOST,
    Beta,
    Count,
    Fraction,
    Latents,
    Layers,
    NotNegative,
    OpenFraction,
    Positive,
    Ratios,
    Seed,
    Shares,
)
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError

Loss = Literal["poincare", "cross_entropy", "max_margin", "logit"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
"""The names of `core.attacks.optimisation.descent.ATTACK_LOSSES`, which loads torch."""

MOST_ROWS = 32
"""Candidates that fill a pass through small networks on a CPU: with more, one costs no less (docs/benchmarks.md)."""

MOST_DEGREES = 15.0
"""A view turned further shows another image than its neighbour."""

_OF_TRANSFORMS, _OF_NOISE = ("crop_scale", "crop_ratio", "hflip", "degrees"), ("noise",)


@dataclass(frozen=True, kw_only=True)
class CropRule:
    """Which random crops a stage draws.

    Attributes:
        scale: Range of the share of the area, in (0, 1].
        ratio: Range of width / height.
        hflip: Probability of a mirror image.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float] = (1.0, 1.0)
    hflip: float = 0.0

    @property
    def is_identity(self) -> bool:
        """Whether every view is the image itself."""
        return self.scale == (1, 1) and self.ratio == (1, 1) and self.hflip == 0


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """A step's gradient as the mean over neighbours of the image that the target would be shown.

    AlignMI (arXiv 2509.20177, section 5; AlanPeng0897/AlignMI, high_resolution/attacks/optimize.py), whose values are
    the defaults, but for its 50 views.

    Attributes:
        views: Neighbours of a step, each of them a query.
        kind: "transforms", a random crop, mirror and rotation, or "noise", Gaussian.
        crop_scale: Smallest and largest fraction of the area that a crop keeps, with transforms.
        crop_ratio: Smallest and largest width over height of a crop, with transforms.
        hflip: Probability of a horizontal flip, with transforms.
        degrees: Largest rotation in degrees, with transforms.
        noise: Standard deviation with kind noise, as a fraction of the image's range (0.05 as in the paper; the cited
            code has 0.06).
    """

    views: Count = 8
    kind: Literal["transforms", "noise"] = "transforms"
    crop_scale: Shares = (0.8, 1.0)
    crop_ratio: Ratios = (0.9, 1.1)
    hflip: Fraction = 0.5
    degrees: Annotated[float, Ge(0), Le(MOST_DEGREES)] = 5.0
    noise: Positive = 0.05

    def __post_init__(self) -> None:
        check_fields(self, "attack.average.")
        unread = _OF_NOISE if self.kind == "transforms" else _OF_TRANSFORMS
        for setting in fields(self):
            read = setting.name not in unread or getattr(self, setting.name) == setting.default
            expected = f"no value with kind {self.kind}, which does not read it"
            require(read, f"attack.average.{setting.name}", expected, getattr(self, setting.name))

    @property
    def crop_rule(self) -> CropRule:
        return CropRule(scale=self.crop_scale, ratio=self.crop_ratio, hflip=self.hflip)


@dataclass(frozen=True, kw_only=True)
class TemperatureScaling:
    """Logits are divided by a temperature before the loss, so that the loss of an overconfident target does not vanish.

    mean_confidence: the temperature is the one at which the target's mean top-1 softmax on the pool's images is this.
    """

    mean_confidence: OpenFraction = 0.5


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """Further descents from around every candidate, all of which go on to stage 3.

    Attributes:
        count: Descents of a candidate in all, the first from the candidate itself.
        spread: How far around it the others begin, in standard deviations of every coordinate over the pool.
    """

    count: Annotated[int, Ge(2), Le(MOST)] = 2
    spread: Positive = 0.5


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The pool of candidate latents, shared by all classes and all targets.

    Whatever the cutoff, the optimisation starts from the truncated vector in all layers.

    Attributes:
        size: Number of latents (the paper's S).
        seed: Seed of the draw of the pool, which all trials share.
        truncation_psi: The prior's truncation, 1 for none.
        truncation_cutoff: How many layers it is applied to, from the coarsest on (None: to all; the paper's 8 leaves
            the fine layers of the scored images untruncated).
        crop: Side of the centre crop in pixels of the prior (None: no crop).
    """

    size: Latents = 2000
    seed: Seed = 42
    truncation_psi: Positive = 0.5
    truncation_cutoff: Layers | None = 8
    crop: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.pool.")


@dataclass(frozen=True, kw_only=True)
class CandidateConfig:
    """Stage 1, where the optimisation starts.

    Attributes:
        candidates: Latents per class that are optimised (the paper's K).
        single_w: Start from the first w vector alone, used in all layers (else all num_ws vectors are optimised).
        restarts: Further descents from around each candidate, None for none.
    """

    candidates: Count = 200
    single_w: bool = True
    restarts: Restarts | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.")


@dataclass(frozen=True, kw_only=True)
class OptimiseConfig:
    """Stage 2. Adam with a fresh state for every `batch_size` candidates, for `steps` steps.

    Attributes:
        steps: Adam steps of each candidate.
        lr: Adam's learning rate.
        betas: Adam's two decay rates.
        weight_decay: Factor of the latents that is added to their gradient.
        batch_size: Candidates that share an optimizer state.
        loss: What the descent minimises, by name.
        crop_scale: Smallest and largest fraction of the area that the random crop of each step keeps, (1, 1) for no
            crop.
        crop_ratio: Smallest and largest width over height of that random crop.
        clip: Clip images to [-1, 1] before the target sees them.
        lr_milestones: Zero-based steps from which on the learning rate is multiplied by lr_gamma.
        lr_gamma: Factor at each of lr_milestones.
        discriminator_weight: Weight of mean softplus(-D(image)) in the loss, for a prior with its discriminator.
        temperature: What logits are divided by, with loss cross_entropy alone, None for 1.
        average: Take the gradient as a mean over neighbours of the image, None for the gradient at the image.
        feature_weight: Weight of the term that pulls the target's penultimate features to their mean over the pool's
            images, None or 0 for no such term (LOMMA: 1, beside the loss "logit").
    """

    steps: Count
    lr: Positive = 0.005
    betas: tuple[Beta, Beta] = (0.1, 0.1)
    weight_decay: NotNegative = 0.0
    loss: Loss = "poincare"
    crop_scale: Shares = (0.9, 1.0)
    crop_ratio: Ratios = (1.0, 1.0)
    batch_size: Count = 25
    clip: bool = False
    lr_milestones: tuple[int, ...] = ()
    lr_gamma: Positive = 0.1
    discriminator_weight: NotNegative = 0.0
    temperature: TemperatureScaling | None = None
    average: Averaging | None = None
    feature_weight: NotNegative | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.")
        expected = "the default where there are no lr_milestones"
        require(self.lr_gamma == 0.1 or bool(self.lr_milestones), "attack.lr_gamma", expected, self.lr_gamma)
        for milestone in self.lr_milestones:
            require(0 < milestone < self.steps, "attack.lr_milestones", f"steps in 1..{self.steps - 1}", milestone)
        require(
            self.temperature is None or self.loss == "cross_entropy",
            "attack.temperature",
            f"no value with loss {self.loss}, which is not measured by it",
            self.temperature,
        )

    @property
    def adapted(self) -> tuple[str, ...]:
        """What is done beyond the published stage, in a word or two each."""
        tempered = (f"tempered to {self.temperature.mean_confidence:g}",) if self.temperature else ()
        averaged = (f"{self.average.views} {self.average.kind} averaged",) if self.average else ()
        return (*tempered, *averaged)

    @property
    def crop_rule(self) -> CropRule:
        return CropRule(scale=self.crop_scale, ratio=self.crop_ratio)

    def lr_at(self, step: int) -> float:
        return self.lr * self.lr_gamma ** sum(step >= milestone for milestone in self.lr_milestones)


@dataclass(frozen=True, kw_only=True)
class SelectConfig:
    """Stage 3. Keep the `selected` candidates with the highest mean target softmax over `selection_repeats` random
    views.

    Attributes:
        selection_repeats: Random views of each candidate.
        selection_crop_scale: Smallest and largest fraction of the area that a view keeps.
        selection_crop_ratio: Smallest and largest width over height of a view.
        selection_hflip: Probability that a view is mirrored.
        selection_view_size: Side of the views in pixels (None: the target's input; the official code has 224 whatever
            the input).
    """

    selected: Latents = 50
    selection_repeats: Count = 100
    selection_crop_scale: Shares = (0.5, 0.9)
    selection_crop_ratio: Ratios = (0.8, 1.2)
    selection_hflip: Fraction = 0.5
    selection_view_size: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self, "attack.")
        still = tuple(self.selection_crop_scale) == tuple(self.selection_crop_ratio) == (1, 1)
        if still and not self.selection_hflip and (self.selection_repeats > 1 or self.selection_view_size is not None):
            raise InputError(
                "attack.selection_repeats, selection_view_size: expected 1 and none without crops and mirrors, got "
                f"{self.selection_repeats} and {self.selection_view_size}: every view is the same, they have no effect"
            )

    @property
    def selection_crop_rule(self) -> CropRule:
        return CropRule(scale=self.selection_crop_scale, ratio=self.selection_crop_ratio, hflip=self.selection_hflip)


def check_stages(pool: Pool, candidates: CandidateConfig, select: SelectConfig) -> None:
    """Raise InputError where a stage would be asked for more than the one before it leaves."""
    got = candidates.candidates
    require(got <= pool.size, "attack.candidates", f"at most pool.size ({pool.size})", got)
    require(select.selected <= got, "attack.selected", f"at most candidates ({got})", select.selected)


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
        return pool_and_candidates(self.pool)

    @property
    def crop(self) -> int | None:
        return self.pool.crop


@lru_cache
def pool_and_candidates(pool: Pool) -> tuple[Part, Part]:
    """The parts of attacks that begin with a pool; `core.attacks.ppa.pool` makes them.

    The pool is one for all targets of an input size, the confidences belong to a target.
    """
    return (
        Part(name="pool", needs=("prior",), settings=asdict(pool)),
        Part(name="candidates", needs=("target", "pool")),
    )
