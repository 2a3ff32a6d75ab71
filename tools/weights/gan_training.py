"""Training of a StyleGAN2 on images in memory: non-saturating logistic loss, lazy R1, moving average, ADA.

Every random number of a step is drawn from a stream of its own, made from (seed, step), so a resumed training is the
same training, bit for bit. Source of the method: arXiv 1912.04958 and 2006.06676, and the loss and schedule of
`NVlabs/stylegan2-ada-pytorch` without path length regularisation. The distortions: DiffAugment, arXiv 2006.10738.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import softplus

from smoothsweep.core.bounds import Beta, Count, Fraction, NotNegative, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.core.training.gan_pair import KeptState, descend

DEFAULT_ADA_TARGET = 0.6
DEFAULT_ADA_KIMG = 500.0


@dataclass(frozen=True, kw_only=True)
class GanRecipe:
    """Counts are in thousands of real images shown to the discriminator (kimg), as in the literature.

    Attributes:
        kimg: Length of the training, in thousands of real images.
        batch_size: Images of a step.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        r1_gamma: Weight of the gradient penalty on real images, which is added every r1_interval (16) steps.
        ema_kimg: Half-life of the moving average of the generator; during the start it is at most ema_rampup times what
            was seen so far.
        style_mixing: Share of images whose w changes at a random place.
        augmentation: "none"; "light" distorts every image the discriminator sees; "adaptive" distorts with a
            probability that is steered by how many real images the discriminator judges real.
        ada_target, ada_kimg: Settings of "adaptive" alone: the mean sign of the logits of real images to stay near
            (None: 0.6), and in how many kimg the probability may move from 0 to 1 (None: 500).
    """

    kimg: Positive = 200.0
    batch_size: Annotated[Count, Ge(4)] = 16
    lr: Positive = 0.002
    r1_gamma: NotNegative = 1.0
    augmentation: Literal["none", "light", "adaptive"] = "light"
    betas: tuple[Beta, Beta] = (0.0, 0.99)
    r1_interval: Count = 16
    ema_kimg: Positive = 10.0
    ema_rampup: Positive = 0.05
    style_mixing: Fraction = 0.0
    ada_target: float | None = None
    ada_kimg: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self, "gan recipe: ")
        used = self.augmentation == "adaptive" or (self.ada_target, self.ada_kimg) == (None, None)
        require(used, "gan recipe: ada_target, ada_kimg", "them with augmentation adaptive alone", self.augmentation)

    @property
    def steps(self) -> int:
        return math.ceil(self.kimg * 1000 / self.batch_size)

    def adjusted_probability(self, probability: float, mean_sign: float, images: int) -> float:
        """The adaptive probability after `images` more images whose real logits had this mean sign."""
        target = DEFAULT_ADA_TARGET if self.ada_target is None else self.ada_target
        kimg = DEFAULT_ADA_KIMG if self.ada_kimg is None else self.ada_kimg
        direction = (mean_sign > target) - (mean_sign < target)
        return min(max(probability + direction * images / (kimg * 1000), 0.0), 1.0)

    def ema_keep(self, step: int) -> float:
        """The weight of the old average when step (0-based) has just updated the generator."""
        half_life = min(self.ema_kimg * 1000, self.ema_rampup * (step + 1) * self.batch_size)
        return 0.5 ** (self.batch_size / half_life)


MAX_SHIFT = 1 / 8
"""Largest translation, in image sides."""
HOLE = 1 / 2
"""Side of the cut-out square, in image sides."""
BRIGHTNESS, SATURATION, CONTRAST = 0.4, 0.5, 0.3
"""Half-widths of the uniform draws around no change; brightness on images in [-1, 1]."""


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """One draw for each of N images. What does not apply to an image holds its neutral value.

    Attributes:
        flip: bool [N].
        shift: int64 [N, 2], pixels down and right.
        brightness: [N], added.
        saturation, contrast: [N], factors.
        hole: int64 [N, 2], top left corner of the cut-out; the image side where there is none.
    """

    flip: Tensor
    shift: Tensor
    brightness: Tensor
    saturation: Tensor
    contrast: Tensor
    hole: Tensor


def draw_distortion(n: int, side: int, probability: float, generator: torch.Generator) -> Distortion:
    """Draw for n images of `side` pixels; each kind of distortion hits each image with `probability`.

    Tensors lie on the generator's device.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=generator.device)

    active = uniform(n, 6) < probability
    reach = max(1, round(side * MAX_SHIFT))
    shift = (uniform(n, 2) * (2 * reach + 1)).long().clamp_max(2 * reach) - reach
    cut = round(side * HOLE)
    hole = (uniform(n, 2) * (side + cut)).long() - cut
    colour = (2 * uniform(n, 3) - 1) * active[:, 2:5]
    return Distortion(
        flip=active[:, 0] & (uniform(n) < 0.5),
        shift=shift * active[:, 1:2],
        brightness=colour[:, 0] * BRIGHTNESS,
        saturation=1 + colour[:, 1] * SATURATION,
        contrast=1 + colour[:, 2] * CONTRAST,
        hole=torch.where(active[:, 5:6], hole, side),
    )


