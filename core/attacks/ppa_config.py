"""The settings of Plug & Play Attacks, and the values of the paper.

Defaults are the values that every shipped configuration shares (`LukasStruppek/Plug-and-Play-Attacks`,
configs/attacking/); what differs between data sets has no default here. Loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.attacks.crop_rule import CropRule
from core.errors import InputError

LOSSES = ("cross_entropy", "poincare")
"""The names of `core.attacks.losses.ATTACK_LOSSES`, which loads torch."""


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """The pool of candidate latents, shared by all classes and all targets.

    size: number of latents S; seed: of the pool alone; truncation_psi, truncation_cutoff: handed to the
    prior's mapping (cutoff None: every layer; the paper's 8 leaves the fine layers of the scored images
    untruncated, although the optimisation then starts from the truncated vector in all of them); crop: side
    of the centre crop in pixels of the prior (None: no crop); image_size: side of the target's input; clip:
    scored images are clipped to [-1, 1] first.
    """

    size: int
    seed: int = 42
    truncation_psi: float = 0.5
    truncation_cutoff: int | None = 8
    crop: int | None
    image_size: int
    clip: bool = True

    def __post_init__(self) -> None:
        _at_least("pool.size", self.size, 1)
        _at_least("pool.image_size", self.image_size, 1)
        _at_least("pool.seed", self.seed, 0)
        if self.crop is not None:
            _at_least("pool.crop", self.crop, 1)
        if self.truncation_cutoff is not None:
            _at_least("pool.truncation_cutoff", self.truncation_cutoff, 0)


@dataclass(frozen=True, kw_only=True)
class CandidateConfig:
    """Stage 1. num_candidates: latents K per class; single_w: start from the first w vector alone, used in all layers
    (else all num_ws vectors are optimised). Whether mirrors are scored too is an argument of `score_pool`.
    """

    num_candidates: int = 200
    single_w: bool = True

    def __post_init__(self) -> None:
        _at_least("candidates.num_candidates", self.num_candidates, 1)


@dataclass(frozen=True, kw_only=True)
class OptimiseConfig:
    """Stage 2. Adam with a fresh state for every `batch_size` candidates, for `steps` steps.

    loss: a name of `ATTACK_LOSSES`; crop_scale, crop_ratio: of the random crop of each step, (1, 1) for none;
    clip: clip images to [-1, 1] before the target sees them; lr_milestones, lr_gamma: from each of these
    zero-based steps on, the learning rate is multiplied by lr_gamma; discriminator_weight: of mean
    softplus(-D(image)).
    """

    steps: int
    lr: float = 0.005
    betas: tuple[float, float] = (0.1, 0.1)
    weight_decay: float = 0.0
    loss: str = "poincare"
    crop_scale: tuple[float, float] = (0.9, 1.0)
    crop_ratio: tuple[float, float] = (1.0, 1.0)
    batch_size: int = 25
    clip: bool = False
    lr_milestones: tuple[int, ...] = ()
    lr_gamma: float = 0.1
    discriminator_weight: float = 0.0

    def __post_init__(self) -> None:
        _at_least("optimise.steps", self.steps, 1)
        _at_least("optimise.batch_size", self.batch_size, 1)
        _at_least("optimise.weight_decay", self.weight_decay, 0)
        _at_least("optimise.discriminator_weight", self.discriminator_weight, 0)
        if not (self.lr > 0 and self.lr_gamma > 0):
            raise InputError(f"optimise.lr, lr_gamma: expected > 0, got {self.lr}, {self.lr_gamma}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(f"optimise.betas: expected two numbers in [0, 1), got {self.betas}")
        if self.lr_gamma != 0.1 and not self.lr_milestones:
            raise InputError(f"optimise.lr_gamma: {self.lr_gamma} has no effect without lr_milestones")
        if not all(0 < milestone < self.steps for milestone in self.lr_milestones):
            raise InputError(
                f"optimise.lr_milestones: expected steps in 1..{self.steps - 1}, got {self.lr_milestones}"
            )
        if self.loss not in LOSSES:
            raise InputError(f"optimise.loss: expected one of {', '.join(LOSSES)}, got {self.loss!r}")
        self.crop_rule  # noqa: B018 - a wrong range is an error now, not at the first step

    @property
    def crop_rule(self) -> CropRule:
        return CropRule(scale=self.crop_scale, ratio=self.crop_ratio)

    def lr_at(self, step: int) -> float:
        """The learning rate of the zero-based `step`."""
        return self.lr * self.lr_gamma ** sum(step >= milestone for milestone in self.lr_milestones)


@dataclass(frozen=True, kw_only=True)
class SelectConfig:
    """Stage 3. Keep the num_selected candidates with the highest mean target softmax over `repeats` random
    views.

    crop_scale, crop_ratio: of the crops; hflip: chance of a mirror; view_size: side of the views (None: the
    target's input; the official code has 224 whatever the input); batch_size: candidates per pass of the
    target; decode_batch_size: candidates per pass of the prior. Neither batch size changes the result.
    """

    num_selected: int = 50
    repeats: int = 100
    crop_scale: tuple[float, float] = (0.5, 0.9)
    crop_ratio: tuple[float, float] = (0.8, 1.2)
    hflip: float = 0.5
    view_size: int | None = None
    batch_size: int = 250
    decode_batch_size: int = 25

    def __post_init__(self) -> None:
        _at_least("select.num_selected", self.num_selected, 1)
        _at_least("select.repeats", self.repeats, 1)
        _at_least("select.batch_size", self.batch_size, 1)
        _at_least("select.decode_batch_size", self.decode_batch_size, 1)
        if self.view_size is not None:
            _at_least("select.view_size", self.view_size, 1)
        if self.crop_rule.is_identity and (self.repeats > 1 or self.view_size is not None):
            raise InputError(
                "select.repeats, view_size: expected 1 and none without crops and mirrors, "
                f"got {self.repeats} and {self.view_size}: every view is the same, they have no effect"
            )

    @property
    def crop_rule(self) -> CropRule:
        return CropRule(scale=self.crop_scale, ratio=self.crop_ratio, hflip=self.hflip)


@dataclass(frozen=True, kw_only=True)
class PPAConfig:
    """A whole attack: the pool and the three stages."""

    pool: PoolConfig
    candidates: CandidateConfig = field(default_factory=CandidateConfig)
    optimise: OptimiseConfig
    select: SelectConfig = field(default_factory=SelectConfig)

    def __post_init__(self) -> None:
        if self.candidates.num_candidates > self.pool.size:
            raise InputError(
                f"candidates.num_candidates: expected at most the pool's {self.pool.size}, "
                f"got {self.candidates.num_candidates}"
            )
        if self.select.num_selected > self.candidates.num_candidates:
            raise InputError(
                f"select.num_selected: expected at most the {self.candidates.num_candidates} candidates, "
                f"got {self.select.num_selected}"
            )


def paper_facescrub() -> PPAConfig:
    """FaceScrub targets and the 1024-pixel FFHQ prior: paper appendix B.4,
    configs/attacking/FaceScrub_FFHQ.yaml.
    """
    return PPAConfig(pool=PoolConfig(size=2000, crop=800, image_size=224), optimise=OptimiseConfig(steps=50))


def paper_celeba() -> PPAConfig:
    """CelebA targets and the FFHQ prior (1024 pixels): appendix B.4, configs/attacking/CelebA_FFHQ.yaml."""
    return PPAConfig(pool=PoolConfig(size=5000, crop=800, image_size=224), optimise=OptimiseConfig(steps=70))


def paper_facescrub_metfaces() -> PPAConfig:
    """FaceScrub targets and the 1024-pixel MetFaces prior: configs/attacking/FaceScrub_MetFaces.yaml."""
    return PPAConfig(
        pool=PoolConfig(size=5000, crop=800, image_size=224), optimise=OptimiseConfig(steps=70, batch_size=20)
    )


def paper_celeba_metfaces() -> PPAConfig:
    """CelebA targets and the 1024-pixel MetFaces prior: configs/attacking/CelebA_MetFaces.yaml."""
    return paper_facescrub_metfaces()


def paper_stanford_dogs() -> PPAConfig:
    """Stanford Dogs targets and the 512-pixel AFHQ Dog prior, whose images are never cropped:
    configs/attacking/Stanford_Dogs_AFHQ.yaml.
    """
    return PPAConfig(
        pool=PoolConfig(size=2000, crop=None, image_size=224),
        optimise=OptimiseConfig(steps=100, lr=0.01, crop_scale=(0.75, 1.0)),
    )


PAPER_CONFIGS: dict[str, Callable[[], PPAConfig]] = {
    "celeba": paper_celeba,
    "celeba_metfaces": paper_celeba_metfaces,
    "facescrub": paper_facescrub,
    "facescrub_metfaces": paper_facescrub_metfaces,
    "stanford_dogs": paper_stanford_dogs,
}
"""The shipped configurations by data set, and by prior where it is not FFHQ (faces) or AFHQ Dog (dogs)."""


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InputError(f"{name}: expected a number >= {least}, got {value}")
