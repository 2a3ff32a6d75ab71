"""Train the 64-pixel generator that ships with the package, on rendered public identities.

python -m tools.weights.train_demo_generator --out DIRECTORY

Deterministic for one thread on one kind of processor. Interrupt it and run it again: it continues from its last
checkpoint in --out. What came out of it, and how good that is: core/priors/weights/README.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.files import replacing
from smoothsweep.core.priors.registry import write_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tools.weights.gan_training import GanRecipe, finished_state, train_stylegan2

NAME = "stylegan2_synthetic64"
SEED = 64
PUBLIC_SEED = 6464
IDENTITIES, PER_IDENTITY = 4000, 4
SPREADS = (1.0, 0.5)
CONFIG = StyleGAN2Config(
    resolution=64, z_dim=128, w_dim=128, mapping_layers=2, channel_base=1024, channel_max=128, mbstd_group=4
)
RECIPE = GanRecipe(kimg=84, batch_size=16, lr=0.003, r1_gamma=0.1, ema_kimg=5, augmentation="none")
CHECKPOINT_EVERY = 250


def public_images(identities: int = IDENTITIES) -> Tensor:
    """uint8 [identities x PER_IDENTITY x spreads, 3, 64, 64]: people of both spreads, strangers to each other."""
    sets = [
        synthetic_faces(
            population="public",
            identities=identities,
            per_identity=PER_IDENTITY,
            size=CONFIG.resolution,
            spread=spread,
            seed=PUBLIC_SEED + index,
        ).images
        for index, spread in enumerate(SPREADS)
    ]
    return torch.cat(sets)


def sample_sheet(generator: StyleGAN2, *, rows: int = 8, columns: int = 16, seed: int = 0) -> Image.Image:
    """Unselected samples: the upper half as drawn (psi 1), the lower half truncated as an attack starts (psi 0.5)."""
    z = torch.from_numpy(generator.sample_z(rows * columns // 2, seed))
    with torch.no_grad():
        images = torch.cat([generator.synthesize(generator.map(z, psi=psi)) for psi in (1.0, 0.5)])
    return contact_sheet(images, columns)


def contact_sheet(images: Tensor, columns: int) -> Image.Image:
    """images [N, 3, R, R] in [-1, 1], N a multiple of `columns`, side by side."""
    tiles = ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).unflatten(0, (-1, columns))
    return Image.fromarray(tiles.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1).numpy())


def train(images: Tensor, out: Path, *, kimg: float) -> None:
    """Train or continue in `out`; every checkpoint renews the prior and its sample sheet there."""
    out.mkdir(parents=True, exist_ok=True)
    saved = out / f"{NAME}.checkpoint"
    resume = torch.load(saved, weights_only=True) if saved.exists() else None
    started = time.monotonic()

    def keep(step: int, checkpoint: dict) -> None:
        with replacing(saved) as temporary:
            torch.save(checkpoint, temporary)
        export(checkpoint["average"], out)

    def tell(row: dict) -> None:
        numbers = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if value is not None)
        print(f"{time.monotonic() - started:7.0f} s  {numbers}", flush=True)

    train_stylegan2(
        images,
        CONFIG,
        replace(RECIPE, kimg=kimg),
        seed=SEED,
        resume=resume,
        on_checkpoint=keep,
        checkpoint_every=CHECKPOINT_EVERY,
        on_log=tell,
        log_every=50,
    )


def export(average: dict[str, Tensor], out: Path) -> None:
    """Write weights (float16), description and sample sheet of an averaged generator."""
    generator = StyleGAN2(CONFIG).requires_grad_(False)
    generator.load_state_dict(average)
    generator.load_state_dict(finished_state(generator, SEED))
    stem = out / NAME
    weights, description = stem.with_suffix(".safetensors"), stem.with_suffix(".json")
    write_prior(generator, weights=weights, description=description, dtype="float16")
    with replacing(stem.with_suffix(".png")) as temporary:
        sample_sheet(generator).save(temporary, format="PNG")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory for checkpoint, weights and samples")
    parser.add_argument("--kimg", type=float, default=RECIPE.kimg, help="thousands of images to train on")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(public_images(), arguments.out, kimg=arguments.kimg)


if __name__ == "__main__":
    main()
