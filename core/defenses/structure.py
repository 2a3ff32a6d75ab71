"""Defenses that hold early layers still or remove skip connections: TL-DMI, RoLSS and SSF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from smoothsweep.core.bounds import Beta, Count, Fraction, OpenFraction
from smoothsweep.core.checks import present, require
from smoothsweep.core.defenses.base import Defense, Step, StepLoss
from smoothsweep.core.defenses.strengths import Family, Strength, is_number, value_text
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import anatomy_of, blocks_of, check_layers, parameters_of
from smoothsweep.core.text import NBSP

if TYPE_CHECKING:
    from torch import Generator

    from smoothsweep.core.models.classifiers import Classifier

# Transfer learning with frozen early layers as a defense: TL-DMI (Ho et al., CVPR 2024).
#
# The layers that stay as they were hold nothing of the private images; only the later ones are trained on them. This
# makes sense for a network that comes pretrained: without that the frozen part stays random. Source: hosytuyen/TL-DMI,
# models/classify.py (VGG16_TL), where the index of the last frozen layer is given.


def _frozen(parameters: Mapping[str, Any]) -> Strength:
    """Stages or a share of the parameters have an order, parts by name have none."""
    for name in ("stages", "fraction", "layers"):
        if name in parameters:
            order = (float(parameters[name]),) if is_number(parameters[name]) else None
            way = "" if name == "stages" else name
            return Strength(value=f"{name}{NBSP}{value_text(parameters[name])}", order=order, used=(name,), way=way)
    return Strength(value="", order=None, used=())


@dataclass(frozen=True, kw_only=True)
class Freeze(Defense):
    """Hold the first layers still. Exactly one of the three says which.

    The frozen parts' BatchNorm uses and keeps the statistics it came with; the official training lets them drift
    (engine.py).

    Attributes:
        stages: How many of the architecture's stages, from the first on (`core.models.architectures`).
        fraction: As many leading blocks as hold no more than this fraction of the backbone's parameters.
        layers: Parts of the backbone by name.
    """

    cites = ("ho2024model",)
    family = Family(name="Freezing (TL-DMI)", word="freeze", read=_frozen)

    stages: Count | None = None
    fraction: OpenFraction | None = None
    layers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        stated = [name for name in ("stages", "fraction", "layers") if getattr(self, name) is not None]
        require(len(stated) == 1, "defense freeze", "one of stages, fraction, layers", ", ".join(stated) or None)
        if self.layers is not None:
            require(len(self.layers) > 0, "defense freeze: layers", "at least one layer", self.layers)

    def check(self, architecture: str) -> None:
        """Raises InputError for a layer the architecture lacks, or if nothing of the backbone would be trained."""
        stages = anatomy_of(architecture).stages
        if self.stages is not None:
            most = len(stages) - 1
            require(self.stages <= most, "defense freeze: stages", f"at most {most} with {architecture}", self.stages)
        if self.layers is not None:
            check_layers(architecture, self.layers)
            every = {name for stage in stages for name in stage}
            expected = f"at least one trained part of {architecture}"
            require(not every <= set(self.layers), "defense freeze: layers", expected, "all of them")

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Take the frozen parts' parameters out of training."""
        self.check(model.architecture)
        for parameter in parameters_of(model, self.frozen_parts(model)):
            parameter.requires_grad_(False)

    def loss(self, step: Step) -> StepLoss:
        """Plain training with the frozen parts in evaluation mode: the loop sets the mode anew for every epoch."""
        from torch import nn

        modules = dict(step.model.backbone.named_modules())
        for name in self.frozen_parts(step.model):
            part = modules.get(name)
            if isinstance(part, nn.Module):  # a part may also be a bare parameter
                part.eval()
        return super().loss(step)

    def frozen_parts(self, model: Classifier) -> tuple[str, ...]:
        """The names of the frozen parts of the backbone. Raises InputError if `fraction` is too small for a block."""
        if self.layers is not None:
            return self.layers
        if self.stages is not None:
            return tuple(name for stage in anatomy_of(model.architecture).stages[: self.stages] for name in stage)
        return self._leading_blocks(model)

    def _leading_blocks(self, model: Classifier) -> tuple[str, ...]:
        total = sum(parameter.numel() for parameter in model.backbone.parameters())
        frozen, held = [], 0
        for name in blocks_of(model):
            size = sum(parameter.numel() for parameter in parameters_of(model, [name]))
            if held + size > present(self.fraction, "fraction") * total:
                break
            frozen.append(name)
            held += size
        expected = f"enough for the first block of {model.architecture}, which holds {size / total:.2g} of it"
        require(len(frozen) > 0, "defense freeze: fraction", expected, self.fraction)
        return tuple(frozen)


# Skip connections of chosen stages removed or weakened: RoLSS and SSF (Koh et al., ECCV 2024).
#
# Skip connections carry the attacker's gradient past the residual blocks; in the paper those of the last stage matter
# most. Source: Pillowkoh/RoLSS, models/torchvision/models/resnet.py and densenet.py, and the settings of its
# configs/training/targets/*/*/skip.yaml, which differ by data set: FaceScrub's DenseNets lose the skips of the second
# or the first block, and its ResNet-18 keeps six tenths of the last stage's.
#
# Departures: the official ResNets also drop the skips of the last fifth of the third stage, whatever is set, so also in
# what they call the full network; the paper speaks of the stage alone, and so does this. Layers on a removed skip,
# which there go on without effect, are left out here.


