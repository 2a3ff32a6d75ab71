"""Trains the embedder of synthetic identities: `python -m core.models.train_embedder --out FILE.safetensors`."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional

from core.data.images import ImageSet
from core.data.synthetic import TRAIT_NAMES, identity_traits, synthetic_faces
from core.models.embedder_augmentation import augment
from core.models.synthetic_embedder import FEATURES, WORKING_SIZE, SyntheticEmbedder


@dataclass(frozen=True, kw_only=True)
class EmbedderRecipe:
    """How the embedder is trained. People are drawn from the public population only, a fresh crowd every batch.

    rounds: batches drawn; each is used `views` times under different augmentations.
    identities, per_identity: the make-up of a batch.
    spreads: how much the people of a batch differ; one value per batch, in turn.
    temperature: of the softmax over the cosines between an image and the people of its batch.
    eigenfaces, eigenface_images: components (at 32 x 32 pixels) and pictures of the basis for blurred copies.
    """

    rounds: int = 1500
    views: int = 2
    identities: int = 32
    per_identity: int = 4
    spreads: tuple[float, ...] = (0.4, 1.0, 0.3, 0.5, 0.4, 0.7)
    learning_rate: float = 3e-3
    weight_decay: float = 0.02
    temperature: float = 0.08
    trait_weight: float = 1.0
    eigenfaces: int = 300
    eigenface_images: int = 2000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """images: float32 [P * K, 3, 64, 64] in [-1, 1], K images of each of P people in turn; traits: float32 [P, T]."""

    images: Tensor
    traits: Tensor
    spread: float


def draw_batch(recipe: EmbedderRecipe, index: int) -> Batch:
    """Batch number `index`: people whom no other batch shows."""
    spread = recipe.spreads[index % len(recipe.spreads)]
    crowd = {"population": "public", "identities": recipe.identities, "spread": spread}
    seed = (recipe.seed + 1) * 1_000_000 + index
    faces = synthetic_faces(per_identity=recipe.per_identity, size=WORKING_SIZE, seed=seed, **crowd)
    traits = identity_traits(seed=seed, **crowd)
    # A mirrored person is the same person: which side the hair is parted on must not matter.
    parting = TRAIT_NAMES.index("hair_parting")
    traits[:, parting] = np.abs(traits[:, parting])
    return Batch(images=faces.images.float().div_(127.5).sub_(1), traits=torch.from_numpy(traits), spread=spread)


def eigenface_basis(recipe: EmbedderRecipe) -> tuple[Tensor, Tensor]:
    """(mean float32 [3072], components float32 [3072, eigenfaces]) of public faces at 32 x 32 pixels in [-1, 1]."""
    faces = synthetic_faces(
        population="public",
        identities=recipe.eigenface_images,
        per_identity=1,
        size=32,
        spread=0.6,
        seed=(recipe.seed + 1) * 1_000_000 - 1,
    )
    flat = faces.images.flatten(1).float().div_(127.5).sub_(1)
    mean = flat.mean(dim=0)
    _, vectors = torch.linalg.eigh((flat - mean).T @ (flat - mean))
    return mean, vectors.flip(1)[:, : recipe.eigenfaces].contiguous()


def identity_loss(features: Tensor, per_identity: int, temperature: float) -> Tensor:
    """Cross entropy of naming the person of each image by its cosine to the people's mean features.

    features: float32 [P * K, D], K images of each person in turn. An image has no part in its own person's mean.
    """
    unit = functional.normalize(features, dim=1)
    people = unit.view(-1, per_identity, unit.shape[1]).sum(dim=1)
    owner = torch.arange(len(people)).repeat_interleave(per_identity)
    cosines = unit @ functional.normalize(people, dim=1).T
    others = functional.normalize(people[owner] - unit, dim=1)
    own = (unit * others).sum(dim=1, keepdim=True)
    cosines = cosines.scatter(1, owner[:, None], own)
    return functional.cross_entropy(cosines / temperature, owner)


def train(recipe: EmbedderRecipe, *, report: Callable[[str], None] = print) -> SyntheticEmbedder:
    """Train on the CPU; pictures are drawn in a second thread while the net learns from the last ones.

    Draws on torch's global generator for nothing but the initial weights, inside a fork of it.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        net = SyntheticEmbedder().to(memory_format=torch.channels_last)
        trait_head = nn.Linear(FEATURES, len(TRAIT_NAMES))
    optimizer = torch.optim.AdamW(
        [*net.parameters(), *trait_head.parameters()], lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        recipe.learning_rate,
        total_steps=recipe.rounds * recipe.views,
        pct_start=0.1,
        cycle_momentum=False,
    )
    generator = torch.Generator().manual_seed(recipe.seed)
    basis = eigenface_basis(recipe)
    for index, batch in enumerate(_batches(recipe)):
        for _ in range(recipe.views):
            images = augment(batch.images, basis, generator).contiguous(memory_format=torch.channels_last)
            naming, regression = _losses(net.raw(images), trait_head, batch, recipe)
            optimizer.zero_grad()
            (naming + recipe.trait_weight * regression).backward()
            optimizer.step()
            schedule.step()
        if (index + 1) % 100 == 0:
            report(
                f"round {index + 1}/{recipe.rounds}: spread {batch.spread}, "
                f"naming loss {naming:.3f}, unexplained trait variance {regression:.3f}"
            )
    return net.eval().requires_grad_(False)


