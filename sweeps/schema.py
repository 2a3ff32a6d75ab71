"""The sweep file: every key, its meaning, unit and range.

A sweep file is YAML. Unknown keys are refused, and so is a key that cannot take effect. Sizes are pixels,
fractions lie in [0, 1], durations of schedules are fractions of training.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sweeps.attacker import Attack, Eigenfaces, PriorFolder, ShippedPrior, StyleGAN2
from sweeps.base import Count, Model
from sweeps.data import LabelledData, SyntheticData, SyntheticPublic, UnlabelledPublic
from sweeps.training import Evaluator, Knowledge, Recipe

Protocol = Literal["clean", "paper"]


class Embedder(Model):
    """An independent judge: face features learnt on other people, with a linear head on the private classes."""

    name: Literal["synthetic", "mobilefacenet_a", "mobilefacenet_b"]
    weights: str | None = None  # file of the weights; the synthetic one is shipped

    @model_validator(mode="after")
    def _has_weights(self) -> Embedder:
        if self.weights is None and self.name != "synthetic":
            raise ValueError(f"weights: expected the file of {self.name}, got none")
        return self


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
    grid: dict[str, list[Any]] = Field(default_factory=dict)  # dotted key of this file -> the values to try
    baseline: dict[str, Any] = Field(default_factory=dict)  # the grid values that the others are compared with
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
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    baseline: dict[str, Any] = Field(default_factory=dict)
    resources: Resources = Resources()

    @property
    def seeds(self) -> tuple[int, ...]:
        return (42,)  # the notebook's only seed

    @property
    def protocol(self) -> Protocol:
        return "paper"


SWEEPS: dict[str, type[InversionSweep] | type[ToySweep]] = {"inversion": InversionSweep, "toy": ToySweep}
