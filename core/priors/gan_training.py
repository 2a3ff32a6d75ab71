"""Training of a StyleGAN2 on images in memory: non-saturating logistic loss, lazy R1, moving average, ADA.

Every random number of a step is drawn from a stream of its own, made from (seed, step), for the whole batch of
all workers; a worker then takes its share. So a resumed training is the same training, bit for bit, and the
number of workers changes nothing but rounding. Source of the method: arXiv 1912.04958 and 2006.06676, and the
loss and schedule of `NVlabs/stylegan2-ada-pytorch` without path length regularisation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.gan_augment import Distortion, distort, draw_distortion
from smoothsweep.core.priors.gan_recipe import GanRecipe, check_batch
from smoothsweep.core.priors.gan_state import NO_PENALTY, GanState, new_state
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from smoothsweep.core.training.team import descend

W_AVG_SAMPLES = 10_000

Tensors = dict[str, Tensor]


def train_stylegan2(
    images: Tensor,
    config: StyleGAN2Config,
    recipe: GanRecipe,
    *,
    seed: int,
    device: torch.device | str = "cpu",
    rank: int = 0,
    world_size: int = 1,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
    start: tuple[StyleGAN2, StyleGAN2Discriminator] | None = None,
    resume: dict | None = None,
    on_checkpoint: Callable[[int, dict], None] | None = None,
    checkpoint_every: int = 0,
    hurry: Callable[[], bool] = lambda: False,
    on_log: Callable[[dict], None] | None = None,
    log_every: int = 64,
) -> tuple[Tensors, Tensors, list[dict]]:
    """Train on images uint8 [N, 3, R, R]; return the states of averaged generator and discriminator, and history.

    world_size workers call this with the same arguments but for `rank`, inside an initialised process group, with
    `wrap` = DistributedDataParallel: batch_size is split between them. start: networks to begin from instead of
    fresh ones. resume: what on_checkpoint(step, checkpoint) received, on every rank, each checkpoint_every steps,
    after a step for which hurry() is true, and at the end. history: one row per log_every steps, means since the row
    before; on_log receives each.

    Raises InputError for images, a batch or a checkpoint that do not fit; core.errors.TrainingDiverged with the
    step when a loss is not finite.
    """
    _check(images, config, recipe, world_size)
    if (on_checkpoint is None) != (checkpoint_every == 0):
        raise ValueError("on_checkpoint and checkpoint_every: give both or neither")
    state = new_state(config, recipe, seed=seed, device=torch.device(device), start=start)
    if resume is not None:
        state.restore(resume)
    generate, judge = wrap(_Generate(state.generator)), wrap(_Judge(state.discriminator))
    while state.step < recipe.steps:
        batch = _draw_batch(images, state, rank, world_size)
        state.record(_averaged(_train_step(state, generate, judge, batch), world_size))
        state.follow()
        state.step += 1
        last = state.step == recipe.steps
        if state.step % log_every == 0 or last:
            state.close_window(on_log)
        if on_checkpoint is not None and (state.step % checkpoint_every == 0 or last or hurry()):
            on_checkpoint(state.step, state.checkpoint())
    return finished_state(state.average, seed), copy.deepcopy(state.discriminator.state_dict()), state.history


def finished_state(generator: StyleGAN2, seed: int) -> Tensors:
    """A copy of the generator's state with `w_avg`, the centre of truncation, measured on 10,000 latents."""
    z = torch.from_numpy(generator.sample_z(W_AVG_SAMPLES, seed))
    with torch.no_grad():
        mean = generator.mapping(z).mean(dim=0)
    return {**copy.deepcopy(generator.state_dict()), "mapping.w_avg": mean}


def _check(images: Tensor, config: StyleGAN2Config, recipe: GanRecipe, world_size: int) -> None:
    side = config.resolution
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != (3, side, side) or not len(images):
        got = f"{images.dtype} {list(images.shape)}"
        raise InputError(f"gan training: images: expected uint8 [N, 3, {side}, {side}], got {got}")
    check_batch(recipe, config.mbstd_group, world_size)


class _Generate(nn.Module):
    """One forward call per step for a wrapper such as DistributedDataParallel to see."""

    def __init__(self, generator: StyleGAN2) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, z: Tensor, crossover: Tensor | None, noise: list[Tensor]) -> Tensor:
        """z [1 or 2, n, z_dim]; crossover int64 [n]: the first place that takes its w from the second z."""
        w = self.generator.mapping(z.flatten(0, 1)).unflatten(0, z.shape[:2])[:, :, None]
        places = torch.arange(self.generator.num_ws, device=z.device)[:, None]
        first = w[0].expand(-1, len(places), -1)
        ws = first if crossover is None else torch.where(places < crossover[:, None, None], first, w[1])
        return self.generator.synthesis(ws, noise)


