"""Small networks for faces of 32 to 112 pixels, sized so that one CPU core trains them in about a minute.

They return features [N, D]; `core.models.classifiers` puts the head on top. All take any input side from 32
on: the last map is pooled.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution without bias and its BatchNorm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a skip connection (He et al., 2016, basic block)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _conv_bn(inputs, outputs, 3, stride)
        self.second = _conv_bn(outputs, outputs, 3)
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else _conv_bn(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] -> [N, outputs, H / stride, W / stride]."""
        out = self.second(F.relu(self.first(x), inplace=True))
        return F.relu(out + self.skip(x), inplace=True)


class PooledFeatures(nn.Module):
    """A hidden layer on the feature map pooled to 2 x 2.

    Unlike the usual mean over positions it keeps some of the layout of a face: the same accuracy in half the epochs.
    """

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4 * channels, features), nn.BatchNorm1d(features))

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, H, W] -> [N, features], at least 0."""
        pooled = torch.flatten(F.adaptive_avg_pool2d(x, 2), 1)
        return F.relu(self.layer(pooled), inplace=True)


class SmallResNet(nn.Module):
    """Strided stem, one residual block per width, and a hidden layer of features.

    The stem halves the side at once and wide layers come early: on a CPU this costs least time for its accuracy.
    """

    def __init__(self, stem: int = 32, widths: tuple[int, ...] = (64, 128), feature_dim: int = 128) -> None:
        super().__init__()
        self.stem = _conv_bn(3, stem, 3, stride=2)
        blocks, inputs = [], stem
        for outputs in widths:
            blocks.append(ResidualBlock(inputs, outputs, stride=2))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.features = PooledFeatures(inputs, feature_dim)
        self.feature_dim = feature_dim

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, S, S], S >= 32, in [-1, 1] -> features [N, feature_dim]."""
        return self.features(self.blocks(F.relu(self.stem(x), inplace=True)))


class SmallVGG(nn.Module):
    """Plain convolutions without skips and with max pooling: another architecture for a judge's classifier."""

    def __init__(self, widths: tuple[int, ...] = (24, 48, 96, 96), feature_dim: int = 160) -> None:
        super().__init__()
        layers, inputs = [], 3
        for i, outputs in enumerate(widths):
            layers += [_conv_bn(inputs, outputs, 3, stride=2 if i == 0 else 1), nn.ReLU(inplace=True)]
            if 0 < i < len(widths) - 1:
                layers.append(nn.MaxPool2d(2))
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.features = PooledFeatures(inputs, feature_dim)
        self.feature_dim = feature_dim

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, S, S], S >= 32, in [-1, 1] -> features [N, feature_dim]."""
        return self.features(self.layers(x))


def resnet_small() -> nn.Module:
    """The default target of the demo: about 360 thousand parameters, 128 features."""
    return SmallResNet()


def vgg_small() -> nn.Module:
    """The default evaluation model of the demo."""
    return SmallVGG()
