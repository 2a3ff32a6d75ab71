"""How good the shipped generator is, beside eigenfaces and renders: `python -m tools.weights.measure_demo_generator`.

Real images are renders of public people that neither prior was fitted to. Two kinds of features: those of the
synthetic face embedder, which sees who it is and is trained to overlook blur, and those of an untrained network, which
sees texture (random features judge images unlike photographs well: Naeem et al. 2020, arXiv 2002.09797).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.files import replacing
from smoothsweep.core.metrics.fid import fid
from smoothsweep.core.metrics.prdc import prdc
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.registry import load_shipped_prior
from smoothsweep.core.priors.stylegan2_discriminator import StyleGAN2Discriminator
from tools.weights.train_demo_generator import CONFIG, SPREADS, contact_sheet, public_images

SAMPLES = 4000
STRANGERS_SEED = 20_000
COMPONENTS = 150
NEIGHBOURS = 3
TEXTURE_SIDE = 16
BATCH = 100


class RandomFeatures(nn.Module):
    """The first blocks of an untrained discriminator, averaged over the image: [N, 3, 64, 64] -> [N, C]."""

    def __init__(self) -> None:
        super().__init__()
        self.network = StyleGAN2Discriminator(CONFIG, seed=0).requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        x = images
        for side in reversed(CONFIG.sides):
            if side <= TEXTURE_SIDE:
                break
            x = self.network.get_submodule(f"b{side}")(x, self.network.kernel)
        return x.mean(dim=(2, 3))


def sharpness(images: Tensor) -> float:
    """Mean absolute difference of neighbouring pixels, images [N, 3, R, R] in [-1, 1]."""
    rows, columns = (images.diff(dim=axis).abs().mean() for axis in (2, 3))
    return float((rows + columns) / 2)


def renders(seed: int, count: int = SAMPLES) -> Tensor:
    """float [count, 3, 64, 64] in [-1, 1]: one image each of public people whom no prior was fitted to."""
    share = count // len(SPREADS)
    sets = [
        synthetic_faces(population="public", identities=share, per_identity=1, spread=spread, seed=seed + index)
        for index, spread in enumerate(SPREADS)
    ]
    return torch.cat([faces.images for faces in sets]).float() / 127.5 - 1


@torch.no_grad()
def samples(prior: Prior, *, psi: float = 1.0, seed: int = 1, count: int = SAMPLES) -> Tensor:
    """float [count, 3, R, R], clipped to [-1, 1]."""
    z = torch.from_numpy(prior.sample_z(count, seed))
    return torch.cat([prior.synthesize(prior.map(part, psi=psi)).clamp(-1, 1) for part in z.split(BATCH)])


@torch.no_grad()
def embed(network: nn.Module, images: Tensor) -> Tensor:
    """[N, D] features."""
    return torch.cat([network(part) for part in images.split(BATCH)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sheet", type=Path, help="also write a picture: renders, generator, eigenfaces")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    judges = (load_embedder("synthetic"), RandomFeatures())
    generator = load_shipped_prior("stylegan2_synthetic64")
    eigenfaces = fit_eigenfaces(public_images(), components=COMPONENTS, seed=0)
    reals = renders(STRANGERS_SEED)
    references = [embed(judge, reals) for judge in judges]
    shown = {
        "renders of other strangers (floor)": renders(STRANGERS_SEED + 100),
        "generator, psi 1": samples(generator),
        "generator, psi 0.7": samples(generator, psi=0.7),
        "eigenfaces, psi 1": samples(eigenfaces),
        "eigenfaces, psi 0.7": samples(eigenfaces, psi=0.7),
        "renders as 150 eigenfaces show them": eigenfaces.synthesize(eigenfaces.encode(renders(STRANGERS_SEED + 100))),
    }
    print("| images | Frechet, identity | Frechet, texture | precision | recall | sharpness / renders |")
    for name, images in shown.items():
        features = [embed(judge, images) for judge in judges]
        identity, texture = (fid(*pair) for pair in zip(features, references, strict=True))
        found = prdc(references[0], features[0], definition="standard", k=NEIGHBOURS)
        precision, recall = found.precision, found.recall
        sharp = sharpness(images) / sharpness(reals)
        print(f"| {name} | {identity:.4f} | {texture:.4f} | {precision:.2f} | {recall:.2f} | {sharp:.2f} |", flush=True)
    if arguments.sheet:
        rows = [reals[-48:-32], reals[:16], samples(generator)[:32], samples(eigenfaces)[:32]]
        with replacing(arguments.sheet) as temporary:
            contact_sheet(torch.cat(rows), 16).save(temporary, format="PNG")


if __name__ == "__main__":
    main()
