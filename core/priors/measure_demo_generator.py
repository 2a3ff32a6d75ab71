"""How good the shipped generator is, beside eigenfaces and fresh renders: python -m core.priors.measure_demo_generator

Frechet distances between features of the synthetic face embedder, and the sharpness of the images. Real images are
renders of public people that neither prior was fitted to.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from core.data.synthetic import synthetic_faces
from core.models.embedders import load_embedder
from core.priors.base import Prior
from core.priors.eigenfaces import fit_eigenfaces
from core.priors.registry import load_shipped_prior
from core.priors.train_demo_generator import SPREADS, contact_sheet, public_images

SAMPLES = 4000
STRANGERS_SEED = 20_000
COMPONENTS = 150
BATCH = 100


def frechet_distance(first: Tensor, second: Tensor) -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)) of the Gaussians fitted to features [N, D] and [M, D]."""
    means, covariances = zip(*[(x.double().mean(0), torch.cov(x.double().T)) for x in (first, second)], strict=True)
    values, vectors = torch.linalg.eigh(covariances[0])
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    cross = torch.linalg.eigvalsh(root @ covariances[1] @ root).clamp_min(0).sqrt().sum()
    distance = (means[0] - means[1]).square().sum() + sum(c.trace() for c in covariances) - 2 * cross
    return float(distance)


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
def embed(embedder: nn.Module, images: Tensor) -> Tensor:
    """[N, D] unit-length features."""
    return torch.cat([embedder(part) for part in images.split(BATCH)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sheet", type=Path, help="also write a picture: renders, generator, eigenfaces")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    embedder = load_embedder("synthetic")
    generator = load_shipped_prior("stylegan2_synthetic64")
    eigenfaces = fit_eigenfaces(public_images(), components=COMPONENTS, seed=0)
    reals = renders(STRANGERS_SEED)
    reference = embed(embedder, reals)
    shown = {
        "renders of other strangers (floor)": renders(STRANGERS_SEED + 100),
        "generator, psi 1": samples(generator),
        "generator, psi 0.7": samples(generator, psi=0.7),
        "eigenfaces, psi 1": samples(eigenfaces),
        "eigenfaces, psi 0.7": samples(eigenfaces, psi=0.7),
        "renders as 150 eigenfaces show them": eigenfaces.synthesize(eigenfaces.encode(renders(STRANGERS_SEED + 100))),
    }
    print(f"{'images':38s} {'Frechet distance':>17s} {'sharpness, share of renders':>28s}")
    for name, images in shown.items():
        distance = frechet_distance(embed(embedder, images), reference)
        print(f"{name:38s} {distance:17.4f} {sharpness(images) / sharpness(reals):28.2f}")
    if arguments.sheet:
        rows = [reals[-48:-32], reals[:16], samples(generator)[:32], samples(eigenfaces)[:32]]
        contact_sheet(torch.cat(rows), 16).save(arguments.sheet)


if __name__ == "__main__":
    main()
