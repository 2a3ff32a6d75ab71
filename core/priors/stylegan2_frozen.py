"""StyleGAN2's synthesis with its weights frozen: what does not depend on w is computed once, and only the part of the
image that will be looked at is synthesised.

Equal to `SynthesisNetwork` with constant noise up to rounding. Three things are saved. The energies of the weights,
bias and noise together, and the affine layers with their gains are constants. The activation works in place. And where
a centre crop is all that is shown, as in Plug & Play Attacks, the high resolutions are computed on the crop and the few
pixels around it that reach into it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.checks import present
from smoothsweep.core.priors.stylegan2_layers import FullyConnected
from smoothsweep.core.priors.stylegan2_networks import SynthesisLayer, SynthesisNetwork, ToRGB
from smoothsweep.core.priors.stylegan2_ops import EPSILON, SLOPE, conv2d_resampled, upsample2d

_REACH = 3  # pixels of a block's output that zeros around its input reach: 2 by the up-sampling, 1 by the second conv


def window_margins(sides: tuple[int, ...], crop: int | None) -> list[int]:
    """Pixels left out on every side of each resolution so that the central `crop` of the last comes out whole.

    None, or a crop that is no smaller, leaves out nothing. The crop must be centred: sides[-1] - crop is even.
    """
    margin = 0 if crop is None else max(0, sides[-1] - crop) // 2
    margins = []
    for _ in sides:
        margins.append(margin)
        margin = max(0, (margin - _REACH) // 2)
    return margins[::-1]


class FrozenSynthesis(nn.Module):
    """w [N, num_ws, w_dim] -> images float32 [N, 3, crop, crop], the centre of what `network` gives.

    The weights are copied as they are now. crop: None for the whole image; dtype: of activations and convolution
    weights (bfloat16 halves the traffic; styles, demodulation and the sum of RGB images stay in float32).
    """

    kernel: Tensor
    const: Tensor

    def __init__(
        self, network: SynthesisNetwork, *, crop: int | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        sides = network.config.sides
        if crop is not None and (crop > sides[-1] or (sides[-1] - crop) % 2):
            raise ValueError(f"crop: expected None or an even distance below {sides[-1]}, got {crop}")
        self.sides, self.margins, self.dtype = sides, window_margins(sides, crop), dtype
        self.register_buffer("kernel", network.kernel.detach().clone(), persistent=False)
        self.register_buffer("const", network.block(4).const.detach().to(dtype, copy=True), persistent=False)
        blocks = []
        for index, side in enumerate(sides):
            block = network.block(side)
            margin = 2 * self.margins[index - 1] if index else 0  # where the block's window begins
            layers = ([_FrozenLayer(block.conv0, margin, dtype)] if index else []) + [
                _FrozenLayer(block.conv1, margin, dtype)
            ]
            blocks.append(nn.ModuleList([*layers, _FrozenToRGB(block.torgb, dtype)]))
        self.blocks: Any = nn.ModuleList(blocks)  # of lists: the layers, and to RGB

    def forward(self, ws: Tensor) -> Tensor:
        """As `SynthesisNetwork.forward` with constant noise."""
        return self.through(ws)[1]

    def through(
        self,
        ws: Tensor,
        x: Tensor | None = None,
        image: Tensor | None = None,
        *,
        first: int = 0,
        last: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """What leaves the blocks from `first` to before `last` (None: all that follow): features and the RGB sum.

        x: the features that enter them, of the shape that `entering` gives, None for the constant of block 0; image:
        the RGB sum of the blocks before, [N, 3, r, r] of the same side, None for nothing.
        """
        x = self.const.expand(len(ws), -1, -1, -1) if x is None else x.to(self.dtype)
        for index in range(first, len(self.blocks) if last is None else last):
            *layers, to_rgb = self.blocks[index]
            place = max(0, 2 * index - 1)
            for layer in layers:
                x = layer(x, ws[:, place], self.kernel)
                place += 1
            cut = self.margins[index] - (2 * self.margins[index - 1] if index else 0)
            x = _trim(x, cut)
            rgb = to_rgb(x, ws[:, place])
            image = rgb if image is None else _trim(upsample2d(image, self.kernel), cut) + rgb
        return x, present(image, "blocks")

    def entering(self, block: int) -> tuple[int, int]:
        """Channels and side in pixels of the features that enter a block after the first, within the window."""
        return self.blocks[block][0].weight.shape[1], self.sides[block - 1] - 2 * self.margins[block - 1]


class _FrozenLayer(nn.Module):
    """`SynthesisLayer` with constant noise on a window that begins `margin` pixels inside the image."""

    weight: Tensor
    affine: Tensor
    offset: Tensor
    energy: Tensor
    shift: Tensor
    floor: Tensor

    def __init__(self, layer: SynthesisLayer, margin: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.up = layer.up
        self.clamp = layer.clamp
        with torch.no_grad():
            gain = math.sqrt(2)  # of the activation, moved ahead of it: into the demodulation, bias and noise
            noise = _trim(layer.noise_const[None], margin) * layer.noise_strength
            shift = (layer.bias[:, None, None] + noise) * gain
            energy = layer.weight.square().sum(dim=(2, 3)).T / gain**2
            affine, offset = _effective(layer.affine)
        self.register_buffer("weight", _channels_last(layer.weight, dtype), persistent=False)
        self.register_buffer("shift", _channels_last(shift[None], dtype), persistent=False)
        self.register_buffer("energy", energy.contiguous(), persistent=False)
        self.register_buffer("floor", energy.new_full((), EPSILON / gain**2), persistent=False)
        self.register_buffer("affine", affine, persistent=False)
        self.register_buffer("offset", offset, persistent=False)

    def forward(self, x: Tensor, w: Tensor, kernel: Tensor) -> Tensor:
        style = torch.addmm(self.offset, w, self.affine)
        scaled = x * style.to(x.dtype)[:, :, None, None]
        y = conv2d_resampled(scaled, self.weight, kernel.to(x.dtype), up=self.up)
        demodulation = torch.addmm(self.floor, style.square(), self.energy).rsqrt()
        y = torch.addcmul(self.shift, y, demodulation.to(x.dtype)[:, :, None, None])
        y = F.leaky_relu_(y, SLOPE)
        return y if self.clamp is None else y.clamp(-self.clamp, self.clamp)


class _FrozenToRGB(nn.Module):
    """`ToRGB`, its output in the precision of w."""

    weight: Tensor
    affine: Tensor
    offset: Tensor
    bias: Tensor

    def __init__(self, layer: ToRGB, dtype: torch.dtype) -> None:
        super().__init__()
        self.clamp = layer.clamp
        with torch.no_grad():
            affine, offset = _effective(layer.affine)
            gain = 1 / math.sqrt(layer.weight.shape[1])
        self.register_buffer("weight", _channels_last(layer.weight, dtype), persistent=False)
        self.register_buffer("affine", affine * gain, persistent=False)
        self.register_buffer("offset", offset * gain, persistent=False)
        self.register_buffer("bias", layer.bias.detach()[:, None, None].clone(), persistent=False)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        style = torch.addmm(self.offset, w, self.affine)
        rgb = F.conv2d(x * style.to(x.dtype)[:, :, None, None], self.weight).to(style.dtype) + self.bias
        return rgb if self.clamp is None else rgb.clamp(-self.clamp, self.clamp)


def _effective(layer: FullyConnected) -> tuple[Tensor, Tensor]:
    """Weights [w_dim, C] and offsets [C] of an affine layer with its run-time gain applied."""
    gain = layer.learning_rate / math.sqrt(layer.weight.shape[1])
    return (layer.weight.detach() * gain).T.contiguous(), layer.bias.detach() * layer.learning_rate


def _channels_last(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.detach().to(dtype, copy=True).contiguous(memory_format=torch.channels_last)


def _trim(x: Tensor, margin: int) -> Tensor:
    """`x` without `margin` pixels on every side of the last two axes."""
    return x if margin == 0 else x[..., margin:-margin, margin:-margin]
