"""Eight defenses of a few lines each: what they change of loss, weights, outputs or images."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import Positive, Ratios, Shares, Width
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import (
    Defense,
    Labels,
    MixedLabels,
    Step,
    StepLoss,
    hard_labels,
    over_outputs,
)
from smoothsweep.core.defenses.strengths import Family, Strength, is_number, numbers, value_text
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.text import NBSP

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from smoothsweep.core.models.classifiers import Classifier

# Random erasing as a defense: the network never sees a whole face (MIDRE, TMLR 2025).
#
# The operation is torchvision's RandomErasing (Zhong et al., AAAI 2020). The published setting erases in every image a
# square of 10 to 40 (or 80) % of the area, filled with (0.485, 0.456, 0.406) after normalisation to [-1, 1]. Source:
# ngoc-nguyen-0/MIDRE_TMLR, configs/ and utils/training_config_parser.py.


Level = Annotated[float, Ge(-1), Le(1)]
PUBLISHED_COLOUR = (0.485, 0.456, 0.406)
_TRIES = 10  # torchvision draws at most ten boxes, then leaves the image whole


def _erased(parameters: Mapping[str, Any]) -> Strength:
    """The strength: the fraction of an image that is erased on average."""
    p, area = parameters.get("p", 1.0), parameters.get("area", (0.1, 0.4))
    if not (is_number(p) and isinstance(area, tuple) and len(area) == 2 and all(map(is_number, area))):
        return Strength(value="", order=None, used=())
    often = "" if p == 1 else f" p{NBSP}{value_text(p)}"
    value = f"{value_text(area[0])}{NBSP}to{NBSP}{value_text(area[1])}{often}"
    return Strength(value=value, order=(p * sum(area) / 2,), used=("p", "area"))


@dataclass(frozen=True, kw_only=True)
class RandomErasing(Defense):
    """Erase one rectangle of an image with probability `p`, drawn for every image on its own.

    Attributes:
        p: Probability that an image is erased.
        area: Smallest and largest fraction of the image's area, in (0, 1].
        aspect: Smallest and largest height over width, drawn evenly in the logarithm.
        fill: `constant` (by `colour`), `mean` (the image's own mean colour) or `random` (every pixel uniform in [-1,
            1]).
        colour: Red, green and blue in [-1, 1], with fill constant; None for the published (0.485, 0.456, 0.406).
    """

    cites = ("tran2025defending", "zhong2020random")
    family = Family(
        name="Random erasing (MIDRE)",
        word="random erasing",
        parameter="area",
        read=_erased,
        defaults={"aspect": (1.0, 1.0), "fill": "constant"},
    )

    p: Annotated[float, Gt(0), Le(1)] = 1.0
    area: Shares = (0.1, 0.4)
    aspect: Ratios = (1.0, 1.0)
    fill: Literal["constant", "mean", "random"] = "constant"
    colour: tuple[Level, Level, Level] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.colour is not None:
            require(self.fill == "constant", "defense random_erasing: colour", f"nothing with {self.fill}", self.colour)

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """Images with their rectangles erased. Every image uses the same count of random numbers."""
        import torch

        from smoothsweep.core.defenses.operations import box_mask

        height, width = images.shape[-2:]
        boxes = self.draw_boxes(len(images), (height, width), generator)
        mask = box_mask(boxes, (height, width)).to(images.device)[:, None]
        return torch.where(mask, self._filling(images, generator), images), labels

    def draw_boxes(self, n: int, size: tuple[int, int], generator: Generator) -> Tensor:
        """Top, left, height, width in pixels, int64 [n, 4]; height 0 where an image stays whole."""
        import torch

        u = torch.rand(n, 2 * _TRIES + 3, generator=generator, dtype=torch.float64)
        height, width = size
        pixels = height * width * (self.area[0] + (self.area[1] - self.area[0]) * u[:, :_TRIES])
        low, high = math.log(self.aspect[0]), math.log(self.aspect[1])
        aspect = torch.exp(low + (high - low) * u[:, _TRIES : 2 * _TRIES])
        h, w = (pixels * aspect).sqrt().round().long(), (pixels / aspect).sqrt().round().long()
        fits = (h < height) & (w < width)
        first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
        h, w = h.gather(1, first).squeeze(1), w.gather(1, first).squeeze(1)
        erased = fits.any(dim=1) & (u[:, -3] < self.p)
        top = (u[:, -2] * (height - h + 1)).long()
        left = (u[:, -1] * (width - w + 1)).long()
        return torch.stack([top, left, h, w], dim=1) * erased[:, None]

    def _filling(self, images: Tensor, generator: Generator) -> Tensor:
        if self.fill == "random":
            import torch

            return (2 * torch.rand(images.shape, generator=generator) - 1).to(images)
        if self.fill == "mean":
            return images.mean(dim=(2, 3), keepdim=True)
        return images.new_tensor(self.colour or PUBLISHED_COLOUR)[:, None, None]


# Dropout on the features under the head (Srivastava et al., JMLR 2014).


@dataclass(frozen=True, kw_only=True)
class Dropout(Defense):
    """Every feature is zeroed with probability `p` while training, the others are scaled by 1 / (1 - p).

    p: probability in (0, 1) that a feature is zeroed.
    """

    cites = ("srivastava2014dropout",)
    family = Family(name="Dropout", word="dropout", parameter="p", read=numbers("p"))

    p: Annotated[float, Gt(0), Lt(1)]

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Same weights under the same names; the head drops features before it uses them."""
        from smoothsweep.core.defenses.layers import DropoutHead

        self.check(model.architecture)
        model.head = DropoutHead(model.head, self.p)