def distort(images: Tensor, distortion: Distortion) -> Tensor:
    """images [N, 3, R, R] in [-1, 1] -> the same shape; flip, shift (mirrored at the border), colour, cut-out."""
    images = torch.where(distortion.flip[:, None, None, None], images.flip(3), images)
    images = _translate(images, distortion.shift)
    images = images + distortion.brightness[:, None, None, None]
    grey = images.mean(dim=1, keepdim=True)
    images = grey + (images - grey) * distortion.saturation[:, None, None, None]
    level = images.mean(dim=(1, 2, 3), keepdim=True)
    images = level + (images - level) * distortion.contrast[:, None, None, None]
    return images * _mask(distortion.hole, images.shape[-1])


def _translate(images: Tensor, shift: Tensor) -> Tensor:
    reach = int(shift.abs().max()) if len(shift) else 0
    if reach == 0:
        return images
    side = images.shape[-1]
    padded = F.pad(images, (reach,) * 4, mode="reflect")
    corners = (reach - shift).tolist()
    return torch.stack(
        [image[:, top : top + side, left : left + side] for image, (top, left) in zip(padded, corners, strict=True)]
    )


def _mask(hole: Tensor, side: int) -> Tensor:
    """[N, 1, R, R]: 0 inside each image's hole, 1 elsewhere."""
    place = torch.arange(side, device=hole.device)
    inside = (place >= hole[:, :, None]) & (place < hole[:, :, None] + round(side * HOLE))
    return (~(inside[:, 0, :, None] & inside[:, 1, None, :])).float()[:, None]


ADA_INTERVAL = 4
"""Steps between two changes of the adaptive probability."""

NO_PENALTY = -1.0
"""Stands for R1 in a step that did not compute it; the penalty itself is never negative."""


