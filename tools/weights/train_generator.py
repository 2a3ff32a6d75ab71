"""Train a StyleGAN2 on a folder of images, as a prior that a sweep can name.

python -m tools.weights.train_generator IMAGES --size 64 --out DIRECTORY

Interrupt it and run it again: it continues from its last checkpoint in --out. Then, in a sweep file:
prior: {kind: folder, path: DIRECTORY/prior}
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from smoothsweep.core.data.labelled import load_unlabelled
from smoothsweep.core.files import making_folder, replacing
from smoothsweep.core.priors.registry import save_discriminator, save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from tools.weights.gan_training import GanRecipe, train_stylegan2

CHECKPOINTS = 20  # per training


def train(images: Path, config: StyleGAN2Config, recipe: GanRecipe, out: Path, *, seed: int, device: str) -> None:
    """Train or continue in `out`, whose folder `prior` appears at the end."""
    out.mkdir(parents=True, exist_ok=True)
    saved = out / "checkpoint.pt"

    def keep(step: int, checkpoint: dict) -> None:
        with replacing(saved) as temporary:
            torch.save(checkpoint, temporary)
        print(f"step {step} of {recipe.steps}", flush=True)

    averaged, judge, _ = train_stylegan2(
        load_unlabelled(images, size=config.resolution),
        config,
        recipe,
        seed=seed,
        device=device,
        resume=torch.load(saved, weights_only=True) if saved.exists() else None,
        on_checkpoint=keep,
        checkpoint_every=max(1, recipe.steps // CHECKPOINTS),
    )
    generator, discriminator = StyleGAN2(config), StyleGAN2Discriminator(config)
    generator.load_state_dict(averaged)
    discriminator.load_state_dict(judge)
    with making_folder(out / "prior") as draft:
        save_prior(generator, draft)
        save_discriminator(discriminator, draft)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="directory of the checkpoint and the prior")
    parser.add_argument("--size", type=int, required=True, help="side of its images in pixels, a power of two")
    parser.add_argument("--kimg", type=float, default=200.0, help="thousands of images to train on")
    parser.add_argument("--channel-base", type=int, default=2048, help="channels of a layer times its side in pixels")
    parser.add_argument("--channel-max", type=int, default=128)
    parser.add_argument("--augmentation", choices=("none", "light", "adaptive"), default="light")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    config = StyleGAN2Config(
        resolution=given.size,
        z_dim=128,
        w_dim=128,
        mapping_layers=4,
        channel_base=given.channel_base,
        channel_max=given.channel_max,
    )
    recipe = GanRecipe(kimg=given.kimg, augmentation=given.augmentation)
    train(given.images, config, recipe, given.out, seed=given.seed, device=given.device)


if __name__ == "__main__":
    main()
