"""MobileFaceNet, two layouts of its layers, so that the state dicts of two public trainings load strictly.

Architecture: Chen, Liu, Gao and Han, "MobileFaceNets: Efficient CNNs for accurate real-time face verification on mobile
devices", 2018. Both have about 1.02 million parameters and 128 features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.models.synthetic_embedder import resize_to

FEATURES = 128
# (expansion, channels, repeats, stride of the first), after the stem with 64 channels at half the resolution.
_GROUPS = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))
_TEMPLATE = 112
_TIGHT = 88  # side of the tight face frame inside the template
_LEFT, _TOP = 12, 24  # where that frame begins: columns 12..100, rows 24..112


def to_template(images: Tensor) -> Tensor:
    """Put the tight face frame (brows to chin) where the 112 x 112 five-point template has it; the edge fills the rest.

    images: float [N, 3, S, S] -> float32 [N, 3, 112, 112], same value range.
    """
    tight = resize_to(images, _TIGHT)
    right, bottom = _TEMPLATE - _LEFT - _TIGHT, _TEMPLATE - _TOP - _TIGHT
    return functional.pad(tight, (_LEFT, right, _TOP, bottom), mode="replicate")


class MobileFaceNetA(nn.Module):
    """The layout of `Xiaoccer/MobileFaceNet_Pytorch` (PReLU, 112 high x 96 wide, inputs (x - 127.5) / 128).

    forward: images float [N, 3, S, S] in [-1, 1] in the tight face frame -> float32 [N, 128] of unit length.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = _ConvA(3, 64, 3, stride=2, padding=1)
        self.dw_conv1 = _ConvA(64, 64, 3, padding=1, groups=64)
        self.blocks = nn.Sequential(*(_BottleneckA(*shape) for shape in _bottlenecks()))
        self.conv2 = _ConvA(128, 512, 1)
        self.linear7 = _ConvA(512, 512, (7, 6), groups=512, linear=True)
        self.linear1 = _ConvA(512, FEATURES, 1, linear=True)

    def forward(self, images: Tensor) -> Tensor:
        x = to_template(images)[..., 8:104] * (127.5 / 128)
        x = self.conv2(self.blocks(self.dw_conv1(self.conv1(x))))
        return functional.normalize(self.linear1(self.linear7(x)).flatten(1), dim=1)


class MobileFaceNetB(nn.Module):
    """The layout of `foamliu/MobileFaceNet` (ReLU6, 112 x 112, ImageNet normalisation).

    forward: images float [N, 3, S, S] in [-1, 1] in the tight face frame -> float32 [N, 128] of unit length.
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = _conv_b(3, 64, 3, stride=2, padding=1)
        self.dw_conv = _SeparableB(64)
        self.features = nn.Sequential(*(_BottleneckB(*shape) for shape in _bottlenecks()))
        self.conv2 = _conv_b(128, 512, 1)
        self.gdconv = _GlobalDepthwiseB(512)
        self.conv3 = nn.Conv2d(512, FEATURES, 1)
        self.bn = nn.BatchNorm2d(FEATURES)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        x = ((to_template(images) + 1) / 2 - self.mean) / self.std
        x = self.conv2(self.features(self.dw_conv(self.conv1(x))))
        return functional.normalize(self.bn(self.conv3(self.gdconv(x))).flatten(1), dim=1)


def _bottlenecks() -> list[tuple[int, int, int, int]]:
    """(channels in, channels out, stride, expansion) of the 15 inverted residual blocks."""
    shapes, channels = [], 64
    for expansion, out, repeats, stride in _GROUPS:
        for repeat in range(repeats):
            shapes.append((channels, out, stride if repeat == 0 else 1, expansion))
            channels = out
    return shapes


class _ConvA(nn.Module):
    def __init__(
        self,
        channels: int,
        out: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, padding, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(out)
        self.prelu = None if linear else nn.PReLU(out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        return x if self.prelu is None else self.prelu(x)


class _Bottleneck(nn.Module):
    """Convolutions, with their input added where it fits."""

    def __init__(self, channels: int, out: int, stride: int, conv: nn.Sequential) -> None:
        super().__init__()
        self.shortcut = stride == 1 and channels == out
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.shortcut else self.conv(x)


class _BottleneckA(_Bottleneck):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        wide = channels * expansion
        super().__init__(
            channels,
            out,
            stride,
            nn.Sequential(
                nn.Conv2d(channels, wide, 1, bias=False),
                nn.BatchNorm2d(wide),
                nn.PReLU(wide),
                nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
                nn.BatchNorm2d(wide),
                nn.PReLU(wide),
                nn.Conv2d(wide, out, 1, bias=False),
                nn.BatchNorm2d(out),
            ),
        )


def _conv_b(
    channels: int, out: int, kernel: int, *, stride: int = 1, padding: int = 0, groups: int = 1
) -> nn.Sequential:
    convolution = nn.Conv2d(channels, out, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.ReLU6(inplace=True))


class _BottleneckB(_Bottleneck):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        wide = channels * expansion
        super().__init__(
            channels,
            out,
            stride,
            nn.Sequential(
                _conv_b(channels, wide, 1),
                _conv_b(wide, wide, 3, stride=stride, padding=1, groups=wide),
                nn.Conv2d(wide, out, 1, bias=False),
                nn.BatchNorm2d(out),
            ),
        )


class _SeparableB(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.depthwise(x)))
        return functional.relu(self.bn2(self.pointwise(x)))


class _GlobalDepthwiseB(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, groups=channels, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.depthwise(x))
