"""Train a StyleGAN2: on images of your own, as a prior that a sweep can name, or the one that is shipped.

python -m tools.weights.train_generator IMAGES --size 64 --out DIRECTORY
python -m tools.weights.train_generator --shipped --out DIRECTORY

Interrupt it and run it again: it continues from its last checkpoint in --out. The first leaves DIRECTORY/prior, in a
sweep file `prior: {kind: folder, path: DIRECTORY/prior}`; the second trains on rendered public people and leaves the
three files of core/priors/weights, whose README says how good they are. Deterministic for one thread on one kind of
processor: every random number of a step is drawn from a stream of its own.

Non-saturating logistic loss, lazy R1, moving average, adaptive augmentation: arXiv 1912.04958 and 2006.06676, and the
loss and schedule of `NVlabs/stylegan2-ada-pytorch` without path length regularisation. The distortions: DiffAugment,
arXiv 2006.10738.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Ge
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.nn.functional import softplus
from torchvision.transforms.functional import to_pil_image
from torchvision.utils import make_grid

from smoothsweep.core.attacks.gan_training import GanPair, descend
from smoothsweep.core.bounds import Count, NotNegative, Positive
from smoothsweep.core.data.labelled import load_unlabelled
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.files import making_folder, replacing
from smoothsweep.core.priors.registry import save_discriminator, save_prior, write_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator

R1_INTERVAL = 16  # steps; the penalty of all of them is taken at once
EMA_RAMPUP = 0.05  # during the start the average's half-life is at most so much of what was seen
ADA_INTERVAL, ADA_TARGET, ADA_KIMG = 4, 0.6, 500.0
"""Steps between changes of the probability, the mean sign of real logits to stay near, kimg for a way from 0 to 1."""
CHECKPOINTS, ROWS = 20, 100  # of a training: what it leaves, and what it prints
W_AVG_SAMPLES = 10_000

SHIPPED_NAME, SHIPPED_SEED, PUBLIC_SEED = "stylegan2_synthetic64", 64, 6464
IDENTITIES, PER_IDENTITY, SPREADS = 4000, 4, (1.0, 0.5)
SHIPPED = StyleGAN2Config(
    resolution=64, z_dim=128, w_dim=128, mapping_layers=2, channel_base=1024, channel_max=128, mbstd_group=4
)


@dataclass(frozen=True, kw_only=True)
class GanRecipe:
    """Counts are in thousands of real images shown to the discriminator (kimg), as in the literature.

    Attributes:
        kimg: Length of the training, in thousands of real images.
        batch_size: Images of a step.
        lr: Adam's learning rate, of both networks.
        r1_gamma: Weight of the gradient penalty on real images.
        augmentation: "none"; "light" distorts every image the discriminator sees; "adaptive" distorts with a
            probability that is steered by how many real images the discriminator judges real.
        ema_kimg: Half-life of the moving average of the generator.
    """

    kimg: Positive = 200.0
    batch_size: Annotated[Count, Ge(4)] = 16
    lr: Positive = 0.002
    r1_gamma: NotNegative = 1.0
    augmentation: Literal["none", "light", "adaptive"] = "light"
    ema_kimg: Positive = 10.0
    betas: ClassVar[tuple[float, float]] = (0.0, 0.99)

    def __post_init__(self) -> None:
        check_fields(self, "gan recipe: ")

    @property
    def steps(self) -> int:
        return math.ceil(self.kimg * 1000 / self.batch_size)

    @property
    def settings(self) -> dict[str, Any]:
        """All but the length: a finished training can be made longer."""
        return {name: value for name, value in asdict(self).items() if name != "kimg"}

    def ema_keep(self, step: int) -> float:
        """The weight of the old average when step (0-based) has just updated the generator."""
        half_life = min(self.ema_kimg * 1000, EMA_RAMPUP * (step + 1) * self.batch_size)
        return 0.5 ** (self.batch_size / half_life)


SHIPPED_RECIPE = GanRecipe(kimg=84, batch_size=16, lr=0.003, r1_gamma=0.1, ema_kimg=5, augmentation="none")


@dataclass(kw_only=True)
class GanState(GanPair):
    """A training. losses: [loss_g, loss_d, r1 (nan in a step without it), mean sign of the real logits] of each step.

    Attributes:
        average: The moving average of the generator.
        probability: Of a distortion.
    """

    MODULES: ClassVar[tuple[str, ...]] = (*GanPair.MODULES, "average")
    VALUES: ClassVar[tuple[str, ...]] = ("step", "probability")

    seed: int
    average: StyleGAN2
    probability: float

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "seed": self.seed}

    def record(self, losses: list[float]) -> None:
        """Note what a step gave, move the average, and steer the augmentation.

        Raises TrainingDiverged with the step when a loss is not finite.
        """
        if not all(map(math.isfinite, losses[:2])) or math.isinf(losses[2]):
            said = "loss_g {:.3g}, loss_d {:.3g}, r1 {:.3g}".format(*losses)
            raise TrainingDiverged(f"GAN training diverged at step {self.step}: {said}")
        with torch.no_grad():
            moved = list(self.average.parameters()), list(self.generator.parameters())
            torch._foreach_lerp_(*moved, 1 - self.recipe.ema_keep(self.step))
        self.losses.append(losses)
        self.step += 1
        if self.step % ADA_INTERVAL == 0 and self.recipe.augmentation == "adaptive":
            sign = float(np.mean([row[3] for row in self.losses[-ADA_INTERVAL:]]))
            images = ADA_INTERVAL * self.recipe.batch_size
            moved_by = ((sign > ADA_TARGET) - (sign < ADA_TARGET)) * images / (ADA_KIMG * 1000)
            self.probability = min(max(self.probability + moved_by, 0.0), 1.0)


def new_state(config: StyleGAN2Config, recipe: GanRecipe, *, seed: int, device: str) -> GanState:
    """The state before the first step."""
    generator = StyleGAN2(config, seed=seed).to(device).requires_grad_(True)
    discriminator = StyleGAN2Discriminator(config, seed=seed).to(device).requires_grad_(True)
    # R1 adds a step to every R1_INTERVAL steps of the discriminator: its optimiser slows down in proportion.
    slowdown = R1_INTERVAL / (R1_INTERVAL + 1) if recipe.r1_gamma else 1.0
    return GanState(
        config=config,
        recipe=recipe,
        seed=seed,
        generator=generator,
        discriminator=discriminator,
        average=copy.deepcopy(generator).requires_grad_(False),
        generator_adam=torch.optim.Adam(generator.parameters(), lr=recipe.lr, betas=recipe.betas),
        discriminator_adam=torch.optim.Adam(
            discriminator.parameters(), lr=recipe.lr * slowdown, betas=tuple(one**slowdown for one in recipe.betas)
        ),
        probability=1.0 if recipe.augmentation == "light" else 0.0,
    )


def train(
    images: Tensor, config: StyleGAN2Config, recipe: GanRecipe, out: Path, *, seed: int, device: str = "cpu"
) -> GanState:
    """Train or continue in `out` on images uint8 [N, 3, R, R]; the average has its `w_avg`, the centre of truncation.

    Raises InputError for images, a batch or a checkpoint that do not fit; TrainingDiverged.
    """
    side = config.resolution
    if images.dtype != torch.uint8 or images.shape[1:] != (3, side, side) or not len(images):
        got = f"{images.dtype} {list(images.shape)}"
        raise InputError(f"gan training: images: expected uint8 [N, 3, {side}, {side}], got {got}")
    group = min(config.mbstd_group or recipe.batch_size, recipe.batch_size)
    if recipe.batch_size % group:
        expected = f"a multiple of minibatch-std's group, {group}"
        raise InputError(f"gan training: batch_size: expected {expected}, got {recipe.batch_size}")
    out.mkdir(parents=True, exist_ok=True)
    saved, state = out / "checkpoint.pt", new_state(config, recipe, seed=seed, device=device)
    if saved.exists():
        state.restore(torch.load(saved, weights_only=True, map_location="cpu"))
    every, told = max(1, recipe.steps // CHECKPOINTS), max(1, recipe.steps // ROWS)
    while state.step < recipe.steps:
        state.record(train_step(state, images).tolist())
        last = state.step == recipe.steps
        if state.step % told == 0 or last:
            loss_g, loss_d, r1, sign = np.nanmean(state.losses[-max(told, R1_INTERVAL) :], axis=0)
            said = f"loss_g {loss_g:.3f}  loss_d {loss_d:.3f}  r1 {r1:.3f}  real sign {sign:.3f}"
            print(f"step {state.step} of {recipe.steps}  {said}  augmented {state.probability:.3f}", flush=True)
        if state.step % every == 0 or last:
            with replacing(saved) as temporary:
                torch.save(state.checkpoint(), temporary)
    with torch.no_grad():
        z = torch.from_numpy(state.average.sample_z(W_AVG_SAMPLES, seed)).to(device)
        state.average.mapping.w_avg.copy_(state.average.mapping(z).mean(dim=0))
    return state


def train_step(state: GanState, images: Tensor) -> Tensor:
    """Update both networks once on the same generated images. Returns [loss_g, loss_d, r1, mean real sign]."""
    recipe, n = state.recipe, state.recipe.batch_size
    stream = _stream(state.device, state.seed, state.step)
    z = torch.randn(n, state.config.z_dim, generator=stream, device=state.device)
    noise = state.generator.random_noise(n, stream)
    places = range(state.step * n, (state.step + 1) * n)
    reals = images[shown(len(images), state.seed, places)].to(state.device).float() / 127.5 - 1
    w = state.generator.mapping(z)[:, None].expand(-1, state.generator.num_ws, -1)
    fakes = state.generator.synthesis(w, noise)
    if state.probability > 0:
        reals, fakes = (distort(one, state.probability, stream) for one in (reals, fakes))
    state.discriminator.requires_grad_(True)
    real_logits, fake_logits = state.discriminator(reals), state.discriminator(fakes.detach())
    loss_d = softplus(-real_logits).mean() + softplus(fake_logits).mean()
    descend(state.discriminator_adam, loss_d)
    penalty = torch.tensor(torch.nan, device=reals.device)
    if recipe.r1_gamma and state.step % R1_INTERVAL == 0:  # lazy R1, in a step of its own (1912.04958, section 4.1)
        reals = reals.detach().requires_grad_()
        logits = state.discriminator(reals)
        (gradient,) = torch.autograd.grad(logits.sum(), reals, create_graph=True)
        penalty = gradient.square().sum(dim=(1, 2, 3)).mean()
        # The last bias has no part in the penalty; its optimiser counts this step all the same.
        descend(state.discriminator_adam, penalty * (recipe.r1_gamma / 2 * R1_INTERVAL) + 0 * logits.sum())
    # Without weight gradients: this pass belongs to the generator alone.
    state.discriminator.requires_grad_(False)
    loss_g = softplus(-state.discriminator(fakes)).mean()
    descend(state.generator_adam, loss_g)
    return torch.stack([loss_g, loss_d, penalty, real_logits.sign().mean()]).detach()


def shown(count: int, seed: int, places: Iterable[int]) -> Tensor:
    """Indices of the images at places of the training: all images are shown in a fresh order again and again."""
    return torch.stack([_order(count, seed, place // count)[place % count] for place in places])


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=_stream(torch.device("cpu"), seed, epoch, 1))


def _stream(device: torch.device, *key: int) -> torch.Generator:
    words = np.random.SeedSequence(key).generate_state(2, np.uint32).tolist()
    return torch.Generator(device).manual_seed(words[0] << 31 | words[1] >> 1)


def distort(images: Tensor, probability: float, stream: torch.Generator) -> Tensor:
    """images [N, 3, R, R] in [-1, 1] -> the same shape, each kind of distortion on each image with `probability`.

    Mirror, shift by up to an eighth of the side, brightness, saturation, contrast, a cut-out of half the side.
    """
    n, side = len(images), images.shape[-1]

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=stream, device=images.device)

    active = uniform(n, 6) < probability
    reach, cut = max(1, round(side / 8)), round(side / 2)
    shift = ((uniform(n, 2) * (2 * reach + 1)).long().clamp_max(2 * reach) - reach) * active[:, 1:2]
    hole = torch.where(active[:, 5:6], (uniform(n, 2) * (side + cut)).long() - cut, side)
    brightness, saturation, contrast = ((2 * uniform(n, 3) - 1) * active[:, 2:5]).T[:, :, None, None, None]
    images = torch.where((active[:, 0] & (uniform(n) < 0.5))[:, None, None, None], images.flip(3), images)
    padded, corners = F.pad(images, (reach,) * 4, mode="reflect"), (reach - shift).tolist()
    images = torch.stack(
        [image[:, top : top + side, left : left + side] for image, (top, left) in zip(padded, corners, strict=True)]
    )
    images = images + 0.4 * brightness
    grey = images.mean(dim=1, keepdim=True)
    images = grey + (images - grey) * (1 + 0.5 * saturation)
    level = images.mean(dim=(1, 2, 3), keepdim=True)
    images = level + (images - level) * (1 + 0.3 * contrast)
    place = torch.arange(side, device=images.device)
    inside = (place >= hole[:, :, None]) & (place < hole[:, :, None] + cut)
    return images * (~(inside[:, 0, :, None] & inside[:, 1, None, :])).float()[:, None]


def public_images(identities: int = IDENTITIES) -> Tensor:
    """uint8 [identities x PER_IDENTITY x spreads, 3, 64, 64]: people of both spreads, strangers to each other."""
    drawn: dict[str, Any] = {"population": "public", "identities": identities, "per_identity": PER_IDENTITY}
    crowds = [
        synthetic_faces(size=SHIPPED.resolution, spread=spread, seed=PUBLIC_SEED + number, **drawn)
        for number, spread in enumerate(SPREADS)
    ]
    return torch.cat([crowd.images for crowd in crowds])


def sample_sheet(generator: StyleGAN2, *, rows: int = 8, columns: int = 16, seed: int = 0) -> Image.Image:
    """Unselected samples: the upper half as drawn (psi 1), the lower half truncated as an attack starts (psi 0.5)."""
    z = torch.from_numpy(generator.sample_z(rows * columns // 2, seed))
    with torch.no_grad():
        images = torch.cat([generator.synthesize(generator.map(z, psi=psi)) for psi in (1.0, 0.5)])
    pixels = ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return to_pil_image(make_grid(pixels, nrow=columns, padding=0))


def export_shipped(generator: StyleGAN2, out: Path) -> None:
    """Write weights (float16), description and sample sheet."""
    weights, description, sheet = (out / f"{SHIPPED_NAME}.{kind}" for kind in ("safetensors", "json", "png"))
    write_prior(generator, weights=weights, description=description, dtype="float16")
    with replacing(sheet) as temporary:
        sample_sheet(generator).save(temporary, format="PNG")


def main() -> None:
    """Read the command line, train, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="?", help="a folder of images")
    parser.add_argument("--shipped", action="store_true", help="train the generator that is shipped instead")
    parser.add_argument("--out", type=Path, required=True, help="directory of the checkpoint and the prior")
    parser.add_argument("--size", type=int, help="side of its images in pixels, a power of two")
    parser.add_argument("--kimg", type=float, help="thousands of images to train on (default: 200; shipped: 84)")
    parser.add_argument("--channel-base", type=int, default=2048, help="channels of a layer times its side in pixels")
    parser.add_argument("--channel-max", type=int, default=128)
    parser.add_argument("--augmentation", choices=("none", "light", "adaptive"), default="light")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    if given.shipped == (given.images is not None) or (given.size is None and not given.shipped):
        parser.error("expected IMAGES and --size, or --shipped alone")
    if given.shipped:
        torch.set_num_threads(1)
        recipe = GanRecipe(**{**asdict(SHIPPED_RECIPE), "kimg": given.kimg or SHIPPED_RECIPE.kimg})
        export_shipped(train(public_images(), SHIPPED, recipe, given.out, seed=SHIPPED_SEED).average, given.out)
        return
    channels = {"channel_base": given.channel_base, "channel_max": given.channel_max}
    config = StyleGAN2Config(resolution=given.size, z_dim=128, w_dim=128, mapping_layers=4, **channels)
    recipe = GanRecipe(kimg=given.kimg or GanRecipe.kimg, augmentation=given.augmentation)
    images = load_unlabelled(given.images, size=given.size)
    state = train(images, config, recipe, given.out, seed=given.seed, device=given.device)
    with making_folder(given.out / "prior") as draft:
        save_prior(state.average.cpu(), draft)
        save_discriminator(state.discriminator.cpu(), draft)


if __name__ == "__main__":
    main()
