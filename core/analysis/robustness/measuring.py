"""Every attack of Table 11 and those that tell masked gradients, on one classifier: which answers they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smoothsweep.core.analysis.robustness.classifier import UnitRangeClassifier, predictions
from smoothsweep.core.analysis.robustness.margin import zero_gradients
from smoothsweep.core.analysis.robustness.one_pixel import one_pixel
from smoothsweep.core.analysis.robustness.perturbing import perturbed
from smoothsweep.core.analysis.robustness.settings import RobustnessSettings

ONE_PIXEL = "one_pixel"
BOTH_WAYS = ("fgsm", "pgd", "bim", ONE_PIXEL)
"""The paper's attacks, each untargeted and targeted."""
UNMASKING = ("margin_pgd", "auto_pgd")
"""Untargeted alone: what saturated cross entropy cannot stop."""


@dataclass(frozen=True, kw_only=True)
class RobustnessReport:
    """What attacks made of the answers. All on the CPU.

    Attributes:
        labels, targets, clean: int64 [N], the true classes, those to reach, the answers to the pictures as they are.
        answers: `fgsm_untargeted` and so on -> int64 [N].
        zero_gradient: bool [N].
    """

    labels: Tensor
    targets: Tensor
    clean: Tensor
    answers: dict[str, Tensor]
    zero_gradient: Tensor

    @property
    def robust(self) -> Tensor:
        """bool [N]: right as they are and right under every untargeted attack."""
        kept = [answer == self.labels for name, answer in self.answers.items() if name.endswith("_untargeted")]
        return torch.stack([self.clean == self.labels, *kept]).all(0)

    def metrics(self) -> dict[str, float | None]:
        """Column -> value: every attack's success over all pictures (the paper's convention) and, as `*_correct`, over
        those that were answered correctly before (None if none was)."""
        correct, metrics = self.clean == self.labels, {}
        for name, answer in self.answers.items():
            succeeded = answer == self.targets if name.endswith("_targeted") else answer != self.labels
            metrics[name] = _share(succeeded)
            metrics[f"{name}_correct"] = _share(succeeded[correct])
        return {**metrics, "zero_gradients": _share(self.zero_gradient), "robust_acc": _share(self.robust)}


def measure_robustness(
    classifier: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    *,
    classes: int,
    settings: RobustnessSettings,
    device: str = "cpu",
    progress: Callable[[float, str], None] = lambda share, name: None,
) -> RobustnessReport:
    """Attack a frozen classifier, [N, 3, S, S] in [-1, 1] -> logits, in evaluation mode on `device`.

    pictures: float32 [N, 3, S, S] in [0, 1]; labels: int64 [N], the true classes; both on the CPU. Targets are drawn
    uniformly among the other classes. Raises InputError with fewer than three classes, or without pictures.
    """
    settings.check_classes(classes)
    settings.check_images(len(pictures))
    model = UnitRangeClassifier(classifier)
    targets = other_classes(labels, classes, settings.seed)
    plan = [(name, targeted) for targeted in (False, True) for name in BOTH_WAYS] + [(n, False) for n in UNMASKING]
    answers = {}
    for number, (name, targeted) in enumerate(plan):
        progress(number / len(plan), name)
        changed = _changed(
            name,
            model,
            pictures,
            targets if targeted else labels,
            targeted=targeted,
            classes=classes,
            settings=settings,
            device=device,
        )
        answers[f"{name}_{'targeted' if targeted else 'untargeted'}"] = predictions(model, changed, device)
    return RobustnessReport(
        labels=labels,
        targets=targets,
        clean=predictions(model, pictures, device),
        answers=answers,
        zero_gradient=zero_gradients(model, pictures, labels, device),
    )


def other_classes(labels: Tensor, classes: int, seed: int) -> Tensor:
    """int64 [N]: for every label another class, each of them as likely."""
    shift = torch.randint(1, classes, labels.shape, generator=torch.Generator().manual_seed(seed))
    return (labels + shift) % classes


def chosen_images(count: int, settings: RobustnessSettings) -> Tensor:
    """int64: which of `count` test images are measured, ascending. Raises InputError where there are too few."""
    settings.check_images(count)
    if settings.images is None:
        return torch.arange(count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(settings.seed))
    return order[: settings.images].sort().values


def _changed(
    name: str,
    model: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    *,
    targeted: bool,
    classes: int,
    settings: RobustnessSettings,
    device: str,
) -> Tensor:
    if name != ONE_PIXEL:
        return perturbed(
            name,
            model,
            pictures,
            labels,
            targeted=targeted,
            settings=settings,
            classes=classes,
            seed=settings.seed % 2**32,  # what numpy's global generator takes
        )
    return torch.stack(
        [
            one_pixel(
                model,
                picture,
                int(label),
                targeted=targeted,
                generations=settings.generations,
                population=settings.population,
                seed=settings.seed + number,
                device=device,
            )[0]
            for number, (picture, label) in enumerate(zip(pictures, labels, strict=True))
        ]
    )


def _share(chosen: Tensor) -> float | None:
    return chosen.double().mean().item() if len(chosen) else None
