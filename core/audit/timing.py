"""How long a training will take, from a few steps of it."""

from __future__ import annotations

from dataclasses import replace

import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier

TIMED = 3


def training_seconds(
    recipe: TrainingRecipe, *, images: int, classes: int, side: int, transform_input: bool = False
) -> float:
    """Seconds of a plain training of `recipe` on so many images of `side` pixels, on this machine's device.

    Trains one batch of noise, once to warm up and `TIMED` times, of which the quickest counts; in one thread on a CPU,
    as a stage does. What it leaves out: the test accuracy that is measured as it goes, and work beside it.
    """
    count = min(recipe.batch_size, images)
    noise = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    names = tuple(map(str, range(classes)))
    data = ImageSet(images=noise, labels=torch.arange(count) % classes, names=names)
    model = build_classifier(recipe.architecture, classes, protocol="clean", transform_input=transform_input)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        records = train_classifier(model, data, replace(recipe, epochs=1 + TIMED), seed=0, device=device)
    finally:
        torch.set_num_threads(threads)
    return min(record.seconds for record in records[1:]) * images / count * recipe.epochs