# Weight decay as a defense, so that it can be swept beside the others.


@dataclass(frozen=True, kw_only=True)
class WeightDecay(Defense):
    """The optimizer's weight decay: torch adds value * parameter to every gradient.

    value: that factor, in place of `recipe.weight_decay`.
    """

    cites = ("krogh1991simple",)
    family = Family(name="Weight decay", word="weight decay", read=numbers("value"))

    value: Positive

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """The recipe with this weight decay. Raises InputError if it has one of its own."""
        require(recipe.weight_decay == 0, "defense weight_decay", "a recipe without weight_decay", recipe.weight_decay)
        return dataclasses.replace(recipe, weight_decay=float(self.value))


# Focal loss: images that are already right count less (Lin et al., ICCV 2017).
#
# Under label smoothing every class's term of the target is weighted by its own (1 - p)^gamma. That is defined for
# negative factors too: the terms of the other classes keep a weight near 1, so the loss stays unbounded below and
# drives
# the logits apart, as smoothing alone does. The other reading, one weight (1 - p_true)^gamma on the whole smoothed
# loss,
# would reward a smaller p_true as soon as that loss is negative, and is not used.


@dataclass(frozen=True, kw_only=True)
class Focal(Defense):
    """Minimise -sum_k t_k (1 - p_k)^gamma log p_k over the smoothed target t.

    gamma: focusing exponent; the larger, the less images count that the network is sure of.
    """

    cites = ("lin2017focal",)
    family = Family(name="Focal loss", word="focal", read=numbers("gamma", named=True))

    gamma: Positive

    def loss(self, step: Step) -> StepLoss:
        """The mean over the batch."""
        from smoothsweep.core.defenses.operations import focal_losses

        labels = hard_labels(step.labels)

        def losses_of(logits: Tensor) -> Tensor:
            return focal_losses(logits, step.criterion.targets(labels, logits.shape[1]), self.gamma)

        losses, logits = over_outputs(step.forward(step.images), losses_of)
        return StepLoss(losses.mean(), logits, {})


# A reward for uncertain outputs (Pereyra et al., 2017, "Regularizing neural networks by penalizing confident output
# distributions").


@dataclass(frozen=True, kw_only=True)
class ConfidencePenalty(Defense):
    """Criterion - beta * entropy of the softmax output (natural logarithm).

    beta: weight of the entropy, per nat.
    """

    cites = ("pereyra2017regularizing",)
    family = Family(name="Confidence penalty", word="confidence penalty", parameter="beta", read=numbers("beta"))

    beta: Positive

    def loss(self, step: Step) -> StepLoss:
        """The mean over the batch; fact: entropy, its mean over the batch."""
        from smoothsweep.core.defenses.operations import entropy

        def losses_of(logits: Tensor) -> Tensor:
            return step.criterion(logits, step.labels) - self.beta * entropy(logits)

        losses, logits = over_outputs(step.forward(step.images), losses_of)
        return StepLoss(losses.mean(), logits, {"entropy": entropy(logits.detach()).mean()})


