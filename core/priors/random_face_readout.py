"""Read-outs: images of 64, 128 or 256 pixels from the first stages of the generator, whose late stages cost most.

The wavelets of the image of side r are read from the features of side r / 2, as the generator itself does at its end.
First in closed form (least squares on the features of the stage), of the channels that count most; then that stage's
last convolution, narrowed to these channels, and the read-out are trained on images of the whole generator. The loss is
the squared error of the wavelet bands, whose sum is that of the pixels, and the absolute error of the details, which
keeps edges sharp. No face embedder has a part in the loss: it could not judge the images afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.priors.mobilestylegan import SLOPE, MobileStyleGAN, whole
from smoothsweep.core.priors.settings import ALIGNED

HEADS = {64: 256, 128: 128, 256: 64}
"""Channels that a read-out keeps of its last convolution, by the side of the image in pixels."""
PSI = (0.5, 1.0)  # of the latents that it learns from: attacks draw within
RIDGE = 1e-6
LEARNING_RATE = 0.004
RELATIVE = {
    "depthwise": 1.0,
    "pointwise": 0.05,
    "bias": 0.3,
    "style.bias": 0.3,
    "image.weight": 0.01,
    "image.bias": 0.1,
    "image.style.weight": 0.02,
    "image.style.bias": 0.3,
}
"""Learning rates of the trained numbers, relative to LEARNING_RATE: about in proportion to their sizes."""
DETAILS = 0.05  # weight of the absolute error of the details
KEPT, STEPS, BATCH, WARM = 12, 2, 2, 20  # images to learn from at a time, steps after each new one, images of a step

OnImage = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much work a read-out's fit takes.

    Attributes:
        images: Images that are learnt from.
        closed: How many of them the closed form uses.
        held_out: Images to test on.
        seed: Seed of all latents and draws.
    """

    images: int = 96
    closed: int = 24
    held_out: int = 16
    seed: int = 0


@dataclass(kw_only=True)
class LatentSample:
    """What is kept of one latent.

    Attributes:
        w: [1, w_dim].
        between: Resolution -> what the last convolution reads, float16 [1, s, s, C].
        features: What it makes, float32, where the closed form needs it.
        bands: The wavelets of the image [1, s s, 12].
        picture: The whole image uint8 [1, 3, R, R], of a latent that is tested on.
    """

    w: Tensor
    between: dict[int, Tensor] = field(default_factory=dict)
    features: dict[int, Tensor] = field(default_factory=dict)
    bands: dict[int, Tensor] = field(default_factory=dict)
    picture: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class ReadOut:
    """A fitted read-out, and how well it draws.

    Attributes:
        network: The generator with this read-out.
        psnr: Peak signal-to-noise ratio in dB on held-out latents, against the whole image averaged to its size, in
            [-1, 1].
        closed_psnr: The same ratio of the closed form alone.
        trained: Whether the training was better and is used.
    """

    network: MobileStyleGAN
    psnr: float
    closed_psnr: float
    trained: bool


def train_read_outs(
    network: MobileStyleGAN, resolutions: Sequence[int], effort: Effort, on_image: OnImage
) -> tuple[dict[int, ReadOut], list[LatentSample]]:
    """The read-outs of an imported generator by resolution, and the latents that they were tested on."""
    held = list(_seen(network, resolutions, effort.held_out, seed=effort.seed + 1, tested=True))
    heads = {resolution: _Head(network, resolution) for resolution in resolutions}
    kept: list[LatentSample] = []
    generator = torch.Generator().manual_seed(effort.seed)
    total = effort.images
    for index, seen in enumerate(_seen(network, resolutions, total, seed=effort.seed, closed=effort.closed)):
        kept = [*kept[-KEPT + 1 :], seen]
        for head in heads.values():
            if index < effort.closed:
                head.gather(seen)
            if index == min(effort.closed, total) - 1:
                head.solve(held)
            elif index >= effort.closed:
                head.learn(kept, generator, done=(index - effort.closed) / (total - effort.closed))
        seen.features.clear()
        on_image(index + 1, total)
    return {resolution: head.finished(held) for resolution, head in heads.items()}, held


def _seen(
    network: MobileStyleGAN,
    resolutions: Sequence[int],
    count: int,
    *,
    seed: int,
    closed: int = 0,
    tested: bool = False,
) -> Iterator[LatentSample]:
    """One latent after the other, with all that the read-outs learn from."""
    w = network.map(torch.from_numpy(network.sample_z(count, seed)))[:, 0]
    psi = torch.empty(count, 1).uniform_(*PSI, generator=torch.Generator().manual_seed(seed))
    mean = network.mapping.mean
    for index, latent in enumerate((mean + psi * (w - mean)).split(1)):
        yield _sample_latent(network, latent, resolutions, features=index < closed, tested=tested)


