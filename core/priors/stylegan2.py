"""StyleGAN2: generator and discriminator, whose state-dict keys are the official ones, and the generator as a prior.

Source of the behaviour: `NVlabs/stylegan2-ada-pytorch`, training/networks.py, at fp32. The only keys it has
that ours lack are the constant `resample_filter` buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.checks import present
from smoothsweep.core.devices import channels_last
from smoothsweep.core.priors.base import PriorNetwork, spread_over_places, truncate
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2_ops import (
    EPSILON,
    SLOPE,
    bias_act,
    conv2d_resampled,
    fir_kernel,
    modulated_conv2d,
    upsample2d,
)


class FullyConnected(nn.Module):
    """x [..., inputs] -> [..., outputs] with a weight scaled at run time (equalised learning rate).

    Stored weights are 1 / `learning_rate` too large, and both weight and bias are multiplied by it when used.
    """

    def __init__(
        self, inputs: int, outputs: int, *, lrelu: bool = False, learning_rate: float = 1.0, bias: float = 0.0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.full((outputs,), bias))
        self.lrelu = lrelu
        self.learning_rate = learning_rate

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * (self.learning_rate / math.sqrt(self.weight.shape[1]))
        bias = self.bias * self.learning_rate
        if self.lrelu:
            return bias_act(x @ weight.T, bias)
        return torch.addmm(bias, x, weight.T)


def initialise(network: nn.Module, seed: int) -> None:
    """Fill every parameter and noise map of a new network from one seeded stream, in state-dict order.

    Weights, the constant input and the noise maps are N(0, 1), mapping weights N(0, 1) / 0.01. Biases keep
    their constructor's value, noise strengths and the mean of w stay 0.
    """
    generator = torch.Generator().manual_seed(seed)
    layers = dict(network.named_modules())
    with torch.no_grad():
        for name, tensor in network.state_dict(keep_vars=True).items():
            if tensor.is_meta:
                return  # a skeleton that is only asked for its shapes
            owner, _, leaf = name.rpartition(".")
            if leaf in ("weight", "const", "noise_const"):
                scale = 1 / getattr(layers[owner], "learning_rate", 1.0)
                tensor.copy_(torch.randn(tensor.shape, generator=generator, device="cpu") * scale)


MAPPING_LEARNING_RATE = 0.01


class MappingNetwork(nn.Module):
    """z -> w: normalise to unit mean square, then `mapping_layers` fully connected layers."""

    w_avg: Tensor

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("w_avg", torch.zeros(config.w_dim))
        for index in range(config.mapping_layers):
            inputs = config.z_dim if index == 0 else config.w_dim
            layer = FullyConnected(inputs, config.w_dim, lrelu=True, learning_rate=MAPPING_LEARNING_RATE)
            self.add_module(f"fc{index}", layer)

    def forward(self, z: Tensor) -> Tensor:
        """z [N, z_dim], any float type -> w float32 [N, w_dim]."""
        x = z.to(device=self.w_avg.device, dtype=torch.float32)
        x = x * (x.square().mean(dim=1, keepdim=True) + EPSILON).rsqrt()
        for index in range(self.config.mapping_layers):
            x = self.get_submodule(f"fc{index}")(x)
        return x


class SynthesisLayer(nn.Module):
    """Modulated 3x3 convolution, noise, bias, leaky ReLU."""

    noise_const: Tensor

    def __init__(self, config: StyleGAN2Config, *, inputs: int, side: int, up: int) -> None:
        super().__init__()
        outputs = config.channels(side)
        self.up = up
        self.clamp = config.conv_clamp
        self.affine = FullyConnected(config.w_dim, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 3, 3))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.noise_strength = nn.Parameter(torch.zeros(()))
        self.register_buffer("noise_const", torch.empty(side, side))

    def forward(self, x: Tensor, w: Tensor, kernel: Tensor, noise: Tensor) -> Tensor:
        # The activation is positively homogeneous, so its gain moves ahead of it, where it costs nothing.
        gain = math.sqrt(2)
        y = modulated_conv2d(x, self.weight, self.affine(w), kernel, up=self.up, gain=gain)
        shift = self.bias[:, None, None] * gain + noise * (self.noise_strength * gain)
        return bias_act(y + shift, None, gain=1.0, clamp=self.clamp)


class ToRGB(nn.Module):
    """Modulated 1x1 convolution to three channels, without demodulation or activation."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        inputs = config.channels(side)
        self.clamp = config.conv_clamp
        self.affine = FullyConnected(config.w_dim, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.empty(3, inputs, 1, 1))
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor, w: Tensor, kernel: Tensor) -> Tensor:
        style = self.affine(w) / math.sqrt(self.weight.shape[1])
        y = modulated_conv2d(x, self.weight, style, kernel, demodulate=False)
        return bias_act(y, self.bias, lrelu=False, gain=1.0, clamp=self.clamp)