_REFUSED = {
    "vgg_small": "it has no skip connections",
    "inception_v3": "it has no skip connections",
    "vit_b_16": "its blocks form no stages, and no source says which of its skips count as the last",
}
_DENSENETS = ("densenet121", "densenet169")
_LAST_STAGE = (1.0, 1.0, 1.0, 0.0)
OFFICIAL: dict[str, dict[str, tuple[float, ...]]] = {
    "facescrub": {
        "resnet18": (1.0, 1.0, 1.0, 0.6),
        "resnet34": _LAST_STAGE,
        "resnet50": _LAST_STAGE,
        "resnet101": _LAST_STAGE,
        "resnet152": _LAST_STAGE,
        "densenet121": (1.0, 0.0, 1.0, 1.0),
        "densenet169": (0.0, 1.0, 1.0, 1.0),
    },
    "stanford_dogs": {
        name: _LAST_STAGE for name in ("resnet50", "resnet101", "resnet152", "densenet121", "densenet169")
    },
}
"""Data set -> architecture -> the official factor of each stage. There is none for CelebA."""


def _skipped(parameters: Mapping[str, Any]) -> Strength:
    scale = parameters.get("scale", 0.0)
    if not is_number(scale) or parameters.get("skip") is not None:  # which skips, beside how much of them
        return Strength(value="", order=None, used=())
    value = f"scale{NBSP}{value_text(scale)}" if scale else ""
    return Strength(value=value, order=(1.0 - scale,), used=("scale",))


@dataclass(frozen=True, kw_only=True)
class SkipRemoval(Defense):
    """Multiply the skip connections of each stage by a factor: 0 removes them (RoLSS), one below 1 weakens them (SSF).

    In a DenseNet a factor is 0 or 1: every layer of a block at 0 sees the layer before it alone, and the last one's
    channels are the block's output, 32 of hundreds or more, so that whatever follows with other widths begins anew.

    Attributes:
        scale: Factor of the last stage's skips in [0, 1), where `skip` is None.
        skip: None for the last stage alone, by `scale`; the name of a data set for its published factors; or the
            factors themselves, in [0, 1], one for each stage of the network with skips (four in a ResNet or DenseNet).
    """

    cites = ("koh2024vulnerability",)
    family = Family(name="Skip removal (RoLSS)", word="skip removal", read=_skipped)

    scale: Beta = 0.0
    skip: Literal["facescrub", "stanford_dogs"] | tuple[Fraction, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.skip, tuple):
            below = any(factor < 1 for factor in self.skip)
            require(below, "defense skip_removal: skip", "a factor below 1", self.skip)
        if self.skip is not None:
            require(self.scale == 0, "defense skip_removal: scale", f"none with skip {self.skip}", self.scale)

    def factors(self, architecture: str) -> tuple[float, ...]:
        """The factor of each stage with skips. Raises InputError for another number of stages, or no official one."""
        stages = 4 if architecture in _DENSENETS else len(anatomy_of(architecture).skips)
        if self.skip is None:
            return (*(1.0,) * (stages - 1), self.scale)
        if isinstance(self.skip, str):
            official = OFFICIAL[self.skip]
            expected = f"an architecture with official factors ({', '.join(official)})"
            require(architecture in official, f"defense skip_removal: skip {self.skip}", expected, architecture)
            return official[architecture]
        expected = f"{stages} factors with {architecture}, one for each stage"
        require(len(self.skip) == stages, "defense skip_removal: skip", expected, self.skip)
        return self.skip

    def check(self, architecture: str) -> None:
        """Raises InputError, with the reason, for an architecture without skips to remove."""
        anatomy_of(architecture)
        if architecture in _REFUSED:
            raise InputError(f"defense skip_removal: not with {architecture}: {_REFUSED[architecture]}")
        factors = self.factors(architecture)
        if architecture in _DENSENETS:
            which, values = ("scale", "0") if self.skip is None else ("skip", "0 or 1")
            expected = f"{values} with {architecture}, whose skips are concatenated"
            holds = all(factor in (0, 1) for factor in factors)
            require(holds, f"defense skip_removal: {which}", expected, getattr(self, which))

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Cut the skips; new layers (DenseNet only) draw their weights from `generator`."""
        from smoothsweep.core.defenses.layers import ScaledSkip, unlink_dense_blocks

        self.check(model.architecture)
        factors = self.factors(model.architecture)
        if model.architecture in _DENSENETS:
            unlink_dense_blocks(model, [factor == 0 for factor in factors], generator)
            return
        for blocks, factor in zip(anatomy_of(model.architecture).skips, factors, strict=True):
            for block, attribute in blocks if factor < 1 else ():
                owner = model.backbone.get_submodule(block)
                setattr(owner, attribute, ScaledSkip(getattr(owner, attribute), factor))
