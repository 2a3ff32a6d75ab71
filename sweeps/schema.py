"""The sweep file: every key, its meaning, unit and range.

A sweep file is YAML. Unknown keys are refused, and so is a key that cannot take effect. Sizes are pixels,
fractions lie in [0, 1], durations of schedules are fractions of training.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from core.defenses.schedules import AlphaSchedule, schedule_parameters, validate_schedule

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Range = tuple[float, float]

Architecture = Literal[
    "resnet_small", "vgg_small", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50",
    "densenet121", "densenet169", "vit_b_16", "inception_v3",
]  # fmt: skip
Protocol = Literal["clean", "paper"]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _only_with(model: Model, key: str, chooser: str, choice: str) -> None:
    if getattr(model, key) is not None and getattr(model, chooser) != choice:
        raise ValueError(f"{key}: expected only with {chooser}: {choice}, got {chooser}: {getattr(model, chooser)}")


class SyntheticData(Model):
    """Private identities drawn by the procedural face renderer: no real person is exposed."""

    kind: Literal["synthetic"]
    identities: Annotated[int, Field(ge=2)] = 50
    train_per_class: Count = 20
    test_per_class: Count = 10
    size: Annotated[int, Field(ge=16, le=512)] = 64
    spread: Positive = 0.4  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: int = 0
    samples_per_class: Count | None = None  # train on this many images of each class (the low-data study)


class LabelledData(Model):
    """The user's own images: a Parquet file (`image`, `label` or `identity`, maybe `split`) or a folder per class."""

    kind: Literal["labelled"]
    path: str
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    crop: Literal["centre", "stretch"] = "centre"  # what to do with images that are not square
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1  # used only where the file has no split
    split_seed: int = 42
    largest_classes: Annotated[int, Field(ge=2)] | None = None  # keep the classes with most training images
    samples_per_class: Count | None = None
    on_corrupt: Literal["refuse", "skip"] = "refuse"


class SyntheticPublic(Model):
    """Public identities of the renderer; they never overlap with private ones."""

    kind: Literal["synthetic"]
    identities: Count = 2000
    per_identity: Count = 3
    size: Annotated[int, Field(ge=16, le=512)] = 64
    spread: Positive = 0.6
    seed: int = 0


class UnlabelledPublic(Model):
    """Public images of other people: a Parquet file with an `image` column or a folder of images."""

    kind: Literal["unlabelled"]
    path: str
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    limit: Count | None = None
    seed: int = 0


class Augmentation(Model):
    """Per-image training augmentation; the defaults are the paper's Appendix B.3."""

    crop_scale: Range = (0.85, 1.0)
    crop_ratio: Range = (1.0, 1.0)
    brightness: Annotated[float, Field(ge=0)] = 0.2
    contrast: Annotated[float, Field(ge=0)] = 0.2
    saturation: Annotated[float, Field(ge=0)] = 0.1
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    flip: Fraction = 0.5

    @model_validator(mode="after")
    def _ordered(self) -> Augmentation:
        for name in ("crop_scale", "crop_ratio"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name}: expected 0 < low <= high, got [{low}, {high}]")
        return self


