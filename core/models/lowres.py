"""Backbones of the low-resolution attacks' classifiers: VGG-16, IR-50, IR-152 and LOMMA's EfficientNets.

Module names, shapes and initial weights are those of SCccc21/Knowledge-Enriched-DMI (classify.py, evolve.py) and of
sutd-visual-computing-group/Re-thinking_MI (models/classify.py), so that their checkpoints fit. All of them want
images in [0, 1]; `fc_layer` is the classification layer of 1,000 outputs that a `Classifier` takes as its head.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.checks import present

_CLASSES = 1000
_WIDTH = 64  # channels of an IR network's first stage; every stage doubles them
IR50, IR152 = (3, 4, 14, 3), (3, 8, 36, 3)
"""Units of each stage."""
FEW = 16
"""Channels below which a strided 1 x 1 convolution is computed as `FewChannels`."""

EFFICIENTNETS = ("efficientnet_b0", "efficientnet_b1", "efficientnet_b2")


class VGG16BN(nn.Module):
    """torchvision's convolutions for 64 pixels; behind the flattened map a BatchNorm1d whose bias stays 0."""

    def __init__(self) -> None:
        from torchvision.models import vgg

        super().__init__()
        self.feature = vgg.make_layers(vgg.cfgs["D"], batch_norm=True)
        for module in self.feature:  # as torchvision, whose classifier of 124 million weights is not made here
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(present(module.bias, "bias"))
        self.bn = nn.BatchNorm1d(2048)
        self.bn.bias.requires_grad_(False)
        self.fc_layer = nn.Linear(2048, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, 64, 64] in [0, 1] -> features [N, 2048], or scores with the head on top."""
        return self.fc_layer(self.bn(self.feature(x).flatten(1)))


class FewChannels(nn.Conv2d):
    """A strided 1 x 1 convolution as a plain one of the pixels that it looks at.

    With at most eight channels, channels last and AVX-512 the gradient of the strided kernel that torch 2.11 has from
    oneDNN writes beyond its memory, which ends the process.
    """

    def forward(self, input: Tensor) -> Tensor:
        down, right = self.stride
        return F.conv2d(input[:, :, ::down, ::right], self.weight, self.bias)


class Unit(nn.Module):
    """The improved residual unit: BatchNorm first, PReLU between two convolutions, nothing after the sum."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.shortcut_layer: nn.Module = nn.MaxPool2d(1, stride)
        if inputs != outputs:
            pointwise = FewChannels if inputs < FEW else nn.Conv2d
            self.shortcut_layer = nn.Sequential(
                pointwise(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.res_layer = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
            nn.PReLU(outputs),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] -> [N, outputs, H / stride, W / stride]."""
        return self.res_layer(x) + self.shortcut_layer(x)


class Trunk(nn.Module):
    """The stem and four stages of units; the first unit of a stage halves the side. Initial weights: Xavier uniform.

    units: how many in each stage. side: of the images; width: channels of the first stage, an eighth of the features;
    with `output` the layers that end in features belong to the trunk, as in the network for 112 pixels.
    """

    def __init__(self, units: tuple[int, ...], *, side: int, output: bool, width: int = _WIDTH) -> None:
        super().__init__()
        self.input_layer = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.PReLU(width)
        )
        if output:
            self.output_layer = _output_layer(side, width)
        body, inputs = [], width
        for stage, count in enumerate(units):
            outputs = width * 2**stage
            for number in range(count):
                body.append(Unit(inputs, outputs, stride=1 if number else 2))
                inputs = outputs
        self.body = nn.Sequential(*body)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(present(module.bias, "bias"))
        self.has_output = output

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, S, S] -> [N, 8 width, S / 16, S / 16], or [N, 8 width] with the output layers."""
        maps = self.body(self.input_layer(x))
        return self.output_layer(maps) if self.has_output else maps


class ImprovedResNet(nn.Module):
    """IR-50 or IR-152 (face.evoLVe) with 8 width features, 512 officially. units: of each stage; output_in_trunk: where
    its layers lie.
    """

    def __init__(self, units: tuple[int, ...], *, side: int, output_in_trunk: bool, width: int = _WIDTH) -> None:
        super().__init__()
        self.feature = Trunk(units, side=side, output=output_in_trunk, width=width)
        if not output_in_trunk:
            self.output_layer = _output_layer(side, width)
        self.fc_layer = nn.Linear(8 * width, _CLASSES)
        self.output_in_trunk = output_in_trunk

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, side, side] in [0, 1] -> features [N, 8 width], or scores with the head on top."""
        features = self.feature(x)
        return self.fc_layer(features if self.output_in_trunk else self.output_layer(features))


class EfficientNet(nn.Module):
    """The convolutions and the pooling of torchvision's EfficientNet; its own classifier, dropout included, is gone."""

    def __init__(self, name: str) -> None:
        from torchvision import models

        super().__init__()
        network: Any = models.get_model(name, weights=None)
        self.feature = nn.Sequential(network.features, network.avgpool)
        self.fc_layer = nn.Linear(network.classifier[-1].in_features, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, S, S] in [0, 1], S >= 32 -> features [N, D], or scores with the head on top."""
        return self.fc_layer(self.feature(x).flatten(1))


def ir50_64() -> nn.Module:
    """FaceNet64 of those repositories: 35.4 million parameters."""
    return ImprovedResNet(IR50, side=64, output_in_trunk=False)


def ir152_64() -> nn.Module:
    """What they call ResNet-152: 62.6 million parameters."""
    return ImprovedResNet(IR152, side=64, output_in_trunk=False)


def ir50_112() -> nn.Module:
    """FaceNet, their evaluation model: 44.1 million parameters."""
    return ImprovedResNet(IR50, side=112, output_in_trunk=True)


def ir50_112_narrow() -> nn.Module:
    """The network at an eighth of every width, with 64 features, for small machines; not an official one."""
    return ImprovedResNet(IR50, side=112, output_in_trunk=True, width=_WIDTH // 8)


def _output_layer(side: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(8 * width),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(8 * width * (side // 16) ** 2, 8 * width),
        nn.BatchNorm1d(8 * width),
    )