@dataclass(kw_only=True)
class GanState(KeptState):
    """What a GAN's training carries from step to step beside its networks and optimisers.

    Attributes:
        average: The moving average of the generator.
        sign_sum: Sum over steps of the mean sign of real logits since the probability last changed.
        window: [loss_g, loss_d, r1, sign] of the steps since the last row of history.
    """

    KIND: ClassVar[str] = "gan checkpoint"
    MODULES: ClassVar[tuple[str, ...]] = (
        "generator",
        "discriminator",
        "average",
        "generator_adam",
        "discriminator_adam",
    )
    VALUES: ClassVar[tuple[str, ...]] = ("step", "augment_probability", "sign_sum", "window", "history")

    config: StyleGAN2Config
    recipe: GanRecipe
    seed: int
    device: torch.device
    generator: StyleGAN2
    discriminator: StyleGAN2Discriminator
    average: StyleGAN2
    generator_adam: torch.optim.Adam
    discriminator_adam: torch.optim.Adam
    step: int = 0
    augment_probability: float = 0.0
    sign_sum: float = 0.0
    window: list[list[float]] = field(default_factory=list)
    history: list[dict] = field(default_factory=list)

    def record(self, values: list[float]) -> None:
        """Note [loss_g, loss_d, r1, mean sign of the real logits] of this step and steer the augmentation."""
        if not all(math.isfinite(value) for value in values):
            losses = "loss_g {:.3g}, loss_d {:.3g}, r1 {:.3g}".format(*values)
            raise TrainingDiverged(f"GAN training diverged at step {self.step}: {losses}")
        self.window.append(values)
        self.sign_sum += values[3]
        if (self.step + 1) % ADA_INTERVAL == 0:
            if self.recipe.augmentation == "adaptive":
                self.augment_probability = self.recipe.adjusted_probability(
                    self.augment_probability, self.sign_sum / ADA_INTERVAL, ADA_INTERVAL * self.recipe.batch_size
                )
            self.sign_sum = 0.0

    def follow(self) -> None:
        """Move the average a little towards the generator that this step has updated."""
        share = 1 - self.recipe.ema_keep(self.step)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.generator.parameters()), share)

    def close_window(self, on_log: Callable[[dict], None] | None) -> None:
        """Turn the steps since the last row into a row of history."""
        penalties = [values[2] for values in self.window if values[2] != NO_PENALTY]
        loss_g, loss_d, _, sign = np.mean(self.window, axis=0).tolist()
        row = {
            "step": self.step,
            "kimg": self.step * self.recipe.batch_size / 1000,
            "loss_g": loss_g,
            "loss_d": loss_d,
            "r1": float(np.mean(penalties)) if penalties else None,
            "real_sign": sign,
            "augment_probability": self.augment_probability,
        }
        self.window = []
        self.history.append(row)
        if on_log is not None:
            on_log(row)

    def identity(self) -> dict[str, Any]:
        """All but the length of the training (kimg)."""
        numbers = {field.name: getattr(self.recipe, field.name) for field in fields(GanRecipe) if field.name != "kimg"}
        numbers["learning_rate"] = numbers.pop("lr")  # what checkpoints have always called it
        return {"config": asdict(self.config), "recipe": numbers, "seed": self.seed}


def new_state(
    config: StyleGAN2Config,
    recipe: GanRecipe,
    *,
    seed: int,
    device: torch.device,
    start: tuple[StyleGAN2, StyleGAN2Discriminator] | None,
) -> GanState:
    """The state before the first step: fresh networks from `seed`, or copies of those in `start`."""
    if start is None:
        start = StyleGAN2(config, seed=seed), StyleGAN2Discriminator(config, seed=seed)
    if any(network.config != config for network in start):
        raise InputError(f"start: expected networks of {config}, got {[network.config for network in start]}")
    generator = copy.deepcopy(start[0]).to(device).requires_grad_(True)
    discriminator = copy.deepcopy(start[1]).to(device).requires_grad_(True)
    # R1 adds a step to every r1_interval steps of the discriminator: its optimiser slows down in proportion.
    slowdown = recipe.r1_interval / (recipe.r1_interval + 1) if recipe.r1_gamma else 1.0
    return GanState(
        config=config,
        recipe=recipe,
        seed=seed,
        device=device,
        generator=generator,
        discriminator=discriminator,
        average=copy.deepcopy(generator).requires_grad_(False),
        generator_adam=_adam(generator, recipe, 1.0),
        discriminator_adam=_adam(discriminator, recipe, slowdown),
        augment_probability=1.0 if recipe.augmentation == "light" else 0.0,
    )