class Training(Model):
    """How one classifier is trained; the defaults are the paper's 224-pixel recipe (Appendix B.3)."""

    architecture: Architecture = "resnet152"
    pretrained: bool = True  # ImageNet weights from the local torch hub cache
    image_size: Annotated[int, Field(ge=16, le=1024)] = 224
    epochs: Count = 100
    batch_size: Annotated[int, Field(ge=2)] = 128  # global: over all workers
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: Positive = 0.001
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] | None = None  # adam only
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None  # sgd only
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    lr_schedule: Literal["multistep", "cosine"] = "multistep"
    lr_milestones: tuple[Fraction, ...] | None = None  # fractions of training; multistep only, default (0.75, 0.9)
    lr_factor: Positive | None = None  # multistep only, default 0.1
    lr_min: Annotated[float, Field(ge=0)] | None = None  # cosine only, default 0
    augmentation: Augmentation = Augmentation()

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Training:
        _only_with(self, "betas", "optimizer", "adam")
        _only_with(self, "momentum", "optimizer", "sgd")
        _only_with(self, "lr_milestones", "lr_schedule", "multistep")
        _only_with(self, "lr_factor", "lr_schedule", "multistep")
        _only_with(self, "lr_min", "lr_schedule", "cosine")
        marks = self.lr_milestones or ()
        if not all(0 < mark < 1 for mark in marks) or list(marks) != sorted(set(marks)):
            raise ValueError(f"lr_milestones: expected ascending fractions of training in (0, 1), got {list(marks)}")
        if self.lr_min is not None and self.lr_min > self.lr:
            raise ValueError(f"lr_min: expected at most lr ({self.lr}), got {self.lr_min}")
        return self


class Schedule(Model):
    """How alpha moves over training. Which keys a kind takes is checked by core.defenses.schedules."""

    kind: Literal["constant", "reference", "ramp", "linear", "cosine", "step", "piecewise"] = "constant"
    start: Fraction | None = None
    end: Fraction | None = None
    at: Fraction | None = None
    scaled: bool | None = None
    points: tuple[tuple[Fraction, float], ...] | None = None

    @model_validator(mode="after")
    def _valid(self) -> Schedule:
        validate_schedule(AlphaSchedule(**self.model_dump()))
        return self

    def resolved(self) -> dict[str, Any]:
        return {"kind": self.kind, **schedule_parameters(AlphaSchedule(**self.model_dump()))}


class LabelSmoothing(Model):
    """Label smoothing by alpha in (-inf, 1]: 0 is plain training, below 0 the paper's defense.

    schedule: how alpha gets there. null is what the paper describes: constant for alpha >= 0, for negative alpha
    none in the first half and a smooth ramp up to three quarters of training.
    """

    kind: Literal["label_smoothing"] = "label_smoothing"
    alpha: float | None = None  # null: the last point of a piecewise schedule, else 0
    schedule: Schedule | None = None

    @field_validator("alpha")
    @classmethod
    def _at_most_one(cls, value: float | None) -> float | None:
        if value is not None and (not math.isfinite(value) or value > 1):
            raise ValueError(f"expected a number in (-inf, 1], got {value}")
        return value

    @model_validator(mode="after")
    def _agrees_with_points(self) -> LabelSmoothing:
        points = self.schedule.points if self.schedule else None
        if points and self.alpha is not None and self.alpha != points[-1][1]:
            raise ValueError(f"alpha: expected the last point's value ({points[-1][1]}) or none, got {self.alpha}")
        for _, alpha in points or ():
            self._at_most_one(alpha)
        return self

    @property
    def final_alpha(self) -> float:
        if self.alpha is not None:
            return self.alpha
        return self.schedule.points[-1][1] if self.schedule and self.schedule.points else 0.0

    def resolved(self) -> dict[str, Any]:
        """Everything that decides the curve, defaults filled in: what a fingerprint and a worker need."""
        alpha = self.final_alpha
        schedule = self.schedule or Schedule(kind="ramp" if alpha < 0 else "constant")
        if alpha == 0 and schedule.points is None:
            schedule = Schedule(kind="constant")  # every path from 0 to 0 is the same training
        return {"kind": self.kind, "alpha": alpha, "schedule": schedule.resolved()}


class Recipe(Training):
    """How the target is trained. `workers` > 1 trains with Ray Train; BatchNorm makes it a different experiment."""

    defense: LabelSmoothing = LabelSmoothing()
    workers: Count = 1
    checkpoint_every: Count = 10  # epochs; a lost worker costs at most this much

    @model_validator(mode="after")
    def _enough_per_worker(self) -> Recipe:
        if self.batch_size < 2 * self.workers:
            least = 2 * self.workers
            raise ValueError(f"batch_size: expected at least 2 images per worker ({least}), got {self.batch_size}")
        return self


