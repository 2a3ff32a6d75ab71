"""The judges of a sweep file: who scores the loot."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from core.analysis.embedding_settings import EmbeddingSettings
from core.analysis.robustness.settings import RobustnessSettings
from core.bounds import Count
from sweeps.base import FilePath, Model
from sweeps.derived import derived
from sweeps.imported import ImportedClassifier, trained_or_imported
from sweeps.training import Evaluator, Knowledge

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

STAGED_EMBEDDERS = {"facenet": "facenet"}  # embedder -> its entry among the weight files


class Embedder(Model):
    """An independent judge: face features learnt on other people, with a linear head on the private classes.

    `facenet` is the paper's (delta_face); without `weights` its staged file is used (`smoothsweep weights stage`), and
    where that is absent the judge's columns stay empty, with the reason.
    """

    name: Literal["synthetic", "facenet", "mobilefacenet_a", "mobilefacenet_b"]
    weights: FilePath | None = None  # file of the weights; the synthetic one is shipped, facenet's is staged

    @model_validator(mode="after")
    def _has_weights(self) -> Embedder:
        if self.weights is None and self.name not in ("synthetic", *STAGED_EMBEDDERS):
            raise ValueError(f"weights: expected the file of {self.name}, got none")
        return self


class Fidelity(Model):
    """FID, KID, precision, recall, density and coverage of the loot against the target's training images.

    In the features of the Inception network of 2015 (the one of pytorch-fid). Without `weights` its staged file is
    used; where that is absent the columns stay empty, with the reason.
    """

    weights: FilePath | None = None
    sha256: Sha256 | None = None  # of `weights`, where it is not the published file
    neighbours: Count = 3  # k of precision, recall, density and coverage

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Fidelity:
        if self.sha256 is not None and self.weights is None:
            raise ValueError("sha256: expected only with weights, got no weights")
        return self


class Features(derived(EmbeddingSettings)):
    """How the target's penultimate activations of its training images lie (the paper's Figures 4, 5); it needs no loot.

    `perplexity` is t-SNE's and must be less than the number of images mapped, those of `classes` classes.
    """


class Robustness(derived(RobustnessSettings)):
    """Adversarial images of the target's test images (the paper's Table 11); it needs no loot."""

    @property
    def built(self) -> RobustnessSettings:
        """The settings themselves."""
        return RobustnessSettings(**self.model_dump())


AnyEvaluator = Annotated[
    Annotated[Evaluator, Tag("trained_here")] | Annotated[ImportedClassifier, Tag("brought_in")],
    Discriminator(trained_or_imported),
]


OF_TARGET = ("features", "robustness")
"""Judges that need no reconstructions."""


class Judges(Model):
    """Who scores the loot, and beside it the target itself (`robustness`). A judge that is absent leaves its columns
    empty, with the reason."""

    evaluator: AnyEvaluator | None = None
    embedder: Embedder | None = None
    fidelity: Fidelity | None = None
    knowledge: Knowledge | None = None
    features: Features | None = None
    robustness: Robustness | None = None

    @property
    def of_loot(self) -> tuple[str, ...]:
        """Those that are asked for and need reconstructions."""
        return tuple(name for name in type(self).model_fields if name not in OF_TARGET and getattr(self, name))
