"""How far a classifier holds against images that are changed to deceive it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import OptimizeResult, differential_evolution
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.descent import max_margin_loss
from smoothsweep.core.judges.robustness import Robustness

BATCH = 64  # part of the numbers: random starts are drawn batch by batch


class UnitRangeClassifier(nn.Module):
    """Pictures [N, 3, S, S] in [0, 1] -> logits [N, C] of a classifier that takes them in [-1, 1].

    The change of scale is inside, so that a step of 2/255 is one of the picture's and clipping to [0, 1] is right.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, pictures: Tensor) -> Tensor:
        return self.classifier(pictures.mul(2).sub(1)).float()


@torch.no_grad()
def predictions(model: nn.Module, pictures: Tensor, device: torch.device | str) -> Tensor:
    """int64 [N] on the CPU: the class that the model gives each picture."""
    return torch.cat([model(part.to(device)).argmax(1).cpu() for part in pictures.split(BATCH)])


class MarginLoss(nn.Module):
    """max over k != y of z_k - z_y, mean over the batch. Positive: another class than y wins.

    labels: int64 [N], or one-hot [N, C] as ART hands them over. Its gradient is that of two logits, whatever their
    distance: cross entropy's is exactly 0 in float32 once the true class leads by some 17.
    """

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return max_margin_loss(logits, labels.argmax(1) if labels.ndim == 2 else labels).mean()


def zero_gradients(model: nn.Module, pictures: Tensor, labels: Tensor, device: str) -> Tensor:
    """bool [N]: where cross entropy's gradient is exactly zero in every pixel, so that no sign of it moves any.

    Images by themselves: no mean over a batch makes a small gradient smaller.
    """
    is_zero = []
    for images, own in zip(pictures.split(BATCH), labels.split(BATCH), strict=True):
        with torch.enable_grad():
            inputs = images.to(device).detach().requires_grad_(True)
            losses = F.cross_entropy(model(inputs), own.to(device), reduction="none")
            (gradient,) = torch.autograd.grad(losses.sum(), inputs)
        is_zero.append(gradient.flatten(1).eq(0).all(1).cpu())
    return torch.cat(is_zero)


# Attacks that follow gradients within eps of a picture, as the Adversarial Robustness Toolbox (ART) has them.
#
# FGSM, PGD and BIM with cross entropy are the paper's (Appendix C.8); PGD with the margin and Auto-PGD with the
# difference of logits ratio tell masked gradients from robustness. ART is loaded when something is attacked, not
# before.


def perturbed(
    name: str,
    model: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    *,
    targeted: bool,
    settings: Robustness,
    classes: int,
    seed: int,
) -> Tensor:
    """The pictures [N, 3, S, S] in [0, 1] as the attack of this name (`GRADIENT_ATTACKS`) changes them, on the CPU.

    labels: the true classes, or those to reach if `targeted`. The model, in evaluation mode, is run where it lies.
    """
    from art.attacks import evasion
    from art.estimators.classification import PyTorchClassifier

    kind, loss, options = GRADIENT_ATTACKS[name]
    criterion: Any = loss()  # ART states a class that torch does not
    common = {"eps": settings.eps, "targeted": targeted, "batch_size": BATCH}
    with _numpy_seeded(seed):
        estimator = PyTorchClassifier(
            model=model,
            loss=criterion,
            input_shape=tuple(pictures.shape[1:]),
            nb_classes=classes,
            clip_values=(0.0, 1.0),
            device_type="gpu" if next(model.parameters()).device.type == "cuda" else "cpu",
        )
        attack = getattr(evasion, kind)(estimator, **common, **options(settings))
        changed = attack.generate(x=pictures.numpy().astype(np.float32), y=labels.numpy())
    return torch.from_numpy(changed)


def _pgd(settings: Robustness, random_starts: int = 1) -> dict[str, Any]:
    return {
        "eps_step": min(settings.step, settings.eps),
        "max_iter": settings.steps,
        "num_random_init": random_starts,
        "verbose": False,
    }


def _auto_pgd(settings: Robustness) -> dict[str, Any]:
    return {
        "eps_step": 2 * settings.eps,
        "max_iter": settings.strong_steps,
        "nb_random_init": settings.strong_restarts,
        "loss_type": "difference_logits_ratio",
        "verbose": False,
    }


