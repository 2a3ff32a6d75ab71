"""The judges of a sweep file: who scores the loot, and who looks at the target itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from smoothsweep.core.analysis.embedding_settings import EmbeddingSettings
from smoothsweep.core.analysis.gradient_settings import GradientSettings
from smoothsweep.core.analysis.robustness.settings import RobustnessSettings
from smoothsweep.core.bounds import Count, Positive, Seed
from smoothsweep.core.declared import build
from smoothsweep.core.metrics.columns.metric import PUBLISHED_FID_JUDGES
from smoothsweep.sweeps.base import FilePath, Model
from smoothsweep.sweeps.derived import derived
from smoothsweep.sweeps.imported import ImportedClassifier, trained_or_imported
from smoothsweep.sweeps.training import Evaluator, Knowledge

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

STAGED_EMBEDDERS = {"facenet": "facenet", "swag_vit_b_16": "swag_vit_b_16"}  # -> its entry among the weight files
STAGED_FIDS = {"fidelity": "fid_inception", "fid_lomma": "fid_inception", "fid_plg": "inception_v3"}
"""Judge whose network is an Inception -> its entry among the weight files."""


class Embedder(Model):
    """An independent judge: face features learnt on other people, with a linear head on the private classes.

    `facenet` is the paper's (delta_face); without `weights` its staged file is used (`smoothsweep weights stage`), and
    where that is absent the judge's columns stay empty, with the reason.
    """

    name: Literal["synthetic", "facenet", "mobilefacenet_a", "mobilefacenet_b", "ir50", "ir152"]
    weights: FilePath | None = None  # file of the weights; the synthetic one is shipped, facenet's is staged

    @model_validator(mode="after")
    def _has_weights(self) -> Embedder:
        if self.weights is None and self.name not in ("synthetic", *STAGED_EMBEDDERS):
            raise ValueError(f"weights: expected the file of {self.name}, got none")
        return self


class General(Model):
    """A third judge, of another family: features learnt on pictures of anything, with a linear head as the embedder's.

    Without `weights` the staged file is used; where that is absent the columns stay empty, with the reason.
    """

    name: Literal["swag_vit_b_16"] = "swag_vit_b_16"
    weights: FilePath | None = None


class Asked(Model):
    """A vision-language model of the user's, asked whether a reconstruction shows the person of four photographs.

    Where it is reached stands in no sweep file: whoever runs the sweep says so by SMOOTHSWEEP_ASKED_URL, and without it
    nothing is sent and the columns stay empty, with the reason. Sent are reconstructions and real images of the
    attacked classes. images: reconstructions of each class at most, the best first; pairs: natural pairs of each class
    and kind at most; questions: in all, for each trial.
    """

    model: Annotated[str, Field(min_length=1, max_length=300)]
    images: Count = 5
    pairs: Count = 10
    seed: Seed = 0
    questions: Count = 5000
    per_second: Positive = 1.0


class InceptionJudge(Model):
    """A judge in the features of an Inception network.

    Without `weights` their staged file is used; where that is absent the columns stay empty, with the reason.
    """

    weights: FilePath | None = None
    sha256: Sha256 | None = None  # of `weights`, where it is not the published file

    @model_validator(mode="after")
    def _nothing_ignored(self) -> InceptionJudge:
        if self.sha256 is not None and self.weights is None:
            raise ValueError("sha256: expected only with weights, got no weights")
        return self


class Fidelity(InceptionJudge):
    """FID, KID, precision, recall, density and coverage of the loot against the target's training images.

    In the features of the Inception network of 2015 (the one of pytorch-fid).
    """

    neighbours: Count = 3  # k of precision, recall, density and coverage


class PublishedFid(InceptionJudge):
    """An FID as the code of a low-resolution attack computes it, over what the evaluator recognises alone.

    `fid_lomma` uses the FID network's weights, `fid_plg` those of torchvision's inception_v3.
    """


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


class Gradients(derived(GradientSettings)):
    """The target's gradients, followed from random latents (the paper's Figs. 6b and 7); it needs no loot."""

    @model_validator(mode="after")
    def _can_be_followed(self) -> Gradients:
        assert self.built is not None
        return self

    @property
    def built(self) -> GradientSettings:
        """The settings themselves. Raises InputError where they are out of range."""
        return build(GradientSettings, self.model_dump(), what="gradients", prefix="judges.gradients.")


OF_TARGET = ("features", "robustness")
"""Judges that need no reconstructions."""


class Judges(Model):
    """Who scores the loot, and beside it the target itself (`robustness`). A judge that is absent leaves its columns
    empty, with the reason."""

    evaluator: AnyEvaluator | None = None
    embedder: Embedder | None = None
    general: General | None = None
    asked: Asked | None = None
    fidelity: Fidelity | None = None
    knowledge: Knowledge | None = None
    features: Features | None = None
    robustness: Robustness | None = None
    fid_lomma: PublishedFid | None = None
    fid_plg: PublishedFid | None = None
    gradients: Gradients | None = None

    @property
    def of_loot(self) -> tuple[str, ...]:
        """Those that are asked for and need reconstructions."""
        return tuple(name for name in type(self).model_fields if name not in OF_TARGET and getattr(self, name))

    @model_validator(mode="after")
    def _somebody_recognises(self) -> Judges:
        for name in PUBLISHED_FID_JUDGES:
            if getattr(self, name) is not None and self.evaluator is None:
                raise ValueError(f"{name}: expected judges.evaluator beside it, whose hits alone it counts, got none")
        return self
