"""Networks that judge reconstructions, of faces or anything, as their files of weights lay them out; ready to judge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.data.images import resize
from smoothsweep.core.data.synthetic import TRAIT_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import fitting_state, most_of, plain_tensors, read_tensor_file
from smoothsweep.core.models.classifiers import IR50, IR152, Trunk
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.inference import IMAGENET_MEAN, IMAGENET_STD
from smoothsweep.core.models.weight_files import WEIGHT_FILES, published_file

# A small face embedder for synthetic identities.


WORKING_SIZE = 64
N_TRAITS = len(TRAIT_NAMES)


class SyntheticEmbedder(nn.Module):
    """A residual net of 0.38 million parameters at 64 x 64 pixels whose features tell identities apart.

    forward: images float [N, 3, S, S] in [-1, 1], any S -> float32 [N, N_TRAITS] of unit length. The features are what
    the net believes the traits of the person to be, turned and scaled so that the differences between people stand out
    from those between pictures of one person: compare by cosine, or fit a linear classifier.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            Residual(16),
            *_halve(16, 32),
            Residual(32),
            *_halve(32, 64),
            Residual(64),
            *_halve(64, 96),
            nn.Flatten(),
            nn.Linear(96 * 4 * 4, 128, bias=False),
            nn.BatchNorm1d(128),
            nn.ReLU(),
        )
        self.features = nn.Linear(128, N_TRAITS)

    def raw(self, images: Tensor) -> Tensor:
        """Features before they are scaled to unit length: float32 [N, N_TRAITS]."""
        return self.features(self.trunk(resize(images.float(), WORKING_SIZE)))

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.raw(images), dim=1)


class Residual(nn.Module):
    """Two 3 x 3 convolutions around an identity shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(x + self.second_norm(self.second(inner)))


def _halve(channels: int, out: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()


# MobileFaceNet, two layouts of its layers, so that the state dicts of two public trainings load strictly.
#
# Architecture: Chen, Liu, Gao and Han, "MobileFaceNets: Efficient CNNs for accurate real-time face verification on
# mobile
# devices", 2018. Both have about 1.02 million parameters and 128 features.


MOBILE_FEATURES = 128
# (expansion, channels, repeats, stride of the first), after the stem with 64 channels at half the resolution.
_GROUPS = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))
_TEMPLATE = 112
_TIGHT = 88  # side of the tight face frame inside the template
_LEFT, _TOP = 12, 24  # where that frame begins: columns 12..100, rows 24..112


def to_template(images: Tensor) -> Tensor:
    """Put the tight face frame (brows to chin) where the 112 x 112 five-point template has it; the edge fills the rest.

    images: float [N, 3, S, S] -> float32 [N, 3, 112, 112], same value range.
    """
    tight = resize(images.float(), _TIGHT)
    right, bottom = _TEMPLATE - _LEFT - _TIGHT, _TEMPLATE - _TOP - _TIGHT
    return F.pad(tight, (_LEFT, right, _TOP, bottom), mode="replicate")


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
        self.linear1 = _ConvA(512, MOBILE_FEATURES, 1, linear=True)

    def forward(self, images: Tensor) -> Tensor:
        x = to_template(images)[..., 8:104] * (127.5 / 128)
        x = self.conv2(self.blocks(self.dw_conv1(self.conv1(x))))
        return F.normalize(self.linear1(self.linear7(x)).flatten(1), dim=1)


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
        self.conv3 = nn.Conv2d(512, MOBILE_FEATURES, 1)
        self.bn = nn.BatchNorm2d(MOBILE_FEATURES)
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        x = ((to_template(images) + 1) / 2 - self.mean) / self.std
        x = self.conv2(self.features(self.dw_conv(self.conv1(x))))
        return F.normalize(self.bn(self.conv3(self.gdconv(x))).flatten(1), dim=1)


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
        x = F.relu(self.bn1(self.depthwise(x)))
        return F.relu(self.bn2(self.pointwise(x)))


class _GlobalDepthwiseB(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, groups=channels, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.depthwise(x))


# IR-50 and IR-152 as face embedders: the networks of the low-resolution classifiers with face.evoLVe's output layer.
#
# Parts are named as in `ZhaoJ9014/face.evoLVe`, backbone/model_irse.py (input size 112), so that its checkpoints load
# strictly: 43.6 and 70.7 million parameters. IR-SE, with squeeze-and-excitation, is another network.


IR_SIDE = 112
WIDTH = 64  # channels of the first stage, an eighth of the features


class FaceIR(Trunk):
    """forward: images float [N, 3, S, S] in [-1, 1] in the tight face frame -> float32 [N, 8 width] of unit length.

    The images are put where the 112 x 112 five-point template has the frame, as face.evoLVe aligns faces, and reach the
    network in [-1, 1], red first (its config: mean and std 0.5). Its evaluations add the features of the mirrored
    image; these are of the image alone. units: of each stage.
    """

    def __init__(self, units: tuple[int, ...], *, width: int = WIDTH) -> None:
        super().__init__(units, side=IR_SIDE, output=True, width=width)

    def forward(self, x: Tensor) -> Tensor:
        """Features [N, 8 width]."""
        return F.normalize(super().forward(to_template(x)), dim=1)


face_ir50, face_ir152 = partial(FaceIR, IR50), partial(FaceIR, IR152)


# FaceNet, the published judge of face similarity, around facenet-pytorch's network and a local weight file.


SIZE = 160


class FaceNet(nn.Module):
    """forward: faces float32 [N, 3, S, S] in [-1, 1], any S -> float32 [N, 512] of unit length.

    InceptionResnetV1 on images resized to 160 pixels (bilinear, antialiased). Squared distances of its features lie in
    [0, 4] and equal 2 - 2 cos. Source: Plug-and-Play-Attacks, metrics/distance_metrics.py and the attack's config.
    """

    def __init__(self) -> None:
        super().__init__()
        from facenet_pytorch import InceptionResnetV1  # brings in a face detector, which nothing else here needs

        self.network = InceptionResnetV1(pretrained=None)

    def forward(self, images: Tensor) -> Tensor:
        """Features [N, 512]."""
        return self.network(resize(images, SIZE))


def facenet_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dictionary of the published network, or of `FaceNet`, under the names of `FaceNet`.

    The classification layer of the published file (`logits`, over VGGFace2's 8,631 people) is no part of it.
    """
    names = {key: key.removeprefix("network.") for key in state}
    return {"network." + name: state[key] for key, name in names.items() if not name.startswith("logits.")}


