"""The yardstick: a plain attack, step for step what the official code does, to compare with.

Written for the comparison, from the description of `LukasStruppek/Plug-and-Play-Attacks` (attacks/*.py,
utils/stylegan.py) and of the generator of `NVlabs/stylegan2-ada-pytorch` (training/networks.py): single precision,
one set of convolution weights per image, general up-sampling filters, target parameters that collect gradients, a
batch-wise crop by torchvision, one whole sort per candidate, a new synthesis for stage 3. Nothing is made slower than
that on purpose. Needs torch and torchvision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchvision.transforms.functional as tvf
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.crops import CropRule, Crops, draw_shared_crop
from smoothsweep.core.priors.stylegan2 import StyleGAN2, SynthesisLayer, ToRGB
from smoothsweep.core.seeds import generator

RULES = {"optimise": CropRule(scale=(0.9, 1.0)), "select": CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What both sides are told; half as many steps as views of stage 3.

    image: side of what the target is shown; crop: of the prior's image; batch: the paper's rows of a pass.
    """

    image: int
    crop: int
    target: str
    steps: int
    batch: int = 25
    candidates: int = 25
    selected: int = 6
    pool: int = 50
    lr: float = 0.005

    def draw(self, stage: str, step: int) -> Crops:
        """The crop of one step of stage "optimise" or "select", one for the whole batch."""
        return draw_shared_crop(RULES[stage], 1, self.image, self.image, generator("benchmark", step))


class OfficialSynthesis:
    """w [N, 1 or num_ws, w_dim] -> images [N, 3, R, R] with the weights of `prior`, in the official order of steps."""

    def __init__(self, prior: StyleGAN2) -> None:
        self.network = prior.synthesis
        self.num_ws = prior.num_ws
        self.weights = {
            layer: layer.weight.detach().contiguous()
            for layer in self.network.modules()
            if isinstance(layer, SynthesisLayer | ToRGB)
        }

    def __call__(self, w: Tensor) -> Tensor:
        ws = w.expand(-1, self.num_ws, -1) if w.shape[1] == 1 else w
        network, x, image, place = self.network, None, None, 0
        for side in network.config.sides:
            block = network.get_submodule(f"b{side}")
            if side == 4:
                x = block.const.unsqueeze(0).repeat(len(ws), 1, 1, 1)
            else:
                x = self._layer(block.conv0, x, ws[:, place], up=2)
                place += 1
            x = self._layer(block.conv1, x, ws[:, place], up=1)
            rgb = self._to_rgb(block.torgb, x, ws[:, place + 1])
            place += 1
            if image is not None:
                image = upfirdn2d(image, network.kernel, up=2, padding=(2, 1, 2, 1), gain=4)
            image = rgb if image is None else image.add_(rgb)
        return image

    def _layer(self, layer: SynthesisLayer, x: Tensor, w: Tensor, *, up: int) -> Tensor:
        style = _affine(layer.affine, w)
        x = _fused_modulated_conv(x, self.weights[layer], style, self.network.kernel, up=up, demodulate=True)
        x = x.add_(layer.noise_const * layer.noise_strength)
        x = F.leaky_relu(x + layer.bias.reshape(1, -1, 1, 1), 0.2) * math.sqrt(2)
        return x if layer.clamp is None else x.clamp(-layer.clamp, layer.clamp)

    def _to_rgb(self, layer: ToRGB, x: Tensor, w: Tensor) -> Tensor:
        style = _affine(layer.affine, w) * (1 / math.sqrt(layer.weight.shape[1]))
        x = _fused_modulated_conv(x, self.weights[layer], style, self.network.kernel, up=1, demodulate=False)
        x = x + layer.bias.reshape(1, -1, 1, 1)
        return x if layer.clamp is None else x.clamp(-layer.clamp, layer.clamp)


def upfirdn2d(
    x: Tensor,
    kernel: Tensor,
    *,
    up: int = 1,
    down: int = 1,
    padding: Sequence[int] = (0, 0, 0, 0),
    gain: float = 1.0,
    flip_kernel: bool = False,
) -> Tensor:
    """The general resampler: insert up - 1 zeros after each sample, pad, convolve, keep every down-th.

    x [N, C, H, W]; padding = (left, right, top, bottom), negative values crop. True convolution;
    `flip_kernel` turns it into correlation.
    Our networks use specialised forms (core.priors.stylegan2_ops); this one states what they must equal.
    """
    n, channels, height, width = x.shape
    x = x.reshape(n, channels, height, 1, width, 1)
    x = F.pad(x, (0, up - 1, 0, 0, 0, up - 1)).reshape(n, channels, height * up, width * up)
    x = F.pad(x, tuple(padding))
    kernel = (kernel if flip_kernel else kernel.flip((0, 1))) * gain
    return F.conv2d(x, kernel.expand(channels, 1, *kernel.shape), groups=channels)[:, :, ::down, ::down]


def _affine(layer: nn.Module, w: Tensor) -> Tensor:
    return torch.addmm(layer.bias.unsqueeze(0), w, (layer.weight * (1 / math.sqrt(layer.weight.shape[1]))).t())