def _batches(recipe: EmbedderRecipe) -> Iterator[Batch]:
    """The batches in order, three of them drawn ahead."""
    ahead = 3
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(draw_batch, recipe, index) for index in range(min(ahead, recipe.rounds)))
        for index in range(recipe.rounds):
            batch = waiting.popleft().result()
            if index + ahead < recipe.rounds:
                waiting.append(pool.submit(draw_batch, recipe, index + ahead))
            yield batch


def _losses(features: Tensor, trait_head: nn.Module, batch: Batch, recipe: EmbedderRecipe) -> tuple[Tensor, Tensor]:
    """(naming loss, squared error of the traits relative to their variance in the batch)."""
    naming = identity_loss(features, recipe.per_identity, recipe.temperature)
    targets = batch.traits.repeat_interleave(recipe.per_identity, dim=0)
    return naming, functional.mse_loss(trait_head(features), targets) / batch.spread**2


def judge_accuracy(embedder: nn.Module, *, spread: float, identities: int = 50, size: int = 64, seed: int = 0) -> float:
    """Accuracy in [0, 1] at naming private people: logistic regression on 20 images each, scored on 10 others each."""
    crowd = {"population": "private", "identities": identities, "spread": spread, "size": size, "seed": seed}
    known = synthetic_faces(per_identity=20, **crowd)
    unseen = synthetic_faces(per_identity=10, first_image=20, **crowd)

    def features(faces: ImageSet) -> np.ndarray:
        with torch.no_grad():
            return torch.cat([embedder(part.float() / 127.5 - 1) for part in faces.images.split(250)]).numpy()

    model = LogisticRegression(C=10.0, max_iter=1000).fit(features(known), known.labels.numpy())
    return float(model.score(features(unseen), unseen.labels.numpy()))


def save_embedder(embedder: nn.Module, path: Path, metadata: dict[str, str]) -> None:
    """Write the state dict with `metadata` in the header, under a temporary name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    state = {name: value.contiguous() for name, value in embedder.state_dict().items()}
    save_file(state, temporary, metadata=metadata)
    os.replace(temporary, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m core.models.train_embedder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the safetensors file to write")
    parser.add_argument("--seed", type=int, default=EmbedderRecipe.seed)
    parser.add_argument("--rounds", type=int, default=EmbedderRecipe.rounds, help="batches of 32 new people")
    options = parser.parse_args(arguments)
    recipe = EmbedderRecipe(seed=options.seed, rounds=options.rounds)
    start = time.perf_counter()
    embedder = train(recipe)
    seconds = time.perf_counter() - start
    accuracy = {str(spread): round(judge_accuracy(embedder, spread=spread), 4) for spread in (0.3, 0.4, 0.5, 1.0)}
    metadata = {
        "recipe": json.dumps(asdict(recipe)),
        "accuracy_by_spread": json.dumps(accuracy),
        "seconds": f"{seconds:.0f}",
        "torch": torch.__version__,
    }
    save_embedder(embedder, options.out, metadata)
    print(f"{options.out}: {seconds:.0f} s, accuracy on 50 private identities by spread: {accuracy}")


if __name__ == "__main__":
    main()
