"""What a training costs under each defense, as a ratio to plain training: `python -m benchmarks.defense_cost`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.models.classifiers import Classifier, build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import preparation_generator
from smoothsweep.core.training.classifier import train_classifier

_PLAIN = "plain training"
_DEFENSES: Mapping[str, tuple[str, dict[str, object]]] = {
    _PLAIN: ("label_smoothing", {}),
    "mid": ("mid", {"beta": 0.005}),
    "bido, hsic": ("bido", {"lambda_input": 0.05, "lambda_label": 0.5}),
    "bido, coco": ("bido", {"lambda_input": 0.05, "lambda_label": 0.5, "measure": "coco"}),
    "freeze, 2 stages": ("freeze", {"stages": 2}),
    "random_erasing": ("random_erasing", {}),
    "skip_removal": ("skip_removal", {}),
    "dropout": ("dropout", {"p": 0.5}),
    "weight_decay": ("weight_decay", {"value": 1e-3}),
    "focal": ("focal", {"gamma": 2.0}),
    "confidence_penalty": ("confidence_penalty", {"beta": 0.1}),
    "mixup": ("mixup", {"alpha": 0.4}),
    "logit_clipping": ("logit_clipping", {"norm": 1.0}),
    "loft": ("loft", {"rank": 10}),
    "at_at": ("at_at", {}),
    "ssd": ("ssd", {"eps": 0.5}),
    "dp_sgd": ("dp_sgd", {"noise": 0.5}),
    "trap_mid": ("trap_mid", {}),
}
_SMOOTHED = "label smoothing, alpha -0.05"
_CASES = (("resnet_small", 32, 64, 15), ("resnet18", 64, 32, 7))  # architecture, pixels, batch, rounds
_STEPS = 2  # of a round, for each defense


def measure(architecture: str, size: int, batch: int, rounds: int) -> tuple[float, dict[str, tuple[float, float]]]:
    """Seconds of CPU time that a step of plain training takes, and per defense the ratio to it with its spread.

    A round trains `_STEPS` steps under every defense in turn, so that a machine that slows down slows all of them
    alike. Ratio: the median over the rounds of the defense's time by that of plain training in the same round;
    spread: half the distance of the quartiles. One thread; augmentation, batches and optimizer included.
    """
    faces = synthetic_faces(population="private", identities=batch // 4, per_identity=4 * _STEPS, size=size, seed=1)
    recipe = TrainingRecipe(architecture=architecture, epochs=1, batch_size=batch, image_size=size)
    cases = {name: (make_defense(kind, **parameters), 0.0) for name, (kind, parameters) in _DEFENSES.items()}
    cases[_SMOOTHED] = (cases[_PLAIN][0], -0.05)
    models = {name: _prepared(defense, architecture, faces.num_classes) for name, (defense, _) in cases.items()}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(rounds + 1):
        for name, (defense, alpha) in cases.items():
            seconds = _seconds(models[name], faces, recipe, defense, alpha)
            if round_number:  # the first one chooses kernels and fills caches
                times[name].append(seconds)
    plain = times[_PLAIN]
    ratios = {name: [a / b for a, b in zip(of, plain, strict=True)] for name, of in times.items() if name != _PLAIN}
    return statistics.median(plain) / _STEPS, {name: _centre(of) for name, of in ratios.items()}


def _prepared(defense: Defense, architecture: str, classes: int) -> Classifier:
    model = build_classifier(architecture, classes, protocol="clean")
    defense.prepare(model, generator=preparation_generator(0))
    return model


def _seconds(model: Classifier, faces: ImageSet, recipe: TrainingRecipe, defense: Defense, alpha: float) -> float:
    start = time.process_time()
    train_classifier(model, faces, recipe, defense=defense, alpha_of_epoch=lambda epoch: alpha, seed=0)
    return time.process_time() - start


def _centre(values: list[float]) -> tuple[float, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, (high - low) / 2


def main() -> None:
    """Print one table per network."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for architecture, size, batch, rounds in _CASES:
            seconds, ratios = measure(architecture, size, batch, rounds)
            print(f"{architecture} at {size} px, batch {batch}: plain training {1000 * seconds:.0f} ms CPU per step")
            for name, (ratio, spread) in ratios.items():
                print(f"  {name:<30} {ratio:5.2f} times (+- {spread:.2f}, {rounds} rounds)", flush=True)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
