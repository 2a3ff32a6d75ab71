"""Trains the embedder of synthetic identities: `python -m tools.weights.train_embedder --out FILE.safetensors`.

The net learns to read the traits off pictures of public people, through blur, noise and other framings; then its last
layer is turned so that the cosine between two features says whether they show one person. No private person is used.

The shipped weights: seed 0, 1,000 rounds, 559 seconds of processor time (drawing included).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic import TRAIT_NAMES, identity_traits, synthetic_faces
from smoothsweep.core.files import replacing
from smoothsweep.core.models.embedders import WORKING_SIZE, SyntheticEmbedder
from smoothsweep.core.priors.eigenfaces import Eigenfaces, fit_eigenfaces


@dataclass(frozen=True, kw_only=True)
class EmbedderRecipe:
    """How the embedder is trained. People come from the public population only, a fresh crowd every batch.

    rounds: batches of `people` drawn, one picture each; each is used `views` times under different augmentations.
    spreads: how much the people of a batch differ; one value per batch, in turn.
    eigenfaces, eigenface_people: components and people of the basis (at 32 x 32 pixels) for blurred copies.
    calibration_people, calibration_images, calibration_spread: the crowd that turns the last layer.
    """

    rounds: int = 1000
    views: int = 2
    people: int = 128
    spreads: tuple[float, ...] = (1.0, 0.6)
    learning_rate: float = 3e-3
    weight_decay: float = 0.02
    eigenfaces: int = 300
    eigenface_people: int = 2000
    calibration_people: int = 500
    calibration_images: int = 6
    calibration_spread: float = 0.5
    seed: int = 0


_SEEDS_PER_RECIPE = 1_000_000  # public crowds set aside for one recipe seed
_EIGENFACE_CROWD = _SEEDS_PER_RECIPE - 1
_CALIBRATION_CROWD = _SEEDS_PER_RECIPE - 2


def draw_batch(recipe: EmbedderRecipe, index: int) -> tuple[Tensor, Tensor]:
    """Images float32 [P, 3, 64, 64] in [-1, 1] and traits float32 [P, T] of people whom no other batch shows."""
    spread = recipe.spreads[index % len(recipe.spreads)]
    crowd = {"population": "public", "identities": recipe.people, "spread": spread, "seed": _seed(recipe, index)}
    faces = synthetic_faces(per_identity=1, size=WORKING_SIZE, **crowd)
    traits = identity_traits(**crowd)
    # A mirrored person is the same person: which side the hair is parted on must not matter.
    parting = TRAIT_NAMES.index("hair_parting")
    traits[:, parting] = np.abs(traits[:, parting])
    return _to_unit(faces), torch.from_numpy(traits)


def eigenfaces_of(recipe: EmbedderRecipe) -> Eigenfaces:
    """The eigenfaces of public faces at 32 x 32 pixels."""
    crowd = {"population": "public", "identities": recipe.eigenface_people, "per_identity": 1}
    faces = synthetic_faces(size=32, spread=0.6, seed=_seed(recipe, _EIGENFACE_CROWD), **crowd)
    return fit_eigenfaces(faces.images, components=recipe.eigenfaces, seed=recipe.seed)


def train(recipe: EmbedderRecipe, *, report: Callable[[str], None] = print) -> SyntheticEmbedder:
    """Train on the CPU. The global generator of torch is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        net = SyntheticEmbedder().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.rounds * recipe.views, pct_start=0.1, cycle_momentum=False
    )
    generator = torch.Generator().manual_seed(recipe.seed)
    basis = eigenfaces_of(recipe)
    unexplained = []
    for index in range(recipe.rounds):
        pictures, traits = draw_batch(recipe, index)
        for _ in range(recipe.views):
            images = augment(pictures, basis, generator).contiguous(memory_format=torch.channels_last)
            loss = functional.mse_loss(net.raw(images), traits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            unexplained.append(float(loss.detach() / traits.square().mean()))
        if (index + 1) % 50 == 0:
            share = float(np.mean(unexplained[-100:]))
            report(f"round {index + 1}/{recipe.rounds}: unexplained share of the traits {share:.3f}")
    net.eval().requires_grad_(False)
    calibrate(net, recipe, basis, generator)
    return net


def calibrate(net: SyntheticEmbedder, recipe: EmbedderRecipe, basis: Eigenfaces, generator: torch.Generator) -> None:
    """Turn the last layer by linear discriminant analysis, on augmented pictures of public look-alikes, in place."""
    count = recipe.calibration_images
    crowd = {"population": "public", "identities": recipe.calibration_people, "spread": recipe.calibration_spread}
    faces = synthetic_faces(per_identity=count, size=WORKING_SIZE, seed=_seed(recipe, _CALIBRATION_CROWD), **crowd)
    with torch.no_grad():
        parts = [net.raw(augment(part, basis, generator)) for part in _to_unit(faces).split(250)]
    features = torch.cat(parts).double().view(recipe.calibration_people, count, -1)
    turn = discriminant(features)
    last = net.features
    last.bias.copy_(turn @ (last.bias.double() - features.mean(dim=(0, 1))))
    last.weight.copy_(turn @ last.weight.double())


def discriminant(features: Tensor) -> Tensor:
    """The matrix that makes pictures of one person scatter equally in every direction, and people along the axes.

    features: float64 [P, K, D], K pictures of each of P people. Returns float64 [D, D]. An axis along which people
    differ with variance v (pictures: 1) is scaled by sqrt(v / (1 + v)), so that noise alone is muted.
    """
    people, count, _ = features.shape
    means = features.mean(dim=1, keepdim=True)
    inner = (features - means).flatten(0, 1)
    within = inner.T @ inner / (people * (count - 1))
    centred = (means - means.mean(dim=0)).squeeze(1)
    between = centred.T @ centred / (people - 1) - within / count
    values, vectors = torch.linalg.eigh(within)
    white = vectors / values.clamp_min(1e-9 * values[-1]).sqrt()
    variance, axes = torch.linalg.eigh(white.T @ between @ white)
    variance = variance.clamp_min(0)
    return (variance / (1 + variance)).sqrt()[:, None] * (white @ axes).T


def judge_accuracy(embedder: nn.Module, *, spread: float, identities: int = 50, size: int = 64, seed: int = 0) -> float:
    """Accuracy in [0, 1] at naming private people: logistic regression on 20 images each, scored on 10 others each."""
    crowd = {"population": "private", "identities": identities, "spread": spread, "size": size, "seed": seed}
    known = synthetic_faces(per_identity=20, **crowd)
    unseen = synthetic_faces(per_identity=10, first_image=20, **crowd)

    def features(faces: ImageSet) -> np.ndarray:
        with torch.no_grad():
            return torch.cat([embedder(part) for part in _to_unit(faces).split(250)]).numpy()

    model = LogisticRegression(C=10.0, max_iter=1000).fit(features(known), known.labels.numpy())
    return float(model.score(features(unseen), unseen.labels.numpy()))


def _to_unit(faces: ImageSet) -> Tensor:
    return faces.images.float().div_(127.5).sub_(1)


def _seed(recipe: EmbedderRecipe, crowd: int) -> int:
    return (recipe.seed + 1) * _SEEDS_PER_RECIPE + crowd


def augment(images: Tensor, basis: Eigenfaces, generator: torch.Generator) -> Tensor:
    """Crops, mirror images, colour; then a part of the batch coarse, a part through eigenfaces, a part noisy.

    The embedder judges reconstructions by generators, which are soft: it must know a person from a blurred picture.
    """
    images = _shift_and_scale(images, generator)
    count = len(images)
    gain = 1 + 0.08 * torch.randn(count, 1, 1, 1, generator=generator)
    cast = 0.03 * torch.randn(count, 3, 1, 1, generator=generator)
    images = images * gain + cast + 0.05 * torch.randn(count, 1, 1, 1, generator=generator)
    order = torch.randperm(count, generator=generator)
    coarse, soft = order[: count // 4], order[count // 4 : (2 * count) // 5]
    noisy = order[count // 5 : (3 * count) // 5]
    side = int(torch.randint(16, 44, (), generator=generator))
    small = functional.interpolate(images[coarse], size=side, mode="bilinear", antialias=True)
    images[coarse] = functional.interpolate(small, size=images.shape[-1], mode="bilinear")
    images[soft] = _through_eigenfaces(images[soft], basis, generator)
    strength = 0.10 * torch.rand(len(noisy), 1, 1, 1, generator=generator)
    images[noisy] += strength * torch.randn(images[noisy].shape, generator=generator)
    return images.clamp_(-1, 1)


def _shift_and_scale(images: Tensor, generator: torch.Generator) -> Tensor:
    """Random crops of 0.90 to 1.04 of the side, slightly out of square, half of them mirrored."""
    count = len(images)
    side = 0.90 + 0.14 * torch.rand(count, generator=generator)
    stretch = 1 + 0.04 * (torch.rand(count, generator=generator) - 0.5)
    mirror = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    room = (1.04 - side).clamp_min(0.03)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = side * stretch * mirror
    theta[:, 1, 1] = side / stretch
    theta[:, :, 2] = room[:, None] * (2 * torch.rand(count, 2, generator=generator) - 1)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _through_eigenfaces(images: Tensor, basis: Eigenfaces, generator: torch.Generator) -> Tensor:
    """The images as the first 40 to 300 eigenfaces show them."""
    kept = int(torch.randint(40, len(basis.std) + 1, (), generator=generator))
    w = basis.encode(functional.interpolate(images, size=32, mode="bilinear", antialias=True))
    w[:, :, kept:] = 0
    return functional.interpolate(basis.synthesize(w), size=images.shape[-1], mode="bilinear")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.weights.train_embedder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the safetensors file to write")
    parser.add_argument("--seed", type=int, default=EmbedderRecipe.seed)
    parser.add_argument("--rounds", type=int, default=EmbedderRecipe.rounds, help="batches of 128 new people")
    options = parser.parse_args(arguments)
    recipe = EmbedderRecipe(seed=options.seed, rounds=options.rounds)
    torch.set_num_threads(1)  # the order of sums, and so the result
    start = time.perf_counter()
    embedder = train(recipe)
    wall, busy = time.perf_counter() - start, time.process_time()
    accuracy = {str(spread): round(judge_accuracy(embedder, spread=spread), 4) for spread in (0.3, 0.4, 0.5, 1.0)}
    metadata = {
        "recipe": json.dumps(asdict(recipe)),
        "accuracy_by_spread": json.dumps(accuracy),
        "seconds": f"{wall:.0f}",
        "processor_seconds": f"{busy:.0f}",
        "torch": torch.__version__,
    }
    state = {name: value.contiguous() for name, value in embedder.state_dict().items()}
    with replacing(options.out, parents=True) as temporary:
        save_file(state, temporary, metadata=metadata)
    print(f"{options.out}: {wall:.0f} s ({busy:.0f} s of processors), accuracy by spread: {accuracy}")


if __name__ == "__main__":
    main()