def _adam(network: nn.Module, recipe: GanRecipe, slowdown: float) -> torch.optim.Adam:
    first, second = recipe.betas
    betas = first**slowdown, second**slowdown
    return torch.optim.Adam(network.parameters(), lr=recipe.lr * slowdown, betas=betas)


W_AVG_SAMPLES = 10_000

Tensors = dict[str, Tensor]


def train_stylegan2(
    images: Tensor,
    config: StyleGAN2Config,
    recipe: GanRecipe,
    *,
    seed: int,
    device: torch.device | str = "cpu",
    start: tuple[StyleGAN2, StyleGAN2Discriminator] | None = None,
    resume: dict | None = None,
    on_checkpoint: Callable[[int, dict], None] | None = None,
    checkpoint_every: int = 0,
    on_log: Callable[[dict], None] | None = None,
    log_every: int = 64,
) -> tuple[Tensors, Tensors, list[dict]]:
    """Train on images uint8 [N, 3, R, R]; return the states of averaged generator and discriminator, and history.

    start: networks to begin from instead of fresh ones. resume: what on_checkpoint(step, checkpoint) received, each
    checkpoint_every steps and at the end. history: one row per log_every steps, means since the row before; on_log
    receives each.

    Raises InputError for images, a batch or a checkpoint that do not fit; core.errors.TrainingDiverged with the
    step when a loss is not finite.
    """
    _check(images, config, recipe)
    if (on_checkpoint is None) != (checkpoint_every == 0):
        raise ValueError("on_checkpoint and checkpoint_every: give both or neither")
    state = new_state(config, recipe, seed=seed, device=torch.device(device), start=start)
    if resume is not None:
        state.restore(resume)
    while state.step < recipe.steps:
        state.record(_train_step(state, _draw_batch(images, state)).tolist())
        state.follow()
        state.step += 1
        last = state.step == recipe.steps
        if state.step % log_every == 0 or last:
            state.close_window(on_log)
        if on_checkpoint is not None and (state.step % checkpoint_every == 0 or last):
            on_checkpoint(state.step, state.checkpoint())
    return finished_state(state.average, seed), copy.deepcopy(state.discriminator.state_dict()), state.history


def finished_state(generator: StyleGAN2, seed: int) -> Tensors:
    """A copy of the generator's state with `w_avg`, the centre of truncation, measured on 10,000 latents."""
    z = torch.from_numpy(generator.sample_z(W_AVG_SAMPLES, seed))
    with torch.no_grad():
        mean = generator.mapping(z).mean(dim=0)
    return {**copy.deepcopy(generator.state_dict()), "mapping.w_avg": mean}


def _check(images: Tensor, config: StyleGAN2Config, recipe: GanRecipe) -> None:
    side = config.resolution
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != (3, side, side) or not len(images):
        got = f"{images.dtype} {list(images.shape)}"
        raise InputError(f"gan training: images: expected uint8 [N, 3, {side}, {side}], got {got}")
    group = recipe.batch_size if config.mbstd_group is None else min(config.mbstd_group, recipe.batch_size)
    if recipe.batch_size % group:
        expected = f"a multiple of minibatch-std's group, {group}"
        raise InputError(f"gan training: batch_size: expected {expected}, got {recipe.batch_size}")


def _generated(generator: StyleGAN2, batch: _Batch) -> Tensor:
    """Fakes [n, 3, R, R]; images whose crossover is below num_ws take later places' w from the second z."""
    z = batch.z
    w = generator.mapping(z.flatten(0, 1)).unflatten(0, z.shape[:2])[:, :, None]
    places = torch.arange(generator.num_ws, device=z.device)[:, None]
    first = w[0].expand(-1, len(places), -1)
    ws = first if batch.crossover is None else torch.where(places < batch.crossover[:, None, None], first, w[1])
    return generator.synthesis(ws, batch.noise)


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """n real images in [-1, 1] and the random numbers for n generated ones: z [1 or 2, n, z_dim], crossover [n]."""

    reals: Tensor
    z: Tensor
    crossover: Tensor | None
    noise: list[Tensor]
    distortions: tuple[Distortion, ...] | None