class _Judge(nn.Module):
    """As `_Generate`: all batches of one backward pass in one call, each with its own minibatch statistics."""

    def __init__(self, discriminator: StyleGAN2Discriminator) -> None:
        super().__init__()
        self.discriminator = discriminator

    def forward(self, *batches: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.discriminator(images) for images in batches)


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """One worker's share of a step: n real images in [-1, 1] and the random numbers for n generated ones."""

    reals: Tensor
    z: Tensor
    crossover: Tensor | None
    noise: list[Tensor]
    distortions: tuple[Distortion, Distortion] | None


def _draw_batch(images: Tensor, state: GanState, rank: int, world_size: int) -> _Batch:
    """Every worker draws the same numbers for the whole batch and keeps every world_size-th image.

    The stride keeps the groups of minibatch-std, which are strided too, as they are with one worker.
    """
    recipe, device, n = state.recipe, state.device, state.recipe.batch_size
    mine = slice(rank, None, world_size)
    stream = _stream(device, state.seed, state.step)
    mixing = recipe.style_mixing > 0
    z = torch.randn(1 + mixing, n, state.config.z_dim, generator=stream, device=device)
    crossover = _draw_crossover(n, state.config.num_ws, recipe.style_mixing, stream) if mixing else None
    noise = state.generator.random_noise(n, stream)
    distortions = None
    if state.augment_probability > 0:
        probability, side = state.augment_probability, state.config.resolution
        first, second = (draw_distortion(n, side, probability, stream).part(mine) for _ in range(2))
        distortions = first, second
    reals = images[_real_index(len(images), n, state.seed, state.step)[mine]].to(device)
    return _Batch(
        reals=reals.float() / 127.5 - 1,
        z=z[:, mine],
        crossover=None if crossover is None else crossover[mine],
        noise=[level[mine] for level in noise],
        distortions=distortions,
    )


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


def _train_step(state: GanState, generate: nn.Module, judge: nn.Module, batch: _Batch) -> Tensor:
    """Update both networks once on the same generated images. Returns [loss_g, loss_d, r1, mean real sign]."""
    reals, fakes = batch.reals, generate(batch.z, batch.crossover, batch.noise)
    if batch.distortions is not None:
        reals, fakes = distort(reals, batch.distortions[0]), distort(fakes, batch.distortions[1])
    state.discriminator.requires_grad_(True)
    real_logits, fake_logits = judge(reals, fakes.detach())
    loss_d = softplus(-real_logits).mean() + softplus(fake_logits).mean()
    descend(state.discriminator_adam, loss_d)
    penalty = _penalise(state, judge, reals)
    # Past the wrapper and without weight gradients: this pass belongs to the generator alone.
    state.discriminator.requires_grad_(False)
    loss_g = softplus(-state.discriminator(fakes)).mean()
    descend(state.generator_adam, loss_g)
    return torch.stack([loss_g, loss_d, penalty, real_logits.sign().mean()]).detach()


def _penalise(state: GanState, judge: nn.Module, reals: Tensor) -> Tensor:
    """Lazy R1 (arXiv 1912.04958, section 4.1): the penalty of r1_interval steps at once, in a step of its own.

    The gradient is taken at what the discriminator sees, after the distortions.
    """
    recipe = state.recipe
    if not recipe.r1_gamma or state.step % recipe.r1_interval:
        return torch.tensor(NO_PENALTY, device=reals.device)
    reals = reals.detach().requires_grad_()
    (logits,) = judge(reals)
    (gradient,) = torch.autograd.grad(logits.sum(), reals, create_graph=True)
    penalty = gradient.square().sum(dim=(1, 2, 3)).mean()
    # The last bias has no part in the penalty; distributed wrappers wait for the gradient of every weight.
    descend(state.discriminator_adam, penalty * (recipe.r1_gamma / 2 * recipe.r1_interval) + 0 * logits.sum())
    return penalty


def _averaged(values: Tensor, world_size: int) -> list[float]:
    if world_size > 1:
        torch.distributed.all_reduce(values)
        values = values / world_size
    return values.tolist()
