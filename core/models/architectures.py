"""Every architecture by name: which images and classes it takes, and the parts that defenses look into, hold or cut.

Apart from the networks, so that recipes and wrong names are checked without torch. Names of parts are those of the
backbone's submodules and parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import suggestion

if TYPE_CHECKING:
    from torch import nn

    from smoothsweep.core.models.classifiers import Classifier


CUSTOMARY = {"inception_v3": 299}
"""Architecture -> the side that it is trained at where nothing is said, of those that take several."""

MOST_CLASSES = {"inception_v3": 1000}
"""Architecture -> outputs of its auxiliary head: a classifier has at most as many classes."""

TRANSFORMS_INPUT = "inception_v3"
"""The architecture that may map its input to ImageNet statistics first (`transform_input`)."""

Stages = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """Which images a backbone takes, and its named parts.

    Attributes:
        least: The smallest side of an image in pixels.
        only: Whether it takes that side alone.
        in_unit_range: Whether it is shown pictures as numbers in [0, 1], as the official low-resolution attacks train
            theirs; the others want [-1, 1].
        stages: Stages in the order of the forward pass; together they hold every parameter.
        hidden: The layers whose outputs stand for what the network has computed so far.
        skips: The residual blocks of each stage that has some, as (module, attribute of the module on the skip
            connection).
        last_norm: The BatchNorm1d before the head, where a published defense puts its own layer in its place.
    """

    least: int = 32
    only: bool = False
    in_unit_range: bool = False
    stages: Stages
    hidden: tuple[str, ...]
    skips: tuple[tuple[tuple[str, str], ...], ...] = ()
    last_norm: str | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """Every name that may be asked for, in the order of the forward pass."""
        names = [name for stage in self.stages for name in stage]
        return tuple(dict.fromkeys([*names, *self.hidden]))


def _resnet(*blocks: int) -> Anatomy:
    """torchvision's ResNets; the hidden layers are the outputs of the four stages (paper, Appendix B.5)."""
    stages = ("layer1", "layer2", "layer3", "layer4")
    return Anatomy(
        stages=(("conv1", "bn1"), *((name,) for name in stages)),
        hidden=stages,
        skips=tuple(
            tuple((f"{name}.{i}", "downsample") for i in range(count))
            for name, count in zip(stages, blocks, strict=True)
        ),
    )


def _densenet() -> Anatomy:
    """torchvision's DenseNets; a transition belongs to the block before it."""
    blocks = tuple(f"features.denseblock{i}" for i in range(1, 5))
    after = ("features.transition1", "features.transition2", "features.transition3", "features.norm5")
    return Anatomy(stages=(("features.conv0", "features.norm0"), *zip(blocks, after, strict=True)), hidden=blocks)