def _draw_batch(images: Tensor, state: GanState) -> _Batch:
    recipe, device, n = state.recipe, state.device, state.recipe.batch_size
    stream = _stream(device, state.seed, state.step)
    mixing = recipe.style_mixing > 0
    z = torch.randn(1 + mixing, n, state.config.z_dim, generator=stream, device=device)
    crossover = _draw_crossover(n, state.config.num_ws, recipe.style_mixing, stream) if mixing else None
    noise = state.generator.random_noise(n, stream)
    distortions = None
    if state.augment_probability > 0:
        probability, side = state.augment_probability, state.config.resolution
        distortions = tuple(draw_distortion(n, side, probability, stream) for _ in range(2))
    reals = images[_real_index(len(images), n, state.seed, state.step)].to(device)
    return _Batch(reals=reals.float() / 127.5 - 1, z=z, crossover=crossover, noise=noise, distortions=distortions)


def _draw_crossover(n: int, num_ws: int, probability: float, stream: torch.Generator) -> Tensor:
    places = torch.randint(1, num_ws, (n,), generator=stream, device=stream.device)
    mixed = torch.rand(n, generator=stream, device=stream.device) < probability
    return torch.where(mixed, places, num_ws)


def _real_index(count: int, n: int, seed: int, step: int) -> Tensor:
    """The n images of a step: the data set is shown in a fresh order again and again."""
    places = range(step * n, (step + 1) * n)
    return torch.stack([_order(count, seed, place // count)[place % count] for place in places])


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=_stream(torch.device("cpu"), seed, epoch, 1))


def _stream(device: torch.device, *key: int) -> torch.Generator:
    words = np.random.SeedSequence(key).generate_state(2, np.uint32).tolist()
    return torch.Generator(device).manual_seed(words[0] << 31 | words[1] >> 1)


def _train_step(state: GanState, batch: _Batch) -> Tensor:
    """Update both networks once on the same generated images. Returns [loss_g, loss_d, r1, mean real sign]."""
    reals, fakes = batch.reals, _generated(state.generator, batch)
    if batch.distortions is not None:
        reals, fakes = distort(reals, batch.distortions[0]), distort(fakes, batch.distortions[1])
    state.discriminator.requires_grad_(True)
    real_logits, fake_logits = state.discriminator(reals), state.discriminator(fakes.detach())
    loss_d = softplus(-real_logits).mean() + softplus(fake_logits).mean()
    descend(state.discriminator_adam, loss_d)
    penalty = _penalise(state, reals)
    # Without weight gradients: this pass belongs to the generator alone.
    state.discriminator.requires_grad_(False)
    loss_g = softplus(-state.discriminator(fakes)).mean()
    descend(state.generator_adam, loss_g)
    return torch.stack([loss_g, loss_d, penalty, real_logits.sign().mean()]).detach()


def _penalise(state: GanState, reals: Tensor) -> Tensor:
    """Lazy R1 (arXiv 1912.04958, section 4.1): the penalty of r1_interval steps at once, in a step of its own.

    The gradient is taken at what the discriminator sees, after the distortions.
    """
    recipe = state.recipe
    if not recipe.r1_gamma or state.step % recipe.r1_interval:
        return torch.tensor(NO_PENALTY, device=reals.device)
    reals = reals.detach().requires_grad_()
    logits = state.discriminator(reals)
    (gradient,) = torch.autograd.grad(logits.sum(), reals, create_graph=True)
    penalty = gradient.square().sum(dim=(1, 2, 3)).mean()
    # The last bias has no part in the penalty; its optimiser counts this step all the same.
    descend(state.discriminator_adam, penalty * (recipe.r1_gamma / 2 * recipe.r1_interval) + 0 * logits.sum())
    return penalty