def _fused_modulated_conv(
    x: Tensor, weight: Tensor, style: Tensor, kernel: Tensor, *, up: int, demodulate: bool
) -> Tensor:
    count, (outputs, inputs, side, _) = len(x), weight.shape
    own = weight.unsqueeze(0) * style.reshape(count, 1, -1, 1, 1)
    if demodulate:
        own = own * (own.square().sum(dim=(2, 3, 4)) + 1e-8).rsqrt().reshape(count, -1, 1, 1, 1)
    x = x.reshape(1, -1, *x.shape[2:])
    if up == 1:
        x = F.conv2d(x, own.reshape(-1, inputs, side, side), padding=side // 2, groups=count)
    else:
        own = own.transpose(1, 2).reshape(count * inputs, outputs, side, side)
        x = F.conv_transpose2d(x, own, stride=2, groups=count)
        x = upfirdn2d(x, kernel, padding=(1, 1, 1, 1), gain=4)
    return x.reshape(count, -1, *x.shape[2:])


def create_image(synthesis: Callable[[Tensor], Tensor], w: Tensor, case: Case) -> Tensor:
    """Synthesise, centre-crop, resize with antialiasing (utils/stylegan.py)."""
    return tvf.resize(tvf.center_crop(synthesis(w), [case.crop] * 2), [case.image] * 2, antialias=True)


def find_candidates(
    prior: StyleGAN2, synthesis: Callable[[Tensor], Tensor], target: nn.Module, classes: Sequence[int], case: Case
) -> Tensor:
    """Stage 1: w0 [classes x candidates, 1, w_dim]; the whole column is sorted anew for every candidate."""
    device = prior.mapping.w_avg.device
    with torch.no_grad():
        w = prior.map(torch.from_numpy(prior.sample_z(case.pool, 42)).to(device), psi=0.5, cutoff=8)
        confidences = []
        for rows in w.split(case.batch):
            images = create_image(lambda w: synthesis(w).clamp(-1, 1), rows, case)
            views = [target(view).softmax(dim=1) for view in (images, tvf.hflip(images))]
            confidences.append(torch.stack(views).mean(dim=0))
        confidence = torch.cat(confidences)
        chosen = []
        for target_class in classes:
            for _ in range(case.candidates):
                order = confidence[:, target_class].sort(descending=True).indices
                chosen.append(w[order[0]])
                confidence[order[0], target_class] = -1.0
    return torch.stack(chosen)[:, :1]


def optimise(
    synthesis: Callable[[Tensor], Tensor], target: nn.Module, w0: Tensor, target_class: int, case: Case
) -> Tensor:
    """Stage 2: the last iterates, like w0 [K, 1, w_dim]. Parameters of the target keep collecting gradients."""
    found = []
    for start in w0.split(case.batch):
        w = start.detach().clone().requires_grad_(True)
        labels = torch.full((len(w),), target_class, device=w.device)
        adam = torch.optim.Adam([w], lr=case.lr, betas=(0.1, 0.1))
        for step in range(case.steps):
            images = resized_crop(create_image(synthesis, w, case), case.draw("optimise", step), case.image)
            loss = poincare(target(images), labels).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        found.append(w.detach())
    return torch.cat(found)


def select(
    synthesis: Callable[[Tensor], Tensor], target: nn.Module, w: Tensor, target_class: int, case: Case
) -> tuple[Tensor, Tensor]:
    """Stage 3: the best latents and the scores [K] of all; images are synthesised anew."""
    with torch.no_grad():
        images = torch.cat([create_image(synthesis, rows, case) for rows in w.split(case.batch)])
        scores, repeats = torch.zeros(len(w), device=w.device), 2 * case.steps
        for repeat in range(repeats):
            box = case.draw("select", repeat)
            for start in range(0, len(w), 10 * case.batch):
                views = resized_crop(images[start : start + 10 * case.batch], box, case.image)
                views = tvf.hflip(views) if bool(box.mirror) else views
                scores[start : start + 10 * case.batch] += target(views).softmax(dim=1)[:, target_class]
        scores = scores / repeats
    return w[scores.sort(descending=True).indices[: case.selected]], scores


def poincare(logits: Tensor, labels: Tensor, xi: float = 1e-4) -> Tensor:
    """The Poincare loss per row, without guards (losses/poincare.py)."""
    u = logits / logits.norm(p=1, dim=-1, keepdim=True)
    v = torch.clip(F.one_hot(labels, logits.shape[1]) - xi, 0, 1)
    gap = (1 - u.norm(dim=1).square()) * (1 - v.norm(dim=1).square())
    return torch.arccosh(1 + 2 * (u - v).norm(dim=1).square() / gap)


def resized_crop(images: Tensor, box: Crops, size: int) -> Tensor:
    """torchvision's crop and antialiased resize of the whole batch [N, 3, H, W], without the mirror."""
    place = (int(box.top), int(box.left), int(box.height), int(box.width))
    return tvf.resized_crop(images, *place, [size, size], antialias=True)