def _vit(blocks: int) -> Anatomy:
    """torchvision's ViT. Four hidden layers at equal depths, as a ResNet has four stages: our choice."""
    names = tuple(f"encoder.layers.encoder_layer_{i}" for i in range(blocks))
    embedding = ("class_token", "conv_proj", "encoder.pos_embedding")
    return Anatomy(
        least=224,
        only=True,
        stages=(embedding, *((name,) for name in names[:-1]), (names[-1], "encoder.ln")),
        hidden=names[blocks // 4 - 1 :: blocks // 4],
    )


def _vgg16() -> Anatomy:
    """The published VGG-16 of the low-resolution attacks: outputs of its max pools, and of the norm before the head."""
    pools, names, start = (6, 13, 23, 33, 43), [], 0
    for pool in pools:  # of three modules each, convolutions and norms have the parameters
        names.append(tuple(f"feature.{i}" for i in range(start, pool) if (i - start) % 3 < 2))
        start = pool + 1
    return Anatomy(
        least=64,
        only=True,
        in_unit_range=True,
        stages=(*names, ("bn",)),
        hidden=(*(f"feature.{pool}" for pool in pools[:-1]), "bn"),
        last_norm="bn",
    )


def _improved_resnet(*units: int, side: int = 64, output: str = "output_layer") -> Anatomy:
    """IR networks; the hidden layers are the outputs of the four stages, as of other ResNets."""
    ends = [sum(units[: i + 1]) for i in range(len(units))]
    stages = [
        tuple(f"feature.body.{i}" for i in range(end - count, end)) for count, end in zip(units, ends, strict=True)
    ]
    return Anatomy(
        least=side,
        only=True,
        in_unit_range=True,
        stages=(("feature.input_layer",), *stages, (output,)),
        hidden=tuple(f"feature.body.{end - 1}" for end in ends),
    )


def _efficientnet() -> Anatomy:
    """torchvision's EfficientNets; the hidden layers are those before the side is halved: our choice."""
    return Anatomy(
        in_unit_range=True,
        stages=tuple((f"feature.0.{i}",) for i in range(9)),
        hidden=tuple(f"feature.0.{i}" for i in (2, 3, 5, 7)),
    )


ANATOMY: dict[str, Anatomy] = {
    "resnet_small": Anatomy(
        stages=(("stem",), ("blocks.0",), ("blocks.1",), ("features",)),
        hidden=("blocks.0", "blocks.1"),
        skips=((("blocks.0", "skip"),), (("blocks.1", "skip"),)),
    ),
    # As with the published VGG-16: the outputs of the max pools and of the norm behind the flattened last block.
    "vgg_small": Anatomy(
        stages=(("layers.0",), ("layers.2",), ("layers.5",), ("layers.8",), ("features",)),
        hidden=("layers.4", "layers.7", "features.layer"),
        last_norm="features.layer.1",
    ),
    "resnet18": _resnet(2, 2, 2, 2),
    "resnet34": _resnet(3, 4, 6, 3),
    "resnet50": _resnet(3, 4, 6, 3),
    "resnet101": _resnet(3, 4, 23, 3),
    "resnet152": _resnet(3, 8, 36, 3),
    "resnext50": _resnet(3, 4, 6, 3),
    "densenet121": _densenet(),
    "densenet169": _densenet(),
    "vit_b_16": _vit(12),
    "inception_v3": Anatomy(
        least=299,
        stages=(
            ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"),
            ("Mixed_5b", "Mixed_5c", "Mixed_5d"),
            ("Mixed_6a", "Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"),
            ("AuxLogits", "Mixed_7a", "Mixed_7b", "Mixed_7c"),
        ),
        hidden=("Mixed_5d", "Mixed_6e", "Mixed_7c"),
    ),
    "vgg16_bn": _vgg16(),
    "ir50_64": _improved_resnet(3, 4, 14, 3),
    "ir50_112": _improved_resnet(3, 4, 14, 3, side=112, output="feature.output_layer"),
    "ir50_112_narrow": _improved_resnet(3, 4, 14, 3, side=112, output="feature.output_layer"),
    "ir152_64": _improved_resnet(3, 8, 36, 3),
    "efficientnet_b0": _efficientnet(),
    "efficientnet_b1": _efficientnet(),
    "efficientnet_b2": _efficientnet(),
}


LEAST = {name: parts.least for name, parts in ANATOMY.items()}
"""Architecture -> the smallest side in pixels; the names are those of `core.models.classifiers.ARCHITECTURES`."""

IN_UNIT_RANGE = tuple(name for name, parts in ANATOMY.items() if parts.in_unit_range)
"""Architectures that are shown pictures as numbers in [0, 1]."""

if TYPE_CHECKING:
    Architecture = str
else:
    Architecture = Literal[tuple(ANATOMY)]


def anatomy_of(architecture: str) -> Anatomy:
    """The parts of an architecture. Raises InputError for an unknown name."""
    if architecture not in ANATOMY:
        hint = suggestion(str(architecture), ANATOMY)
        raise InputError(f"architecture: expected one of {', '.join(ANATOMY)}, got {architecture!r}{hint}")
    return ANATOMY[architecture]


def check_image_size(architecture: str, image_size: int) -> None:
    """Raise InputError if the architecture cannot take square images of `image_size` pixels, or is not known."""
    parts = anatomy_of(architecture)
    if image_size < parts.least or (parts.only and image_size != parts.least):
        expected = f"images of {'' if parts.only else 'at least '}{parts.least} pixels"
        raise InputError(f"{architecture}: expected {expected}, got {image_size}")


def fixed_image_size(architecture: str) -> int | None:
    """The only side in pixels that the architecture takes, None if there are several. InputError: unknown name."""
    parts = anatomy_of(architecture)
    return parts.least if parts.only else None


def check_layers(architecture: str, names: Iterable[str]) -> tuple[str, ...]:
    """Check names of layers and return them as a tuple. Raises InputError, which lists the names, for others."""
    valid = anatomy_of(architecture).layers
    names = tuple(names)
    for name in names:
        if name not in valid:
            raise InputError(f"layers: expected layers of {architecture} ({', '.join(valid)}), got {name!r}")
    return names


def parameters_of(model: Classifier, names: Iterable[str]) -> list[nn.Parameter]:
    """The parameters of the backbone that lie in one of the named parts."""
    names = tuple(names)
    return [
        parameter
        for name, parameter in model.backbone.named_parameters()
        if any(name == part or name.startswith(f"{part}.") for part in names)
    ]


def blocks_of(model: Classifier) -> list[str]:
    """Finer than the stages: the children of every part that is a chain of blocks, in the forward pass's order."""
    from torch.nn import ModuleDict, Sequential  # here, so that the tables need no torch

    modules = dict(model.backbone.named_modules())
    blocks = []
    for name in (name for stage in anatomy_of(model.architecture).stages for name in stage):
        part = modules.get(name)
        chained = isinstance(part, Sequential | ModuleDict) and all(any(child.children()) for child in part.children())
        blocks += [f"{name}.{child}" for child, _ in part.named_children()] if chained else [name]
    return blocks