# Mixup: the network trains on blends of two images and their labels (Zhang et al., ICLR 2018).


@dataclass(frozen=True, kw_only=True)
class Mixup(Defense):
    """Every image is blended with another one of its batch; its share is drawn from Beta(alpha, alpha).

    alpha: both parameters of the Beta distribution; small values leave most images nearly whole.

    The share is drawn for every image (the official code
    draws one for a batch). Label smoothing applies to both labels: smoothed cross entropy is linear in the target. A
    data-parallel rank blends within its own part of a batch.
    """

    cites = ("zhang2018mixup",)
    family = Family(name="Mixup", word="mixup", parameter="alpha", read=numbers("alpha"))

    alpha: Positive

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """share * image + (1 - share) * partner, with both labels and the share of the first."""
        import torch

        from smoothsweep.core.defenses.operations import draw_shares

        partner = torch.randperm(len(images), generator=generator).to(images.device)
        share = draw_shares(len(images), self.alpha, generator).to(images.device)
        column = share[:, None, None, None]
        mixed = column * images + (1 - column) * images[partner]
        return mixed, MixedLabels(first=labels, second=labels[partner], share=share)


# Logits of bounded length (Wei et al., ICML 2023, "Mitigating memorization of noisy labels by clipping the logits").
#
# There the clipping belongs to the loss; here it belongs to the network, so that an attacker reads clipped logits too.
# The predicted class is the same. It bounds what smoothing with a negative factor can drive apart.


@dataclass(frozen=True, kw_only=True)
class LogitClipping(Defense):
    """Shorten every logit vector longer than `norm` to that length.

    norm: largest Euclidean length of a logit vector.
    """

    cites = ("wei2023mitigating",)
    family = Family(
        name="Logit clipping",
        word="logit clipping",
        parameter="norm",
        read=numbers("norm", grows=lambda norm: 1 / norm if norm else float("inf")),
    )

    norm: Positive

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Same weights under the same names; the head clips what it computes."""
        from smoothsweep.core.defenses.layers import ClippedHead

        self.check(model.architecture)
        model.head = ClippedHead(model.head, self.norm)


# A head of low rank behind a tanh, LoFt (arXiv 2410.05814): few bounded numbers are all that the logits are made of.
#
# Layers as in ffhibnese/Model-Inversion-Attack-ToolBox (`src/modelinversion/models/classifiers/wrappers.py`), which the
# published trainings use: BatchNorm1d(F), Linear(F, rank), tanh, Linear(rank, C). Their FaceScrub scripts take rank 50.
# The paper's text has no norm in front; `norm: false` leaves it out. The confidence adaptation that an earlier version
# of the paper trained afterwards is not part of it.


@dataclass(frozen=True, kw_only=True)
class Loft(Defense):
    """The features under the head become `rank` numbers in (-1, 1), and the head is one of these.

    Attributes:
        rank: Numbers that the features become (the published FaceScrub trainings: 50).
        norm: Whether the network's own features pass a BatchNorm first.
    """

    cites = ("yu2024calor",)
    family = Family(
        name="LoFt",
        word="LoFt",
        starts_plain=False,
        defaults={"norm": True},
        read=numbers("rank", named=True, grows=lambda rank: 1 / rank if rank else float("inf")),
        why="however wide, the tanh remains",
    )

    rank: Width
    norm: bool = True

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """The narrow layers become the classifier's neck, so that its features are the bounded numbers."""
        from torch import nn

        from smoothsweep.core.defenses.layers import new_linear

        self.check(model.architecture)
        features, classes = model.feature_dim, model.num_classes
        layers: dict[str, nn.Module] = {"norm": nn.BatchNorm1d(features)} if self.norm else {}
        layers |= {"narrow": new_linear(features, self.rank, generator), "bound": nn.Tanh()}
        model.neck = nn.Sequential(OrderedDict(layers))
        model.head = new_linear(self.rank, classes, generator)
