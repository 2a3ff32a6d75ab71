"""Last-stage skip connections removed or weakened: RoLSS and SSF (Koh et al., ECCV 2024).

Skip connections carry the attacker's gradient past the residual blocks; those of the last stage matter most. Source:
models/torchvision/models/resnet.py and densenet.py of the code as kept in ShailenSmith/RoLSS, with its setting
skip: [1, 1, 1, 0]. That copy also drops the skips of the last fifth of every ResNet's third stage; the paper speaks of
the last stage alone, and so does this.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from core.defenses.base import Defense, new_linear
from core.defenses.checks import require, require_number
from core.errors import InputError
from core.models.anatomy import anatomy_of
from core.models.classifiers import Classifier

_REFUSED = {
    "vgg_small": "it has no skip connections",
    "inception_v3": "it has no skip connections",
    "vit_b_16": "its blocks form no stages, and no source says which of its skips count as the last",
}
_DENSENETS = ("densenet121", "densenet169")


@dataclass(frozen=True, kw_only=True)
class SkipRemoval(Defense):
    """Multiply the skip connections of the last stage by `scale` in [0, 1): 0 removes them (RoLSS), above is SSF.

    In a DenseNet every layer of the last block then sees the layer before it alone, and the last layer's channels are
    the features: 32 instead of 1,024 or more, so that norm and head begin anew.
    """

    scale: float = 0.0

    def __post_init__(self) -> None:
        require_number("defense skip_removal: scale", self.scale, 0, 1, below=True)

    def check(self, architecture: str) -> None:
        """Raises InputError, with the reason, for an architecture without skips to remove."""
        anatomy_of(architecture)
        if architecture in _REFUSED:
            raise InputError(f"defense skip_removal: not with {architecture}: {_REFUSED[architecture]}")
        if architecture in _DENSENETS:
            expected = f"0 with {architecture}, whose skips are concatenated"
            require(self.scale == 0, "defense skip_removal: scale", expected, self.scale)

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Cut the skips; new layers (DenseNet only) draw their weights from `generator`."""
        self.check(model.architecture)
        if model.architecture in _DENSENETS:
            _unlink_dense_block(model, generator)
        for block, attribute in anatomy_of(model.architecture).skips:
            owner = model.backbone.get_submodule(block)
            setattr(owner, attribute, ScaledSkip(getattr(owner, attribute), self.scale))


class ScaledSkip(nn.Module):
    """A skip connection times `scale`; at 0 the layers on it are dropped and it adds nothing."""

    def __init__(self, skip: nn.Module | None, scale: float) -> None:
        super().__init__()
        self.skip = None if scale == 0 else skip
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> what the block adds to its output."""
        if self.scale == 0:
            return x.new_zeros(())
        return self.scale * (x if self.skip is None else self.skip(x))


def _unlink_dense_block(model: Classifier, generator: Generator) -> None:
    """Turn the last dense block into a chain of its layers."""
    features = model.backbone.features
    layers = list(features.denseblock4.children())
    growth = layers[0].conv2.out_channels
    for layer in layers[1:]:
        layer.norm1 = nn.BatchNorm2d(growth)
        layer.conv1 = _new_convolution(growth, layer.conv1.out_channels, generator)
    features.denseblock4 = nn.Sequential(*layers)
    features.norm5 = nn.BatchNorm2d(growth)
    model.head = new_linear(growth, model.num_classes, generator)


def _new_convolution(inputs: int, outputs: int, generator: Generator) -> nn.Conv2d:
    """A 1x1 convolution with DenseNet's initial weights."""
    layer = nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel_size=1, bias=False)
    with torch.no_grad():
        nn.init.kaiming_normal_(layer.weight, generator=generator)
    return layer