class SynthesisBlock(nn.Module):
    """One resolution. The first block starts from the learned constant and has no conv0."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        width = config.channels(side)
        if side == 4:
            self.const = nn.Parameter(torch.empty(width, 4, 4))
        else:
            self.conv0 = SynthesisLayer(config, inputs=config.channels(side // 2), side=side, up=2)
        self.conv1 = SynthesisLayer(config, inputs=width, side=side, up=1)
        self.torgb = ToRGB(config, side=side)


class SynthesisNetwork(nn.Module):
    """w -> images: blocks of rising resolution whose RGB outputs are upsampled and summed."""

    kernel: Tensor

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("kernel", fir_kernel(), persistent=False)
        for side in config.sides:
            self.add_module(f"b{side}", SynthesisBlock(config, side=side))

    def forward(self, ws: Tensor, noise: Sequence[Tensor] | None = None) -> Tensor:
        """ws [N, num_ws, w_dim] -> images [N, 3, R, R].

        noise: [N, 1, r, r] for every 3x3 layer, from coarse to fine; None: the stored maps.
        """
        places = iter(ws.unbind(dim=1))
        maps = iter([layer.noise_const for layer in self.noise_layers()] if noise is None else noise)
        block = self.block(4)
        x = block.const.expand(len(ws), -1, -1, -1)
        x = block.conv1(x, next(places), self.kernel, next(maps))
        w = next(places)
        image = block.torgb(x, w, self.kernel)
        for side in self.config.sides[1:]:
            block = self.block(side)
            # A block's torgb and the next block's conv0 share one w.
            x = block.conv0(x, w, self.kernel, next(maps))
            x = block.conv1(x, next(places), self.kernel, next(maps))
            w = next(places)
            image = upsample2d(image, self.kernel) + block.torgb(x, w, self.kernel)
        return image

    def block(self, side: int) -> SynthesisBlock:
        """The block of a resolution."""
        return getattr(self, f"b{side}")

    def noise_layers(self) -> list[SynthesisLayer]:
        """The layers that add noise, from coarse to fine."""
        return [layer for layer in self.modules() if isinstance(layer, SynthesisLayer)]


class ConvLayer(nn.Module):
    """Convolution, optionally halving the image, then leaky ReLU times gain, then clamp.

    A skip layer (`skip=True`) has no bias, activation or clamp.
    """

    def __init__(
        self,
        config: StyleGAN2Config,
        *,
        inputs: int,
        outputs: int,
        side: int,
        down: int = 1,
        gain: float = 1.0,
        skip: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, side, side))
        self.bias: nn.Parameter | None
        self.register_parameter("bias", None if skip else nn.Parameter(torch.zeros(outputs)))
        self.down = down
        self.gain = gain if skip else gain * math.sqrt(2)
        self.clamp = None if config.conv_clamp is None else config.conv_clamp * gain

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        # The gain precedes the positively homogeneous activation, inside the weight, where it costs nothing.
        weight = self.weight * (self.gain / math.sqrt(self.weight[0].numel()))
        if self.bias is None:
            return conv2d_resampled(x, weight, kernel, down=self.down)
        y = conv2d_resampled(x, weight, kernel, down=self.down, bias=self.bias * self.gain)
        return bias_act(y, None, gain=1.0, clamp=self.clamp)


class DiscriminatorBlock(nn.Module):
    """[N, C(r), r, r] -> [N, C(r/2), r/2, r/2]; the first block starts from RGB."""

    def __init__(self, config: StyleGAN2Config, *, side: int) -> None:
        super().__init__()
        width, narrower = config.channels(side), config.channels(side // 2)
        half = math.sqrt(0.5)
        if side == config.resolution:
            self.fromrgb = ConvLayer(config, inputs=3, outputs=width, side=1)
        self.conv0 = ConvLayer(config, inputs=width, outputs=width, side=3)
        self.conv1 = ConvLayer(config, inputs=width, outputs=narrower, side=3, down=2, gain=half)
        self.skip = ConvLayer(config, inputs=width, outputs=narrower, side=1, down=2, gain=half, skip=True)

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        if hasattr(self, "fromrgb"):
            x = self.fromrgb(x, kernel)
        return self.skip(x, kernel) + self.conv1(self.conv0(x, kernel), kernel)


class Epilogue(nn.Module):
    """[N, C, 4, 4] -> logits [N, 1], with one channel that tells how varied the batch is."""

    def __init__(self, config: StyleGAN2Config) -> None:
        super().__init__()
        width = config.channels(4)
        self.group = config.mbstd_group
        self.conv = ConvLayer(config, inputs=width + 1, outputs=width, side=3)
        self.fc = FullyConnected(width * 16, width, lrelu=True)
        self.out = FullyConnected(width, 1)

    def forward(self, x: Tensor, kernel: Tensor) -> Tensor:
        x = torch.cat([x, minibatch_deviation(x, self.group)], dim=1)
        return self.out(self.fc(self.conv(x, kernel).flatten(1)))


def minibatch_deviation(x: Tensor, group: int | None) -> Tensor:
    """x [N, C, H, W] -> [N, 1, H, W]: standard deviation over each group of images, averaged over C, H, W.

    With G = min(group, N), image n belongs to group n mod (N / G), so a logit depends on its companions.
    Raises ValueError if G does not divide N.
    """
    n, _, height, width = x.shape
    size = n if group is None else min(group, n)
    if n % size:
        raise ValueError(f"batch of {n} images: expected a multiple of the minibatch-std group {size}")
    grouped = x.reshape(size, n // size, *x.shape[1:])
    deviation = (grouped.var(dim=0, correction=0) + EPSILON).sqrt().mean(dim=(1, 2, 3))
    return deviation.repeat(size)[:, None, None, None].expand(-1, 1, height, width)


class StyleGAN2Discriminator(nn.Module):
    """images [N, 3, R, R] -> realness logits [N, 1]. N must be a multiple of min(mbstd_group, N)."""

    kernel: Tensor

    def __init__(self, config: StyleGAN2Config, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("kernel", fir_kernel(), persistent=False)
        for side in reversed(config.sides[1:]):
            self.add_module(f"b{side}", DiscriminatorBlock(config, side=side))
        self.b4 = Epilogue(config)
        initialise(self, seed)
        channels_last(self)

    def forward(self, images: Tensor) -> Tensor:
        x = images.contiguous(memory_format=torch.channels_last)
        for side in reversed(self.config.sides[1:]):
            x = self.get_submodule(f"b{side}")(x, self.kernel)
        return self.b4(x, self.kernel)


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

    Equal to it with constant noise up to rounding. Three things are saved: the energies of the weights, bias and noise
    together, and the affine layers with their gains are constants; the activation works in place; and of a centre crop
    the high resolutions are computed on the crop and the few pixels around it that reach into it.

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


class StyleGAN2(PriorNetwork):
    """The generator as a `Prior`. A new network is initialised from `seed`."""

    mapping_slope: ClassVar[float | None] = SLOPE

    def __init__(self, config: StyleGAN2Config, *, seed: int = 0) -> None:
        super().__init__(config)
        self.mapping = MappingNetwork(config)
        self.synthesis = SynthesisNetwork(config)
        initialise(self, seed)
        # Convolutions run up to 40 % faster in this layout on a CPU, and nothing else changes.
        channels_last(self)

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [n, z_dim] -> w float32 [n, num_ws, w_dim], truncated towards the mean w of training."""
        w = self.mapping(z)[:, None].expand(-1, self.num_ws, -1)
        return truncate(w, self.mapping.w_avg, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, 1 or num_ws, w_dim] -> images float32 [n, 3, R, R], with constant noise."""
        return self.synthesis(spread_over_places(w, num_ws=self.num_ws, w_dim=self.w_dim))

    def random_noise(self, n: int, generator: torch.Generator) -> list[Tensor]:
        """Fresh noise maps N(0, 1) for `synthesis`, [n, 1, r, r] per layer, on the generator's device."""
        sides = [layer.noise_const.shape[0] for layer in self.synthesis.noise_layers()]
        device = generator.device
        return [torch.randn(n, 1, side, side, generator=generator, device=device) for side in sides]

    def frozen_synthesis(self, *, crop: int | None, dtype: torch.dtype | None) -> FrozenSynthesis:
        """As `PriorNetwork.frozen_synthesis`."""
        crop = None if crop is None or (self.resolution - crop) % 2 else crop
        return FrozenSynthesis(self.synthesis, crop=crop, dtype=dtype or self.mapping.w_avg.dtype)