@torch.no_grad()
def _sample_latent(
    network: MobileStyleGAN, w: Tensor, resolutions: Sequence[int], *, features: bool, tested: bool
) -> LatentSample:
    seen, x, side = LatentSample(w=w), network.first(w), 8
    for stage in network.every_stage:
        between = stage.between(x, w, whole(side))
        x = stage.conv2(between, stage.conv2.style(w), whole(side))
        if 2 * side in resolutions:
            seen.between[2 * side] = between.half()
            if features:
                seen.features[2 * side] = x
        side *= 2
    picture = network.to_image(x, w)
    for resolution in resolutions:
        seen.bands[resolution] = wavelets(functional.avg_pool2d(picture, side // resolution))
    if tested:
        seen.picture = picture.add(1).mul(127.5).round().clamp(0, 255).byte()
    return seen


def wavelets(images: Tensor) -> Tensor:
    """images [n, 3, 2 s, 2 s] -> [n, s s, 12]: three averages, then the details along rows, columns and both."""
    a, b = images[:, :, 0::2, 0::2], images[:, :, 0::2, 1::2]
    c, d = images[:, :, 1::2, 0::2], images[:, :, 1::2, 1::2]
    bands = torch.cat((a + b + c + d, a + b - c - d, a - b + c - d, a - b - c + d), dim=1) / 2
    return bands.flatten(2).transpose(1, 2)


class _Head:
    """The narrowed last convolution and the read-out of one resolution, while they are made."""

    def __init__(self, network: MobileStyleGAN, resolution: int) -> None:
        self.whole, self.resolution = network, resolution
        self.stages = next(n for n in range(len(network.stages)) if 16 * 2**n == resolution) + 1
        self.stage = network.every_stage[self.stages - 1]
        self.side = resolution // 2
        channels = len(self.stage.conv2.bias)
        self.head = min(HEADS[resolution], channels) if resolution in HEADS else channels
        self._products = torch.zeros(channels + 1, channels + 1, dtype=torch.float64)
        self._answers = torch.zeros(channels + 1, 12, dtype=torch.float64)
        self.numbers: dict[str, Tensor] = {}

    def gather(self, seen: LatentSample) -> None:
        """One more image for the closed form."""
        x = seen.features[self.resolution].flatten(0, 2)
        x = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self._products += (x.T @ x).double()
        self._answers += (x.T @ seen.bands[self.resolution][0]).double()

    def solve(self, held: Sequence[LatentSample]) -> None:
        """The closed form: first of all channels, then of those that count most."""
        weight = self._solved(torch.arange(len(self._products)))
        mean_square = self._products.diagonal() / self._products[-1, -1]
        spread = (mean_square - (self._products[-1] / self._products[-1, -1]).square()).clamp_min(0).sqrt()
        counts = weight[:-1].norm(dim=1) * spread[:-1]
        chosen = counts.topk(self.head).indices.sort().values
        weight = self._solved(torch.cat((chosen, torch.tensor([len(counts)])))).float()
        conv = self.stage.conv2
        w_dim = conv.style.weight.shape[1]
        made = {
            "depthwise": conv.depthwise,
            "pointwise": conv.pointwise[chosen],
            "bias": conv.bias[chosen],
            "style.weight": conv.style.weight,
            "style.bias": conv.style.bias,
            "image.weight": weight[:-1].T,
            "image.bias": weight[-1],
            "image.style.weight": weight.new_zeros(self.head, w_dim),
            "image.style.bias": weight.new_ones(self.head),
        }
        self.numbers = {name: value.detach().clone().contiguous() for name, value in made.items()}
        self._closed = {name: value.clone() for name, value in self.numbers.items()}
        self._closed_psnr = self.psnr(held)
        for name in RELATIVE:
            self.numbers[name].requires_grad_()
        groups = [
            {"params": [self.numbers[name]], "lr": LEARNING_RATE * rate, "full": LEARNING_RATE * rate}
            for name, rate in RELATIVE.items()
        ]
        self._optimizer, self._steps = torch.optim.Adam(groups, betas=(0.9, 0.99)), 0

    def _solved(self, rows: Tensor) -> Tensor:
        products = self._products[rows][:, rows]
        products = products + RIDGE * products.diagonal().mean() * torch.eye(len(rows), dtype=torch.float64)
        return torch.linalg.solve(products, self._answers[rows])

    def learn(self, kept: Sequence[LatentSample], generator: torch.Generator, *, done: float) -> None:
        """Some steps on the images kept. done: the fraction of the training that lies behind."""
        for _ in range(STEPS):
            self._steps += 1
            for group in self._optimizer.param_groups:
                group["lr"] = group["full"] * min(1.0, self._steps / WARM) * (1 - done)
            some = [kept[int(index)] for index in torch.randint(len(kept), (BATCH,), generator=generator)]
            error = self._read(some) - torch.cat([seen.bands[self.resolution] for seen in some])
            loss = error.square().mean() + DETAILS * error[:, :, 3:].abs().mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()

    def _read(self, some: Sequence[LatentSample]) -> Tensor:
        """The bands [n, s s, 12] that are read, differentiable in the numbers; as `network` computes them."""
        numbers, w = self.numbers, torch.cat([seen.w for seen in some])
        x = torch.cat([seen.between[self.resolution] for seen in some]).float()
        x = x * functional.linear(w, numbers["style.weight"], numbers["style.bias"])[:, None, None]
        kernel = numbers["depthwise"]
        y = functional.conv2d(x.permute(0, 3, 1, 2), kernel, padding=1, groups=len(kernel)).permute(0, 2, 3, 1)
        y = functional.linear(y, numbers["pointwise"], numbers["bias"]) + self.stage.conv2.noise
        y = functional.leaky_relu(y, SLOPE)
        y = y * functional.linear(w, numbers["image.style.weight"], numbers["image.style.bias"])[:, None, None]
        return functional.linear(y, numbers["image.weight"], numbers["image.bias"]).flatten(1, 2)

    @torch.no_grad()
    def psnr(self, held: Sequence[LatentSample]) -> float:
        """The mean over latents, in dB."""
        errors = [(self._read([seen]) - seen.bands[self.resolution]).square().mean() for seen in held]
        return float((10 * torch.log10(4 / torch.stack(errors))).mean())

    def finished(self, held: Sequence[LatentSample]) -> ReadOut:
        """The better of the closed form and what the training made of it, as a network."""
        psnr = self.psnr(held)
        if not psnr > self._closed_psnr:
            psnr, self.numbers = self._closed_psnr, self._closed
        trained = self.numbers is not self._closed
        network = self._network({name: value.detach() for name, value in self.numbers.items()})
        return ReadOut(network=network, psnr=psnr, closed_psnr=self._closed_psnr, trained=trained)

    def _network(self, numbers: dict[str, Tensor]) -> MobileStyleGAN:
        config = replace(self.whole.config, channels=self.whole.config.channels[: self.stages + 1], head=self.head)
        made = MobileStyleGAN(config)
        own = self.whole.state_dict()
        state = {name: own.get(name, value) for name, value in made.state_dict().items()}
        last = f"stages.{self.stages - 1}.conv2"
        for name, value in numbers.items():
            image, _, rest = name.partition("image.")
            state[f"to_image.{rest}" if rest and not image else f"{last}.{name}"] = value
        made.load_state_dict(state)
        return made.eval().requires_grad_(False)


IMAGE_INDICES = (195, 284, 635)
"""Left, top and side of the square of the 1024 pixels that is shown: eyes where aligned faces have them."""


def agreement(network: MobileStyleGAN, held: Sequence[LatentSample], judge: str, weights: Path) -> dict[str, Any]:
    """Agreement of the images of held-out latents: the mean cosine of a read-out's with its whole image and with the
    others', and the fraction that is nearest to its own."""
    embedder = load_embedder(judge, weights)
    with torch.no_grad():
        made = torch.cat([network.synthesize(seen.w[:, None]) for seen in held])
    size = 112
    ours = evaluate_logits(embedder, _face(_bytes(made), size), image_size=size)
    theirs = torch.cat([seen.picture for seen in held if seen.picture is not None])
    whole = evaluate_logits(embedder, _face(theirs, size), image_size=size)
    cosine = functional.normalize(ours) @ functional.normalize(whole).T
    same_face = cosine.diagonal()
    others = (cosine.sum() - same_face.sum()) / (cosine.numel() - len(same_face))
    nearest = (cosine.argmax(dim=1) == torch.arange(len(cosine))).float().mean()
    return {
        "judge": judge,
        "cosine_with_whole_image": round(float(same_face.mean()), 4),
        "cosine_with_other_images": round(float(others), 4),
        "nearest_is_own": round(float(nearest), 4),
    }


def _bytes(images: Tensor) -> Tensor:
    return images.add(1).mul(127.5).round().clamp(0, 255).byte()


def _face(images: Tensor, size: int) -> Tensor:
    """The tight square around the face, at `size` pixels."""
    left, top, side = (round(number * images.shape[-1] / ALIGNED) for number in IMAGE_INDICES)
    face = images[:, :, top : top + side, left : left + side].float()
    resized = functional.interpolate(face, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return resized.round().clamp(0, 255).byte()
