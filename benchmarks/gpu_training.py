"""Trainings of `benchmarks.gpu`: images a second by arithmetic, and small ones to compare."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.devices import arithmetic
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import Precision, TrainingRecipe
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.classifier import train_classifier

PASSES = 10
"""Timed passes of the network alone."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Size of the timed training: one epoch to warm up, one that counts."""

    architecture: str
    images: int
    side: int
    batch: int
    classes: int = 530


SMALL = Training(architecture="resnet18", images=512, side=64, batch=64, classes=20)
"""Of the sections that compare two trainings."""

FULL = Training(architecture="resnet152", images=2048, side=224, batch=128)
SMOKE = Training(architecture="resnet18", images=32, side=32, batch=16, classes=4)


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def training_rates(*, smoke: bool) -> Iterator[tuple[str, str]]:
    """What was trained, and how many images a second: by the training itself, and by the network alone."""
    size = SMOKE if smoke else FULL
    ways: dict[str, tuple[Precision, Literal["fp32", "tf32"]]] = {
        "fp32": ("fp32", "fp32"),
        "TF32": ("fp32", "tf32"),
        "bf16": ("bf16", "fp32"),
    }
    for name, (kind, mode) in ways.items():
        with arithmetic(mode):
            seconds, alone = _second_epoch(size, kind), _network_alone(size, kind)
        rates = f"{size.images / seconds:.0f} images/s; the network alone {size.batch / alone:.0f}"
        yield f"training {size.architecture}, {name}", rates


def _network_alone(size: Training, precision: Precision) -> float:
    """Seconds of one forward and backward pass of a batch that lies on the device, no optimiser."""
    model = build_classifier(size.architecture, size.classes, protocol="clean").to(device())  # ty: ignore[invalid-argument-type]
    model = model.to(memory_format=torch.channels_last).train()
    images = torch.rand(size.batch, 3, size.side, size.side, device=device())
    images = images.contiguous(memory_format=torch.channels_last)
    begin = 0.0
    for step in range(3 + PASSES):
        if step == 3:
            wait()
            begin = time.perf_counter()
        with torch.autocast(device().type, torch.bfloat16, enabled=precision == "bf16"):
            loss = model(images).float().square().mean()
        loss.backward()
    wait()
    return (time.perf_counter() - begin) / PASSES


def wait() -> None:
    if device().type == "cuda":
        torch.cuda.synchronize()


def _second_epoch(size: Training, precision: Precision) -> float:
    marks: list[float] = []

    def mark(*_: object) -> None:
        wait()
        marks.append(time.perf_counter())

    trained(size, precision, epochs=2, on_epoch=mark)
    return marks[1] - marks[0]


def trained(size: Training, precision: Precision, epochs: int, **more: object) -> torch.nn.Module:
    draw = generator(0, "gpu")
    images = torch.randint(0, 256, (size.images, 3, size.side, size.side), generator=draw, dtype=torch.uint8)
    labels = torch.arange(size.images) % size.classes
    data = ImageSet(images=images, labels=labels, names=tuple(map(str, range(size.classes))))
    recipe = TrainingRecipe(
        architecture=size.architecture,  # ty: ignore[invalid-argument-type]  # one of the literals, above
        epochs=epochs,
        batch_size=size.batch,
        image_size=size.side,
        precision=precision,
    )
    model = build_classifier(recipe.architecture, size.classes, protocol="clean")
    train_classifier(model, data, recipe, seed=0, device=device(), **more)  # ty: ignore[invalid-argument-type]
    return model