class Eigenfaces(Model):
    """PCA of the public images: fitted in seconds, needs no file."""

    kind: Literal["eigenfaces"]
    components: Count = 150
    seed: int = 0


class ShippedPrior(Model):
    """A generator that comes with smoothsweep."""

    kind: Literal["shipped"]
    name: Literal["stylegan2_synthetic64"] = "stylegan2_synthetic64"


class PriorFolder(Model):
    """A prior written by smoothsweep earlier: a directory with weights.safetensors and prior.json."""

    kind: Literal["folder"]
    path: str


class StyleGAN2(Model):
    """A StyleGAN2 trained on the public images (non-saturating loss, lazy R1, EMA)."""

    kind: Literal["stylegan2"]
    z_dim: Count = 128
    w_dim: Count = 128
    mapping_layers: Count = 4
    channel_base: Count = 2048
    channel_max: Count = 128
    kimg: Positive = 200.0
    batch_size: Annotated[int, Field(ge=4)] = 16
    lr: Positive = 0.002
    r1_gamma: Annotated[float, Field(ge=0)] = 1.0
    augmentation: Literal["none", "light", "adaptive"] = "light"
    workers: Count = 1
    seed: int = 0


class Pool(Model):
    """The candidate pool: decoded once, shared by every target of the sweep."""

    size: Count = 2000
    seed: int = 42
    truncation_psi: Positive = 0.5
    truncation_cutoff: Count | None = 8  # how many of the prior's inputs are truncated; null is all
    crop: Count | None = None  # centre crop of decoded images in pixels, before resizing


class Attack(Model):
    """Plug & Play Attack; the defaults are the paper's for FaceScrub (Appendix B.4)."""

    kind: Literal["ppa"] = "ppa"
    loss: Literal["poincare", "cross_entropy"] = "poincare"
    pool: Pool = Pool()
    candidates: Count = 200  # per class, the start of the optimisation
    steps: Count = 50
    lr: Positive = 0.005
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.1, 0.1)
    crop_scale: Range = (0.9, 1.0)
    batch_size: Count = 25
    selected: Count = 50  # per class, what the judges see
    selection_repeats: Count = 100
    selection_crop_scale: Range = (0.5, 0.9)
    selection_crop_ratio: Range = (0.8, 1.2)
    seed: int = 42

    @model_validator(mode="after")
    def _stages_fit(self) -> Attack:
        if self.candidates > self.pool.size:
            raise ValueError(f"candidates: expected at most pool.size ({self.pool.size}), got {self.candidates}")
        if self.selected > self.candidates:
            raise ValueError(f"selected: expected at most candidates ({self.candidates}), got {self.selected}")
        return self


class Evaluator(Training):
    """The paper's judge: another architecture trained on the same private data."""

    architecture: Architecture = "inception_v3"
    image_size: Annotated[int, Field(ge=16, le=1024)] = 299
    seed: int = 1000
    checkpoint_every: Count = 10


class Embedder(Model):
    """An independent judge: face features learnt on other people, with a linear head on the private classes."""

    name: Literal["synthetic", "mobilefacenet_a", "mobilefacenet_b"]
    weights: str | None = None  # file of the weights; the synthetic one is shipped

    @model_validator(mode="after")
    def _has_weights(self) -> Embedder:
        if self.weights is None and self.name != "synthetic":
            raise ValueError(f"weights: expected the file of {self.name}, got none")
        return self


class Knowledge(Training):
    """The surrogate trained on the loot; the defaults are the paper's (section 4.1)."""

    architecture: Architecture = "resnet50"
    epochs: Count = 75
    batch_size: Annotated[int, Field(ge=2)] = 32
    optimizer: Literal["adam", "sgd"] = "sgd"
    lr: Positive = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    lr_schedule: Literal["multistep", "cosine"] = "cosine"
    augmentation: Augmentation = Augmentation(
        crop_scale=(0.8, 1.0), brightness=0, contrast=0, saturation=0, hue=0
    )
    seed: int = 2000
    checkpoint_every: Count = 25


