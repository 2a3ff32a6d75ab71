"""Attacks that follow gradients within eps of a picture, as the Adversarial Robustness Toolbox (ART) has them.

FGSM, PGD and BIM with cross entropy are the paper's (Appendix C.8); PGD with the margin and Auto-PGD with the
difference of logits ratio tell masked gradients from robustness. ART is loaded when something is attacked, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smoothsweep.core.analysis.robustness.classifier import BATCH
from smoothsweep.core.analysis.robustness.margin import Margin
from smoothsweep.core.analysis.robustness.settings import RobustnessSettings

Perturb = Callable[[Any, RobustnessSettings, bool], Any]
"""(ART's classifier, settings, targeted) -> an attack of ART."""


def perturbed(
    name: str,
    model: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    *,
    targeted: bool,
    settings: RobustnessSettings,
    classes: int,
    seed: int,
) -> Tensor:
    """The pictures [N, 3, S, S] in [0, 1] as the attack of this name (`GRADIENT_ATTACKS`) changes them, on the CPU.

    labels: the true classes, or those to reach if `targeted`. The model, in evaluation mode, is run where it lies.
    """
    make, loss = GRADIENT_ATTACKS[name]
    with _numpy_seeded(seed):
        attack = make(_estimator(model, pictures, classes, loss()), settings, targeted)
        changed = attack.generate(x=pictures.numpy().astype(np.float32), y=labels.numpy())
    return torch.from_numpy(changed)


def _estimator(model: nn.Module, pictures: Tensor, classes: int, loss: Any) -> Any:
    from art.estimators.classification import PyTorchClassifier

    device = next(model.parameters()).device
    return PyTorchClassifier(
        model=model,
        loss=loss,
        input_shape=tuple(pictures.shape[1:]),
        nb_classes=classes,
        clip_values=(0.0, 1.0),
        device_type="gpu" if device.type == "cuda" else "cpu",
    )


def _fgsm(estimator: Any, settings: RobustnessSettings, targeted: bool) -> Any:
    from art.attacks.evasion import FastGradientMethod

    return FastGradientMethod(estimator, eps=settings.eps, targeted=targeted, batch_size=BATCH)


def _pgd(estimator: Any, settings: RobustnessSettings, targeted: bool) -> Any:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch

    return ProjectedGradientDescentPyTorch(
        estimator,
        eps=settings.eps,
        eps_step=min(settings.step, settings.eps),
        max_iter=settings.steps,
        targeted=targeted,
        num_random_init=1,
        batch_size=BATCH,
        verbose=False,
    )


def _bim(estimator: Any, settings: RobustnessSettings, targeted: bool) -> Any:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch

    return ProjectedGradientDescentPyTorch(
        estimator,
        eps=settings.eps,
        eps_step=min(settings.step, settings.eps),
        max_iter=settings.steps,
        targeted=targeted,
        num_random_init=0,
        batch_size=BATCH,
        verbose=False,
    )


def _auto_pgd(estimator: Any, settings: RobustnessSettings, targeted: bool) -> Any:
    from art.attacks.evasion import AutoProjectedGradientDescent

    return AutoProjectedGradientDescent(
        estimator,
        eps=settings.eps,
        eps_step=2 * settings.eps,
        max_iter=settings.strong_steps,
        targeted=targeted,
        nb_random_init=settings.strong_restarts,
        batch_size=BATCH,
        loss_type="difference_logits_ratio",
        verbose=False,
    )


GRADIENT_ATTACKS: dict[str, tuple[Perturb, type[nn.Module]]] = {
    "fgsm": (_fgsm, nn.CrossEntropyLoss),
    "pgd": (_pgd, nn.CrossEntropyLoss),
    "bim": (_bim, nn.CrossEntropyLoss),
    "margin_pgd": (_pgd, Margin),
    "auto_pgd": (_auto_pgd, nn.CrossEntropyLoss),
}
"""Name -> what makes ART's attack, and the loss it follows (Auto-PGD brings its own)."""


@contextmanager
def _numpy_seeded(seed: int) -> Generator[None]:
    """ART draws random starts from numpy's global generator: seed it, and leave it as it was."""
    before = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(before)
