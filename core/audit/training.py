"""Train a classifier in memory under a recipe, for comparison with a model or to replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from smoothsweep.core.audit.attacking import OnProgress, ignore_progress
from smoothsweep.core.audit.model import Model
from smoothsweep.core.audit.portfolio import AUGMENTATION
from smoothsweep.core.audit.references import EPOCHS
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.declared import build
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.labels import SMOOTHING
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.defenses.schedules import AlphaSchedule, alpha_at, check_alpha, usual_schedule, validate_schedule
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import fit_held_out, preparation_generator, without_held_out
from smoothsweep.core.training.classifier import train_classifier

PROTOCOL = "clean"
TRAINING: Mapping[str, Any] = {"epochs": EPOCHS, "batch_size": 50, "augmentation": AUGMENTATION}
"""Settings of the trainings of `smoothsweep audit --reference`."""
TIMED = 3
"""Timed batches, of which the quickest counts."""


@dataclass(frozen=True, kw_only=True)
class BuiltDefense:
    """A defense and its label smoothing. smoothing: number of epochs -> (zero-based epoch -> alpha)."""

    defense: Defense
    smoothing: Callable[[int], Callable[[int], float]]


def build_defense(settings: Mapping[str, Any]) -> BuiltDefense:
    """Build a defense from settings like `recipe.defense` of a sweep file, by protocol clean.

    settings: kind, parameters, smoothing. Raises InputError for an unknown kind, parameter or schedule,
    or a value out of range.
    """
    parameters = dict(settings)
    kind = parameters.pop("kind", None)
    if kind is None:
        raise InputError("defense: expected its kind, got none")
    if kind == SMOOTHING:
        smoothing, parameters = parameters, {}
    else:
        smoothing = dict(parameters.pop("smoothing", None) or {})
    if unknown := sorted(smoothing.keys() - {"alpha", "schedule"}):
        raise InputError(f"defense: expected alpha and schedule for its smoothing, got {unknown[0]}")
    return BuiltDefense(defense=make_defense(kind, **parameters), smoothing=_smoothing(smoothing))


def train_model(
    people: SplitImages,
    *,
    architecture: str,
    defense: Mapping[str, Any],
    training: Mapping[str, Any] | None,
    seed: int,
    device: torch.device | str,
    on_progress: OnProgress = ignore_progress,
) -> Model:
    """Train a network that reads pictures in [-1, 1]. Arguments as of `smoothsweep.train`. Raises InputError."""
    recipe = build(
        TrainingRecipe,
        {"architecture": architecture, "image_size": people.train.size, **(TRAINING if training is None else training)},
        what="training",
        prefix="training ",
    )
    network = trained_network(
        people.train, recipe, build_defense(defense), seed=seed, device=device, on_progress=on_progress
    )
    return Model(network.eval(), image_size=recipe.image_size, input_range=(-1, 1))


def trained_network(
    images: ImageSet,
    recipe: TrainingRecipe,
    chosen: BuiltDefense,
    *,
    seed: int,
    device: torch.device | str,
    on_progress: OnProgress = ignore_progress,
) -> Classifier:
    """Train a classifier from random weights, as a stage of a sweep does by protocol clean."""
    network = _new(recipe, images.num_classes, chosen.defense, seed)
    data, _, back = without_held_out(chosen.defense, images, None, seed)
    train_classifier(
        network,
        data,
        recipe,
        seed=seed,
        defense=chosen.defense,
        alpha_of_epoch=chosen.smoothing(recipe.epochs),
        device=device,
        on_epoch=lambda record, _: on_progress((record.epoch + 1) / recipe.epochs, f"training: epoch {record.epoch}"),
    )
    fit_held_out(chosen.defense, network, back, image_size=recipe.image_size, device=device)
    return network


def _new(recipe: TrainingRecipe, classes: int, defense: Defense, seed: int) -> Classifier:
    network = build_classifier(recipe.architecture, classes, pretrained=False, protocol=PROTOCOL, seed=seed)
    defense.prepare(network, generator=preparation_generator(seed))
    defense.read(network, None, protocol=PROTOCOL, seed=0)
    return network


def _smoothing(smoothing: Mapping[str, Any]) -> Callable[[int], Callable[[int], float]]:
    settings = dict(smoothing.get("schedule") or {})
    carries_factors = settings.get("points") is not None
    if carries_factors:
        settings["points"] = tuple(map(tuple, settings["points"]))
    alpha = smoothing.get("alpha")
    alpha = (None if carries_factors else 0.0) if alpha is None else check_alpha(alpha, name="defense: alpha")
    settings = settings or {"kind": usual_schedule(alpha or 0.0)}
    schedule = build(AlphaSchedule, settings, what="defense: schedule", prefix="defense: schedule ")

    def over(epochs: int) -> Callable[[int], float]:
        validate_schedule(schedule, epochs=epochs)
        return lambda epoch: alpha_at(schedule, alpha=alpha, epoch=epoch, epochs=epochs)

    return over


def training_seconds(
    recipe: TrainingRecipe, *, images: int, classes: int, side: int, transform_input: bool = False
) -> float:
    """Seconds of a plain training of `recipe` on so many images of `side` pixels, on this machine's device.

    side: of the images, in pixels. Trains on one batch of noise, once to warm up and `TIMED` times, of which the
    quickest counts; on a CPU in one thread, as a stage does. The estimate leaves out measuring the test accuracy.
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