class Judges(Model):
    """Who scores the loot. A judge that is absent leaves its columns empty, with the reason."""

    evaluator: Evaluator | None = None
    embedder: Embedder | None = None
    knowledge: Knowledge | None = None


class Resources(Model):
    """What one task may take. GPUs are used where the cluster has them; none of this changes a result."""

    cpus_per_task: Count = 1
    gpus_per_training: Annotated[float, Field(ge=0)] = 1.0
    gpus_per_task: Annotated[float, Field(ge=0)] = 0.5
    classes_per_task: Count | None = None  # null: sized so that every device gets several tasks
    trial_slots: Count | None = None  # local machine only; null: two per CPU


class InversionSweep(Model):
    """Train targets, invert every class, judge the leak."""

    experiment: Literal["inversion"] = "inversion"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    protocol: Protocol = "clean"
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    data: Annotated[SyntheticData | LabelledData, Field(discriminator="kind")]
    public: Annotated[SyntheticPublic | UnlabelledPublic, Field(discriminator="kind")] | None = None
    recipe: Recipe = Recipe()
    prior: Annotated[Eigenfaces | ShippedPrior | PriorFolder | StyleGAN2, Field(discriminator="kind")]
    attack: Attack = Attack()
    judges: Judges = Judges()
    classes: Literal["all"] | Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = "all"
    grid: dict[str, list[Any]] = {}  # dotted key of this file -> the values to try
    baseline: dict[str, Any] = {}  # the grid values that the others are compared with
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _fits_together(self) -> InversionSweep:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: expected each once, got {list(self.seeds)}")
        if self.classes != "all" and len(set(self.classes)) != len(self.classes):
            raise ValueError(f"classes: expected each once, got {list(self.classes)}")
        if isinstance(self.data, SyntheticData):
            self._fits_synthetic(self.data)
        if isinstance(self.prior, Eigenfaces) and isinstance(self.public, SyntheticPublic):
            images = self.public.identities * self.public.per_identity
            if self.prior.components >= images:
                got = self.prior.components
                raise ValueError(f"prior.components: expected fewer than the {images} public images, got {got}")
        if self.prior.kind in ("eigenfaces", "stylegan2") and self.public is None:
            raise ValueError(f"public: expected the images to fit the {self.prior.kind} prior on, got none")
        if self.judges.evaluator and self.judges.evaluator.architecture == self.recipe.architecture:
            raise ValueError(
                f"judges.evaluator.architecture: expected another than the target's, got {self.recipe.architecture}"
            )
        if self.protocol == "paper" and self.judges.knowledge:
            raise ValueError("judges.knowledge: expected none under protocol paper (no shared crops yet), got one")
        if self.prior.kind in ("shipped", "folder") and self.public is not None:
            raise ValueError(f"public: expected none, since a {self.prior.kind} prior is already fitted")
        return self


    def _fits_synthetic(self, data: SyntheticData) -> None:
        if data.samples_per_class is not None and data.samples_per_class > data.train_per_class:
            got = data.samples_per_class
            raise ValueError(f"data.samples_per_class: expected at most {data.train_per_class} images, got {got}")
        if self.classes != "all" and max(self.classes) >= data.identities:
            raise ValueError(f"classes: expected labels below {data.identities}, got {max(self.classes)}")


class ToySweep(Model):
    """The paper's two-dimensional example (Figures 1 and 8)."""

    experiment: Literal["toy"]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    alpha: float = 0.0
    grid: dict[str, list[Any]] = {}
    baseline: dict[str, Any] = {}
    resources: Resources = Resources()

    @property
    def seeds(self) -> tuple[int, ...]:
        return (42,)  # the notebook's only seed

    @property
    def protocol(self) -> Protocol:
        return "paper"


SWEEPS: dict[str, type[InversionSweep] | type[ToySweep]] = {"inversion": InversionSweep, "toy": ToySweep}