# Features of pictures of anything, learnt without faces' labels and without any of ours: a judge of another family.


PIXELS = 224  # pixels


class SwagViT(nn.Module):
    """The frozen ViT-B/16 of SWAG: a vision transformer that learnt to predict the hashtags of 3.6 billion pictures.

    Singh et al., arXiv 2201.08371; torchvision's `ViT_B_16_Weights.IMAGENET1K_SWAG_LINEAR_V1`, whose ImageNet head is
    left out, with its transforms: bicubic to 224 pixels, ImageNet's mean and deviation.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, *, layers: int = 12, heads: int = 12, width: int = 768, hidden: int = 3072) -> None:
        from torchvision.models import VisionTransformer

        super().__init__()
        network: Any = VisionTransformer(
            image_size=PIXELS,
            patch_size=16,
            num_layers=layers,
            num_heads=heads,
            hidden_dim=width,
            mlp_dim=hidden,
        )
        network.heads = nn.Identity()
        self.network = network
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images float [N, 3, S, S] in [-1, 1], any S -> the class token's features, float32 [N, width], length 1."""
        pictures = F.interpolate((images + 1) / 2, size=(PIXELS, PIXELS), mode="bicubic", antialias=True).clamp(0, 1)
        return F.normalize(self.network((pictures - self.mean) / self.std))


def swag_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published state dict under our names; its ImageNet head is not needed."""
    return {f"network.{name}": value for name, value in state.items() if not name.startswith("heads.")}


def load_embedder(name: str, weights: Path | None = None) -> nn.Module:
    """An embedder ready to judge: evaluation mode, frozen, on the CPU.

    weights: a safetensors file, or one of torch's, of which nothing is executed; None means the shipped file, where one
    is, or the staged one, which must have the published checksum. Those of faces expect them in the tight frame (brows
    to chin) of the 112 x 112 five-point template.

    Raises InputError for an unknown name, and for a file that is missing, cannot be read, does not fit the
    network key by key, or holds numbers that are not finite. Nothing is downloaded.
    """
    if name not in KINDS:
        raise InputError(f"embedder: expected one of {', '.join(KINDS)}, got {name!r}")
    kind = KINDS[name]
    path = Path(weights) if weights is not None else own_weights(name)
    if not path.is_file():
        raise InputError(f"embedder {name}: no file {path}; expected a safetensors file ({_origin(name)})")
    net, where = kind.make(), f"embedder {name}: {path}"
    state = plain_tensors(read_tensor_file(path, f"embedder {name}"), where, most_bytes=most_of(net))
    net.load_state_dict(fitting_state(kind.our_state(state), net.state_dict(), where))
    return net.eval().requires_grad_(False)


def own_weights(name: str) -> Path:
    """The shipped or staged file of an embedder. Raises InputError where it has none, or one that is damaged."""
    kind = KINDS[name]
    if kind.is_staged:
        return published_file(name, f"embedder {name}:")
    if kind.shipped_file is None:
        raise InputError(f"embedder {name}: expected the path of a safetensors file ({_origin(name)}), got none")
    return kind.shipped_file


def _origin(name: str) -> str:
    kind = KINDS[name]
    return f"or the published {WEIGHT_FILES[name].file_name}" if kind.is_staged else kind.origin