GRADIENT_ATTACKS: dict[str, tuple[str, type[nn.Module], Callable[[Robustness], dict[str, Any]]]] = {
    "fgsm": ("FastGradientMethod", nn.CrossEntropyLoss, lambda settings: {}),
    "pgd": ("ProjectedGradientDescentPyTorch", nn.CrossEntropyLoss, _pgd),
    "bim": ("ProjectedGradientDescentPyTorch", nn.CrossEntropyLoss, partial(_pgd, random_starts=0)),
    "margin_pgd": ("ProjectedGradientDescentPyTorch", MarginLoss, _pgd),
    "auto_pgd": ("AutoProjectedGradientDescent", nn.CrossEntropyLoss, _auto_pgd),
}
"""Name -> ART's class, the loss it follows (Auto-PGD brings its own), and its options beside those of all."""


@contextmanager
def _numpy_seeded(seed: int) -> Generator[None]:
    """ART draws random starts from numpy's global generator: seed it, and leave it as it was."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)


# The one-pixel attack: differential evolution over a place and a colour, on SciPy's.
#
# The settings are those of torchattacks' OnePixel, whose names and defaults the paper states (pixels 1, steps 10,
# population size 10): strategy best1bin, mutation in (0.5, 1), recombination 1, random first generation, no polish.
# That
# library draws from numpy's global generator; here every image has its own, so rates can be compared and images cannot.


GENES = 5  # row, column, red, green, blue


def one_pixel(
    model: nn.Module,
    picture: Tensor,
    label: int,
    *,
    targeted: bool,
    generations: int,
    population: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, int]:
    """A picture [3, H, W] in [0, 1] with one pixel changed, and how many changed pictures the model was shown.

    Args:
        label: The true class, or the class to reach if `targeted`.
        generations: Generations of the search at most.
        population: Candidates of each, rounded down to a multiple of the five genes.

    It ends with the first generation whose best candidate succeeds.
    """
    height, width = picture.shape[-2:]
    count = 0

    def probability(candidates: np.ndarray) -> np.ndarray:
        """What is to be made small, float64 [S], of genes [5, S]."""
        nonlocal count
        count += candidates.shape[1]
        with torch.no_grad():
            scores = model(_painted(picture, candidates).to(device)).softmax(1)[:, label].double().cpu().numpy()
        return 1 - scores if targeted else scores

    def enough(intermediate_result: OptimizeResult) -> None:
        with torch.no_grad():
            best = model(_painted(picture, intermediate_result.x[:, None]).to(device)).argmax(1).item()
        if (best == label) == targeted:
            raise StopIteration

    optimum: Any = differential_evolution(
        probability,
        [(0, height), (0, width), (0, 1), (0, 1), (0, 1)],
        strategy="best1bin",
        maxiter=generations,
        popsize=max(1, population // GENES),
        tol=0.01,
        atol=-1,
        mutation=(0.5, 1),
        recombination=1,
        init="random",
        polish=False,
        updating="deferred",
        vectorized=True,
        callback=enough,
        rng=np.random.default_rng(seed),
    )
    return _painted(picture, optimum.x[:, None])[0], count


def _painted(picture: Tensor, genes: np.ndarray) -> Tensor:
    """[S, 3, H, W]: one copy of the picture for every column of genes [5, S], each with its pixel."""
    height, width = picture.shape[-2:]
    copies = picture.repeat(genes.shape[1], 1, 1, 1)
    for copy, (row, column, *colour) in zip(copies, genes.T, strict=True):
        copy[:, min(int(row), height - 1), min(int(column), width - 1)] = copy.new_tensor(colour)
    return copies


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
    settings: Robustness,
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

    def changed(name: str, targeted: bool) -> Tensor:
        aims = targets if targeted else labels
        given: dict[str, Any] = {"targeted": targeted}
        if name != ONE_PIXEL:  # numpy's global generator takes no larger seed
            given |= {"settings": settings, "classes": classes, "seed": settings.seed % 2**32}
            return perturbed(name, model, pictures, aims, **given)
        given |= {"generations": settings.generations, "population": settings.population, "device": device}
        pairs = enumerate(zip(pictures, aims.tolist(), strict=True), start=settings.seed)
        return torch.stack([one_pixel(model, picture, aim, seed=seed, **given)[0] for seed, (picture, aim) in pairs])

    plan = [(name, targeted) for targeted in (False, True) for name in BOTH_WAYS] + [(n, False) for n in UNMASKING]
    answers = {}
    for number, (name, targeted) in enumerate(plan):
        progress(number / len(plan), name)
        way = "targeted" if targeted else "untargeted"
        answers[f"{name}_{way}"] = predictions(model, changed(name, targeted), device)
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


def chosen_images(count: int, settings: Robustness) -> Tensor:
    """int64: which of `count` test images are measured, ascending. Raises InputError where there are too few."""
    settings.check_images(count)
    if settings.images is None:
        return torch.arange(count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(settings.seed))
    return order[: settings.images].sort().values


def _share(chosen: Tensor) -> float | None:
    return chosen.double().mean().item() if len(chosen) else None
